"""Comparing a kernel's output with the float64 reference: the error model, and the tables and maps that show it."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import torch

from ..spec.exercise import KernelExercise, named
from ..spec.inputs import Buffer, Run, generator
from ..spec.precision import ROUND_OFF


class Comparison:
    """One run's outputs against the reference."""

    def __init__(self, run: Run):
        self.run, self.exercise = run, run.exercise
        self.inputs = run.inputs()
        self.expected = self.exercise.expected(self.inputs)

    def output(self, name: str) -> OutputComparison:
        return OutputComparison(self, name)

    @cached_property
    def magnitude(self) -> dict[str, torch.Tensor]:
        """M of the error model for each output."""
        return magnitude(self.exercise, self.inputs, self.expected)


class OutputComparison:
    """One output against the reference: float64 tensors of its shape, on the CPU.

    `got` and `expected` are the values, `limit` the tolerance of each element, `bad` marks refused elements and
    `unwritten` those of them that still hold the poison. `error` is the largest error in units of its tolerance.
    """

    def __init__(self, comparison: Comparison, name: str):
        run, exercise = comparison.run, comparison.exercise
        self.name, self.buffer = name, run.outputs[name]
        self.dtype = exercise.dtype(run.case, name)
        self.got = self.buffer.view.detach().cpu().double()
        self.expected = y = comparison.expected[name].expand(self.got.shape)
        self.magnitude = comparison.magnitude[name].expand(self.got.shape)
        if run.case.exact:
            self.limit = torch.zeros_like(y)
        else:
            limit = exercise.contract.tolerance(y, self.magnitude, run.case.sizes, self.dtype)
            self.limit = torch.where(torch.isfinite(y), limit, torch.zeros_like(y))
        untouched = _untouched(self.buffer)
        rounded = self.rounded(y)
        self.bad = mismatches(self.got, y, self.limit, rounded)
        if untouched.sum() > most_poison_matches(self.buffer.view):
            self.bad |= untouched & (self.got != rounded)
        self.unwritten = untouched & self.bad
        self.difference = (self.got - y).abs()
        in_units = torch.nan_to_num(self.difference / self.limit.clamp_min(1e-300), nan=0.0, posinf=0.0)
        self.error = float(in_units.max())

    def rounded(self, values: torch.Tensor) -> torch.Tensor:
        """What the dtype makes of a float64 value; overflow to inf is then expected, not an error."""
        return values.to(self.buffer.view.dtype).double()

    def report(self) -> str:
        """The first bad elements as a table, and a map of where they lie."""
        return table(self.name, self.got, self.expected, self.bad) + "\n\n" + mismatch_map(self.bad)


def expected_poison_matches(output: torch.Tensor) -> float:
    """How many of an output's elements hold the bits of the poison although they were written, on average.

    Poison is random: each of n elements of b bits matches it with a probability of 2^-b. So the number of matches has
    a binomial distribution with mean n / 2^b, which is nearly a Poisson distribution.
    """
    return output.numel() / 2 ** (8 * output.element_size())


def most_poison_matches(output: torch.Tensor) -> int:
    """The most matches with the poison that count as chance: 2 + 4 times the mean, rounded up.

    A Poisson variable of any mean exceeds this with a probability below 0.0002. Types of more than 16 bits never match
    by chance, and a sixteenth of the elements is too many for chance in any type.
    """
    if output.element_size() > 2:
        return 0
    return min(2 + math.ceil(4 * expected_poison_matches(output)), output.numel() // 16)


def _untouched(buffer: Buffer) -> torch.Tensor:
    """Elements of an output that still hold the poison."""
    return (~buffer.changed()).as_strided(buffer.view.shape, buffer.view.stride(), buffer.start)


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
        moved = dict(inputs)
        for n, v in inputs.items():
            if isinstance(v, torch.Tensor):
                moved[n] = v * (1 + u * (torch.randint(0, 2, v.shape, generator=g).to(v) * 2 - 1))
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
