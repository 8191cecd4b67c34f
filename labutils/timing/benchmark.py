"""Benchmarking an exercise: the learner's function, the library and a plain copy, interleaved, on the same data.

The copy moves as many bytes as the exercise must: it measures the peak bandwidth of a memory-bound kernel on this GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..check.check import _namespace
from ..check.compare import magnitude, mismatches
from ..check.evaluate import callable_problem, evaluate
from ..gpu import device
from ..spec.exercise import Case, Cost, KernelExercise, Number, Out
from ..spec.inputs import Buffer, Run, make_run, torch_dtype
from .measure import NO_TIMES
from .stopwatch import SHORT_S, Ratio, Sample, Stopwatch, ratio

RING_MIN = 2


@dataclass(frozen=True)
class Benchmark:
    """Measured side by side in one run. `samples` holds "yours", "library" (where there is one) and "copy"."""

    exercise: str
    gpu: str
    sizes: dict[str, int]
    cost: Cost
    samples: dict[str, Sample] = field(repr=False)

    def gbs(self, name: str) -> float:
        """Compulsory bytes over median time, in 10^9 bytes/s."""
        return self.cost.bytes / self.samples[name].median / 1e9

    def of_copy(self, name: str = "yours") -> Ratio:
        """Fraction of the copy's bandwidth: the copy's time over this one's."""
        return ratio(self.samples["copy"], self.samples[name])

    def speedup(self) -> Ratio | None:
        """How many times as fast as the library."""
        return ratio(self.samples["library"], self.samples["yours"]) if "library" in self.samples else None

    def to_json(self) -> dict:
        speedup = self.speedup()
        rows = {
            n: {"us": s.median * 1e6, "p20_us": s.quantile(0.2) * 1e6, "p80_us": s.quantile(0.8) * 1e6,
                "gbs": self.gbs(n), "samples": len(s.seconds)}
            for n, s in self.samples.items()
        }  # fmt: skip
        return {
            "exercise": self.exercise,
            "gpu": self.gpu,
            "sizes": self.sizes,
            "rows": rows,
            "of_copy": vars(self.of_copy()),
            "speedup": vars(speedup) if speedup else None,
        }

    def __repr__(self) -> str:
        sizes = ", ".join(f"{k} = {v}" for k, v in self.sizes.items())
        lines = [f"{self.exercise}, {sizes}, on {self.gpu}: {self.cost.bytes / 1e6:,.0f} MB must move"]
        lines.append(f"  {'':8} {'median':>11} {'p20 … p80':>23} {'GB/s':>7} {'of copy':>8}")
        for name, s in self.samples.items():
            spread = f"{s.quantile(0.2) * 1e6:.1f} … {s.quantile(0.8) * 1e6:.1f} µs"
            share = self.of_copy(name).value
            lines.append(f"  {name:8} {s.median * 1e6:8.1f} µs {spread:>23} {self.gbs(name):7.0f} {share:8.1%}")
        if speedup := self.speedup():
            lines.append(f"  {speedup.value:.2f} × the library ({speedup.low:.2f} … {speedup.high:.2f}, 95 % interval)")
        if self.samples["yours"].median < SHORT_S:
            lines.append("  Under 20 µs: too short to judge; take a larger size.")
        return "\n".join(lines)


def benchmark(exercise_id: str, fn: Callable | None = None) -> Benchmark | None:
    """Time `fn` (by default the notebook's function). Prints why and returns None where there is nothing to time."""
    from .. import exercises  # not above: what the judge lets a submission see has no exercises

    exercise = exercises.get(exercise_id)
    fn = fn or _namespace().get(exercise.entry)
    if problem := callable_problem(exercise, fn):
        print(problem.symptom)
        return None
    if not device.runs(exercise.only):
        print(NO_TIMES if not device.has_gpu() else f"No times: this exercise runs on sm_{exercise.only} only.")
        print(_counts(exercise, fn))
        return None
    return measure(exercise, fn)


def _counts(exercise: KernelExercise, fn) -> str:
    """What is known without timing: bytes moved, compared with bytes that must move."""
    verdict = evaluate(exercise, fn)
    if verdict.unfilled or not verdict.counts:
        return "Fill the kernel first; then its bytes are counted here."
    c = verdict.counts
    share = c["moved_bytes"] / c["compulsory_bytes"]
    counted = (
        f"Counted instead ({c['case']}): {c['moved_bytes']:,} bytes moved, {c['compulsory_bytes']:,} must move, "
        f"{share:.2f} ×; "
    )
    if exercise.language == "cuda":
        return counted + (
            f"{c.get('global_load_requests', 0):,} load requests of warps with "
            f"{c.get('global_load_sectors', 0):,} sectors, {c.get('global_store_requests', 0):,} store requests with "
            f"{c.get('global_store_sectors', 0):,}."
        )
    return counted + (
        f"{c['programs']} programs, {c['loads']} loads, {c['stores']} stores, {c['masked_lanes']} lanes masked off."
    )


def measure(exercise: KernelExercise, fn: Callable, sizes: dict[str, int] | None = None) -> Benchmark | None:
    """Time on the GPU at the exercise's benchmark sizes, after checking the result at that very size."""
    import torch

    case = Case("benchmark", dict(sizes or exercise.bench))
    cost = exercise.cost(case.sizes, torch_dtype(exercise.dtype(case)).itemsize)
    watch = Stopwatch()
    count = max(RING_MIN, -(-4 * watch.l2_bytes // cost.bytes))
    runs = [_draw(exercise, case, seed) for seed in range(count)]
    fn(*runs[0].arguments)
    torch.cuda.synchronize()
    if problem := wrong(runs[0]):
        print(f"The result is wrong at the benchmark's size, so its time means nothing: {problem}")
        return None
    competitors = {"yours": [lambda r=r: fn(*r.arguments) for r in runs]}
    if exercise.library is not None:
        inputs = [_by_name(r) for r in runs]
        competitors["library"] = [lambda i=i: exercise.library(**i) for i in inputs]
    half = cost.bytes // 2
    pairs = [[torch.empty(half, dtype=torch.uint8, device="cuda") for _ in range(2)] for _ in range(RING_MIN)]
    competitors["copy"] = [lambda p=p: p[0].copy_(p[1]) for p in pairs]
    samples = watch.take_turns(competitors)
    for r in runs:
        if problem := wrong(r):
            print(f"A timed result was wrong: {problem}")
            return None
    return Benchmark(exercise.id, torch.cuda.get_device_name(), dict(case.sizes), cost, samples)


def _draw(exercise: KernelExercise, case: Case, seed: int) -> Run:
    """Large inputs are drawn on the GPU: a gigabyte from the CPU's generator would take longer than the benchmark."""
    import torch

    numbers = make_run(exercise, exercise.tiny, seed).numbers
    generator, buffers = torch.Generator(device="cuda").manual_seed(seed), {}
    for name, argument in exercise.arguments.items():
        if isinstance(argument, Number):
            numbers[name] = case.sizes[argument.size] if argument.size else numbers[name]
            continue
        dtype = torch_dtype(exercise.dtype(case, name))
        data = torch.empty(argument.shape(case.sizes), dtype=dtype, device="cuda")
        is_output = isinstance(argument, Out)
        if is_output:
            data.fill_(torch.nan if dtype.is_floating_point else -1)
        elif callable(argument.fill):
            data.copy_(argument.fill(case.sizes, torch.Generator().manual_seed(seed)))
        else:
            data.normal_(generator=generator)
        buffers[name] = Buffer(name, data, data, is_output, data)
    return Run(exercise, case, buffers, numbers)


def _by_name(run: Run) -> dict:
    return {
        n: run.buffers[n].view if n in run.buffers else run.numbers[n]
        for n in run.exercise.arguments
        if n not in run.outputs
    }


def wrong(run: Run) -> str | None:
    """How many elements of the outputs are wrong, compared with the float64 reference where the arrays are."""
    import torch

    inputs = {n: v.double() if isinstance(v, torch.Tensor) else v for n, v in _by_name(run).items()}
    expected = run.exercise.expected(inputs)
    scale = magnitude(run.exercise, inputs, expected)
    for name, b in run.outputs.items():
        y = expected[name]
        limit = run.exercise.contract.tolerance(y, scale[name], run.case.sizes, run.exercise.dtype(run.case, name))
        bad = int(mismatches(b.view.double(), y, limit, y.to(b.view.dtype).double()).sum())
        if bad:
            return f"{bad} of {y.numel()} elements of {name}"
    return None
