"""Comparing a kernel's output with the float64 reference, and saying what went wrong.

`examine` turns one run into a `CaseResult`. It gathers every diagnosis that the evidence supports (values, guards,
recorded accesses, the exception) and keeps the most telling one: the order of `KINDS`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from .backends import Outcome, Problem
from .exercise import ROUND_OFF, KernelExercise, Suspect, named
from .inputs import Buffer, Run, generator
from .verdict import CaseResult, Diagnosis

KINDS: dict[str, str] = {
    "unfilled": "Fill the cell that still holds the stub, run it, then run this check again.",
    "missing-function": "Run the cell that defines it, and keep the name that the exercise gives.",
    "signature": "Keep the arguments as the given cell has them, in the same order.",
    "timeout": "Look for a loop whose end is never reached: does its counter move, can its condition become false?",
    "died": "Check every address: an offset that is far too large, or a size that is passed as the wrong argument.",
    "error": "Read the line named above: the exception was raised there.",
    "does-not-compile": "Passing the interpreter is not enough: a GPU's compiler needs constant shapes and Triton types.",
    "no-kernel": "Launch your kernel with kernel[grid](...); a result computed by PyTorch does not count.",
    "returned": "Write into the output array that you are given; what the launcher returns is not looked at.",
    "input-overwritten": "Store only to the output; if you need room for intermediate results, allocate it.",
    "first-block-only": "Launch enough programs, grid = (triton.cdiv(n, BLOCK),), and start each at pid * BLOCK.",
    "off-by-one": "Print the offsets of program 0: they should start at 0 and end at BLOCK - 1.",
    "transposed": "Check which index is multiplied by which stride: offs_m * stride_m + offs_n * stride_n.",
    "wrong-stride": "Rows need not lie directly behind each other: step from row to row by the stride, not by the length.",
    "padded-lanes": "Lanes beyond the row must not take part: load them with the neutral value (other=0 for a sum, "
    "-inf for a maximum) and mask again after arithmetic that changes it.",
    "missing-accumulation": "Carry the accumulator through the loop: acc += part, not acc = part.",
    "no-max-subtraction": "Subtract the row's maximum before exp: the result is the same and nothing overflows.",
    "wrong-formula": "Compare your formula with the reference term by term.",
    "overflow": "Something became inf or NaN on the way: rewrite the formula so that no exp or square can overflow.",
    "tail-not-written": "Round the number of programs up, triton.cdiv(n, BLOCK), so that the last, partial block has one.",
    "tail-unmasked": "Mask the tail: mask = offs < n, passed to every load and every store.",
    "out-of-bounds": "Follow the index back: which offset, stride or mask lets it leave the array?",
    "not-written": "Every element of the output must be stored; check the grid, the offsets and the mask of the store.",
    "race": "Two programs touch the same element and nothing orders them: give each program its own output, or use an atomic.",
    "precision": "Do the arithmetic in the accumulate type: .to(tl.float32) right after the load.",
    "wrong-values": "Start with the tiny case: compute its first element by hand and compare.",
}
"""Every kind of refusal with what to try, the most telling first: of several diagnoses the first in this order wins."""

_RANK = {kind: i for i, kind in enumerate(KINDS)}


def diagnosis(kind: str, symptom: str, details: str = "", advice: str | None = None) -> Diagnosis:
    return Diagnosis(kind, symptom, advice or KINDS[kind], details)


def most_telling(found: list[Diagnosis]) -> Diagnosis | None:
    """The diagnosis that explains most; the first of equals."""
    return min(found, key=lambda d: _RANK[d.kind], default=None)


def from_problem(problem: Problem) -> Diagnosis:
    where = f" (line {problem.line}: `{problem.source}`)" if problem.line else ""
    if not where and problem.source:
        where = f" (at `{problem.source}`)"
    return diagnosis(problem.kind, problem.message + where)


def examine(run: Run, outcome: Outcome, hidden: bool = False) -> CaseResult:
    """The result of one case: what the memory, the recorded accesses and the exception say together."""
    result = CaseResult(run.case.name, seconds=outcome.seconds, hidden=hidden)
    if outcome.problem is not None:
        found = [from_problem(outcome.problem)]
        if outcome.problem.kind == "error":  # an access out of bounds may be what led to the exception
            found += _from_findings(outcome, run)
        return replace(result, diagnosis=most_telling(found))
    found = _from_findings(outcome, run) + _from_guards(run)
    if outcome.unstable:
        found.append(diagnosis("race", "the result differs from run to run on the same input"))
    if outcome.launches == 0:
        found.append(diagnosis("no-kernel", "your function ran, but launched no kernel"))
    worst = 0.0
    comparison = _Comparison(run)
    for name, buffer in run.outputs.items():
        error, said = comparison.output(name, buffer)
        worst = max(worst, error)
        found += said
    unwritten = any(d.kind == "not-written" for d in found)
    if outcome.returned and unwritten:
        found.append(
            diagnosis("returned", f"your function returned a {outcome.returned} and left the output untouched")
        )
    return replace(result, diagnosis=most_telling(found), error=worst)


def _from_findings(outcome: Outcome, run: Run) -> list[Diagnosis]:
    found = []
    for f in outcome.findings:
        kind = f.kind
        if kind == "out-of-bounds" and f.past_end and f.array in run.buffers:
            kind = "tail-unmasked"
        found.append(diagnosis(kind, f.sentence()))
    return found


def _from_guards(run: Run) -> list[Diagnosis]:
    found = []
    for b in run.buffers.values():
        changed, inside = b.changed(), b.inside()
        outside = (changed & ~inside).nonzero().flatten() - b.start
        if outside.numel():
            last = int(inside.nonzero()[-1]) - b.start
            past_end = int(outside[0]) == last + 1
            count = outside.numel()
            found.append(
                diagnosis(
                    "tail-unmasked" if past_end else "out-of-bounds",
                    f"{count} element{'s' * (count > 1)} outside {b.name} changed, the first at {b.name}[{int(outside[0])}]",
                )
            )
        if not b.is_output and (changed & inside).any():
            at = int((changed & inside).nonzero()[0]) - b.start
            found.append(diagnosis("input-overwritten", f"the input {b.name} was changed, first at element {at}"))
    return found


class _Comparison:
    """One run's outputs against the reference."""

    def __init__(self, run: Run):
        self.run, self.exercise = run, run.exercise
        self.inputs = run.inputs()
        self.expected = self.exercise.expected(self.inputs)
        self.magnitude = magnitude(self.exercise, self.inputs, self.expected)

    def limit(self, name: str) -> torch.Tensor:
        run, dtype = self.run, self.exercise.dtype(self.run.case, name)
        y = self.expected[name]
        if run.case.exact:
            return torch.zeros_like(y)
        limit = self.exercise.contract.tolerance(y, self.magnitude[name], run.case.sizes, dtype)
        return torch.where(torch.isfinite(y), limit, torch.zeros_like(y))

    def rounded(self, values: torch.Tensor, name: str) -> torch.Tensor:
        """What the dtype makes of a float64 value; overflow to inf is then expected, not an error."""
        return values.to(self.run.buffers[name].view.dtype).double()

    def output(self, name: str, buffer: Buffer) -> tuple[float, list[Diagnosis]]:
        """The largest error in units of the tolerance, and the diagnoses of one output."""
        got = buffer.view.detach().cpu().double()
        y, limit = self.expected[name], self.limit(name)
        poison = self._poison(buffer)
        bad = mismatches(got, y, limit, self.rounded(y, name)) | (poison & (got != self.rounded(y, name)))
        difference = (got - y).abs()
        error = float(torch.nan_to_num(difference / limit.clamp_min(1e-300), nan=0.0, posinf=0.0).max())
        if not bad.any():
            return error, []
        details = self._details(name, got, y, bad)
        found = []
        unwritten = poison & bad
        if unwritten.any():
            found.append(self._unwritten(name, unwritten, details))
        if (bad & ~unwritten).any():
            found.append(self._wrong(name, got, y, bad & ~unwritten, difference, details))
        return error, found

    def _poison(self, buffer: Buffer) -> torch.Tensor:
        v, place = buffer.view, (buffer.view.shape, buffer.view.stride(), buffer.start)
        same = ~buffer.changed()
        return same.as_strided(*place) if v.numel() else torch.zeros(v.shape, dtype=torch.bool)

    def _unwritten(self, name, unwritten, details) -> Diagnosis:
        flat = unwritten.flatten()
        n, count = flat.numel(), int(flat.sum())
        first = int(flat.nonzero()[0])
        if count == n:
            return diagnosis("not-written", f"no element of {name} was written", details)
        if count == n - first:  # exactly a tail is missing
            if 2 * first <= n:
                return diagnosis(
                    "first-block-only",
                    f"only the first {first} of {n} elements of {name} were written",
                    details,
                )
            return diagnosis(
                "tail-not-written", f"the last {count} of {n} elements of {name} were not written", details
            )
        return diagnosis("not-written", f"{count} of {n} elements of {name} were never written", details)

    def _wrong(self, name, got, y, bad, difference, details) -> Diagnosis:
        if said := self._suspect(name, got, details):
            return said
        finite = torch.isfinite(y)
        if (~torch.isfinite(got) & finite & bad).any():
            kind = "NaN" if torch.isnan(got[finite]).any() else "inf"
            return diagnosis("overflow", f"{name} has {kind} where the answer is finite", details)
        scale = self.magnitude[name].abs() + y.abs()
        relative = (
            float((difference[bad & finite] / scale[bad & finite].clamp_min(1e-300)).max())
            if (bad & finite).any()
            else 1.0
        )
        # errors of a few fp16 or bf16 roundings, where the contract asks for a finer type
        coarse = 16 * (
            ROUND_OFF["bfloat16"] if self.exercise.dtype(self.run.case, name) == "bfloat16" else ROUND_OFF["float16"]
        )
        if relative < coarse:
            contract = self.exercise.contract.accumulate
            return diagnosis(
                "precision",
                f"{name} is right to about {relative:.0e}, but the contract is {contract} arithmetic",
                details,
            )
        share = f"{int(bad.sum())} of {bad.numel()} elements of {name} are wrong"
        return diagnosis("wrong-values", share, details)

    def _suspect(self, name, got, details) -> Diagnosis | None:
        """Does the output equal a well-known wrong answer?"""
        for suspect in [*self.exercise.suspects, *self._generic_suspects()]:
            wrong = named(suspect.compute(**self.inputs), tuple(self.exercise.outputs)).get(name)
            if wrong is None or wrong.shape != got.shape:
                continue
            y, limit = self.expected[name], self.limit(name)
            known = torch.isfinite(wrong) | torch.isinf(wrong)
            slack = limit + 2 * ROUND_OFF[self.exercise.dtype(self.run.case, name)] * wrong.abs()
            differs = known & mismatches(self.rounded(wrong, name), y, limit, self.rounded(y, name))
            fits = ~mismatches(got, wrong, slack, self.rounded(wrong, name)) & known
            # edges may hold anything, so most of the elements that tell the two apart must fit
            if differs.sum() >= 2 and (fits & differs).sum() >= 0.9 * differs.sum() and fits.sum() >= 0.9 * known.sum():
                return diagnosis(suspect.diagnosis, suspect.sentence.format(name=name), details)
        return None

    def _generic_suspects(self):
        """Wrong answers that any kernel can give: neighbours' elements, swapped axes, a stride that was ignored."""
        reference, inputs = self.exercise.reference, self.inputs
        arrays = [n for n, v in inputs.items() if isinstance(v, torch.Tensor) and v.dim()]

        def with_(change: dict):
            return lambda **_: reference(**{**inputs, **change})

        for step in (1, -1):
            shifted = {n: _shift(inputs[n], step) for n in arrays}
            text = f"{{name}} is computed from the elements {'after' if step == 1 else 'before'} the right ones"
            yield Suspect("off-by-one", text, with_(shifted))
            if len(arrays) > 1:
                for n in arrays:
                    yield Suspect("off-by-one", f"{{name}} uses {n} shifted by one element", with_({n: shifted[n]}))
        for n in arrays:
            x = inputs[n]
            if x.dim() == 2 and min(x.shape) > 1:
                swapped = x.T.reshape(x.shape) if x.shape[0] != x.shape[1] else x.T
                yield Suspect("transposed", f"{n} is read with its rows and columns swapped", with_({n: swapped}))
            packed = _as_if_contiguous(self.run.buffers[n])
            if packed is not None:
                yield Suspect(
                    "wrong-stride",
                    f"{n} is read as if its rows lay directly behind each other",
                    with_({n: packed}),
                )
        for out_name, y in self.expected.items():
            if y.dim() == 2 and min(y.shape) > 1:
                yield Suspect(
                    "transposed",
                    "{name} is written with its rows and columns swapped",
                    lambda out_name=out_name, y=y, **_: {
                        out_name: y.T.reshape(y.shape) if y.shape[0] != y.shape[1] else y.T
                    },
                )

    def _details(self, name, got, y, bad) -> str:
        return table(name, got, y, bad) + "\n\n" + mismatch_map(bad)


def _shift(x: torch.Tensor, step: int) -> torch.Tensor:
    """Elements of the next (step 1) or the previous place in memory; the open end is NaN, which fits nothing."""
    flat = x.flatten()
    gap = torch.full((1,), torch.nan, dtype=x.dtype)
    moved = torch.cat([flat[1:], gap]) if step == 1 else torch.cat([gap, flat[:-1]])
    return moved.reshape(x.shape)


def _as_if_contiguous(buffer: Buffer) -> torch.Tensor | None:
    """What a kernel reads that ignores the strides of a non-contiguous array; None if it is contiguous."""
    if buffer.view.is_contiguous():
        return None
    flat = buffer.before[buffer.start : buffer.start + buffer.view.numel()]
    return flat.reshape(buffer.view.shape).cpu().double()


def mismatches(got, expected, limit, rounded) -> torch.Tensor:
    """Elements where `got` is not within `limit` of `expected`. NaN equals NaN only where NaN is expected."""
    close = (got - expected).abs() <= limit
    same = (got == rounded) | (torch.isnan(got) & torch.isnan(expected))
    return ~(close | same)


def magnitude(exercise: KernelExercise, inputs: dict[str, Any], expected: dict) -> dict[str, torch.Tensor]:
    """M of the error model: the exercise's own expression on absolute values, or 8 perturbations by one rounding."""
    if exercise.magnitude is not None:
        return named(exercise.magnitude(**inputs), tuple(exercise.outputs))
    u = ROUND_OFF["float32"]
    largest = {n: y.abs() for n, y in expected.items()}
    for k in range(8):
        g = generator(k, "perturb")
        moved = {
            n: v * (1 + u * (torch.randint(0, 2, v.shape, generator=g) * 2 - 1)) if isinstance(v, torch.Tensor) else v
            for n, v in inputs.items()
        }
        for n, y in exercise.expected(moved).items():
            change = torch.nan_to_num((y - expected[n]).abs() / u, nan=0.0, posinf=0.0)
            largest[n] = torch.maximum(largest[n], change)
    return largest


def table(name: str, got: torch.Tensor, expected: torch.Tensor, bad: torch.Tensor, rows: int = 5) -> str:
    """The first bad elements: index, yours, expected, difference."""
    lines = [f"{'index':>16} {'yours':>14} {'expected':>14} {'difference':>12}"]
    for index in bad.nonzero()[:rows].tolist():
        at = tuple(index)
        place = f"{name}[{', '.join(map(str, at))}]"
        lines.append(f"{place:>16} {got[at]:14.7g} {expected[at]:14.7g} {got[at] - expected[at]:12.3g}")
    left = int(bad.sum()) - rows
    if left > 0:
        lines.append(f"{'':>16} … and {left} more")
    return "\n".join(lines)


def mismatch_map(bad: torch.Tensor, width: int = 64, height: int = 12) -> str:
    """Where the wrong elements lie: one character for a patch of the output, '.' right, 'x' wrong, ':' both."""
    grid = bad.reshape(1, -1) if bad.dim() < 2 else bad.reshape(-1, bad.shape[-1])
    if bad.dim() < 2 and bad.numel() > width:
        per_row = -(-bad.numel() // height)
        pad = per_row * height - bad.numel()
        grid = torch.cat([bad, bad[-1:].expand(pad)]).reshape(height, per_row)
    rows = torch.linspace(0, grid.shape[0], min(height, grid.shape[0]) + 1).long()
    cols = torch.linspace(0, grid.shape[1], min(width, grid.shape[1]) + 1).long()
    lines = []
    for r0, r1 in zip(rows[:-1].tolist(), rows[1:].tolist(), strict=True):
        cells = [grid[r0:r1, c0:c1] for c0, c1 in zip(cols[:-1].tolist(), cols[1:].tolist(), strict=True)]
        lines.append("  " + "".join("x" if c.all() else ":" if c.any() else "." for c in cells))
    return "Where ('.' right, 'x' wrong, ':' both):\n" + "\n".join(lines)


def side_by_side(run: Run) -> str:
    """The inputs, the learner's outputs and the expected ones of a small run, as text."""
    expected = run.exercise.expected(run.inputs())
    blocks = [(n, v) for n, v in run.inputs().items()]
    for name, buffer in run.outputs.items():
        blocks += [(f"{name} (yours)", buffer.view.cpu().double()), (f"{name} (expected)", expected[name])]
    width = max(len(n) for n, _ in blocks)
    return "\n".join(f"{n:>{width}}  {_numbers(v, width + 2)}" for n, v in blocks)


def _numbers(value, indent: int) -> str:
    if not isinstance(value, torch.Tensor):
        return f"{value:g}"
    rows = value.reshape(1, -1) if value.dim() < 2 else value.reshape(-1, value.shape[-1])
    return ("\n" + " " * indent).join(" ".join(f"{x:8.4g}" for x in row.tolist()) for row in rows)
