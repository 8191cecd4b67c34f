"""Comparing a kernel's output with the float64 reference: the error model."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import torch

from ..spec.exercise import KernelExercise, named
from ..spec.inputs import Buffer, Run, generator
from ..spec.precision import ROUND_OFF
from .tables import mismatch_map, table


class Comparison:
    """One run's outputs against the reference."""

    def __init__(self, run: Run):
        self.run, self.exercise = run, run.exercise
        self.inputs = run.inputs()
        self.expected = self.exercise.expected(self.inputs)

    def output(self, name: str, storage: torch.Tensor | None = None) -> OutputComparison:
        """The output as the run left it, or as `storage`, a tensor like its storage, holds it."""
        return OutputComparison(self, name, storage)

    @cached_property
    def magnitude(self) -> dict[str, torch.Tensor]:
        """M of the error model for each output."""
        return magnitude(self.exercise, self.inputs, self.expected)


class OutputComparison:
    """One output against the reference: float64 tensors of its shape, on the CPU.

    `got` and `expected` are the values, `limit` the tolerance of each element, `bad` marks refused elements and
    `unwritten` those of them that still hold the poison; `stale` marks what a kernel made of poison with
    which it computed. `error` is the largest error in units of its tolerance.
    """

    def __init__(self, comparison: Comparison, name: str, storage: torch.Tensor | None = None):
        run, exercise = comparison.run, comparison.exercise
        self.name, self.buffer = name, run.outputs[name]
        self.dtype = exercise.dtype(run.case, name)
        view = self.buffer.view.detach()
        if storage is not None:
            view = storage.as_strided(view.shape, view.stride(), view.storage_offset())
        self.got = view.cpu().double()
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
        self.stale = _stale(self)
        self.difference = (self.got - y).abs()
        in_units = torch.nan_to_num(self.difference / self.limit.clamp_min(1e-300), nan=0.0, posinf=0.0)
        self.error = float(in_units.max())

    def is_strange(self) -> bool:
        """Did the kernel itself store a wrong element that is not finite?"""
        return not self.got[self.bad & ~self.unwritten & ~self.stale].isfinite().all()

    def rounded(self, values: torch.Tensor) -> torch.Tensor:
        """What the dtype makes of a float64 value; overflow to inf is then expected, not an error."""
        return values.to(self.buffer.view.dtype).double()

    def report(self) -> str:
        """The first bad elements as a table, and a map of where they lie."""
        cells = table(self.name, self.got, self.expected, self.bad, self.unwritten)
        return cells + "\n\n" + mismatch_map(self.name, self.bad, self.unwritten)


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


def _stale(output: OutputComparison) -> torch.Tensor:
    """Elements that are not finite because the poison there was not, or nearly: all that are not finite must be so, and
    many more wrong elements finite."""
    b = output.buffer
    before = b.before.cpu().as_strided(b.view.shape, b.view.stride(), b.start).double()
    strange = output.bad & output.expected.isfinite() & ~output.got.isfinite()
    if not strange.any():
        return strange
    extreme = ~(before.abs() < torch.finfo(b.view.dtype).max / 1024)
    finite = output.bad & output.got.isfinite()
    if (strange & ~extreme).any() or finite.sum() <= 4 * strange.sum():
        return torch.zeros_like(strange)
    return strange


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
