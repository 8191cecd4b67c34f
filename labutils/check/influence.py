"""Which inputs an output depends on: change a few elements of an input at a time, and see which outputs move.

In a small case every element is changed by itself; in a larger one blocks along each axis, and single positions at its
two ends, where mistakes are. What moves is compared with what moves in the reference. A block that moves an output says
only that some element of it does, so for the one output that is reported the block is divided until single elements are
left. A sentence names those, or says of a block no more than is known of it.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch

from ..backends import child, emulator, interpreter
from ..spec.exercise import Case, KernelExercise
from ..spec.inputs import Run, make_run, shared_bytes
from . import accesses, regions
from .compare import Comparison, OutputComparison
from .findings import Evidence

EACH = 40
"""Elements of all inputs up to which each is changed by itself."""

BLOCKS, ENDS = 6, 3
"""Blocks along each axis of a larger array, and single positions at each of its ends."""

PIECES, MOST_PARTS = 8, 4
"""Pieces into which a block is divided, and how many of them are divided further. Of others it is only known that they
hold elements that count."""

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

    @functools.cached_property
    def marked(self) -> torch.Tensor:
        """The elements as a mask."""
        marked = torch.zeros(self.shape, dtype=torch.bool)
        (marked.view(-1) if self.axis is None else marked).narrow(
            self.axis or 0, self.begin, self.stop - self.begin
        ).fill_(True)
        return marked


@dataclass(frozen=True, eq=False)
class Cells:
    """Any elements of one input that are changed together, as a mask."""

    array: str
    marked: torch.Tensor


@dataclass
class Moves:
    """What moved when a group was changed, for one output: in the learner's result (`moved`), and in the reference so
    much that it must be seen (`must`) or at all (`may`)."""

    group: Group | Cells
    moved: torch.Tensor
    must: torch.Tensor
    may: torch.Tensor
    clearly: torch.Tensor | None = None
    """Where the learner's result moved by more than another order of atomics would move it."""

    @property
    def missing(self) -> torch.Tensor:
        return self.must & ~self.moved

    @property
    def extra(self) -> torch.Tensor:
        return (self.moved if self.clearly is None else self.clearly) & ~self.may


@dataclass
class Study:
    """What was seen of one case: `moves` of each output by its name, empty where the case could not be run often
    enough. More can be asked until `end`, by the clock `time.monotonic`."""

    exercise: KernelExercise
    fn: Callable
    base: Run
    seed: int
    end: float
    moves: dict[str, list[Moves]] = field(default_factory=dict)

    def look(self, output: str, groups: list[Cells]) -> list[Moves]:
        """The moves of an output for further groups, as far as there is time."""
        if time.monotonic() > self.end:
            return []
        return [
            m[output] for m in _tried(self.exercise, self.fn, accesses.again(self.base), groups, self.seed, self.end)
        ]

    def needed(self, output: str, array: str, at: tuple[int, ...]) -> torch.Tensor | None:
        """The elements of an input on which the reference's element depends, by its gradient; None if it has none."""
        inputs = _plain(self.base.inputs())
        leaf = inputs[array].double().requires_grad_()
        try:
            result = self.exercise.expected({**inputs, array: leaf})[output].expand(
                self.base.outputs[output].view.shape
            )
            (gradient,) = torch.autograd.grad(result[at], leaf)
        except (RuntimeError, TypeError):  # codes, counts and whatever else is not differentiable
            return None
        return gradient != 0


def study(exercise: KernelExercise, fn: Callable, case: Case, seed: int, seconds: float) -> Study:
    """Change each group of the inputs of one case in turn."""
    end = time.monotonic() + seconds
    found = Study(exercise, fn, make_run(exercise, case, seed, "cpu", shared_bytes), seed, end)
    groups = list(_groups(found.base))
    moves = _tried(exercise, fn, found.base, groups, seed, end)
    if len(moves) >= min(len(groups), EACH // 2):
        found.moves = {n: [m[n] for m in moves] for n in exercise.outputs}
    return found


def _tried(exercise, fn, base: Run, groups: list[Group] | list[Cells], seed: int, end: float) -> list[dict[str, Moves]]:
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


def _changed(exercise: KernelExercise, case: Case, seed: int, group: Group | Cells) -> Run:
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


def _otherwise(inputs: dict, group: Group | Cells) -> Iterator[dict]:
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
    output: OutputComparison, run: Run, group: Group | Cells, expected: list[torch.Tensor], plain, structural
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
    clearly = moved & ~((got0 - got1).abs() <= limit)
    return Moves(group, moved, change > VISIBLE * limit, may, clearly)


# --- what it says --------------------------------------------------------------------------------------------------


def story(name: str, moves: list[Moves], bad: torch.Tensor, study: Study | None = None) -> Evidence | None:
    """The first thing that is wrong with what an output depends on; None where it depends on the right elements.
    Without a study nothing is looked at more closely."""
    by_array: dict[str, list[Moves]] = {}
    for m in moves:
        by_array.setdefault(m.group.array, []).append(m)
    dead = [
        a for a, its in by_array.items()
        if not any(m.moved.any() for m in its) and any((m.must & bad).any() for m in its)
        and torch.stack([m.group.marked for m in its]).any(0).all()
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
            array=array,
            nothing=True,
        )
    wrong = {a: torch.stack([m.missing | m.extra for m in its]).any(0) & bad for a, its in by_array.items()}
    wrong = {a: w for a, w in wrong.items() if w.any() and w.sum() >= PART * bad.sum()}
    if len(wrong) > 1 and (together := torch.stack([*wrong.values()]).all(0)).any():
        at = tuple(together.nonzero()[0].tolist())
        return _of_several(name, {a: facts(name, by_array[a], at, study) for a in wrong}, at)
    for array, where in wrong.items():
        at = tuple(where.nonzero()[0].tolist())
        others = int(where.sum()) - 1
        also = f" (and {others} other element{'s' * (others > 1)} of {name} likewise)" if others else ""
        if study and (reader := _reader(study, name, by_array[array], at)):
            known = facts(name, by_array[array], at, study)
            if known.lacks and not known.has:
                return _factor(regions.element(name, at), array, known, regions.element(name, reader), also)
        return _sentence(regions.element(name, at), array, facts(name, by_array[array], at, study), also)
    return None


def is_right(moves: list[Moves], bad: torch.Tensor) -> bool:
    """Does each wrong element depend on the right elements of the inputs, as far as was looked?"""
    return bool(moves) and not any(((m.missing | m.extra) & bad).any() for m in moves)


def _reader(study: Study, name: str, moves: list[Moves], at: tuple[int, ...]) -> tuple[int, ...] | None:
    """Another element of the output that needs the same elements of an input as `at`, which lacks them, and depends on
    them: it differs from `at` along dimensions that the input does not have."""
    arguments = study.exercise.arguments
    own = arguments[moves[0].group.array].dims
    free = [axis for axis, d in enumerate(arguments[name].dims) if d not in own]
    lacking = [m for m in moves if m.missing[at]]
    if not free or not lacking:
        return None
    seen = torch.stack([m.moved & m.must for m in lacking]).all(0)
    line = seen[tuple(slice(None) if axis in free else k for axis, k in enumerate(at))]
    if not line.any():
        return None
    there = iter(line.nonzero()[0].tolist())
    return tuple(next(there) if axis in free else k for axis, k in enumerate(at))


def _factor(place: str, array: str, known: Facts, reader: str, also: str) -> Evidence:
    """Of elements that reach other results which need them, and not this one."""
    lacked = known.lacks.describe(array)
    return Evidence(
        f"{place} does not depend on {lacked}, although it should, and {reader} does{also}",
        f"So these elements of {array} are read. For {place} look at what they are multiplied by: which thread, lane "
        "or register holds that factor, and of which element is it? Then follow the partial result to the store.",
    )


@dataclass(frozen=True)
class Part:
    """Elements of an input. `exact`: the sentence is true of each of them, and if `more`, of others too. If not, it is
    true of some of them."""

    marked: torch.Tensor
    exact: bool = True
    more: bool = False

    def describe(self, array: str) -> str:
        if not self.exact:
            return f"some of {regions.describe(array, self.marked)}"
        return regions.describe(array, self.marked) + " and others" * self.more


@dataclass(frozen=True)
class Facts:
    """What is known of one element of an output and one input: the part that it lacks, which it should depend on and
    does not; what it has, on which it depends and should not; and all on which it depends, where that is known."""

    lacks: Part | None
    has: Part | None
    only: torch.Tensor | None


def facts(output: str, moves: list[Moves], at: tuple[int, ...], study: Study | None = None) -> Facts:
    """What the moves of one input say of the output's element `at`, after a closer look at the blocks among them."""
    array, nothing = moves[0].group.array, torch.zeros_like(moves[0].group.marked)
    look = functools.partial(study.look, output) if study else lambda groups: []
    quiet = _union([m.group.marked for m in moves if not m.moved[at]], nothing)
    lacking = [m.group.marked for m in moves if m.missing[at]]
    having = [g for m in moves if m.extra[at] and (g := m.group.marked & ~quiet).any()]
    zone = _union(lacking, nothing)
    needed = study.needed(output, array, at) if study and lacking else None
    if needed is not None and (needed & zone).any():
        lacks = Part(_union([m for m in lacking if m.sum() == 1], needed & zone))
    else:
        lacks = _part(array, lacking, look, lambda m: m.missing[at])
    has = _part(array, having, look, lambda m: m.extra[at])
    return Facts(lacks, has, None if has else _all(array, moves, at, quiet, look if lacks else None))


def _union(masks: list[torch.Tensor], start: torch.Tensor) -> torch.Tensor:
    return functools.reduce(torch.logical_or, masks, start)


Look = Callable[[list[Cells]], list[Moves]]
"""Gives the moves of an output for further groups, fewer if there is no time."""


def _part(array: str, groups: list[torch.Tensor], look: Look, true: Callable[[Moves], bool]) -> Part | None:
    """Elements of which something is true, where it is true of at least one in each of the groups."""
    if not groups:
        return None
    nothing = torch.zeros_like(groups[0])
    known = _union([g for g in groups if g.sum() == 1], nothing)
    zone = _union(groups, nothing) & ~known
    parts = [zone] if zone.any() and (zone.sum() > 1 or known.any()) else []
    while parts:
        pieces = [Cells(array, piece) for part in parts[:MOST_PARTS] for piece in _pieces(part)]
        found = [m.group.marked for m in look(pieces) if true(m)]
        groups = groups + found
        parts = [marked for marked in found if marked.sum() > 1]
    known = _union([g for g in groups if g.sum() == 1], nothing)
    if not known.any():
        return Part(min(groups, key=lambda g: int(g.sum())), exact=False)
    return Part(known, more=any(not (g & known).any() for g in groups))


def _pieces(marked: torch.Tensor) -> list[torch.Tensor]:
    """The marked elements in pieces: each by itself if they are few."""
    numbers = marked.flatten().nonzero().flatten().tolist()
    size = 1 if len(numbers) <= EACH else -(-len(numbers) // PIECES)
    return [_only(marked, numbers[k : k + size]) for k in range(0, len(numbers), size)]


def _only(like: torch.Tensor, numbers: list[int]) -> torch.Tensor:
    """The elements with these numbers in row-major order."""
    marked = torch.zeros_like(like)
    marked.view(-1)[numbers] = True
    return marked


def _all(array: str, moves: list[Moves], at, quiet: torch.Tensor, look: Look | None) -> torch.Tensor | None:
    """All elements on which an output's element depends; None where that is not known, or where there are none."""
    single = [m for m in moves if m.group.marked.sum() == 1]
    left = ~_union([m.group.marked for m in single], quiet)
    if look is not None and 0 < left.sum() <= EACH:
        single = [*single, *look([Cells(array, piece) for piece in _pieces(left)])]
    known = _union([m.group.marked for m in single], quiet)
    seen = _union([m.group.marked for m in single if m.moved[at]], torch.zeros_like(quiet))
    return seen if seen.any() and known.all() else None


def _of_several(name: str, seen: dict[str, Facts], at: tuple[int, ...]) -> Evidence:
    """Several arrays have the wrong influence on one element. What one of them is read at instead hides the others, as
    a factor of 0 does, so the one whose wrong elements are seen is named, and else none alone."""
    place = regions.element(name, at)
    if len(read := [a for a, f in seen.items() if f.lacks and f.has]) == 1:
        return _sentence(place, read[0], seen[read[0]], "")
    listed = " nor on ".join(regions.describe(a, f.lacks.marked) for a, f in seen.items() if f.lacks)
    if listed and all(f.has is None for f in seen.values()):
        return Evidence(
            f"{place} depends neither on {listed}",
            f"Their part of {place} is not computed, is lost, or is multiplied by what was read past an end. Compute "
            f"by hand all indices that are read for {place}, and follow the partial result to the store.",
        )
    both = "; ".join(
        f"{word} {part.describe(a)}"
        for a, f in seen.items()
        for word, part in (("lacks", f.lacks), ("takes in", f.has))
        if part is not None
    )
    if all(f.lacks is None for f in seen.values()):
        return Evidence(
            f"{place} takes in what belongs to other results ({both})",
            f"Nothing that was looked at is missing in {place}; more comes in. Either a partial result (a sum, a "
            "maximum) is not set back to its initial value in between, or a loop or a mask takes in more than "
            f"what belongs to {place}: where do they begin and end?",
        )
    return Evidence(
        f"{place} is put together from the wrong elements ({both})",
        f"Elements of different inputs meet that do not belong together: compute by hand, for {place}, the index with "
        "which each of them is read, and which thread or lane holds them.",
    )


def _sentence(place: str, array: str, known: Facts, also: str) -> Evidence | None:
    """What is wrong with one array's influence on one element of an output."""
    lacks, has = known.lacks, known.has
    if lacks and has:
        return Evidence(
            f"{place} depends on {has.describe(array)}; it should depend on {lacks.describe(array)}{also}",
            f"Compute by hand the index with which {array} is read for {place}.",
        )
    if lacks:
        only = f", only on {regions.describe(array, known.only)}" if known.only is not None else ""
        needs = f"does not depend on {lacks.describe(array)}{only}, although it should"
        if not lacks.exact:
            needs = f"depends on nothing in {regions.describe(array, lacks.marked)}, and should on some of it{only}"
        return Evidence(
            f"{place} {needs}{also}",
            f"Compute by hand the first and the last index of {array} that is read for {place}: where the block or the "
            "window starts, how far it goes. If all are read, look at what they are multiplied by (is it 0, or does it "
            "belong to another element?), and follow the partial results to the store.",
            array=array,
        )
    if has:
        return Evidence(
            f"{place} depends on {has.describe(array)} too, which belongs to other results{also}",
            f"Find where those elements of {array} come into {place}: by the index of a load, or with a partial "
            "result, such as a sum or a maximum, that takes in too much. Compute the first and the last index by hand.",
        )
    return None
