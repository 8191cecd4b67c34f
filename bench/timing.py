"""How far to trust the course's times, on the GPU at hand: against themselves, other tools, and the roofline.

    python -m bench.timing [--json FILE] [--pairs N] [--no-ncu]

1. Five kernels by `lab.benchmark`, from an L2 full of clean lines, by `triton.testing.do_bench`, and by Nsight Compute.
2. Eight kernels of the course: the roofline's prediction from their ledgers beside their times.
3. `lab.benchmark` against itself: one kernel measured again and again, and how many neighbours agree within 1 %.
"""

import argparse
import csv
import io
import itertools
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.machine import present, versions
from grader.course.solutions import load, solution_text
from labutils import exercises
from labutils.gpu import machine
from labutils.gpu.roofline import Ledger, Roof
from labutils.timing import benchmark
from labutils.timing import ceilings as roofs
from labutils.timing.measure import measure, versus
from labutils.timing.stopwatch import Stopwatch

AGREE, PREDICTED = 0.01, 0.15
NCU_CALLS = 7
COURSE = (
    "06_elementwise_triton/vector_add",
    "06_elementwise_triton/gelu",
    "06_elementwise_triton/gelu_backward",
    "06_elementwise_triton/bias_scale",
    "07_elementwise_cuda/gelu",
    "08_coalescing/transpose",
    "10_warp_reduction/row_sum",
    "10_warp_reduction/sum_v6",
)


def kernels() -> dict[str, tuple[Callable, tuple, float]]:
    """Name: function, arguments, bytes that it must move. Each is one launch, or two for the sum."""
    import torch

    def vector(n, dtype=torch.float32):
        return torch.randn(n, device="cuda", dtype=dtype)

    n, m = 2**27, 4096
    a, b = vector((m, m), torch.float16), vector((m, m), torch.float16)
    return {
        "copy": (lambda y, x: y.copy_(x), (vector(n), vector(n)), 8 * n),
        "add": (lambda x, y, out: torch.add(x, y, out=out), (vector(n), vector(n), vector(n)), 12 * n),
        "softmax": (lambda x: torch.softmax(x, -1), (vector((m, 2 * m)),), 16 * m * m),
        "sum": (torch.sum, (vector(2 * n),), 8 * n),
        "matmul": (lambda a, b, c: torch.mm(a, b, out=c), (a, b, torch.empty_like(a)), 6 * m * m),
    }


class CleanL2(machine.GPU):
    """Always flushes by reading: what lies in the L2 need not be written back while the kernel runs."""

    def flush(self, clean: bool = True) -> None:
        super().flush(clean=True)


# --- against itself ---------------------------------------------------------------------------------------------


def against_itself(pairs: int) -> dict:
    fn, arguments, _ = kernels()["add"]
    arguments = tuple(x[: 2**25].clone() for x in arguments)
    gpu = machine.GPU()
    once = [Stopwatch(gpu).take_turns({"one": [lambda: fn(*arguments)]})["one"].median for _ in range(pairs + 1)]
    differences = [abs(first / second - 1) for first, second in itertools.pairwise(once)]
    turns = [versus(arguments, gpu, a=fn, b=fn).times("b") for _ in range(max(2, pairs // 10))]
    return {
        "pairs": pairs,
        "agree": sum(d <= AGREE for d in differences),
        "median_difference": statistics.median(differences),
        "largest_difference": max(differences),
        "in_turns": len(turns),
        "in_turns_agree": sum(abs(r.value - 1) <= AGREE for r in turns),
        "in_turns_interval_holds_1": sum(r.low <= 1 <= r.high for r in turns),
    }


# --- against other tools ----------------------------------------------------------------------------------------


def against_others(ncu: bool) -> list[dict]:
    import triton.testing

    clean, rows = CleanL2(), []
    for name, (fn, arguments, size) in kernels().items():
        ours = measure(fn, *arguments, bytes=size)
        row = {
            "kernel": name,
            "us": ours.median * 1e6,
            "hot_us": ours.hot.median * 1e6,
            "clean_us": measure(fn, *arguments, machine=clean).median * 1e6,
            "do_bench_us": 1e3 * triton.testing.do_bench(
                lambda f=fn, a=arguments: f(*a), warmup=100, rep=300, return_mode="median"
            ),
        }  # fmt: skip
        row["ncu_us"] = by_ncu(name) if ncu else "not asked for"
        rows.append(row)
        print("   ", " ".join(_cell(v) for v in row.values()), flush=True)
    return rows


def _cell(value) -> str:
    return f"{value:>10.1f}" if isinstance(value, float) else f"{value:>10}"


def by_ncu(name: str) -> float | str:
    """Microseconds of one call by Nsight Compute, cache flushed, clocks left alone; or why there is no such figure."""
    tool = shutil.which("ncu") or shutil.which("ncu", path="/usr/local/cuda/bin")
    if tool is None:
        return "no ncu here"
    command = [tool, "--csv", "--profile-from-start", "off", "--clock-control", "none", "--cache-control", "all",
               "--metrics", "gpu__time_duration.sum", sys.executable, "-m", "bench.timing", "--one", name]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    except subprocess.TimeoutExpired:
        return "ncu hung"
    found = nanoseconds(done.stdout)
    if not found:
        said = [line for line in done.stdout.splitlines() if "ERR" in line or "error" in line.lower()]
        return (said or ["ncu saw nothing"])[0][:60]
    # the same kernels in each call: the typical call is the sum of their medians
    per_call = max(1, len(found) // NCU_CALLS)
    return sum(statistics.median(found[k::per_call]) for k in range(per_call)) / 1e3


def nanoseconds(text: str) -> list[float]:
    """Durations of the launches, in order, from ncu's CSV."""
    lines = text.splitlines()
    begin = next((k for k, line in enumerate(lines) if line.startswith('"ID"')), None)
    if begin is None:
        return []
    scale = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6}
    rows = csv.DictReader(io.StringIO("\n".join(lines[begin:])))
    return [
        float(row["Metric Value"].replace(",", "")) * scale[row["Metric Unit"]]
        for row in rows
        if row.get("Metric Name") == "gpu__time_duration.sum" and row.get("Metric Unit") in scale
    ]


def one(name: str) -> None:
    """Under ncu: a few calls to compile and warm up, then those that are measured."""
    import torch

    fn, arguments, _ = kernels()[name]
    for _ in range(20):
        fn(*arguments)
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    for _ in range(NCU_CALLS):
        fn(*arguments)
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


# --- against the roofline ---------------------------------------------------------------------------------------


def against_roofline(ceilings: roofs.Ceilings) -> list[dict]:
    """Ledgers under measured roofs: the copy's bandwidth, or the read's for a kernel that hardly writes."""
    rows, modules = [], {}
    peak = ceilings.tflops["fp32"] * 1e12
    with tempfile.TemporaryDirectory() as folder:
        for task in map(exercises.get, COURSE):
            if task.unit not in modules:
                path = Path(folder, f"{task.unit}.py")
                path.write_text(solution_text(task.unit), encoding="utf-8")
                modules[task.unit] = load(str(path))
            result = benchmark.measure(task, getattr(modules[task.unit], task.entry))
            if result is None:
                rows.append({"kernel": task.id, "us": None})
                continue
            work = Ledger({"in": result.cost.read}, {"out": result.cost.written}, result.cost.flops)
            bandwidth = ceilings.read_gbs if work.written < work.read / 10 else ceilings.copy_gbs
            least = Roof("measured", peak, bandwidth * 1e9).predict(work)
            took = result.samples["yours"].median
            rows.append({"kernel": task.id, "us": took * 1e6, "predicted_us": least.seconds * 1e6,
                         "bound": least.bound, "ratio": took / least.seconds})  # fmt: skip
            print(f"    {task.id:38} {took * 1e6:9.1f} {least.seconds * 1e6:9.1f} µs {took / least.seconds:7.3f}")
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.timing", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--pairs", type=int, default=100, help="measurements against themselves")
    parser.add_argument("--no-ncu", action="store_true", help="leave Nsight Compute out")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        one(arguments.one)
        return 0
    if not present():
        return 0
    ceilings = roofs.measured()
    print(ceilings, end="\n\n")
    print("1. Five kernels by lab.benchmark (cold, hot, clean L2), do_bench, Nsight Compute, in µs:")
    others = against_others(not arguments.no_ncu)
    print("\n2. Eight kernels of the course, measured and predicted:")
    predicted = against_roofline(ceilings)
    good = sum(abs(r["ratio"] - 1) <= PREDICTED for r in predicted if r["us"])
    print(f"    within 15 %: {good} of {len(predicted)}")
    print(f"\n3. lab.benchmark against itself, {arguments.pairs} pairs:")
    itself = against_itself(arguments.pairs)
    print(
        f"    within 1 %: {itself['agree']} of {itself['pairs']}, median difference {itself['median_difference']:.2%}"
    )
    print(f"    in turns: {itself['in_turns_agree']} of {itself['in_turns']} within 1 %; the interval holds 1 in "
          f"{itself['in_turns_interval_holds_1']}")  # fmt: skip
    if arguments.json:
        found = {"versions": versions(), "ceilings": vars(ceilings), "others": others, "roofline": predicted,
                 "itself": itself}  # fmt: skip
        arguments.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
