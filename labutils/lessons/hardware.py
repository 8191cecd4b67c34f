"""This GPU, measured: latency and bandwidth of every level of memory, clock, launch overhead.

    lab.hardware.figures()      measured here; without a GPU, a stored measurement of an H200
    lab.hardware.measure()      measured here, or DeviceMissing

The kernels are short CUDA C++ sources (`CHASE`, `READ`, `COPY`), which a lesson can print.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from .. import cuda, environment
from ..cuda.signature import convert
from ..gpu import device
from .hardware_kernels import CHASE, CLOCK, COPY, READ

STORED = Path(__file__).with_name("hardware_h200.json")

LEVELS = ("register", "shared", "L1", "L2", "HBM")
CLAIMED_CYCLES = {"register": 1, "shared": 20, "L1": 30, "L2": 200, "HBM": 400}
"""What popular course material says of every GPU."""


@dataclass(frozen=True)
class Figures:
    """Measured figures of one GPU; None if not measured. `source` says where and how.

    `occupancy` holds rows of (loads in flight per thread, occupancy, GB/s) of the throttled copy.
    """

    gpu: str
    source: str
    clock_mhz: float | None = None
    latency_cycles: dict[str, float | None] = field(default_factory=dict)
    bandwidth_gbs: dict[str, float | None] = field(default_factory=dict)
    fp32_tflops: float | None = None
    launch_us: dict[str, float | None] = field(default_factory=dict)
    clocks_mhz: dict[str, float | None] = field(default_factory=dict)
    occupancy: list[dict] = field(default_factory=list)

    def latency_ns(self, level: str) -> float | None:
        cycles = self.latency_cycles.get(level)
        return 1000 * cycles / self.clock_mhz if cycles and self.clock_mhz else None

    def to_json(self) -> dict:
        return asdict(self)

    def __repr__(self) -> str:
        lines = [f"{self.gpu} ({self.source})"]
        lines.append(f"  {'level':9} {'claimed':>9} {'measured':>9} {'latency':>9} {'bandwidth':>13}")
        for level in LEVELS:
            cycles, ns = self.latency_cycles.get(level), self.latency_ns(level)
            lines.append(
                f"  {level:9} {CLAIMED_CYCLES[level]:>5} cyc {_formatted(cycles, '.0f', ' cyc'):>9} "
                f"{_formatted(ns, '.0f', ' ns'):>9} {_formatted(self.bandwidth_gbs.get(level), ',.0f', ' GB/s'):>13}"
            )
        lines.append(f"  fp32, all SMs: {_formatted(self.fp32_tflops, '.1f', ' TFLOP/s')}")
        for what, rows, unit in (("launch", self.launch_us, " µs"), ("clock", self.clocks_mhz, " MHz")):
            values = "; ".join(f"{k} {_formatted(v, '.4g', unit)}" for k, v in rows.items())
            lines.append(f"  {what}: {values or 'not measured'}")
        return "\n".join(lines)


def _formatted(value: float | None, form: str, unit: str) -> str:
    return f"{value:{form}}{unit}" if value is not None else "?"


def stored() -> Figures:
    """What was measured on an H200; the file is written by `python -m bench.hardware --json`."""
    return Figures(**json.loads(STORED.read_text(encoding="utf-8")))


@cache
def figures() -> Figures:
    """Figures of this GPU, measured once (about 10 s); without a GPU and while grading, the stored ones."""
    if not device.has_gpu() or environment.grading_in_progress():
        return stored()
    return measure()


def measure(with_occupancy: bool = True) -> Figures:
    """Measure this GPU. Raises DeviceMissing without one."""
    gpu = device.requires((7, 0), "Measuring the hardware")
    import torch

    clock = _clock_mhz()
    tflops, registers = _multiply_add(gpu)
    return Figures(
        gpu=gpu.name,
        source=f"measured here, torch {torch.__version__}",
        clock_mhz=clock,
        latency_cycles=_latencies(gpu),
        bandwidth_gbs={"register": registers, **_bandwidths(gpu)},
        fp32_tflops=tflops,
        launch_us=_launches(),
        clocks_mhz=_clocks(gpu),
        occupancy=occupancy_sweep() if with_occupancy else [],
    )


# --- latency -------------------------------------------------------------------------------------------------------


def _chain(total_bytes: int, stride: int = 256):
    """A chain through `total_bytes` of memory, one word per `stride` bytes, in random order to defeat prefetching."""
    import torch

    chain = torch.zeros(total_bytes // 8, dtype=torch.int64, device="cuda")
    at = torch.randperm(total_bytes // stride, device="cuda") * (stride // 8)
    chain[at] = chain.data_ptr() + 8 * at.roll(-1)
    return chain


def _latencies(gpu: device.GPU) -> dict[str, float]:
    import torch

    out = torch.zeros(2, dtype=torch.int64, device="cuda")
    ab = torch.tensor([0.999, 0.001, 1.0], device="cuda")

    def walk(kernel: str, *arguments, times: int = 3, steps: int = 8192) -> float:
        launch = cuda.compile(CHASE, kernel)[1, 1]
        cycles = []
        for _ in range(times):
            launch(*arguments, steps, out)
            cycles.append(int(out[0]))
        return statistics.median(cycles) / steps

    small, middle = _chain(16 << 10), _chain(4 << 20)
    found = {
        "register": walk("chase_register", ab),
        "shared": walk("chase_shared"),
        "L1": walk("chase<true>", small, 4096),
        "L2": walk("chase<false>", middle, (4 << 20) // 256),
    }
    # far larger than the L2, evicted from it, and each step is taken for the first time: every load misses
    large = _chain(max(1 << 30, 8 * int((gpu.l2_mb or 64) * 2**20)))
    torch.zeros(1 << 28, dtype=torch.uint8, device="cuda")
    found["HBM"] = statistics.median(walk("chase<false>", large[32_000 * k :], 0, times=1) for k in range(5))
    return found


# --- bandwidth -----------------------------------------------------------------------------------------------------


def _best_seconds(call: Callable[[], None], times: int = 7) -> float:
    """Median of several runs, timed by events. Each is queued behind another run, which hides the launch overhead.

    Only for calls that keep the GPU busy for about 0.2 ms or more."""
    import torch

    seconds = []
    for k in range(times + 2):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        call()
        begin.record()
        call()
        end.record()
        end.synchronize()
        if k >= 2:
            seconds.append(begin.elapsed_time(end) * 1e-3)
    return statistics.median(seconds)


def _bandwidths(gpu: device.GPU) -> dict[str, float]:
    import torch

    blocks, chunk = 2 * gpu.sms, 512 * 8 * 16
    out = torch.zeros(1, dtype=torch.int32, device="cuda")
    data = torch.zeros((2 << 30) // 4, dtype=torch.int32, device="cuda")

    def gbs(kernel: str, grid: int, rounds: int, *arguments) -> float:
        launch = cuda.compile(READ, kernel)[grid, 512]
        return grid * rounds * chunk / _best_seconds(lambda: launch(*arguments, rounds, out)) / 1e9

    # a quarter of the L2, because each half of a large L2 may keep its own copy
    quarter = 1 << int((gpu.l2_mb or 4) * 2**20 / 4).bit_length() - 1
    return {
        "shared": gbs("read_shared", blocks, 4000, 0),
        "L1": gbs("read_global<true>", blocks, 4000, data, chunk // 16),
        "L2": gbs("read_global<false>", blocks, 400, data, quarter // 16),
        "HBM": gbs("read_global<false>", 4096, 8, data, data.numel() // 4),
    }


def _multiply_add(gpu: device.GPU) -> tuple[float, float]:
    """(TFLOP/s of fp32 multiply-adds, GB/s of the registers that they read)."""
    import torch

    ab, out = torch.tensor([0.999, 0.001, 1.0], device="cuda"), torch.zeros(1, device="cuda")
    blocks, rounds = 2 * gpu.sms, 2000
    launch = cuda.compile(READ, "multiply_add")[blocks, 1024]
    fmas = blocks * 1024 * rounds * 32 * 8 / _best_seconds(lambda: launch(ab, rounds, out))
    return 2 * fmas / 1e12, 12 * fmas / 1e9


# --- launches and clocks -------------------------------------------------------------------------------------------


def _launches() -> dict[str, float]:
    """Microseconds: launch overhead on the host, in a graph on the GPU, and the round trip."""
    import torch
    from cuda.bindings import driver

    kernel, out = cuda.compile(CLOCK, "empty_kernel"), torch.zeros(1, dtype=torch.int32, device="cuda")
    kernel[1, 32](out)
    function = cuda.kernel._function(kernel, device.current().sm)
    arguments = ((out.data_ptr(),), (convert(kernel.signature, (out,), "cuda")[0][1],))
    stream = torch.cuda.current_stream().cuda_stream

    def launch():
        driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, 0)

    def host_us(call: Callable[[], object], count: int = 500) -> float:
        runs = []
        for _ in range(5):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(count):
                call()
            runs.append((time.perf_counter() - begin) / count * 1e6)
            torch.cuda.synchronize()
        return statistics.median(runs)

    def and_wait():
        launch()
        torch.cuda.synchronize()

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        stream = torch.cuda.current_stream().cuda_stream
        for _ in range(1000):
            launch()
    in_graph = _best_seconds(graph.replay) / 1000 * 1e6
    stream = torch.cuda.current_stream().cuda_stream
    small = torch.zeros(1, device="cuda")
    return {
        "driver call": host_us(launch),
        "PyTorch call": host_us(lambda: small.add_(1)),
        "launch and wait": host_us(and_wait, 200),
        "each in a graph": in_graph,
    }


def _clock_mhz(cycles: int = 20_000_000) -> float:
    import torch

    out = torch.zeros(2, dtype=torch.int64, device="cuda")
    cuda.compile(CLOCK, "clock_kernel")[1, 32](cycles, out)
    torch.cuda.synchronize()
    return 1000 * int(out[0]) / int(out[1])


def _clocks(gpu: device.GPU) -> dict[str, float]:
    """The SM clock after a pause, under one warp, and while the tensor cores work as hard as they can."""
    import torch

    torch.cuda.synchronize()
    time.sleep(2)
    found = {"after a pause": _clock_mhz(200_000), "one warp": _clock_mhz()}
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.float16)
    end = time.perf_counter() + 2
    while time.perf_counter() < end:
        for _ in range(20):
            a @ a
        torch.cuda.synchronize()
    beside = torch.cuda.Stream(priority=-1)
    for _ in range(60):
        a @ a
    with torch.cuda.stream(beside):
        found["matmul in fp16"] = _clock_mhz()
    torch.cuda.synchronize()
    return found


# --- occupancy -----------------------------------------------------------------------------------------------------


def occupancy_sweep(loads: tuple[int, ...] = (1, 2, 4), threads: int = 256) -> list[dict]:
    """GB/s of a copy of 1 GiB while unused shared memory limits the resident blocks per SM."""
    import torch

    limits = device.requires((7, 0), "Measuring occupancy").limits
    x = torch.zeros(1 << 28, device="cuda")
    y, rows = torch.empty_like(x), []
    for in_flight in loads:
        kernel = cuda.compile(COPY, f"copy_kernel<{in_flight}>")
        grid = x.numel() // 4 // threads // in_flight
        for blocks in (1, 2, 3, 4, 6, 8):
            if blocks * threads // 32 > limits.max_warps:
                continue
            taken = limits.shared_per_sm_kb * 1024 // blocks - limits.shared_reserved_kb * 1024
            ballast = min(taken, limits.shared_per_block_kb * 1024) // 128 * 128
            launch = kernel[grid, threads, ballast]
            seconds = _best_seconds(lambda launch=launch: launch(x, y))
            share = blocks * threads / 32 / limits.max_warps
            rows.append({"loads": in_flight, "occupancy": share, "gbs": 2 * 4 * x.numel() / seconds / 1e9})
    return rows
