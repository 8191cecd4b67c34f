"""How fast beside the reference solution: the size, the ring of inputs, the stop rule, the floor, the fair reading.

The rules and their reasons are in docs/judging.md.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import torch

from labutils.gpu import device
from labutils.spec.exercise import Array, Case, KernelExercise, Number, Out
from labutils.spec.inputs import Buffer, Run, generator, numbers_of, torch_dtype, values
from labutils.timing import benchmark
from labutils.timing.stopwatch import SHORT_S, Ratio, Sample, ratio

TIMED, DEVICE = "timed", "cuda"
MOST_BYTES = 256 << 20
"""Bytes that a timed run moves, about: 50 µs or more on today's fastest memory."""

MIN_PAIRS, MIN_SECONDS, MAX_SECONDS, PRECISION = 30, 0.5, 10.0, 0.01
REFUSED_UNDER, FLAGGED_UNDER = 0.9, 0.97
"""Fractions of the least time that a kernel can take: the floor, or the reference solution's time where that is less.
For then more can be done than the floor says: the copy's bandwidth differs by a tenth from race to race."""


def timed_case(exercise: KernelExercise, most_bytes: int = MOST_BYTES) -> Case:
    """The benchmark's sizes, the largest halved until a run moves no more than `most_bytes`."""
    sizes = dict(exercise.bench)
    while _cost(exercise, sizes).bytes > most_bytes:
        largest = max(sizes, key=sizes.get)
        if sizes[largest] % 2 or sizes[largest] < 256:
            break
        sizes |= {name: size // 2 for name, size in sizes.items() if name in _tied(exercise, largest)}
    return Case(TIMED, sizes)


def _tied(exercise: KernelExercise, name: str) -> set[str]:
    """The sizes that grow with one of the exercise's sizes in all its cases, such as W = 2 N; itself among them."""
    all_sizes = [exercise.bench, *(case.sizes for case in exercise.cases)]
    if len({sizes.get(name) for sizes in all_sizes}) == 1:
        return {name}
    return {
        other
        for other in exercise.bench
        if len({sizes.get(other, 0) / (sizes.get(name) or 1) for sizes in all_sizes}) == 1
    }


MOST_LARGE_BYTES = 64 << 20
"""Bytes that the large run of an exercise without points for speed moves, about."""

MOST_INTENSITY = 50.0
"""FLOPs per byte up to which a float64 reference needs about the memory that the kernel moves."""


def large_case(exercise: KernelExercise) -> Case | None:
    """The benchmark's sizes made small enough to be compared in passing; None where that is not cheap, or where one
    size follows from another and none can be halved alone."""
    known = {d for a in exercise.arguments.values() if isinstance(a, Array) for d in a.dims if isinstance(d, str)}
    if not exercise.bench or not exercise.bench.keys() <= known:
        return None
    case = timed_case(exercise, MOST_LARGE_BYTES)
    cost = _cost(exercise, case.sizes)
    return case if (cost.flops or 0) <= MOST_INTENSITY * cost.bytes else None


def _cost(exercise: KernelExercise, sizes):
    itemsize = torch_dtype(exercise.dtype(Case("", sizes))).itemsize
    return exercise.cost(sizes, itemsize)


def ring_size(exercise: KernelExercise, case: Case, l2_bytes: int) -> int:
    """Entries of distinct inputs, at least four times the L2 in all, and one more that is never scored."""
    return max(2, -(-4 * l2_bytes // _cost(exercise, case.sizes).bytes)) + 1


def blank(exercise: KernelExercise, case: Case, seed: int) -> Run:
    """One entry of the ring: plain arrays without guards, which `fill` has still to draw."""
    buffers = {}
    for name, argument in exercise.arguments.items():
        if not isinstance(argument, Number):
            data = torch.empty(argument.shape(case.sizes), dtype=torch_dtype(exercise.dtype(case, name)))
            buffers[name] = Buffer(name, data.reshape(-1), data, isinstance(argument, Out))
    return Run(exercise, case, buffers, numbers_of(exercise, case, seed))


def fill(run: Run, seed: int, number: int) -> None:
    """Draw the inputs of entry `number`, on the CPU: what the GPU does meanwhile may be timed."""
    for name, b in run.buffers.items():
        if b.is_output:
            continue
        argument = run.exercise.arguments[name]
        g = generator(seed, run.exercise.id, name, number)
        if b.view.dtype.is_floating_point and argument.strategy("normal") == "normal":
            b.view.normal_(generator=g)
        else:
            b.view.copy_(values(argument, run.case.sizes, g, run.exercise.dtype(run.case, name), "normal"))


def poison(run: Run) -> None:
    """Fill the outputs with what no answer is."""
    for b in run.outputs.values():
        b.view.fill_(torch.nan if b.view.dtype.is_floating_point else -1)


def wrong(run: Run) -> str | None:
    """What a timed run got wrong, compared with float64 on the GPU; None when all is right."""
    buffers = {}
    for name, b in run.buffers.items():
        data = b.view.to(DEVICE)
        buffers[name] = Buffer(name, data, data, b.is_output, data)
    return benchmark.wrong(Run(run.exercise, run.case, buffers, run.numbers))


class StopRule:
    """Enough pairs: at least 30, half a second, and an interval of the ratio within 1 %; ten seconds at most."""

    def __init__(self):
        self._begin = None

    def __call__(self, a: list[float], b: list[float]) -> bool:
        self._begin = self._begin or time.perf_counter()  # after the first batch: start and warm-up do not count
        elapsed = time.perf_counter() - self._begin
        if elapsed > MAX_SECONDS:
            return True
        if len(a) < MIN_PAIRS or elapsed < MIN_SECONDS:
            return False
        return beside(a, b).settled


def beside(a: list[float], b: list[float]) -> Ratio:
    """How many times as long `a` takes as `b`."""
    return ratio(Sample("yours", tuple(a)), Sample("reference", tuple(b)))


@dataclass(frozen=True)
class Floor:
    """The least time in seconds that the exercise's bytes and FLOPs can take on this GPU, and why."""

    seconds: float
    why: str


def floor(exercise: KernelExercise, case: Case, copy_gbs: float) -> Floor:
    cost = _cost(exercise, case.sizes)
    by_bytes = Floor(cost.bytes / (copy_gbs * 1e9), f"{cost.bytes / 1e6:,.0f} MB at the copy's {copy_gbs:,.0f} GB/s")
    gpu, kind = device.current(), exercise.dtype(case)
    peaks = [gpu.fp32_tflops or 0.0, *(gpu.tensor_tflops or {}).values()] if kind != "float64" else []
    if not peaks or not max(peaks) or not cost.flops:
        return by_bytes
    narrow = kind in ("float16", "bfloat16") or exercise.contract.operands
    peak = max(peaks) if narrow else (gpu.fp32_tflops or max(peaks))
    by_flops = Floor(cost.flops / (peak * 1e12), f"{cost.flops / 1e9:,.1f} GFLOP at {peak:,.0f} TFLOP/s")
    return max(by_bytes, by_flops, key=lambda f: f.seconds)


def summary(measured: dict, exercise: KernelExercise, case: Case) -> dict:
    """What the verdict keeps of a race: medians, the ratio with its interval, the floor, every sample."""
    a, b = measured["seconds"]["a"], measured["seconds"]["b"]
    yours_s, reference_s, ordered = statistics.median(a), statistics.median(b), sorted(a)
    found, least = beside(a, b), floor(exercise, case, measured["copy_gbs"])
    return {
        "sizes": dict(case.sizes),
        "ratio": found.value,
        "low": found.low,
        "high": found.high,
        "noisy": not found.settled,
        # a noisy ratio is read in the student's favour
        "fairest": found.value if found.settled else found.low,
        "yours_s": yours_s,
        "p20_s": ordered[len(a) // 5],
        "p80_s": ordered[4 * len(a) // 5],
        "reference_s": reference_s,
        "short": reference_s < SHORT_S,
        "floor_s": least.seconds,
        "floor_why": least.why,
        "of_floor": least.seconds / yours_s,
        "of_least": min(least.seconds, reference_s) / yours_s,
        "copy_gbs": measured["copy_gbs"],
        "pairs": len(a),
        "samples": {"yours": a, "reference": b},
    }
