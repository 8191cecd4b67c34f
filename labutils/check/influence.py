"""Which inputs an output depends on: change a few elements of an input at a time, and see which outputs move.

In a small case every element is changed by itself; in a larger one blocks along each axis, and single positions at its
two ends, where mistakes are; then the blocks that matter are narrowed down to positions. What moves is compared with
what moves in the reference.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from ..backends import child, emulator, interpreter
from ..spec.exercise import Case, KernelExercise
from ..spec.inputs import Run, make_run, shared_bytes
from . import regions
from .compare import Comparison, OutputComparison
from .findings import Evidence

EACH = 40
"""Elements of all inputs up to which each is changed by itself."""

BLOCKS, ENDS = 6, 3
"""Blocks along each axis of a larger array, and single positions at each of its ends."""

MOST_SINGLES = 24
"""Positions of one block that are looked at one by one."""

PART = 0.05
"""The part of the wrong elements that must show a wrong influence: it does not explain the others."""

VISIBLE = 8.0
"""A result that should move by more than so many tolerances must move."""


@dataclass(frozen=True)
class Group:
    """Elements of one input that are changed together: positions `begin` to `stop` along an axis, or with axis None
    those with these numbers in row-major order."""

    array: str
    shape: tuple[int, ...]
    axis: int | None
    begin: int
    stop: int

    @property
    def marked(self) -> torch.Tensor:
        """The elements as a mask."""
        marked = torch.zeros(self.shape, dtype=torch.bool)
        (marked.view(-1) if self.axis is None else marked).narrow(
            self.axis or 0, self.begin, self.stop - self.begin
        ).fill_(True)
        return marked


@dataclass
class Moves:
    """What moved when a group was changed, for one output: in the learner's result (`moved`), and in the reference so
    much that it must be seen (`must`) or at all (`may`)."""

    group: Group
    moved: torch.Tensor
    must: torch.Tensor
    may: torch.Tensor

    @property
    def missing(self) -> torch.Tensor:
        return self.must & ~self.moved

    @property
    def extra(self) -> torch.Tensor:
        return self.moved & ~self.may


def study(exercise: KernelExercise, fn: Callable, case: Case, seed: int, seconds: float) -> dict[str, list[Moves]]:
    """The moves of each output by its name; empty where the case could not be run often enough."""
    end = time.monotonic() + seconds
    base = make_run(exercise, case, seed, "cpu", shared_bytes)
    groups = list(_groups(base))
    moves = _tried(exercise, fn, base, groups, seed, end)
    if len(moves) < min(len(groups), EACH // 2):
        return {}
    comparison = Comparison(base)
    if groups[0].axis is not None:
        name, wrong = _first_wrong(moves, {n: comparison.output(n).bad for n in exercise.outputs})
        if wrong is not None:
            moves += _tried(exercise, fn, base, _narrower(moves, name, wrong), seed, end)
    return {n: [m[n] for m in moves] for n in exercise.outputs}


def _tried(exercise, fn, base: Run, groups: list[Group], seed: int, end: float) -> list[dict[str, Moves]]:
    """The moves of each output for as many of the groups as there is time for. `base` is run too, if it was not.

    Nothing if `base` gives other outputs at the end than at the start: then values move by themselves, as memory that
    nobody has written does.
    """
    groups = [*groups]
    runs = [base, *(_changed(exercise, base.case, seed, g) for g in groups)]
    runs.append(make_run(exercise, base.case, seed, "cpu", shared_bytes))
    one = functools.partial(emulator.one_case, time_limit=2.0) if exercise.language == "cuda" else _interpreted
    results = child.run([functools.partial(one, fn, run) for run in runs], 2.0)
    found: list[dict[str, Moves]] = []
    comparison = None
    for group, run, result in zip([None, *groups, None], runs, results, strict=False):
        if isinstance(result, str) or result["problem"] or result.get("stopped"):
            break
        if comparison is None:
            comparison = Comparison(base)
            outputs = {n: comparison.output(n) for n in exercise.outputs}
            plain = _plain(comparison.inputs)
            before = exercise.expected(plain)
            continue
        if group is None:
            if any(_differ(base.outputs[n].view, run.outputs[n].view, outputs[n]) for n in exercise.outputs):
                found = []
            break
        expected = [exercise.expected(x) for x in (run.inputs(), *_otherwise(comparison.inputs, group))]
        structural = [exercise.expected(x) for x in _otherwise(plain, group)]
        found.append(
            {
                n: _compared(o, run, group, [e[n] for e in expected], before[n], [s[n] for s in structural])
                for n, o in outputs.items()
            }
        )
        if time.monotonic() > end:
            break
    results.close()
    return found


def _differ(one: torch.Tensor, other: torch.Tensor, output: OutputComparison) -> bool:
    """Are two results of the same inputs further apart than the order of atomics makes them?"""
    a, b = one.double(), other.double()
    limit = torch.nan_to_num(output.limit, posinf=0.0)
    return bool((~((a - b).abs() <= limit) & (a != b) & ~(a.isnan() & b.isnan())).any())


def _first_wrong(moves: list[dict[str, Moves]], bad: dict[str, torch.Tensor]):
    """An output and the index of one of its wrong elements that depends on the wrong inputs, or (…, None)."""
    for name, where in bad.items():
        wrong = torch.stack([m[name].missing | m[name].extra for m in moves]).any(0) & where
        if wrong.any():
            return name, tuple(wrong.nonzero()[0].tolist())
    return "", None


def _narrower(moves: list[dict[str, Moves]], name: str, at: tuple[int, ...]) -> list[Group]:
    """Single positions in the blocks in which something is wrong with one element, or that move it."""
    known = {(m[name].group.array, m[name].group.axis, m[name].group.begin) for m in moves
             if m[name].group.stop - m[name].group.begin == 1}  # fmt: skip
    found = []
    for m in (m[name] for m in moves):
        g = m.group
        if g.stop - g.begin > 1 and bool((m.missing | m.extra)[at]):
            singles = [p for p in range(g.begin, g.stop) if (g.array, g.axis, p) not in known]
            found += [Group(g.array, g.shape, g.axis, p, p + 1) for p in singles[:MOST_SINGLES]]
    return found


def _interpreted(fn: Callable, run: Run) -> dict:
    return interpreter.one_case(fn, run, compiled=False)


def _groups(run: Run) -> Iterator[Group]:
    arrays = {n: b.view for n, b in run.buffers.items() if not b.is_output and b.view.is_floating_point()}
    each = sum(v.numel() for v in arrays.values()) <= EACH
    for name, view in arrays.items():
        shape = tuple(view.shape)
        if each:
            yield from (Group(name, shape, None, k, k + 1) for k in range(view.numel()))
            continue
        for axis, size in enumerate(shape):
            ends = {i for i in (*range(ENDS), *range(size - ENDS, size)) if 0 <= i < size}
            step = -(-size // BLOCKS)
            spans = {(b, min(b + step, size)) for b in range(0, size, step)} | {(i, i + 1) for i in ends}
            yield from (Group(name, shape, axis, b, e) for b, e in sorted(spans))


def _changed(exercise: KernelExercise, case: Case, seed: int, group: Group) -> Run:
    """The same run with the group's elements moved up by more than the array's values span."""
    run = make_run(exercise, case, seed, "cpu", shared_bytes)
    b = run.buffers[group.array]
    values = b.view.double()
    finite = values[values.isfinite()]
    step = 2 * float(finite.abs().max()) + 1 if finite.numel() else 1.0
    moved = torch.where(values.isfinite(), values + step, torch.full_like(values, step))
    b.view[group.marked] = moved[group.marked].to(b.view.dtype)
    b.before = b.storage.clone()
    return run


def _otherwise(inputs: dict, group: Group) -> Iterator[dict]:
    """The inputs with the group's elements changed in other ways: a result may depend on a sign alone."""
    value = inputs[group.array]
    for factor, offset in ((-0.7, 0.0), (1.0, 0.25)):
        yield {**inputs, group.array: torch.where(group.marked, value * factor + offset, value)}


def _plain(inputs: dict) -> dict:
    """The inputs with ordinary numbers in place of floating-point ones: where these underflow or saturate, a result
    seems not to depend on what its formula names."""
    g = torch.Generator().manual_seed(1)
    drawn = {
        n: torch.rand(v.shape, generator=g, dtype=torch.float64).to(v.dtype) + 0.25
        for n, v in inputs.items()
        if isinstance(v, torch.Tensor) and v.is_floating_point()
    }
    return {**inputs, **drawn}


def _compared(
    output: OutputComparison, run: Run, group: Group, expected: list[torch.Tensor], plain, structural
) -> Moves:
    """`expected` are the reference's results for the run, and for other changes of the same elements; `structural` are
    those for ordinary inputs, changed likewise, and `plain` without a change."""
    name, y0 = output.name, output.expected

    def change_to(y: torch.Tensor) -> torch.Tensor:
        y1 = y.double().expand(y0.shape)
        change = torch.nan_to_num((y1 - y0).abs(), nan=torch.inf)
        return torch.where((y0.isnan() & y1.isnan()) | (y0 == y1), 0.0, change)

    change = change_to(expected[0])
    may = torch.stack([change_to(y) for y in expected]).amax(0) > 1e-9 * (1 + y0.abs())
    for y in structural:
        may |= (y.double() != plain.double()).expand(y0.shape)
    limit = torch.nan_to_num(output.limit, posinf=0.0) + 1e-5 * output.magnitude.abs().nan_to_num(posinf=0.0)
    got0, got1 = output.got, run.outputs[name].view.double()
    moved = (got0 != got1) & ~(got0.isnan() & got1.isnan())
    return Moves(group, moved, change > VISIBLE * limit, may)


# --- what it says --------------------------------------------------------------------------------------------------


def story(name: str, moves: list[Moves], bad: torch.Tensor) -> Evidence | None:
    """The first thing that is wrong with what an output depends on; None where it depends on the right elements."""
    by_array: dict[str, list[Moves]] = {}
    for m in moves:
        by_array.setdefault(m.group.array, []).append(m)
    dead = [
        a for a, its in by_array.items()
        if not any(m.moved.any() for m in its) and any((m.must & bad).any() for m in its)
    ]  # fmt: skip
    if len(dead) > 1:
        return Evidence(
            f"{name} depends on none of {', '.join(dead)}: changing any of their elements changes nothing",
            "The result is not computed from them, is lost before the store, or each is multiplied by what was read "
            "at a wrong place: compute by hand the indices of the loads, and follow the result to the store.",
        )
    for array in dead:
        return Evidence(
            f"{name} does not depend on {array}: changing any of its elements changes nothing",
            f"Find where {array} is loaded, and where what was loaded enters the formula; check the address.",
        )
    wrong = {a: torch.stack([m.missing | m.extra for m in its]).any(0) & bad for a, its in by_array.items()}
    wrong = {a: w for a, w in wrong.items() if w.any() and w.sum() >= PART * bad.sum()}
    if len(wrong) > 1 and (together := torch.stack([*wrong.values()]).all(0)).any():
        return _of_several(name, {a: by_array[a] for a in wrong}, tuple(together.nonzero()[0].tolist()))
    for array, where in wrong.items():
        return _one(name, array, by_array[array], where)
    return None


def is_right(moves: list[Moves], bad: torch.Tensor) -> bool:
    """Does each wrong element depend on the right elements of the inputs, as far as was looked?"""
    return bool(moves) and not any(((m.missing | m.extra) & bad).any() for m in moves)


def _of_several(name: str, by_array: dict[str, list[Moves]], at: tuple[int, ...]) -> Evidence:
    """Several arrays have the wrong influence on one element. What one of them is read at instead hides the others, as
    a factor of 0 does, so the one whose wrong elements are seen is named, and else none alone."""
    place = regions.element(name, at)
    seen = {a: [_marked(its, at, k) for k in ("missing", "extra")] for a, its in by_array.items()}
    if len(read := [a for a, (lacks, has) in seen.items() if lacks is not None and has is not None]) == 1:
        array = read[0]
        return Evidence(*_sentence(place, array, *seen[array], None, ""))
    listed = " nor on ".join(regions.describe(a, lacks) for a, (lacks, _) in seen.items() if lacks is not None)
    if listed and all(has is None for _, has in seen.values()):
        return Evidence(
            f"{place} depends neither on {listed}",
            f"Their part of {place} is not computed, is lost, or is multiplied by what was read past an end. Compute "
            f"by hand all indices that are read for {place}, and follow the partial result to the store.",
        )
    both = "; ".join(
        f"{word} {regions.describe(a, marked)}"
        for a, pair in seen.items()
        for word, marked in zip(("lacks", "takes in"), pair, strict=True)
        if marked is not None
    )
    return Evidence(
        f"{place} is put together from the wrong elements ({both})",
        f"Elements of different inputs meet that do not belong together: compute by hand, for {place}, the index with "
        "which each of them is read, and which thread or lane holds them.",
    )


def _one(name: str, array: str, moves: list[Moves], wrong: torch.Tensor) -> Evidence | None:
    """What is wrong with one array's influence on one output."""
    at = tuple(wrong.nonzero()[0].tolist())
    lacks, has, seen = (_marked(moves, at, kind) for kind in ("missing", "extra", "moved"))
    if any(m.moved[at] and m.group.stop - m.group.begin > 1 for m in moves):
        seen = None  # of a block that was changed as a whole perhaps not all elements count
    if seen is not None and lacks is not None and (lacks & seen).any():
        seen = None
    others = int(wrong.sum()) - 1
    also = f" (and {others} other element{'s' * (others > 1)} of {name} likewise)" if others else ""
    return Evidence(*_sentence(regions.element(name, at), array, lacks, has, seen, also))


def _sentence(place: str, array: str, lacks, has, seen, also: str) -> tuple[str, str]:
    too_much = (
        f"Find where those elements of {array} come into {place}: by the index of a load, or with a partial result, "
        "such as a sum or a maximum, that takes in too much. Compute the first and the last index by hand."
    )
    if lacks is not None and has is not None:
        return (
            f"{place} depends on {regions.describe(array, has)}; it should depend on "
            f"{regions.describe(array, lacks)}{also}",
            f"Compute by hand the index with which {array} is read for {place}.",
        )
    if lacks is not None:
        only = f", only on {regions.describe(array, seen)}" if seen is not None else ""
        return (
            f"{place} does not depend on {regions.describe(array, lacks)}{only}, although it should{also}",
            f"Compute by hand the first and the last index of {array} that is read for {place}: where the block or the "
            "window starts, how far it goes. If all are read, follow the partial results to the store.",
        )
    return (
        f"{place} depends on {regions.describe(array, has)} too, which belongs to other results{also}",
        too_much,
    )


def _marked(moves: list[Moves], at: tuple[int, ...], kind: str) -> torch.Tensor | None:
    """The elements of the array of which `kind` is true for one element of the output. The smallest group that covers
    a position decides; along each axis where any is true, and where none is all."""
    groups = [m.group for m in moves]
    flags = [bool(getattr(m, kind)[at]) for m in moves]
    if not any(flags):
        return None
    marked = torch.ones(groups[0].shape, dtype=torch.bool)
    for axis in dict.fromkeys(g.axis for g in groups):
        along = torch.zeros(marked.numel() if axis is None else marked.shape[axis], dtype=torch.bool)
        for g, flag in sorted(zip(groups, flags, strict=True), key=lambda x: x[0].begin - x[0].stop):
            if g.axis == axis:
                along[g.begin : g.stop] = flag
        if along.any():
            shape = marked.shape if axis is None else [-1 if k == axis else 1 for k in range(marked.dim())]
            marked &= along.reshape(shape)
    return marked
