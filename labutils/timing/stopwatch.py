"""Honest timing on a GPU: several kernels side by side, on cold and ever different inputs.

Rules (each answers a way in which a timing lies):
- the L2 is flushed before every cold sample, by writing at least twice its size. What it leaves there has to be written
  back while the kernel runs, and the kernel's own last writes stay behind for the next one: the balance is even. It is
  not for a kernel that writes next to nothing, so a stopwatch for such kernels flushes by reading (`clean`);
- inputs come from a ring of distinct ones, at least four times the L2 in all, so that none is still there from before;
- the flush, and a wait where that is too short, is what the GPU works on while the host queues events and launches:
  launch latency stays out;
- the competitors take turns, there and back (A B B A), so that clocks and temperature favor none;
- medians with a 95 % interval; nothing is dropped.

The machine is `machine.GPU`, or in tests a simulated one that knows the truth.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..gpu.machine import GPU, Machine

WARM_UP_S = 0.3
MIN_PAIRS, MIN_SECONDS, MAX_SECONDS, LOOK_EVERY = 30, 0.5, 10.0, 16
PRECISION = 0.01
"""Half width of the 95 % interval of a ratio at which sampling may stop."""
COVER_S = 100e-6
"""What the GPU is kept busy for at least while the host queues one sample."""
MAX_HOLD_S = 5e-3
SHORT_S = 20e-6
"""A kernel shorter than this is too short to judge: event resolution and ramp-up weigh too much."""


@dataclass(frozen=True)
class Sample:
    """Times of one competitor, in seconds, in the order they were taken."""

    name: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def quantile(self, q: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(q * len(ordered)))]

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the median, from the ranks of the samples: it assumes nothing about how they spread."""
        ordered, n = sorted(self.seconds), len(self.seconds)
        below = max(0, math.floor(n / 2 - 0.98 * math.sqrt(n)) - 1)
        return ordered[below], ordered[-below - 1]

    @property
    def settled(self) -> bool:
        """Whether the interval is within PRECISION of the median."""
        low, high = self.interval
        return max(high - self.median, self.median - low) <= PRECISION * self.median


@dataclass(frozen=True)
class Ratio:
    """How many times as long `a` takes as `b`: ratio of medians, with a 95 % bootstrap interval over the pairs."""

    value: float
    low: float
    high: float

    @property
    def settled(self) -> bool:
        return max(self.high - self.value, self.value - self.low) <= PRECISION * self.value


def ratio(a: Sample, b: Sample, resamples: int = 400) -> Ratio:
    """Ratio of the medians of two samples taken in turns; pairs are resampled together (paired bootstrap)."""
    pairs = np.array(list(zip(a.seconds, b.seconds, strict=True)))
    chosen = np.random.default_rng(0).integers(len(pairs), size=(resamples, len(pairs)))
    of_a, of_b = (np.median(column[chosen], axis=1) for column in pairs.T)
    low, high = np.quantile(of_a / of_b, (0.025, 0.975))
    return Ratio(a.median / b.median, float(low), float(high))


class Stopwatch:
    """Times calls on a machine, by default this machine's GPU. Holds the flush buffer: make one and keep it.

    It samples for at least `min_seconds` and at most `max_seconds`, and stops between them once a result is settled.
    `clean`: the L2 holds no written data when a kernel begins.
    """

    def __init__(
        self,
        machine: Machine | None = None,
        *,
        min_seconds: float = MIN_SECONDS,
        max_seconds: float = MAX_SECONDS,
        clean: bool = False,
    ):
        self.machine, self.clean = machine or GPU(), clean
        self.min_seconds, self.max_seconds = min_seconds, max_seconds
        self.l2_bytes = self.machine.l2_bytes
        self.launch_s = 0.0

    def once(self, fn: Callable[[], object]) -> tuple[object, object]:
        """Queue flush, start event, call, end event; the events can be read after synchronizing."""
        self.machine.flush(self.clean)
        return self._between_events(fn)

    def once_hot(self, fn: Callable[[], object]) -> tuple[object, object]:
        """The same for the second of two calls in a row: what fits into the L2 is there."""
        self.machine.hold(COVER_S)
        fn()
        return self._between_events(fn)

    def _between_events(self, fn):
        if self.launch_s > COVER_S / 2:  # too long for what is queued already
            self.machine.hold(min(1.5 * self.launch_s, MAX_HOLD_S))
        begin = self.machine.event()
        fn()
        return begin, self.machine.event()

    def take_turns(self, competitors: dict[str, Sequence[Callable[[], object]]]) -> dict[str, Sample]:
        """Time every competitor; each is a ring of calls on distinct data, used one after another.

        Stops when the ratio of every competitor to the first is settled (or after `max_seconds` of sampling); a
        competitor alone is settled when the interval of its median is narrow enough.
        """
        names = list(competitors)
        self.warm_up(competitors)

        def settled(samples: dict[str, Sample]) -> bool:
            first = samples[names[0]]
            return all(ratio(samples[n], first).settled for n in names[1:]) if names[1:] else first.settled

        return self._sample(names, lambda n, turn: self.once(competitors[n][turn % len(competitors[n])]), settled)

    def hot(self, call: Callable[[], object]) -> Sample:
        """Times of one call on data that may still be in the L2. Call after a warm-up."""
        return self._sample(["hot"], lambda name, turn: self.once_hot(call), lambda s: s["hot"].settled)["hot"]

    def _sample(self, names: list[str], queue: Callable[[str, int], tuple], settled) -> dict[str, Sample]:
        times: dict[str, list[float]] = {n: [] for n in names}
        begin, turn = self.machine.now(), 0
        while True:
            batch = []
            for _ in range(LOOK_EVERY):
                order = names if turn % 2 == 0 else names[::-1]
                batch += [(n, queue(n, turn)) for n in order]
                turn += 1
            self.machine.synchronize()
            for n, (start, end) in batch:
                times[n].append(self.machine.seconds(start, end))
            elapsed = self.machine.now() - begin
            samples = {n: Sample(n, tuple(t)) for n, t in times.items()}
            if elapsed > self.max_seconds or (turn >= MIN_PAIRS and elapsed >= self.min_seconds and settled(samples)):
                return samples

    def warm_up(self, competitors: dict[str, Sequence[Callable[[], object]]]) -> None:
        """Compile, load and raise the clocks on all of the ring before anything counts; time the launches."""
        for ring in competitors.values():
            for call in ring:
                call()
        self.machine.synchronize()
        begin, launches = self.machine.now(), {n: [] for n in competitors}
        while self.machine.now() - begin < WARM_UP_S:
            for name, ring in competitors.items():
                for call in ring:
                    before = self.machine.now()
                    call()
                    launches[name].append(self.machine.now() - before)
            self.machine.synchronize()
        self.launch_s = max(statistics.median(times) for times in launches.values())
