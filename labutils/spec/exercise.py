"""What an exercise is: one object that the notebook's check, the judge, the benchmark and the tests all read.

An exercise is data. `KernelExercise` describes a kernel through its launcher: the arguments, a float64 reference,
the cases, the precision contract and the cost. `PlainExercise` describes a Python function (a byte ledger, an
occupancy formula) through its cases alone. Both are registered under the id "NN_unit/name".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..gpu.device import SECTOR
from .bounds import Bound, counted_whole, with_atomics
from .precision import Contract

NOT_WRITTEN = "is not written yet"
"""Every stub of an unfilled exercise ends its message with this phrase; the check recognizes it."""


@dataclass(frozen=True)
class Case:
    """One set of inputs: sizes by dimension name, how they are filled, how they lie in memory.

    `name` is read by learners ("n = 1000, not a multiple of the block"). `fill` names a strategy of `inputs.FILLS`,
    `layout` one of `inputs.LAYOUTS`, `dtype` overrides the contract's. `exact` demands the same bits as the reference.
    """

    name: str
    sizes: Mapping[str, int]
    fill: str = "normal"
    layout: str = "contiguous"
    dtype: str | None = None
    exact: bool = False


@dataclass(frozen=True)
class Cost:
    """Bytes that must move between the GPU's memory and the chip, and FLOPs that must be done. `exponentials`: those
    between matrix products that depend on each other, as in attention."""

    read: int
    written: int
    flops: int
    exponentials: int = 0

    @property
    def bytes(self) -> int:
        return self.read + self.written

    @property
    def intensity(self) -> float:
        """Arithmetic intensity in FLOP per byte."""
        return self.flops / self.bytes


@dataclass(frozen=True)
class Points:
    """What an exercise is worth: `correct` for a right answer, on top of it `speed`, and the points of each bound.

    A wrong kernel earns nothing. `speed` is earned by the time beside the reference solution's, where a judge with a
    GPU measured it. Elsewhere memory traffic stands in for time: sectors moved, in units of what the reference solution
    moves, which is `traffic` times the bytes that must move.

    `in_order`: the bounds are steps. The first one that is not met ends them: the steps after it are neither shown nor
    worth points yet.

    `needs`: texts of bounds. A kernel that meets none of them earns nothing, as one that is right already when it is
    released.
    """

    correct: float
    bounds: tuple[Bound, ...] = ()
    speed: float = 0.0
    traffic: float = 1.0
    in_order: bool = False
    needs: tuple[str, ...] = ()

    def __post_init__(self):
        if not 0 < self.correct < 1000:
            raise ValueError(f"points must be between 0 and 1000, not {self.correct}")

    @property
    def total(self) -> float:
        return float(self.correct + self.speed + sum(b.points for b in self.bounds))

    def award(self, verdict) -> float:
        """Points for a verdict: the one place where a verdict becomes a number."""
        if not verdict.passed or not self._has_what_it_needs(verdict.counts):
            return 0.0
        kept = sum(b.points for b in self.reached(verdict) if b.met(verdict.counts)) if verdict.counts else 0.0
        slower = self.slower(verdict)
        return round(float(self.correct + kept + self.speed * (0.0 if slower is None else share_of_speed(slower))), 2)

    def _has_what_it_needs(self, counts) -> bool:
        return not self.needs or bool(counts) and any(b.met(counts) for b in self.bounds if b.text in self.needs)

    def reached(self, verdict) -> tuple[Bound, ...]:
        """The bounds that count: all, or in order as far as the first that is not met."""
        if not self.in_order:
            return self.bounds
        missed = (k for k, b in enumerate(self.bounds, 1) if not b.met(verdict.counts))
        return self.bounds[: next(missed, len(self.bounds))]

    def open(self, verdict) -> float:
        """Points that nobody can tell yet: all where a GPU is needed, else those for what was not counted or timed."""
        if verdict.headline and verdict.headline.kind == "needs-gpu":
            return round(float(self.total), 2)
        if not verdict.passed:
            return 0.0
        if verdict.counts:  # they stand in for the time, unless they were dodged
            return 0.0
        if self.needs:
            return round(self.total, 2)
        return round(float(sum(b.points for b in self.bounds) + (0.0 if verdict.timing else self.speed)), 2)

    def slower(self, verdict) -> float | None:
        """How many times the reference solution's time, or where nothing was timed its traffic; None if unknown."""
        if verdict.timing:
            return verdict.timing["fairest"]
        if not self.speed or not verdict.counts or not counted_whole(verdict.counts):
            return None
        sectors = sum(with_atomics(verdict.counts, f"global_{way}_sectors") for way in ("load", "store"))
        sectors += sum(verdict.counts.get(f"tma_{way}_bytes", 0) for way in ("load", "store")) / SECTOR
        sectors += verdict.counts.get("copied_sectors", 0)  # by a launcher, needlessly
        return SECTOR * sectors / (verdict.counts["compulsory_bytes"] * self.traffic)

    def notes(self, verdict) -> list[str]:
        """What counts and clock say beyond right or wrong, a line each."""
        lines = []
        if (self.bounds or self.speed) and not verdict.counts:
            lines.append("Accesses could not be counted, so the points for counts are open.")
        elif self.bounds:
            reached = self.reached(verdict)
            lines.append(f"Counted ({verdict.counts['case']}):")
            for b in reached:
                lines.append(b.line(verdict.counts))
                if why := verdict.reasons.get(b.text):
                    lines.append(f"      {why}")
            if not self._has_what_it_needs(verdict.counts):
                lines.append("Nothing is earned yet: a count that is missed must be met.")
            if left := len(self.bounds) - len(reached):
                lines.append(f"  … {left} more count{'s' * (left != 1)}, shown when this one is met")
        slower = self.slower(verdict)
        if self.speed and slower is not None:
            what = "time" if verdict.timing else "memory traffic (a judge with a GPU measures time)"
            earned = self.speed * share_of_speed(slower)
            lines.append(
                f"Speed: {slower:.2f} × the reference solution's {what}; {earned:.2g} of {self.speed:g} "
                f"point{'s' * (self.speed != 1)}: all up to {FULL_SPEED:g} ×, none from {NO_SPEED:g} ×"
            )
        return lines


FULL_SPEED, NO_SPEED = 1.2, 10.0
"""Full points for speed up to the first multiple of the reference solution's time, none from the second."""


def share_of_speed(slower: float) -> float:
    """Share of the speed points for `slower` times the reference's time: log-linear between the two limits."""
    if slower <= FULL_SPEED:
        return 1.0
    return max(0.0, math.log(NO_SPEED / slower) / math.log(NO_SPEED / FULL_SPEED))


@dataclass(frozen=True)
class Array:
    """An input array: its dimensions by name, and what fills it when the case does not say.

    Without dimensions it has one element. `fill` names a strategy, or is a function of (sizes, generator): lengths and
    tables of numbers must fit the sizes. Where it is a mapping, it has another strategy for some of those that a case
    may name. `unused` maps sizes to a mask of the elements that no result may depend on: in
    cases with the size `stale` they are NaN.
    """

    dims: tuple[str, ...]
    fill: str | Callable[[Mapping[str, int], Any], Any] | Mapping[str, str] | None = None
    dtype: str | None = None
    unused: Callable[[Mapping[str, int]], Any] | None = None

    def strategy(self, wanted: str) -> str | Callable[[Mapping[str, int], Any], Any]:
        """What fills it in a case that says `wanted`."""
        return self.fill.get(wanted, wanted) if isinstance(self.fill, Mapping) else self.fill or wanted

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(sizes[d] for d in self.dims) or (1,)


class Out(Array):
    """An output array: handed to the launcher full of random poison, to be written completely."""


@dataclass(frozen=True)
class Number:
    """A number argument: the size called `size`, else a random float between `low` and `high`."""

    size: str | None = None
    low: float = 0.5
    high: float = 2.0


def array(
    *dims: str, fill: str | Callable | Mapping | None = None, dtype: str | None = None, unused: Callable | None = None
) -> Array:
    """An input array, `array("M", "N")`."""
    return Array(dims, fill, dtype, unused)


def out(*dims: str, dtype: str | None = None) -> Out:
    """An output array, `out("M", "N")`; `out()` is one number, an array of shape (1,)."""
    return Out(dims, None, dtype)


@dataclass(frozen=True)
class KnownMistake:
    """A common mistake: if the learner's output equals `compute(**inputs)`, this is what happened. `advice` is for one
    where that of its kind of diagnosis would mislead."""

    diagnosis: str
    sentence: str
    compute: Callable[..., Any]
    advice: str = ""


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """What every exercise has. `entry` is the name of the function that the learner's notebook defines."""

    id: str
    title: str
    entry: str
    points: Points
    cases: tuple[Case, ...]

    def __post_init__(self):
        if not re.fullmatch(r"\d\d_[a-z0-9_]+/[a-z][a-z0-9_]*", self.id):
            raise ValueError(f'exercise id {self.id!r} is not of the form "NN_unit/name"')
        if not self.title or not self.entry.isidentifier():
            raise ValueError(f"{self.id}: an exercise needs a title and the name of a function")
        if not self.cases:
            raise ValueError(f"{self.id}: an exercise needs at least one case")
        names = [c.name for c in self.cases]
        if len(set(names)) != len(names):
            raise ValueError(f"{self.id}: two cases share a name")

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the arguments that `entry` is called with, in order."""
        raise NotImplementedError

    @property
    def unit(self) -> str:
        return self.id.split("/")[0]

    @property
    def name(self) -> str:
        return self.id.split("/")[1]


@dataclass(frozen=True, kw_only=True)
class KernelExercise(Exercise):
    """A kernel behind a launcher: `entry(*arguments)` must fill every output argument.

    `reference` takes the inputs by name as float64 tensors (numbers as they are) and returns the output, or a dict of
    outputs by name. `magnitude` is the same expression on absolute values (M of the error model); without it M comes
    from perturbing the inputs. `cost` maps (sizes, bytes per element) to a `Cost`. `draw` makes the sizes of a hidden
    case from a `random.Random`. `tiny` is the case that is shown as a table. `library(**inputs)` returns what the
    library computes, for comparison in benchmarks; `bench` gives the sizes of that benchmark. `only` is the one target
    that the kernels run on (90 for sm_90), elsewhere they are emulated; None: any. `tokens` maps sizes to how many
    tokens a call decodes, where that is what it is for.
    """

    arguments: Mapping[str, Array | Number]
    reference: Callable[..., Any]
    magnitude: Callable[..., Any] | None = None
    contract: Contract
    cost: Callable[[Mapping[str, int], int], Cost]
    draw: Callable[[Any], Mapping[str, int]]
    tiny: Case
    bench: Mapping[str, int] = field(default_factory=dict)
    library: Callable[..., Any] | None = None
    known_mistakes: tuple[KnownMistake, ...] = ()
    language: str = "triton"
    only: int | None = None
    tokens: Callable[[Mapping[str, int]], int] | None = None

    def __post_init__(self):
        super().__post_init__()
        for bound in self.points.bounds:
            if bound.problem:
                raise ValueError(f"{self.id}: the bound {bound.text!r}: {bound.problem}")
        outs = self.outputs
        if not outs or len(outs) == len(self.arguments):
            raise ValueError(f"{self.id}: a kernel needs at least one input and one output argument")
        known = {d for a in self.arguments.values() if isinstance(a, Array) for d in a.dims}
        for case in (*self.cases, self.tiny):
            if missing := known - set(case.sizes):
                raise ValueError(f"{self.id}: case {case.name!r} has no size for {', '.join(sorted(missing))}")
        if self.language not in ("triton", "cuda"):
            raise ValueError(f"{self.id}: unknown language {self.language!r}")

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(self.arguments)

    @property
    def outputs(self) -> dict[str, Out]:
        return {k: a for k, a in self.arguments.items() if isinstance(a, Out)}

    def dtype(self, case: Case, argument: str | None = None) -> str:
        """Name of the element type of an array argument in this case."""
        own = self.arguments[argument].dtype if argument else None
        return own or case.dtype or self.contract.dtype

    def expected(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The reference's outputs by name, for inputs by name in float64."""
        return named(self.reference(**inputs), tuple(self.outputs))


class Hint(str):
    """Advice for a wrong result: the first of the sentences `fitting`, each for a known mistake that gives this very
    answer. Which of them it is, other cases tell."""

    fitting: tuple[str, ...]

    @classmethod
    def of(cls, sentences: Iterable[str]) -> Hint | None:
        """The hint of these sentences, the likeliest first; None of none."""
        fitting = tuple(dict.fromkeys(sentences))
        if not fitting:
            return None
        hint = cls(fitting[0])
        hint.fitting = fitting
        return hint


@dataclass(frozen=True, kw_only=True)
class PlainExercise(Exercise):
    """A Python function of numbers: `entry(**sizes)` must return what `reference` returns.

    `rtol` is the relative difference allowed. `explain(sizes, yours, expected)` may turn a wrong result into a
    sentence that says which term is missing.

    Where more than numbers goes in or comes out: `make(**sizes)` returns what `entry` is called with, by name, and
    `examine(sizes, arguments, yours)` takes the reference's place. It returns None for a right answer, else what is
    wrong and what to try, as two sentences.
    """

    reference: Callable[..., Any] | None = None
    make: Callable[..., Mapping[str, Any]] | None = None
    examine: Callable[[Mapping[str, int], Mapping[str, Any], Any], tuple[str, str] | None] | None = None
    rtol: float = 1e-9
    explain: Callable[[Mapping[str, int], Any, Any], str | None] | None = None
    draw: Callable[[Any], Mapping[str, int]] | None = None

    def __post_init__(self):
        super().__post_init__()
        if (self.reference is None) == (self.examine is None):
            raise ValueError(f"{self.id}: a plain exercise needs either a reference or examine")

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(self.arguments(self.cases[0]))

    def arguments(self, case: Case) -> Mapping[str, Any]:
        """What `entry` is called with in this case, by name, in order."""
        return self.make(**case.sizes) if self.make else case.sizes


def named(result, names: tuple[str, ...]) -> dict[str, Any]:
    """A reference's result as a dict by output name."""
    if isinstance(result, Mapping):
        return dict(result)
    return dict(zip(names, result if isinstance(result, tuple) else (result,), strict=True))


_registry: dict[str, Exercise] = {}


def register(exercise: Exercise) -> Exercise:
    """Add an exercise; a second one of the same id is an error."""
    if exercise.id in _registry:
        raise ValueError(f"exercise {exercise.id} is registered twice")
    _registry[exercise.id] = exercise
    return exercise


def registered() -> dict[str, Exercise]:
    """The exercises registered so far by id, in the order of the units. `labutils.exercises` registers the course's."""
    return dict(sorted(_registry.items(), key=lambda item: item[0].split("/")[0]))
