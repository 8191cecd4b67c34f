"""Suspected causes, run and not guessed: named only if the reference with that mistake gives the learner's output.

No table for each exercise: a hypothesis changes the reference's inputs (an array ignored, read with shifted indices,
cut off, its first batch for all) or its result (a factor, a function of it, elements in other places). It must explain
every refused case that is looked at, and nearly all of their elements, and leave right what passed. The exercises' own
mistakes are in known_mistakes.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..spec.exercise import Array, named
from ..spec.precision import ROUND_OFF
from . import formulas
from .compare import Comparison, OutputComparison
from .findings import Evidence
from .known_mistakes import barely_moved as barely
from .transformed import by_case, by_part, by_row, carried_over, changes, elsewhere, of_result

SECONDS = 1.0
"""CPU time for the hypotheses on inputs of one verdict, and twice as much for those on the formula."""

LARGEST = 300_000
"""Elements of a case's inputs up to which it is looked at."""

LONGEST = 4096
"""Elements along a dimension of a sum up to which other orders of them are tried."""

BLOCKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

Inputs = dict[str, Any]


@dataclass(frozen=True)
class Hypothesis:
    """Inputs that make the reference give what the learner's kernel gave, if this is the mistake. None: it cannot be
    made for these inputs. Or a `reference` with the mistake in it; `of_result` takes what belongs to the output."""

    evidence: Evidence
    change: Callable[[Inputs], Inputs | None]
    of_result: Callable[[torch.Tensor], torch.Tensor] = lambda y: y
    reference: Callable[..., Any] | None = None


Sample = tuple[Comparison, OutputComparison]


def find(
    samples: list[Sample],
    seconds: float = 3 * SECONDS,
    right: Sequence[Sample] = (),
    others: Callable[[], list[Sample]] = list,
) -> Evidence | None:
    """The first hypothesis that explains the wrong elements of all these cases, each with its refused output. `right`
    are cases that passed: a hypothesis that would have changed one of them is refuted. `others` gives more refused
    cases, which are looked at only for what explains the first ones. It takes at most about `seconds` by the clock."""
    end, over = time.process_time() + SECONDS, time.monotonic() + seconds
    samples = [s for s in samples if _size(s[0].inputs) <= LARGEST] or samples[:1]
    right = [s for s in right if _size(s[0].inputs) <= LARGEST]
    found = of_result(samples, right)
    if found and (in_all := of_result([*samples, *others()], right) or by_case([*samples, *others()])):
        return in_all
    if not found and (found := by_case(samples) or carried_over(samples)):
        return found
    reference = samples[0][0].exercise.reference
    for suspected in (_hypotheses(samples[-1][0]), _formula(reference)) if _enough(samples) else ():
        for hypothesis in suspected:
            if time.process_time() > end or time.monotonic() > over:
                break
            explains = all(_explains(hypothesis, reference, c, o) for c, o in samples)
            refuted = not explains or any(_refutes(hypothesis, reference, c, o) for c, o in right)
            if not refuted and all(_explains(hypothesis, reference, c, o) for c, o in others()):
                return hypothesis.evidence
        end = time.process_time() + 2 * SECONDS
    if elsewhere(samples, right):
        return elsewhere([*samples, *others()], right)
    if by_row(samples):
        return by_row([*samples, *others()])
    return by_part(samples)


def _size(inputs: Inputs) -> int:
    return sum(v.numel() for v in inputs.values() if isinstance(v, torch.Tensor))


def _enough(samples) -> bool:
    """A handful of numbers fits anything: a few wrong elements must have been explained, or all there are."""
    bad = sum(int(o.bad.sum()) for _, o in samples)
    return bad >= 3 or len(samples) >= 2


def _explains(hypothesis: Hypothesis, reference, comparison: Comparison, output: OutputComparison) -> bool:
    wrong = _result(hypothesis, reference, comparison, output)
    return wrong is not None and fits(wrong, output) and not barely(wrong, output)  # hardly moved, it fits any mistake


def _refutes(hypothesis: Hypothesis, reference, comparison: Comparison, output: OutputComparison) -> bool:
    """Would this mistake have changed an output that is right?"""
    wrong = _result(hypothesis, reference, comparison, output)
    return wrong is not None and changes(wrong, output)


def _result(hypothesis: Hypothesis, reference, comparison: Comparison, output: OutputComparison):
    """What the reference gives with this mistake; None where it cannot be made."""
    try:
        changed = hypothesis.change(dict(comparison.inputs))
        if changed is None:
            return None
        result = (hypothesis.reference or reference)(**changed)
        wrong = named(result, tuple(comparison.exercise.outputs)).get(output.name)
        wrong = None if wrong is None else hypothesis.of_result(wrong).double()
    except (RuntimeError, ValueError, IndexError, TypeError, ArithmeticError, AttributeError, AssertionError):
        return None
    return None if wrong is None or wrong.shape != output.got.shape else wrong


def fits(wrong: torch.Tensor, output: OutputComparison) -> bool:
    """Is the output this wrong result? NaN in it is unknown, but for outputs that are NaN there."""
    rounded = output.rounded(wrong)
    size = torch.nan_to_num(wrong, nan=0.0, posinf=0.0, neginf=0.0).abs()
    limit = torch.nan_to_num(output.limit, posinf=0.0)
    slack = 2 * limit + max(4 * ROUND_OFF[output.dtype], 2e-6) * size
    close = ((output.got - wrong).abs() <= slack) | (output.got == rounded) | (output.got.isnan() & wrong.isnan())
    known = ~wrong.isnan() | output.got.isnan()
    explained = output.bad & known & close
    return bool(
        explained.sum() >= 0.95 * (output.bad & known).sum() > 0
        and (explained & ~output.got.isnan()).any()  # NaN alone fits whatever is unknown
        and (close & known).sum() >= 0.95 * known.sum()
        and known.sum() >= 0.5 * known.numel()
    )


# --- what may have happened to the inputs --------------------------------------------------------------------------


def _hypotheses(comparison: Comparison) -> Iterator[Hypothesis]:
    exercise, inputs = comparison.exercise, comparison.inputs
    arrays = [n for n, v in inputs.items() if isinstance(v, torch.Tensor)]
    dims = {n: a.dims for n, a in exercise.arguments.items() if isinstance(a, Array)}
    numbers = [n for n, v in inputs.items() if not isinstance(v, torch.Tensor)]
    outer = {d for n in exercise.outputs for d in dims[n]}
    for n in arrays:
        yield from _ignored(n)
    yield from _confused(arrays, inputs)
    for n in numbers:
        yield from _numbers(n, inputs[n])
    for n in arrays:
        yield from _first_for_all(n, dims[n], inputs[n])
        yield from _shifted(n, dims[n], inputs[n])
        yield from _swapped_axes(n, inputs[n])
    for d in dict.fromkeys(d for n in exercise.outputs for d in dims[n]):
        axes = {n: dims[n].index(d) for n in arrays if d in dims[n]}
        if axes and all(dims[n].count(d) == 1 for n in exercise.outputs):
            yield from _beyond(d, axes, {n: dims[n].index(d) for n in exercise.outputs})
    inner = list(dict.fromkeys(d for n in arrays for d in dims[n] if d not in outer))
    for d in inner:
        axes = {n: dims[n].index(d) for n in arrays if d in dims[n]}
        yield from _cut(d, axes)
        yield from _read_again(d, axes)
    for n in arrays:
        if exercise.language == "triton" or dims[n]:
            yield from _strides(n, arrays, comparison)


def _formula(reference: Callable[..., Any]) -> Iterator[Hypothesis]:
    """A term, a factor, a function or a number of the reference is another one."""
    for change in formulas.changed(reference):
        yield Hypothesis(
            _evidence(
                f"{{name}} is what comes out if {change.what}",
                "Compare that part with your lines, and with the formula in the text of the exercise.",
            ),
            lambda x: x,
            reference=change.reference,
        )


def _evidence(sentence: str, advice: str) -> Evidence:
    return Evidence(sentence, advice, replaces=True)


def _ignored(n: str) -> Iterator[Hypothesis]:
    for value in (0.0, 1.0):
        yield Hypothesis(
            _evidence(
                f"{{name}} is what comes out if every element of {n} is {value:g}: {n} has no effect",
                f"Load {n} and use it in the formula; check the mask and `other` of its load.",
            ),
            lambda x, n=n, value=value: {**x, n: torch.full_like(x[n], value)},
        )
    yield Hypothesis(
        _evidence(f"{n} is cut to whole numbers", f"Which type has the variable that holds {n}? It must be a float."),
        lambda x: {**x, n: x[n].trunc()},
    )
    yield Hypothesis(
        _evidence(f"{{name}} has the wrong sign in {n}: it uses −{n}", f"Check the signs in front of {n}."),
        lambda x: {**x, n: -x[n]},
    )


def _confused(arrays: list[str], inputs: Inputs) -> Iterator[Hypothesis]:
    """One array in place of another, or two exchanged."""
    alike = [(a, b) for a in arrays for b in arrays if a != b and inputs[a].shape == inputs[b].shape]
    for a, b in alike:
        yield Hypothesis(
            _evidence(f"{{name}} uses {b} where it should use {a}", f"Load {a} from {a}'s own pointer."),
            lambda x, a=a, b=b: {**x, a: x[b]},
        )
    for a, b in alike:
        if a < b:
            yield Hypothesis(
                _evidence(
                    f"{a} and {b} are exchanged", f"Check which pointer, and which place in the formula, is {a}'s."
                ),
                lambda x, a=a, b=b: {**x, a: x[b], b: x[a]},
            )


def _numbers(n: str, value: Any) -> Iterator[Hypothesis]:
    changes: dict[str, Callable[[Any], Any]] = {
        f"{n} is not used (as if it were 1)": lambda v: type(v)(1),
        f"{n} is not used (as if it were 0)": lambda v: type(v)(0),
        f"it has 1 / {n} where {n} belongs": lambda v: 1 / v,
        f"it has −{n} where {n} belongs": lambda v: -v,
        f"it has {n} + 1 where {n} belongs": lambda v: v + 1,
        f"it has {n} − 1 where {n} belongs": lambda v: v - 1,
        f"{n} is applied twice": lambda v: v * v,
        f"it has 1 − {n} where {n} belongs": lambda v: 1 - v,
    }
    if isinstance(value, float):
        changes[f"{n} is cut to a whole number"] = lambda v: float(int(v))
    for sentence, change in changes.items():
        yield Hypothesis(
            _evidence(f"{{name}} is wrong in {n}: {sentence}", f"Follow {n} from the argument to the formula."),
            lambda x, change=change: None if change(x[n]) == x[n] else {**x, n: change(x[n])},
        )


def _first_for_all(n: str, dims: tuple[str, ...], value: torch.Tensor) -> Iterator[Hypothesis]:
    """The offset of a batch, a head or a row is missing: all read the first."""
    for axis, d in enumerate(dims):
        yield Hypothesis(
            _evidence(
                f"{_index(n, dims, axis, '0')} is used for every {d.lower()}, in place of {_index(n, dims, axis)}: the "
                f"index along {d} is missing in {n}'s address",
                f"Add the index along {d} times its stride to the address of {n}.",
            ),
            lambda x, axis=axis: (
                None if x[n].shape[axis] < 2 else {**x, n: x[n].narrow(axis, 0, 1).expand_as(x[n]).contiguous()}
            ),
        )


def _index(n: str, dims: tuple[str, ...], axis: int, index: str = "") -> str:
    """`a[m, k]`, or with another index along one axis."""
    return f"{n}[{', '.join(index or d.lower() if k == axis else d.lower() for k, d in enumerate(dims))}]"


def _shifted(n: str, dims: tuple[str, ...], value: torch.Tensor) -> Iterator[Hypothesis]:
    """Along one axis, the neighbor's element; what comes in at the end is unknown."""
    for axis, d in enumerate(dims):
        for step in (1, -1):
            right = _index(n, dims, axis)
            wrong = _index(n, dims, axis, f"{d.lower()} {'+' if step > 0 else '−'} 1")
            yield Hypothesis(
                _evidence(
                    f"{{name}} uses {wrong} where it should use {right}: the index of {n} along {d} is off by one",
                    f"Check the index of {n} along {d}: its first value must be 0.",
                ),
                lambda x, axis=axis, step=step: _moved(x, n, axis, step),
            )


def _moved(x: Inputs, n: str, axis: int, step: int) -> Inputs | None:
    size = x[n].shape[axis]
    if size < 2:
        return None
    moved = torch.roll(x[n], -step, axis)
    moved.select(axis, size - 1 if step > 0 else 0).fill_(torch.nan)
    return {**x, n: moved}


HALO = 8
"""Elements beyond each end of an axis that a window is supposed to reach at most."""


def _beyond(d: str, axes: dict[str, int], outputs: dict[str, int]) -> Iterator[Hypothesis]:
    """Of windows: what lies beyond the ends of an axis is not what the exercise says."""
    axis = next(iter(outputs.values()))
    if any(a != axis for a in outputs.values()):
        return
    kinds: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
        "the nearest element inside is used": lambda k, n: k.clamp(0, n - 1),
        "an element of the other end is used": lambda k, n: k % n,
        "an element inside is used, as in a mirror": lambda k, n: torch.where(
            k < 0, -k, torch.where(k >= n, 2 * n - 2 - k, k)
        ),
    }
    for text, source in kinds.items():
        for where, begin, end in (("both ends", HALO, HALO), ("the beginning", HALO, 0), ("the end", 0, HALO)):
            yield Hypothesis(
                _evidence(
                    f"beyond {where} of {d}, {text}",
                    f"Look at the line that reads an index before 0 or behind the last one along {d}: compare what it "
                    "gives for an index that does not exist with the text of the exercise.",
                ),
                lambda x, source=source, begin=begin, end=end: _extended(x, axes, source, begin, end),
                lambda y, begin=begin, end=end: y.narrow(axis, begin, max(y.shape[axis] - begin - end, 0)),
            )


def _extended(x: Inputs, axes: dict[str, int], source, begin: int, end: int) -> Inputs | None:
    changed = dict(x)
    for n, axis in axes.items():
        size = x[n].shape[axis]
        index = source(torch.arange(-begin, size + end), size)
        if size == 0 or int(index.min()) < 0 or int(index.max()) >= size:
            return None
        changed[n] = x[n].index_select(axis, index)
    return changed


def _swapped_axes(n: str, value: torch.Tensor) -> Iterator[Hypothesis]:
    for a in range(value.dim()):
        for b in range(a + 1, value.dim()):
            yield Hypothesis(
                _evidence(
                    f"{n} is read with its axes {a} and {b} exchanged",
                    f"Check which index is multiplied by which stride in the address of {n}.",
                ),
                lambda x, a=a, b=b: (
                    {**x, n: x[n].transpose(a, b).contiguous()} if x[n].shape[a] == x[n].shape[b] > 1 else None
                ),
            )


def _cut(d: str, axes: dict[str, int]) -> Iterator[Hypothesis]:
    """Part of a dimension that the result has no more, a sum's, is missing."""
    cuts: list[tuple[str, str, Callable[[int], tuple[int, int]]]] = [
        (f"only the last element along {d} counts", "assign", lambda n: (n - 1, n)),
        (f"the last element along {d} is missing", "end", lambda n: (0, n - 1)),
        (f"the first element along {d} is missing", "start", lambda n: (1, n)),
    ]
    for b in BLOCKS:
        cuts += [
            (f"only the first {b} elements along {d} count", "loop", lambda n, b=b: (0, b)),
            (f"the first {b} elements along {d} are missing", "start", lambda n, b=b: (b, n)),
            (f"the last, partial block of {b} along {d} is missing", "end", lambda n, b=b: (0, n // b * b)),
            (f"the last block of {b} along {d} is missing", "end", lambda n, b=b: (0, (n - 1) // b * b)),
            (f"only the last block of {b} along {d} counts", "assign", lambda n, b=b: ((n - 1) // b * b, n)),
        ]
    advice = {
        "assign": f"Keep what earlier iterations over {d} have found: acc += part, not acc = part.",
        "end": f"Check where the loop over {d} ends: it must reach the last, partial block, range(0, {d}, BLOCK).",
        "start": f"Check where the loop over {d} begins.",
        "loop": f"The loop over {d} must go on until {d}, and its loads must move along with it.",
    }
    for sentence, what, keep in cuts:
        for gap in (0.0, -math.inf):
            yield Hypothesis(
                _evidence(f"in {{name}} {sentence}", advice[what]),
                lambda x, keep=keep, gap=gap: _kept(x, axes, keep, gap),
            )


def _kept(x: Inputs, axes: dict[str, int], keep, gap: float) -> Inputs | None:
    changed, any_cut = dict(x), False
    for n, axis in axes.items():
        size = x[n].shape[axis]
        begin, end = keep(size)
        begin, end = max(begin, 0), min(end, size)
        if begin == 0 and end == size or begin >= end and gap:
            return None
        cut = torch.full_like(x[n], gap)
        cut.narrow(axis, begin, end - begin).copy_(x[n].narrow(axis, begin, end - begin))
        changed[n], any_cut = cut, True
        if gap:  # one array of -inf is enough; products of two would be inf
            break
    return changed if any_cut else None


def _read_again(d: str, axes: dict[str, int]) -> Iterator[Hypothesis]:
    """Along a dimension of a sum, the elements of a block in place of those of another one, or in another order."""
    for b in BLOCKS[2:]:
        yield Hypothesis(
            _evidence(
                f"in {{name}} the first {b} elements along {d} count again in place of each later block of {b}",
                f"Each iteration over {d} must use the block that it has loaded: check the offset of the loads, and "
                "which buffer is filled and which is read.",
            ),
            lambda x, b=b: _taken(x, axes, axes, lambda k: k % b, b),
        )
    for n in axes if len(axes) > 1 else ():
        for b in BLOCKS[:-2]:
            yield Hypothesis(
                _evidence(
                    f"in {{name}} the first {b} of every {2 * b} elements of {n} along {d} are used again for the "
                    "other half",
                    f"The step along {d} is missing in the index of {n}: the second half must be read {b} further on.",
                ),
                lambda x, n=n, b=b: _taken(x, {n: axes[n]}, axes, lambda k: k - k % (2 * b) + k % b, 1),
            )
        if len(axes) == 2 and n != next(iter(axes)):
            break  # exchanged in the one or in the other is the same
        where = " or ".join(axes) if len(axes) == 2 else n
        for one, other in ((1, 2), (0, 1), (2, 3), (0, 2), (1, 3), (0, 3)):
            order = {one: other, other: one}
            yield Hypothesis(
                _evidence(
                    f"elements {one} and {other} of every 4 along {d} are exchanged in {where}",
                    f"Check which component or lane of {where} goes to which place along {d}.",
                ),
                lambda x, n=n, order=order: _taken(
                    x, {n: axes[n]}, axes, lambda k: k - k % 4 + order.get(k % 4, k % 4), 4
                ),
            )


def _taken(x: Inputs, moved: dict[str, int], axes: dict[str, int], source: Callable[[int], int], unit: int):
    """The inputs with zeros behind the end of the dimension, up to a multiple of `unit`, and in some arrays other
    elements along it. None: nothing changes."""
    size = next(x[n].shape[axis] for n, axis in axes.items())
    whole = -(-size // unit) * unit
    index = torch.tensor([source(k) for k in range(whole)])
    if whole > LONGEST or bool((index == torch.arange(whole)).all()):
        return None
    changed = dict(x)
    for n, axis in axes.items():
        shape = [*x[n].shape]
        shape[axis] = whole
        value = x[n].new_zeros(shape)
        value.narrow(axis, 0, size).copy_(x[n])
        changed[n] = value.index_select(axis, index) if n in moved else value
    return changed


def _strides(n: str, arrays: list[str], comparison: Comparison) -> Iterator[Hypothesis]:
    """An array read with the strides of another one."""
    buffers = comparison.run.buffers
    own = buffers[n].view.stride()
    for other, b in buffers.items():
        if other == n or b.view.dim() != len(own) or b.view.stride() == own or len(own) < 2:
            continue
        yield Hypothesis(
            _evidence(f"{n} is read with the strides of {other}", f"Use {n}'s own strides in the address of {n}."),
            lambda x, other=other: _restrided(n, other, comparison) if x.keys() == comparison.inputs.keys() else None,
        )


def _restrided(n: str, other: str, comparison: Comparison) -> Inputs | None:
    buffers = comparison.run.buffers
    b, stride = buffers[n], buffers[other].view.stride()
    end = b.start + sum((size - 1) * s for size, s in zip(b.view.shape, stride, strict=True))
    if end >= b.storage.numel():
        return None
    memory = torch.where(b.inside(), b.before.cpu().double(), torch.nan)
    return {**comparison.inputs, n: memory.as_strided(b.view.shape, stride, b.start).clone()}
