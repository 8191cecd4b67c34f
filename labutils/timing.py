"""Honest timing on a GPU: several kernels side by side, on cold and ever different inputs.

Rules (each answers a way in which a timing lies):
- the L2 is flushed before every sample, by writing at least twice its size;
- inputs come from a ring of distinct ones, at least four times the L2 in all, so that none is still there from before;
- the flush is also what the GPU works on while the host queues events and launches: launch latency stays out;
- the competitors take turns, there and back (A B B A), so that clocks and temperature favour none;
- medians with a bootstrap interval; nothing is dropped.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

WARM_UP_S = 0.3
MIN_PAIRS, MIN_SECONDS, MAX_SECONDS, LOOK_EVERY = 30, 0.5, 10.0, 16
PRECISION = 0.01
"""Half width of the 95 % interval of a ratio at which sampling may stop."""
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
    rng, pairs = random.Random(0), list(zip(a.seconds, b.seconds, strict=True))
    values = []
    for _ in range(resamples):
        chosen = rng.choices(pairs, k=len(pairs))
        values.append(statistics.median(x for x, _ in chosen) / statistics.median(y for _, y in chosen))
    values.sort()
    edge = max(0, int(0.025 * resamples) - 1)
    return Ratio(a.median / b.median, values[edge], values[-edge - 1])


class Stopwatch:
    """Times calls on the current GPU from a cold L2. Holds the flush buffer: make one and keep it."""

    def __init__(self):
        import torch

        self._torch = torch
        l2 = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        self.l2_bytes = max(l2, 1 << 20)
        # at least 0.1 ms of work at 5 TB/s, so that a launch (about 10 µs of host time) is queued behind it
        self._flush = torch.empty(max(2 * self.l2_bytes, 512 << 20), dtype=torch.uint8, device="cuda")

    def once(self, fn: Callable[[], object]) -> tuple[object, object]:
        """Queue flush, start event, call, end event; the events can be read after synchronising."""
        begin = self._torch.cuda.Event(enable_timing=True)
        end = self._torch.cuda.Event(enable_timing=True)
        self._flush.zero_()
        begin.record()
        fn()
        end.record()
        return begin, end

    def take_turns(self, competitors: dict[str, Sequence[Callable[[], object]]]) -> dict[str, Sample]:
        """Time every competitor; each is a ring of calls on distinct data, used one after another.

        Stops when the ratio of every competitor to the first is settled (or after MAX_SECONDS of sampling).
        """
        names = list(competitors)
        self._warm_up(competitors)
        times: dict[str, list[float]] = {n: [] for n in names}
        begin, turn = time.perf_counter(), 0
        while True:
            batch = []
            for _ in range(LOOK_EVERY):
                order = names if turn % 2 == 0 else names[::-1]
                for n in order:
                    ring = competitors[n]
                    batch.append((n, self.once(ring[turn % len(ring)])))
                turn += 1
            self._torch.cuda.synchronize()
            for n, (start, end) in batch:
                times[n].append(start.elapsed_time(end) * 1e-3)
            elapsed = time.perf_counter() - begin
            if elapsed > MAX_SECONDS:
                break
            if turn >= MIN_PAIRS and elapsed >= MIN_SECONDS:
                first = Sample(names[0], tuple(times[names[0]]))
                if all(ratio(Sample(n, tuple(times[n])), first).settled for n in names[1:]):
                    break
        return {n: Sample(n, tuple(t)) for n, t in times.items()}

    def _warm_up(self, competitors) -> None:
        """Compile, load and raise the clocks on all of the ring before anything counts."""
        begin = time.perf_counter()
        while time.perf_counter() - begin < WARM_UP_S:
            for ring in competitors.values():
                for call in ring:
                    call()
            self._torch.cuda.synchronize()
