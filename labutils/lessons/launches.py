"""The cost of launches and page faults on this GPU: unit 21's measurements. Without a GPU, stored figures."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from .. import environment
from ..gpu import device

N, STEPS = 1 << 12, 100
"""Floats and updates of the chain: the kernels are shorter than their launches."""


def _seconds(call: Callable, times: int = 20) -> float:
    """Median seconds from a call on an idle GPU until it is done."""
    import torch

    taken = []
    for k in range(times + 3):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        if k >= 3:
            taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def _graph(calls: Callable):
    import torch

    calls()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        calls()
    return graph


def hundred_us(finish_times: Callable, chain: Callable) -> dict[str, float]:
    """µs of a hundred updates: predicted and measured, eager and as a graph; and in one kernel.

    The numbers of the prediction are measured on other runs: a launch from 200 and 400 launches, a kernel from graphs
    of 10 and 1100 nodes, what a graph costs from the one of 10.
    """
    import torch

    x = torch.randn(N, device="cuda")
    coef = torch.randn(STEPS, 2, device="cuda")
    out = torch.empty_like(x)
    pairs = [coef[k : k + 1] for k in range(STEPS)]

    def eager(count: int = STEPS):
        for k in range(count):
            chain(x, pairs[k % STEPS], out)

    eager(10)
    graphs = {count: _graph(lambda count=count: eager(count)) for count in (10, STEPS, 1100)}
    replay = {count: 1e6 * _seconds(graph.replay) for count, graph in graphs.items()}
    kernel = (replay[1100] - replay[10]) / 1090
    launch, measured = [], []
    for _ in range(9):  # in turns: the host's clock changes with time
        launch.append(1e6 * (_seconds(lambda: eager(400), 3) - _seconds(lambda: eager(200), 3)) / 200)
        measured.append(1e6 * _seconds(eager, 3))
    launch = statistics.median(launch)
    predicted = finish_times([kernel] * STEPS, launch, replay[10] - 10 * kernel, 0.0)
    return {
        "launch": launch,
        "kernel": kernel,
        "graph launch": replay[10] - 10 * kernel,
        "eager, predicted": predicted[0],
        "eager, measured": statistics.median(measured),
        "graph, predicted": predicted[1],
        "graph, measured": replay[STEPS],
        "one kernel": 1e6 * _seconds(lambda: chain(x, coef, out)),
    }


H200 = """100 updates of 4096 floats, measured on an NVIDIA H200 (torch 2.11, Triton 3.6):
  launch                 14.3 µs     from Python, through Triton
  kernel                  1.1 µs
  graph launch            7.8 µs
  eager, predicted     1434.3 µs
  eager, measured      1465.7 µs
  graph, predicted      116.9 µs
  graph, measured       116.3 µs
  one kernel             23.2 µs
Claim: "A launch takes 5 to 10 µs, and a graph replays all of them in under 10 µs."
Only the launch of the graph does. Its 100 nodes still take about 1 µs each, and a launch from Python takes longer."""
"""What `hundred` prints on an NVIDIA H200, and the claim that it settles."""


def hundred(finish_times: Callable, chain: Callable) -> None:
    """A hundred updates of 4096 floats: eager, as a graph, as one kernel; predicted and measured."""
    if environment.grading_in_progress():
        return
    if not device.has_gpu():
        print(H200)
        return
    found = hundred_us(finish_times, chain)
    print(f"{STEPS} updates of {N} floats on {device.current().name}")
    for name, us in found.items():
        print(f"  {name:18} {us:8.1f} µs")
    print(H200[H200.index("Claim") :])


# --- unified memory ------------------------------------------------------------------------------------------------

MEGABYTES = 64


class _Managed:
    """Managed memory: bytes for the host, and an array for PyTorch (`__cuda_array_interface__`)."""

    def __init__(self, count: int):
        import ctypes

        from cuda.bindings import runtime

        self._runtime = runtime
        error, self.pointer = runtime.cudaMallocManaged(count, runtime.cudaMemAttachGlobal)
        if error != runtime.cudaError_t.cudaSuccess:
            raise RuntimeError(f"cudaMallocManaged: {error.name}")
        self.count = count
        self._bytes = (ctypes.c_ubyte * count).from_address(self.pointer)
        self.__cuda_array_interface__ = {
            "shape": (count,), "typestr": "|u1", "data": (self.pointer, False), "version": 3, "strides": None,
        }  # fmt: skip

    def touch(self) -> None:
        """The host writes all of it."""
        import ctypes

        ctypes.memset(self.pointer, 1, self.count)

    def prefetch(self, gpu: int) -> None:
        runtime = self._runtime
        location = runtime.cudaMemLocation()
        location.type, location.id = runtime.cudaMemLocationType.cudaMemLocationTypeDevice, gpu
        try:
            (error,) = runtime.cudaMemPrefetchAsync(self.pointer, self.count, location, 0, 0)
        except TypeError:  # before CUDA 13
            (error,) = runtime.cudaMemPrefetchAsync(self.pointer, self.count, gpu, 0)
        if error != runtime.cudaError_t.cudaSuccess:
            raise RuntimeError(f"cudaMemPrefetchAsync: {error.name}")

    def free(self) -> None:
        self._runtime.cudaFree(self.pointer)


def managed_ms(megabytes: int = MEGABYTES) -> dict[str, float]:
    """Milliseconds for a kernel to read memory that the host has just written: faults, prefetch, already there."""
    import torch

    memory = _Managed(megabytes << 20)
    total = torch.empty((), dtype=torch.int64, device="cuda")
    found: dict[str, list[float]] = {"first touch": [], "prefetch, then read": [], "already there": []}

    def read() -> float:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        torch.sum(torch.as_tensor(memory, device="cuda"), 0, dtype=torch.int64, out=total)
        torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - begin)

    for _ in range(4):
        memory.touch()
        found["first touch"].append(read())
        found["already there"].append(read())
        memory.touch()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        memory.prefetch(torch.cuda.current_device())
        torch.cuda.synchronize()
        found["prefetch, then read"].append(1e3 * (time.perf_counter() - begin) + read())
    memory.free()
    return {name: statistics.median(times[1:]) for name, times in found.items()}


def managed() -> None:
    """Unified memory: a kernel that faults, one after a prefetch, and one whose pages are on the GPU."""
    if environment.grading_in_progress() or not device.has_gpu():
        return
    try:
        found = managed_ms()
    except (ImportError, RuntimeError) as e:
        print(f"unified memory cannot be measured here: {e}")
        return
    print(f"a kernel reads {MEGABYTES} MB that the host has just written")
    for name, ms in found.items():
        print(f"  {name:20} {ms:7.2f} ms")
