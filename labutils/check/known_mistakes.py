"""Common mistakes: if a kernel's output equals one, we can say what happened instead of how far off it is."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..spec.exercise import KnownMistake, named
from ..spec.inputs import Buffer
from ..spec.precision import ROUND_OFF
from .compare import Comparison, OutputComparison, mismatches

NEAR = 8.0
"""A mistake that moves results by fewer tolerances looks like one that moves them by a little less or more."""

SAME = ", or something that changes the result as little"
"""What is added to the sentence of such a mistake."""


def recognise(comparison: Comparison, output: OutputComparison) -> KnownMistake | None:
    """The first known mistake whose result equals the output; the exercise's own come first. One that gives another
    output wrongly is taken only if none gives all rightly."""
    second = None
    for mistake, gives_all in _own(comparison, output):
        if gives_all:
            return mistake
        second = second or mistake
    outputs = tuple(comparison.exercise.outputs)
    for mistake in _generic(comparison) if second is None else ():
        if _explains(named(mistake.compute(**comparison.inputs), outputs).get(output.name), False, output):
            return mistake
    return second


def fitting(comparison: Comparison, output: OutputComparison) -> list[KnownMistake]:
    """All of the exercise's own known mistakes whose result equals the output, and the other outputs."""
    return [mistake for mistake, gives_all in _own(comparison, output) if gives_all]


def _own(comparison: Comparison, output: OutputComparison) -> Iterator[tuple[KnownMistake, bool]]:
    """The exercise's own known mistakes whose result equals the output: does it equal the others too?"""
    for mistake in comparison.exercise.known_mistakes:
        wrong = named(mistake.compute(**comparison.inputs), tuple(comparison.exercise.outputs))
        if _explains(wrong.get(output.name), True, output):
            yield mistake, _gives_the_others(wrong, comparison, output)


def _explains(wrong: torch.Tensor | None, all_known: bool, output: OutputComparison) -> bool:
    """Is the output this wrong result? `all_known`: NaN in it is NaN, and not unknown."""
    if wrong is None or wrong.shape != output.got.shape:
        return False
    wrong = wrong.double()
    return _fits(wrong, torch.ones_like(wrong, dtype=torch.bool) if all_known else ~torch.isnan(wrong), output)


def _gives_the_others(wrong: dict[str, torch.Tensor], comparison: Comparison, output: OutputComparison) -> bool:
    """Are the other outputs for which a mistake has a result as it says?"""
    others = [comparison.output(n) for n in wrong if n != output.name]
    return all(o.unwritten.any() or not _other_result(wrong[o.name], o) for o in others)


def _other_result(wrong: torch.Tensor, output: OutputComparison) -> bool:
    """Is the output another one than this in more than a few elements?"""
    if wrong.shape != output.got.shape:
        return False
    wrong = wrong.double()
    return bool(mismatches(output.got, wrong, output.limit, output.rounded(wrong)).sum() > 0.05 * wrong.numel())


def barely(mistake: KnownMistake, comparison: Comparison, output: OutputComparison) -> bool:
    """Does this mistake move the wrong elements so little beside the tolerance that others would look the same? The
    elements of all outputs that are as it says count."""
    wrong = named(mistake.compute(**comparison.inputs), tuple(comparison.exercise.outputs))
    outputs = [output]
    if _gives_the_others(wrong, comparison, output):
        outputs += [o for n in wrong if n != output.name and (o := comparison.output(n)).bad.any()]
    return all(barely_moved(wrong[o.name].double(), o) for o in outputs)


def barely_moved(wrong: torch.Tensor, output: OutputComparison) -> bool:
    """Is this wrong result so near the right one, beside the tolerance, that others would look the same?"""
    where = output.bad & output.expected.isfinite() & wrong.isfinite() & (output.limit > 0)
    moved = (wrong - output.expected).abs()[where] / output.limit[where]
    return bool(moved.numel() and float(moved.median()) < NEAR)


def refuted(symptom: str, comparison: Comparison, output: OutputComparison) -> bool:
    """Would the exercise's known mistakes of this sentence all have changed an output that is right?"""
    named_so = [
        m
        for m in comparison.exercise.known_mistakes
        if m.sentence.format(name=output.name) == symptom.removesuffix(SAME)
    ]
    outputs = tuple(comparison.exercise.outputs)
    wrong = [named(m.compute(**comparison.inputs), outputs).get(output.name) for m in named_so]
    return bool(wrong) and all(w is not None and _other_result(w, output) for w in wrong)


def _fits(wrong: torch.Tensor, known: torch.Tensor, output: OutputComparison) -> bool:
    """Is the output the result of this mistake? Only elements where that differs from the right result can tell.

    Elements beyond an edge may hold anything, so most of the telling elements must fit, not all.
    """
    rounded = output.rounded(wrong)
    telling = known & mismatches(rounded, output.expected, output.limit, output.rounded(output.expected))
    slack = output.limit + 2 * ROUND_OFF[output.dtype] * wrong.abs()
    slack = torch.where(torch.isfinite(wrong), slack, torch.zeros_like(slack))
    fits = known & ~mismatches(output.got, wrong, slack, rounded)
    enough = telling.sum() >= min(2, output.got.numel())
    return bool(enough and (fits & telling).sum() >= 0.9 * telling.sum() and fits.sum() >= 0.9 * known.sum())


def _generic(comparison: Comparison) -> Iterator[KnownMistake]:
    """Mistakes that any kernel can make: neighbors' elements, swapped axes, a stride that was ignored.

    In these, NaN marks what is not known.
    """
    reference, inputs = comparison.exercise.reference, comparison.inputs
    arrays = [n for n, v in inputs.items() if isinstance(v, torch.Tensor) and v.dim()]

    def with_(change: dict):
        return lambda **_: reference(**{**inputs, **change})

    for step, where in ((1, "the elements after the right ones"), (-1, "the elements before the right ones")):
        shifted = {n: _shift(inputs[n], step) for n in arrays}
        yield KnownMistake("off-by-one", f"{{name}} is computed from {where}", with_(shifted))
        if len(arrays) > 1:
            for n in arrays:
                yield KnownMistake("off-by-one", f"{{name}} uses {n} shifted by one element", with_({n: shifted[n]}))
    buffers = comparison.run.buffers
    for n in arrays:
        if inputs[n].dim() == 2:
            for swapped in _transposed(inputs[n]):
                yield KnownMistake("transposed", f"{n} is read with its rows and columns swapped", with_({n: swapped}))
        if not buffers[n].view.is_contiguous():
            sentence = f"{n} is read as if its rows lay directly behind each other"
            for gap in (torch.nan, 0.0, -torch.inf):  # unknown, or what the loads put in place of what lies outside
                yield KnownMistake("wrong-stride", sentence, with_({n: _read_packed(buffers[n], gap)}))
    packed = {n: _read_packed(buffers[n]) for n in arrays}
    for n, y in comparison.expected.items():
        if y.dim() == 2:
            for swapped in _transposed(y):
                sentence = "{name} is written with its rows and columns swapped"
                yield KnownMistake("transposed", sentence, lambda n=n, wrong=swapped, **_: {n: wrong})
        if not buffers[n].view.is_contiguous():
            both = named(reference(**{**inputs, **packed}), tuple(comparison.expected))[n]
            for values, sentence in ((y, "{name} is"), (both, "the inputs are read and {name} is")):
                wrong = _written_packed(values, buffers[n])
                sentence += " written as if its rows lay directly behind each other"
                yield KnownMistake("wrong-stride", sentence, lambda n=n, wrong=wrong, **_: {n: wrong})


def _transposed(x: torch.Tensor) -> list[torch.Tensor]:
    """What a kernel sees that swaps the axes of a matrix but keeps its shape: with the sizes swapped too, and with the
    strides swapped alone, where all but the leading square is unknown."""
    k = min(x.shape)
    if k < 2:
        return []
    square = torch.full_like(x, torch.nan)
    square[:k, :k] = x[:k, :k].T
    return [x.T.reshape(x.shape), square]


def _shift(x: torch.Tensor, step: int) -> torch.Tensor:
    """Elements of the next (step 1) or the previous place in memory; the open end is NaN, which fits nothing."""
    flat = x.flatten()
    gap = torch.full((1,), torch.nan, dtype=x.dtype)
    moved = torch.cat([flat[1:], gap]) if step == 1 else torch.cat([gap, flat[:-1]])
    return moved.reshape(x.shape)


def _read_packed(buffer: Buffer, gap: float = torch.nan) -> torch.Tensor:
    """What a kernel reads that ignores the strides of an array; `gap` where it would read between the rows."""
    numel = buffer.view.numel()
    window = slice(buffer.start, buffer.start + numel)
    flat, inside = buffer.before[window].cpu().double(), buffer.inside()[window]
    return torch.where(inside, flat, gap).reshape(buffer.view.shape)


def _written_packed(values: torch.Tensor, buffer: Buffer) -> torch.Tensor:
    """What an array holds after a kernel that ignores its strides has written it; NaN where it did not get to."""
    memory = torch.full((buffer.storage.numel(),), torch.nan, dtype=torch.float64)
    memory[buffer.start : buffer.start + values.numel()] = values.flatten()
    return memory.as_strided(buffer.view.shape, buffer.view.stride(), buffer.start)
