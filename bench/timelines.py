"""Timelines of one step on a GPU, as tuples: kernels, copies, and the host's calls that queue or wait for them.

    python -m bench.timelines --json FILE

Eager and compiled, small and large, with a copy or a synchronization where it hurts. PyTorch's profiler records them;
an event becomes [begin, end, engine, name, correlation], times in µs after the first event, engine one of "kernel",
"copy", "host". The host's call that queued a kernel or a copy has the same correlation.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.machine import present, versions

ENGINES = {"kernel": "kernel", "gpu_memset": "kernel", "gpu_memcpy": "copy", "cuda_runtime": "host",
           "cuda_driver": "host"}  # fmt: skip
HOST = ("Launch", "Memcpy", "Memset", "Synchronize")
"""What a host's call has in its name if it is kept: it queues work or waits for it."""


def events(trace: dict) -> list[list]:
    """[begin, end, engine, name, correlation] of a Chrome trace by PyTorch's profiler, ordered by begin."""
    kept = []
    for event in trace["traceEvents"]:
        engine = ENGINES.get(event.get("cat"))
        if engine is None or event.get("ph") != "X":
            continue
        name = event["name"]
        if engine == "host" and not any(word in name for word in HOST):
            continue
        begin, us = float(event["ts"]), float(event.get("dur", 0))
        kept.append([begin, begin + us, engine, name[:60], event.get("args", {}).get("correlation", 0)])
    kept.sort(key=lambda e: (e[0], e[1]))
    first = kept[0][0] if kept else 0.0
    return [[round(begin - first, 3), round(end - first, 3), *rest] for begin, end, *rest in kept]


def traced(step: Callable[[], object], warm: int = 5) -> list[list]:
    """The events of one call of `step`, after `warm` others."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    for _ in range(warm):
        step()
    torch.cuda.synchronize()
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities, acc_events=True):  # the first use of the profiler is slow
        step()
        torch.cuda.synchronize()
    with profile(activities=activities, acc_events=True) as seen:
        step()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        seen.export_chrome_trace(str(path))
        return events(json.loads(path.read_text(encoding="utf-8")))


# --- steps ------------------------------------------------------------------------------------------------------------


def block(width: int):
    import torch

    layers = torch.nn
    return layers.Sequential(
        layers.LayerNorm(width), layers.Linear(width, 2 * width), layers.GELU(), layers.Linear(2 * width, width)
    ).to("cuda", torch.float16)


def inference(width: int, rows: int, compiled: bool = False, layers: int = 3):
    """A few residual blocks, forward only."""
    import torch

    blocks = [block(width) for _ in range(layers)]
    x = torch.randn(rows, width, device="cuda", dtype=torch.float16)

    @torch.no_grad()
    def step():
        y = x
        for one in blocks:
            y = y + one(y)
        return y

    return torch.compile(step) if compiled else step


def training(width: int, rows: int):
    """Forward, backward and one update."""
    import torch

    model = block(width)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    x = torch.randn(rows, width, device="cuda", dtype=torch.float16)

    def step():
        loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def with_item(width: int, rows: int):
    """A synchronization after every layer: the host reads a number."""
    import torch

    model = block(width)
    x = torch.randn(rows, width, device="cuda", dtype=torch.float16)

    @torch.no_grad()
    def step():
        y, norms = x, []
        for layer in model:
            y = layer(y)
            norms.append(y.amax().item())
        return norms

    return step


def with_copy(width: int, rows: int, pinned: bool, pieces: int = 2):
    """Each piece is copied to the GPU, computed, and copied back."""
    import torch

    model = block(width)
    inputs = [torch.randn(rows, width).half() for _ in range(pieces)]
    if pinned:
        inputs = [t.pin_memory() for t in inputs]

    @torch.no_grad()
    def step():
        done = []
        for piece in inputs:
            y = model(piece.to("cuda", non_blocking=pinned))
            done.append(y.to("cpu", non_blocking=pinned))
        torch.cuda.synchronize()
        return done

    return step


def overlapped(width: int, rows: int, pieces: int = 3):
    """Copies on a second stream, one piece ahead of the kernels."""
    import torch

    model = block(width)
    inputs = [torch.randn(rows, width).half().pin_memory() for _ in range(pieces)]
    buffers = [torch.empty(rows, width, device="cuda", dtype=torch.float16) for _ in range(pieces)]
    copies = torch.cuda.Stream()

    @torch.no_grad()
    def step():
        ready = []
        copies.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(copies):
            for piece, buffer in zip(inputs, buffers, strict=True):
                buffer.copy_(piece, non_blocking=True)
                ready.append(torch.cuda.Event())
                ready[-1].record()
        for buffer, event in zip(buffers, ready, strict=True):
            event.wait()
            model(buffer)

    return step


def graphed(width: int, rows: int):
    import torch

    step = inference(width, rows)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


STEPS: dict[str, Callable[[], Callable]] = {
    "eager, small": lambda: inference(256, 64),
    "eager, large": lambda: inference(4096, 8192),
    "eager, middle": lambda: inference(1024, 2048),
    "training, small": lambda: training(512, 128),
    "training, large": lambda: training(4096, 8192),
    "item after each layer": lambda: with_item(1024, 1024),
    "item after each layer, large": lambda: with_item(4096, 8192),
    "pageable copies": lambda: with_copy(1024, 4096, pinned=False),
    "pinned copies, one stream": lambda: with_copy(1024, 4096, pinned=True),
    "pinned copies, one stream, large": lambda: with_copy(2048, 16384, pinned=True),
    "copies on a second stream": lambda: overlapped(2048, 8192),
    "graph, small": lambda: graphed(256, 64),
    "compiled, small": lambda: inference(256, 64, compiled=True),
    "compiled, large": lambda: inference(4096, 8192, compiled=True),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.timelines", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if not present():
        return 0
    import torch

    found = {"machine": versions(), "timelines": [], "failed": []}
    for name, make in STEPS.items():
        try:
            seen = traced(make())
            found["timelines"].append({"name": name, "events": seen})
            print(f"{name}: {len(seen)} events, {seen[-1][1]:.0f} µs", flush=True)
        except Exception as e:  # a step that this machine cannot run is left out
            found["failed"].append({"name": name, "error": f"{type(e).__name__}: {str(e)[:200]}"})
            print(f"{name}: {type(e).__name__}: {str(e)[:200]}", flush=True)
        torch.cuda.empty_cache()
        if arguments.json:
            arguments.json.write_text(json.dumps(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
