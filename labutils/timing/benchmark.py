"""Benchmarking an exercise: the learner's function, the library and a plain copy, interleaved, on the same data.

The copy moves as many bytes as the exercise must: it measures the peak bandwidth of a memory-bound kernel on this GPU.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass, field

from ..check.check import _namespace
from ..check.compare import magnitude, mismatches
from ..check.evaluate import callable_problem, evaluate
from ..gpu import device
from ..gpu.roofline import Roof, units
from ..spec import traffic
from ..spec.exercise import Case, Cost, KernelExercise, Number, Out
from ..spec.inputs import Buffer, Run, make_run, torch_dtype
from .kernel_names import UNKNOWN
from .profiling import Profile, by_torch
from .stopwatch import SHORT_S, Ratio, Sample, Stopwatch, ratio

RING_MIN = 2

BAR = 24
"""Characters of a bar that reaches what bounds the exercise."""


@dataclass(frozen=True)
class Benchmark:
    """Measured side by side in one run. `samples` holds "yours", "library" (where there is one) and "copy".

    `roof` is the GPU's datasheet for the exercise's precision, None where the catalogue does not know the GPU.
    `library` names whose kernels the library's function ran; `tokens` says how many a call decodes.
    """

    exercise: str
    gpu: str
    sizes: dict[str, int]
    cost: Cost
    samples: dict[str, Sample] = field(repr=False)
    roof: Roof | None = None
    library: str = "the library"
    tokens: int | None = None

    def gbs(self, name: str) -> float:
        """Compulsory bytes over median time, in 10^9 bytes/s."""
        return self.cost.bytes / self.samples[name].median / 1e9

    def tflops(self, name: str) -> float:
        """The exercise's FLOPs over median time, in 10^12 FLOP/s."""
        return self.cost.flops / self.samples[name].median / 1e12

    def of_peak(self, name: str = "yours") -> float | None:
        """Share of the GPU's peak by datasheet."""
        return self.tflops(name) * 1e12 / self.roof.flops if self.roof else None

    def of_copy(self, name: str = "yours") -> Ratio:
        """Fraction of the copy's bandwidth: the copy's time over this one's."""
        return ratio(self.samples["copy"], self.samples[name])

    def speedup(self) -> Ratio | None:
        """How many times as fast as the library."""
        return ratio(self.samples["library"], self.samples["yours"]) if "library" in self.samples else None

    @property
    def compute_bound(self) -> bool:
        """Does the arithmetic take longer than the memory at least? Where no peak is known, memory is assumed."""
        return self.roof is not None and self.roof.bound(self.cost.intensity) == "compute"

    def share(self, name: str) -> float:
        """How near something comes to what bounds the exercise: the peak, or the copy's bandwidth."""
        return self.of_peak(name) if self.compute_bound else self.of_copy(name).value

    def to_json(self) -> dict:
        speedup = self.speedup()
        rows = {
            n: {"us": s.median * 1e6, "p20_us": s.quantile(0.2) * 1e6, "p80_us": s.quantile(0.8) * 1e6,
                "gbs": self.gbs(n), "tflops": self.tflops(n), "samples": len(s.seconds)}
            for n, s in self.samples.items()
        }  # fmt: skip
        return {
            "exercise": self.exercise,
            "gpu": self.gpu,
            "sizes": self.sizes,
            "rows": rows,
            "bound": "compute" if self.compute_bound else "memory",
            "library": self.library,
            "of_copy": vars(self.of_copy()),
            "of_peak": self.of_peak(),
            "speedup": vars(speedup) if speedup else None,
        }

    def __repr__(self) -> str:
        sizes = ", ".join(f"{k} = {v}" for k, v in self.sizes.items())
        work = units(self.cost.flops, "FLOP") if self.compute_bound else f"{self.cost.bytes / 1e6:,.0f} MB must move"
        lines = [f"{self.exercise}, {sizes}, on {self.gpu}: {work}"]
        unit, of = ("TFLOP/s", "of peak") if self.compute_bound else ("GB/s", "of copy")
        wide = max(len(self._label(name)) for name in self._shown)
        tokens = f"{'tokens/s':>12}" if self.tokens else ""
        lines.append(f"  {'':{wide}} {'median':>11} {'p20 … p80':>23} {unit:>8}{tokens} {of:>8}")
        for name in self._shown:
            s, share = self.samples[name], self.share(name)
            spread = f"{s.quantile(0.2) * 1e6:.1f} … {s.quantile(0.8) * 1e6:.1f} µs"
            rate = self.tflops(name) if self.compute_bound else self.gbs(name)
            decoded = (f"{self.tokens / s.median:12,.0f}" if name != "copy" else " " * 12) if self.tokens else ""
            lines.append(
                f"  {self._label(name):{wide}} {s.median * 1e6:8.1f} µs {spread:>23} {rate:8.4g}{decoded} {share:8.1%}"
                f"  {'█' * min(BAR, round(BAR * share))}"
            )
        if speedup := self.speedup():
            span = f"{speedup.low:.2f} … {speedup.high:.2f}, 95 % interval"
            lines.append(f"  {speedup.value:.2f} × the speed of {self.library} ({span})")
        lines.append(f"  {self.meaning}")
        if self.samples["yours"].median < SHORT_S:
            lines.append("  Under 20 µs: too short to judge; take a larger size.")
        return "\n".join(lines)

    @property
    def _shown(self) -> list[str]:
        """A copy does no arithmetic: it says nothing about a kernel that computes."""
        return [name for name in self.samples if name != "copy" or not self.compute_bound]

    def _label(self, name: str) -> str:
        return self.library if name == "library" else name

    @property
    def meaning(self) -> str:
        """What the share says, in a sentence."""
        share = self.share("yours")
        if self.compute_bound:
            theirs = f"; {self.library} reaches {self.share('library'):.0%}" if "library" in self.samples else ""
            return (
                f"Compute-bound: {share:.0%} of the {self.roof.flops / 1e12:.4g} TFLOP/s of {self.roof.name}{theirs}."
            )
        more = f", and a call decodes {self.tokens} token{'s' * (self.tokens != 1)}" if self.tokens else ""
        return (
            f"Memory-bound{more}: the bytes that must move, over the time, are {share:.0%} of the bandwidth of a plain "
            "copy, the most to expect."
        )

    def plot(self):
        """Bars: the share of the peak, or of a copy's bandwidth, that each one reaches."""
        from .. import plots

        names = self._shown
        fig = plots.figure(7, 0.9 + 0.4 * len(names))
        axis = fig.subplots()
        shares = [100 * self.share(name) for name in names]
        axis.barh(range(len(names)), shares, color=plots.PALETTE[: len(names)], edgecolor="black", lw=0.5)
        axis.set_yticks(range(len(names)), [self._label(name) for name in names])
        axis.invert_yaxis()
        axis.axvline(100, color="black", lw=1, linestyle="--")
        whole = "peak by datasheet" if self.compute_bound else "bandwidth of a plain copy"
        axis.set(xlabel=f"% of the {whole}", title=f"{self.exercise} on {self.gpu}")
        said = ", ".join(f"{self._label(name)} {share:.0f} %" for name, share in zip(names, shares, strict=True))
        fig.alt = f"{self.exercise} on {self.gpu}, share of the {whole}: {said}."
        return fig

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, str]:
        from ..plots.base import Unavailable

        text = repr(self)
        try:
            picture = self.plot().to_html()
        except Unavailable:
            return {"text/plain": text}
        return {"text/plain": text, "text/html": f"<pre>{html.escape(text)}</pre>{picture}"}


def benchmark(exercise_id: str, fn: Callable | None = None) -> Benchmark | None:
    """Time `fn` (by default the notebook's function). Prints why and returns None where there is nothing to time."""
    from .. import exercises  # not above: what the judge lets a submission see has no exercises

    exercise = exercises.get(exercise_id)
    fn = fn or _namespace().get(exercise.entry)
    if problem := callable_problem(exercise, fn):
        print(problem.symptom)
        return None
    if not device.runs(exercise.only):
        why = "no GPU here" if not device.has_gpu() else f"this exercise runs on sm_{exercise.only} only"
        print(f"{exercise.id}: {why}, so no times. {_counts(exercise, fn)}")
        return None
    return measure(exercise, fn)


def _counts(exercise: KernelExercise, fn) -> str:
    """What is known without timing: the bytes that lanes request and those of their sectors, beside what must move."""
    verdict = evaluate(exercise, fn)
    if verdict.unfilled or not verdict.counts:
        return "Fill the kernel first; then its bytes are counted here."
    c = verdict.counts
    least = c["compulsory_bytes"]
    counted = (
        f"Counted instead ({c['case']}): at least {least:,} bytes must move. Lanes request "
        f"{traffic.requested(c):,} bytes ({traffic.requested(c) / least:.2f} ×), in sectors of "
        f"{traffic.in_sectors(c):,.0f} bytes ({traffic.in_sectors(c) / least:.2f} ×)."
    )
    if exercise.language == "cuda":
        accesses = (
            f"{c.get('global_load_requests', 0):,} load requests of warps with "
            f"{c.get('global_load_sectors', 0):,} sectors, {c.get('global_store_requests', 0):,} store requests with "
            f"{c.get('global_store_sectors', 0):,}."
        )
    else:
        accesses = (
            f"{c['programs']} programs, {c['loads']} loads, {c['stores']} stores, {c['masked_lanes']} lanes masked off."
        )
    return f"{counted} {accesses}"


def measure(exercise: KernelExercise, fn: Callable, sizes: dict[str, int] | None = None) -> Benchmark | None:
    """Time on the GPU at the exercise's benchmark sizes, after checking the result at that very size."""
    import torch

    case = Case("benchmark", dict(sizes or exercise.bench))
    cost = exercise.cost(case.sizes, torch_dtype(exercise.dtype(case)).itemsize)
    watch = Stopwatch()
    count = max(RING_MIN, -(-4 * watch.l2_bytes // cost.bytes))
    runs = [draw(exercise, case, seed) for seed in range(count)]
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
    return Benchmark(
        exercise.id,
        torch.cuda.get_device_name(),
        dict(case.sizes),
        cost,
        samples,
        roof(exercise, case),
        whose(competitors["library"][0]) if "library" in competitors else "",
        exercise.tokens(case.sizes) if exercise.tokens else None,
    )


def roof(exercise: KernelExercise, case: Case) -> Roof | None:
    """The datasheet of this GPU in the exercise's precision; None for a GPU that is not in the catalogue."""
    dtype, gpu = exercise.dtype(case), device.current()
    precision = PRECISIONS.get(dtype, "fp32")
    if dtype == "float32" and exercise.contract.operands == "tf32":
        precision = "tf32"
    try:
        return Roof.of(gpu, precision) if gpu else None
    except ValueError:
        return None


PRECISIONS = {"float16": "fp16", "bfloat16": "bf16", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8"}
"""Tensor-core peaks by element type."""


def whose(call: Callable[[], object]) -> str:
    """Whose kernel takes most of a call's time: "cuBLAS", "FlashAttention-2"; PyTorch where the name does not say."""
    try:
        rows = Profile("", "", tuple(by_torch(call, ()))).rows
    except RuntimeError:  # no profiler here
        rows = []
    return rows[0].kernel.library if rows and rows[0].kernel.library != UNKNOWN else "PyTorch"


def draw(exercise: KernelExercise, case: Case, seed: int) -> Run:
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
