"""What the benchmarks by topic share: the solutions as modules, timings in turns, a table, variants for `--tune`."""

import argparse
import functools
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.machine import present, versions
from bench.precompile import SHARE, share_of, stopwatch
from grader.course.mutants import edited
from grader.course.solutions import load_text, solution_text
from labutils.timing.stopwatch import ratio

_folder = tempfile.TemporaryDirectory()


@functools.cache
def solution(unit: str, *changes: tuple[str, str]):
    """A unit's solution as a module; with `changes`, pairs of a text that it holds once and a new one, a variant."""
    return load_text(edited(solution_text(unit), changes), _folder.name)


class Table:
    """Rows of one benchmark, printed as they come and kept for the JSON file."""

    def __init__(self):
        self.rows: list[dict] = []
        self.watch = stopwatch()

    def compare(self, name: str, moved: int, rings: Mapping[str, Sequence[Callable]]) -> dict[str, float]:
        """Time all in turns beside a copy of `moved` bytes; print GB/s of these bytes. The first is ours."""
        rings = dict(rings) | {"copy": copies(moved)}
        samples = self.watch.take_turns(rings)
        ours = next(iter(samples.values()))
        print(f"{name}: {moved / 1e6:,.0f} MB")
        for who, sample in samples.items():
            times = ratio(sample, ours)
            said = (
                "" if sample is ours else f", ours is {times.value:.3f} × as fast ({times.low:.3f} … {times.high:.3f})"
            )
            rate, share = moved / sample.median / 1e9, samples["copy"].median / sample.median
            print(f"  {who:22} {sample.median * 1e6:9.1f} µs {rate:6.0f} GB/s {share:6.1%} of copy{said}", flush=True)
        seconds = {who: s.median for who, s in samples.items()}
        self.rows.append({"name": name, "bytes": moved, "seconds": seconds})
        return seconds

    def quick(self, fn: Callable, ring: Sequence[tuple], count: int = 21) -> float:
        """Median seconds of fn(*data), from a cold L2: enough to choose between variants."""
        import torch

        for data in ring:
            fn(*data)
        torch.cuda.synchronize()
        if SHARE:
            return 1.0
        self.watch.launch_s = host_seconds(lambda: fn(*ring[0]))
        torch.cuda.synchronize()
        events = [self.watch.once(lambda k=k: fn(*ring[k % len(ring)])) for k in range(count)]
        torch.cuda.synchronize()
        return statistics.median(a.elapsed_time(b) * 1e-3 for a, b in events)

    def tune(
        self, name: str, moved: int, variants: Mapping[str, Callable], ring: Sequence[tuple], best: int = 5
    ) -> str:
        """Time all variants quickly, print the best few and the worst; the name of the best."""
        times, failed = {}, {}
        for variant, fn in share_of(variants.items()):
            try:
                times[variant] = self.quick(fn, ring)
            except Exception as e:  # a variant that does not fit this GPU is a finding
                failed[variant] = f"{type(e).__name__}: {str(e).splitlines()[0][:90] if str(e) else ''}"
        order = sorted(times, key=times.__getitem__)
        print(f"{name}: {len(times)} variants, {len(failed)} failed")
        for variant in [*order[:best], *order[-1:]]:
            print(f"  {moved / times[variant] / 1e9:6.0f} GB/s  {variant}", flush=True)
        for variant, why in list(failed.items())[:3]:
            print(f"  failed  {variant}: {why}")
        self.rows.append({"name": name, "bytes": moved, "seconds": times, "failed": failed})
        return order[0] if order else ""


def run(module_doc: str, program: str, measure: Callable[[Table], None], tune: Callable[[Table], None]) -> int:
    """The command line of a topic: measure, or try variants; `--json` keeps the figures."""
    parser = argparse.ArgumentParser(prog=program, description=module_doc.splitlines()[0])
    parser.add_argument("--tune", action="store_true", help="time variants of the kernels, to choose their constants")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    if not present():
        return 0
    table = Table()
    try:
        (tune if arguments.tune else measure)(table)
    finally:
        if arguments.json:
            arguments.json.write_text(json.dumps({"versions": versions(), "rows": table.rows}, indent=1))
    return 0


# --- matrix products: units 14 to 16 ----------------------------------------------------------------------------------


def operands(M: int, N: int, K: int, by_columns: bool, count: int = 2):
    """Pairs of a and b on the GPU, b stored K × N or N × K, and one c."""
    import torch

    def normal(*shape):
        return torch.randn(shape, device="cuda", dtype=torch.float16)

    pairs = [(normal(M, K), normal(N, K).T if by_columns else normal(K, N)) for _ in range(count)]
    return pairs, torch.empty(M, N, device="cuda", dtype=torch.float16)


def check(name: str, call, a, b, c, relu: bool) -> str | None:
    """Why a result is wrong, or None: against cuBLAS with fp32 operands."""
    import torch

    c.fill_(torch.nan)
    call(a, b, c)
    expected = a[:512].float() @ b.float()
    expected = expected.clamp_min(0) if relu else expected
    limit = 2e-3 * expected.abs() + 4e-3 * math.sqrt(a.shape[1])
    bad = int((~((c[:512].float() - expected).abs() <= limit)).sum())
    return f"{name}: {bad} wrong elements" if bad or not torch.isfinite(c).all() else None


def turns(watch, M: int, N: int, K: int, by_columns: bool, calls: dict, relu=()) -> dict:
    """Median seconds of each call(a, b, c), in turns; a call that fails or is wrong is left out, with a word."""
    import torch

    pairs, c = operands(M, N, K, by_columns, 2 if M * N * K > 2**27 else 8)
    good = {}
    for name, call in calls.items():
        try:
            said = check(name, call, *pairs[0], c, name in relu)
        except Exception as problem:
            said = f"{name}: {type(problem).__name__}: {str(problem)[:100]}"
        if said:
            print(f"  left out: {said}")
        else:
            good[name] = [functools.partial(call, a, b, c) for a, b in pairs]
    taken = watch.take_turns(good)
    del pairs, c
    torch.cuda.empty_cache()
    return {name: sample.median for name, sample in taken.items()}


def quick(watch, calls: dict, flops: float, samples: int = 12) -> dict[str, float]:
    """TFLOP/s by the median of a few turns: enough to choose, not to report."""
    import torch

    for ring in calls.values():
        ring[0]()
    torch.cuda.synchronize()
    watch.launch_s = max(host_seconds(ring[0]) for ring in calls.values())
    events = {name: [] for name in calls}
    for turn in range(samples):
        for name in list(calls) if turn % 2 == 0 else list(calls)[::-1]:
            ring = calls[name]
            events[name].append(watch.once(ring[turn % len(ring)]))
    torch.cuda.synchronize()
    return {
        name: flops / (statistics.median(b.elapsed_time(e) for b, e in pairs) * 1e-3) / 1e12
        for name, pairs in events.items()
    }


# --- small things --------------------------------------------------------------------------------------------------


def copies(moved: int, device: str = "cuda") -> list[Callable]:
    """A ring of calls that move as many bytes: half of them are read, half written."""
    import torch

    half = [[torch.empty(moved // 2, dtype=torch.uint8, device=device) for _ in range(2)] for _ in range(2)]
    return [functools.partial(to.copy_, source) for to, source in half]


def wrong(what: str, got, expected, limit: float = 4e-3) -> str | None:
    """Why a result is wrong, or None: relative to 1 + |expected|."""
    error = ((got.double() - expected.double()).abs() / (1 + expected.double().abs())).max().item()
    return None if error < limit else f"{what} is off by {error:.2g}"


def largest_error(got, expected) -> float:
    """The largest difference, relative to the largest element."""
    return ((got.float() - expected.float()).abs().max() / expected.float().abs().max()).item()


def host_seconds(call: Callable) -> float:
    """What one call costs the host: the GPU is kept busy for as long while a sample is queued."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def geometric_mean(values: Sequence[float]) -> float:
    return statistics.geometric_mean(values) if values else math.nan


def fail(message: str) -> None:
    print(message)
    sys.exit(1)
