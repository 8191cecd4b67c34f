"""CUDA graphs in unit 21: a step's tape without a GPU, and its time as a graph with one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from .. import environment
from ..gpu import device
from ..gpu.tape import example, tapes

__all__ = ["captured", "race", "tapes"]


def _arguments(rows: int, columns: int, seed: int = 1) -> dict:
    return {name: x.cuda() for name, x in example(rows, columns, seed, True).items()}


def captured(step: Callable, arguments: dict):
    """The CUDA graph of `step(*arguments)`. Two calls on a side stream come first: libraries allocate then."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(2):
            step(*arguments.values())
    torch.cuda.current_stream().wait_stream(side)
    graph, generator = torch.cuda.CUDAGraph(), torch.cuda.default_generators[torch.cuda.current_device()]
    kept = generator.clone_state()
    try:
        with torch.no_grad(), torch.cuda.graph(graph):
            step(*arguments.values())
    except Exception:
        # A capture that fails leaves PyTorch's generator in capture mode, and each later torch.randn would raise.
        generator.graphsafe_set_state(kept)
        raise
    return graph


def _us(call: Callable, times: int = 300) -> float:
    """µs per call in a loop, until all are done; the median of five loops."""
    import torch

    found = []
    for _ in range(5):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(times):
            call()
        torch.cuda.synchronize()
        found.append(1e6 * (time.perf_counter() - begin) / times)
    return statistics.median(found)


def race(wobbly: Callable, steady: Callable, rows: int = 64, columns: int = 256) -> dict[str, float] | None:
    """µs per step: original, fixed, and fixed as a graph, whose result is checked first. Needs a GPU."""
    if environment.grading_in_progress():
        return None
    if not device.has_gpu():
        print("No GPU here: the tape of section 3 shows what a graph would contain.")
        return None
    import torch

    data = _arguments(rows, columns)
    graph = captured(steady, data)
    fresh = _arguments(rows, columns, 5)
    data["x"].copy_(fresh["x"])
    data["running"].copy_(fresh["running"])
    graph.replay()
    expected, _ = wobbly(fresh["x"], data["weight"], fresh["running"])
    right = torch.allclose(data["out"], expected, rtol=1e-4, atol=1e-5)
    x, weight, running, _ = data.values()
    found = {
        "original": _us(lambda: wobbly(x, weight, running)),
        "fixed, eager": _us(lambda: steady(*data.values())),
        "fixed, graph": _us(graph.replay),
    }
    print(f"the graph's result on fresh input is {'right' if right else 'WRONG'}")
    for name, us in found.items():
        print(f"  {name:18} {us:7.1f} µs per step {found['original'] / us:5.1f} ×")
    return found
