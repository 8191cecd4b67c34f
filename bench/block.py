"""The loss of unit 24 beside PyTorch: time and peak memory of loss and dx, for a vocabulary of 128 256 words.

python -m bench.block [--json FILE]
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from pathlib import Path

from bench.common import solution
from bench.machine import present, versions
from bench.precompile import stopwatch
from labutils.lessons import blocks

UNIT = "24_block"
MEMORY_GOAL, TIME_GOAL = 0.25, 1.1
"""Peak memory and time, relative to PyTorch's eager code: at most."""


def measure() -> dict:
    import torch

    loss = solution(UNIT).linear_cross_entropy
    sizes = blocks.ROWS, blocks.WIDTH, blocks.VOCABULARY
    data = blocks.loss_data(*sizes)
    x, w, targets, found, dx = data
    found_error = _errors(loss, data)
    print(f"largest differences from PyTorch: loss {found_error[0]:.2e}, dx {found_error[1]:.2e} of its largest value")
    rings = {"ours": [functools.partial(loss, *data)], "eager": [functools.partial(blocks.eager_loss, x, w, targets)]}
    seconds = {name: sample.median for name, sample in stopwatch().take_turns(rings).items()}
    parts = _parts(loss, data)
    del data, x, w, targets, found, dx, rings
    torch.cuda.empty_cache()
    peaks = blocks.loss_peaks(loss, *sizes)
    flops = 4 * sizes[0] * sizes[1] * sizes[2]
    for name, taken in seconds.items():
        print(f"  {name:8} {1e3 * taken:7.2f} ms, {flops / taken / 1e12:4.0f} TFLOP/s")
    for name, peak in peaks.items():
        print(f"  {name:10} {peak / 1e6:8,.0f} MB")
    for name, ms in parts.items():
        print(f"  {name:20} {ms:7.2f} ms")
    ratios = {"time": seconds["ours"] / seconds["eager"], "memory": peaks["in chunks"] / peaks["PyTorch"]}
    for (name, ratio), goal in zip(ratios.items(), (TIME_GOAL, MEMORY_GOAL), strict=True):
        print(f"  {'reached' if ratio <= goal else 'MISSED '} {name}: {ratio:.3f} of PyTorch's, goal {goal}")
    return {"seconds": seconds, "peak_bytes": peaks, "ratios": ratios, "parts_ms": parts, "errors": found_error}


def _errors(loss, data) -> list[float]:
    """Largest difference of the loss, and of dx relative to its largest element."""
    from labutils.lessons.blocks import eager_loss

    x, w, targets, found, dx = data
    loss(*data)
    expected, gradient = eager_loss(x, w, targets)
    of_dx = (dx.float() - gradient.float()).abs().max() / gradient.float().abs().max()
    return [float((found - expected.float()).abs()), float(of_dx)]


def _parts(loss, data) -> dict[str, float]:
    """Milliseconds of each kernel in one call."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        loss(*data)
        torch.cuda.synchronize()
    totals = {e.key: e.device_time_total / 1e3 for e in profile.key_averages()}
    return dict(sorted(totals.items(), key=lambda item: -item[1])[:6])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.block", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    if not present():
        return 0
    found = {"loss": measure()}
    if arguments.json:
        arguments.json.write_text(json.dumps({"versions": versions(), **found}, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
