"""Unit 24 beside PyTorch: the loss without logits (time and peak memory), and the block's forward pass (time).

python -m bench.block [--only loss|block] [--json FILE]

Loss and dx of 8192 rows for a vocabulary of 128 256 words; a block of Llama 3 8B for 8 × 2048 tokens, bf16. PyTorch is
eager and compiled with mode="max-autotune". Competitors take turns. Two to three minutes, most of them in the compiler.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.common import solution
from bench.machine import present, versions
from bench.precompile import stopwatch
from labutils.exercises import block_capstone
from labutils.lessons import blocks, capstone
from labutils.timing.stopwatch import ratio

MEMORY_GOAL, TIME_GOAL = 0.25, 1.1
"""Peak memory and time of the loss, relative to PyTorch's eager code: at most."""
SPEED_GOAL = capstone.GOAL
"""Speed of the block, relative to the faster of torch.compile's modes: at least."""
LARGEST_ERROR = 0.02
"""Largest difference of bf16 results, relative to the largest element."""
MODES = ("max-autotune-no-cudagraphs", "max-autotune")
DEVICE = "cuda"


def report(name: str, value: float, goal: float, at_most: bool) -> None:
    reached = value <= goal if at_most else value >= goal
    print(f"  {'reached' if reached else 'MISSED '} {name}: {value:.3f}, goal {goal}", flush=True)


def usable(calls: Mapping[str, Callable], error: Callable) -> dict[str, Callable]:
    """The calls that run and are right; a line for each of the others. `error(result)` is relative."""
    good = {}
    for name, call in calls.items():
        begin = time.perf_counter()
        try:
            off = error(call())
        except Exception as problem:  # the other competitors are worth their time
            print(f"  left out: {name}: {type(problem).__name__}: {str(problem)[:200]}")
            continue
        print(f"  {name:28} first call {time.perf_counter() - begin:5.1f} s, differs by {off:.1e}", flush=True)
        if off <= LARGEST_ERROR:
            good[name] = call
        else:
            print(f"  left out: {name}: differs by more than {LARGEST_ERROR}")
    return good


# --- the loss --------------------------------------------------------------------------------------------------------


def measure_loss(sizes: tuple[int, int, int] = (blocks.ROWS, blocks.WIDTH, blocks.VOCABULARY)) -> dict:
    """Time, peak memory and kernels of loss and dx."""
    import torch

    unit_loss = solution("24_loss").linear_cross_entropy
    result = _time_loss(unit_loss, sizes)
    torch.cuda.empty_cache()
    peaks = blocks.loss_peaks(unit_loss, *sizes)
    for name, peak in peaks.items():
        print(f"  {name:28} {peak / 1e6:8,.0f} MB")
    report("memory of PyTorch's", peaks["in chunks"] / peaks["PyTorch"], MEMORY_GOAL, at_most=True)
    return result | {"peak_bytes": peaks}


def _time_loss(unit_loss: Callable, sizes: tuple[int, int, int]) -> dict:
    """Its arrays are freed when it returns, before memory is measured."""
    import torch

    x, w, targets, loss, dx = data = blocks.loss_data(*sizes)
    expected, gradient = blocks.eager_loss(x, w, targets)
    forward = torch.compile(
        lambda x, w, targets: torch.nn.functional.cross_entropy(x @ w.T, targets), mode=MODES[0], dynamic=False
    )

    def ours():
        unit_loss(*data)
        return loss[0], dx

    def compiled():
        leaf = x.detach().requires_grad_()
        found = forward(leaf, w, targets.long())
        found.backward()
        return found.detach(), leaf.grad

    def error(result) -> float:
        return max(abs(float(result[0] / expected) - 1), capstone.differs(result[1], gradient))

    eager = functools.partial(blocks.eager_loss, x, w, targets)
    calls = usable({"ours": ours, "eager": eager, "torch.compile": compiled}, error)
    samples = stopwatch().take_turns({name: [call] for name, call in calls.items()})
    show(samples, 4 * sizes[0] * sizes[1] * sizes[2])
    if {"ours", "eager"} <= samples.keys():
        report("time of eager's", ratio(samples["ours"], samples["eager"]).value, TIME_GOAL, at_most=True)
    kernels = {name: parts(call) for name, call in calls.items()}
    return {"seconds": {n: s.median for n, s in samples.items()}, "parts_ms": kernels}


# --- the block -------------------------------------------------------------------------------------------------------


def measure_block(sizes: Mapping[str, int]) -> dict:
    """Time of the block's forward pass, and of each of its kernels."""
    import torch

    inputs = capstone.data(sizes, DEVICE)
    block = solution("24_capstone").block

    def ours():
        block(**inputs)
        return inputs["out"]

    with torch.no_grad():
        eager = capstone.compiled(inputs, None)
        expected = eager(inputs["x"]).clone()
        calls = {"ours": ours, "eager": functools.partial(eager, inputs["x"])}
        calls |= {f"torch.compile, {m}": functools.partial(capstone.compiled(inputs, m), inputs["x"]) for m in MODES}
        calls = usable(calls, lambda result: capstone.differs(result, expected))
        samples = stopwatch().take_turns({name: [call] for name, call in calls.items()})
        kernels = {name: parts(call) for name, call in calls.items()}
    show(samples, block_capstone.cost(sizes, 2).flops)
    for name, times in kernels.items():
        print(f"  {name}:")
        for kernel, ms in times.items():
            print(f"    {ms:8.3f} ms  {kernel[:90]}")
    result = {"seconds": {n: s.median for n, s in samples.items()}, "parts_ms": kernels}
    rivals = [sample for name, sample in samples.items() if name.startswith("torch.compile")]
    if "ours" in samples and rivals:
        fastest = min(rivals, key=lambda sample: sample.median)
        found = ratio(fastest, samples["ours"])
        result["speedup"] = {"value": found.value, "low": found.low, "high": found.high, "over": fastest.name}
        report(f"speedup over {fastest.name}", found.value, SPEED_GOAL, at_most=False)
    return result


# --- both ------------------------------------------------------------------------------------------------------------


def show(samples: Mapping, flops: float) -> None:
    for name, sample in samples.items():
        print(f"  {name:28} {1e3 * sample.median:8.3f} ms {flops / sample.median / 1e12:5.0f} TFLOP/s", flush=True)


def parts(call: Callable) -> dict[str, float]:
    """Milliseconds of each kernel in one call, the longest first."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True) as profile:
        call()
        torch.cuda.synchronize()
    totals = {e.key: e.device_time_total / 1e3 for e in profile.key_averages() if e.device_time_total}
    return dict(sorted(totals.items(), key=lambda item: -item[1])[:12])


PARTS = {
    "loss": measure_loss,
    "block": lambda: measure_block(block_capstone.sizes_of(**block_capstone.LLAMA)),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.block", description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PARTS, help="only this part")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    if not present():
        return 0
    import torch

    found = {}
    for name in [arguments.only] if arguments.only else list(PARTS):
        print(f"{name}:")
        try:
            found[name] = PARTS[name]()
        except Exception as problem:  # what was measured before is worth keeping
            print(f"  stopped: {type(problem).__name__}: {str(problem)[:300]}")
            found[name] = {"stopped": repr(problem)[:300]}
        torch.cuda.empty_cache()
        if arguments.json:
            arguments.json.write_text(json.dumps({"versions": versions(), **found}, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
