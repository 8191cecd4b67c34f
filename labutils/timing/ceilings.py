"""What this GPU really reaches: bandwidth of copying, reading and writing, and the library's matmul rates.

Measured once, kept in the cache folder. Ceilings to compare with, not limits of physics: they are the best that we have
seen of PyTorch's own kernels and one of ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial

from .. import environment
from ..gpu import device
from ..gpu.roofline import Roof
from .stopwatch import Stopwatch

MATRIX_SIZES = (4096, 8192)
SECONDS = 0.15
"""Sampling time for each of about ten figures, which are measured in a row."""


@dataclass(frozen=True)
class Ceilings:
    """Measured on `gpu`: bandwidths in 10^9 bytes/s, and TFLOP/s of the library's matmul by precision."""

    gpu: str
    versions: str
    copy_gbs: float
    read_gbs: float
    write_gbs: float
    tflops: dict[str, float] = field(default_factory=dict)

    def roof(self, precision: str = "fp16") -> Roof:
        """A measured roofline: the library's matmul in this precision over a plain copy."""
        rate, copy = self.tflops[precision] * 1e12, self.copy_gbs * 1e9
        return Roof(f"{self.gpu} {precision}, measured", rate, copy, "measured")

    def __repr__(self) -> str:
        rates = ", ".join(f"{p} {r:.0f}" for p, r in self.tflops.items())
        memory = f"copy {self.copy_gbs:.0f}, read {self.read_gbs:.0f}, write {self.write_gbs:.0f} GB/s"
        return f"{self.gpu}, measured: {memory}; matmul TFLOP/s: {rates}"


H200 = Ceilings(
    "NVIDIA H200",
    "torch 2.11.0+cu130, CUDA 13.0",
    copy_gbs=4282.0,
    read_gbs=4137.0,
    write_gbs=4282.0,
    tflops={"fp32": 51.0, "tf32": 356.0, "fp16": 690.0, "bf16": 714.0},
)
"""A stored measurement, for where there is no GPU; writing was not measured apart and stands at the copy's figure."""


def ceilings() -> Ceilings | None:
    """The GPU's measured ceilings; without a GPU say so and return None."""
    if not device.has_gpu():
        print(f"No GPU here, so nothing to measure. Stored from elsewhere: {H200}")
        return None
    return measured()


def here() -> Ceilings:
    """Measured ceilings of this GPU, or the stored ones of an H200 without a GPU; `gpu` says which."""
    return measured() if device.has_gpu() else H200


def measured() -> Ceilings:
    """From the cache, or else measured now, in a few seconds."""
    import torch

    gpu, versions = torch.cuda.get_device_name(), f"torch {torch.__version__}, CUDA {torch.version.cuda}"
    path = environment.cache_folder() / "ceilings" / (re.sub(r"\W+", "-", f"{gpu} {versions}").strip("-") + ".json")
    try:
        kept = Ceilings(**json.loads(path.read_text(encoding="utf-8")))
        if (kept.gpu, kept.versions) == (gpu, versions):
            return kept
    except (OSError, ValueError, TypeError):
        pass  # not measured yet, or by another version of this code
    print("Measuring this GPU's ceilings, once: a few seconds …")
    found = _measure(gpu, versions)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(found)), encoding="utf-8")
    except OSError:
        pass  # a cache that cannot be written only costs the time to measure again
    return found


def _measure(gpu: str, versions: str) -> Ceilings:
    import torch

    watch = Stopwatch()
    size = min(2**30, torch.cuda.mem_get_info()[0] // 8) // 2**20 * 2**20
    a, b = (torch.empty(size // 4, dtype=torch.float32, device="cuda").normal_() for _ in range(2))

    def best(calls: list[Callable[[], object]]) -> float:
        return min(brief(watch, call) for call in calls)

    copy = 2 * size / best([partial(a.copy_, b)])
    read = size / best([b.sum, b.amax, *_our_read(b)])
    write = size / best([a.zero_, partial(a.fill_, 1.0)])
    del a, b
    rates = {p: _matrix_rate(watch, p) for p in _precisions()}
    return Ceilings(gpu, versions, copy / 1e9, read / 1e9, write / 1e9, rates)


def brief(watch: Stopwatch, call: Callable[[], object]) -> float:
    """Median seconds of a cold call, from a short sampling."""
    for _ in range(3):
        call()
    watch.machine.synchronize()
    begin, times = watch.machine.now(), []
    while len(times) < 15 or watch.machine.now() - begin < SECONDS:
        pairs = [watch.once(call) for _ in range(5)]
        watch.machine.synchronize()
        times += [watch.machine.seconds(*p) for p in pairs]
    return sorted(times)[len(times) // 2]


def _our_read(x) -> list[Callable[[], object]]:
    """One kernel that only reads, where Triton is there."""
    try:
        from .read_kernel import read
    except ImportError:
        return []
    return [partial(read, x)]


def _precisions() -> tuple[str, ...]:
    import torch

    major = torch.cuda.get_device_capability()[0]
    return ("fp32", "tf32", "fp16", "bf16") if major >= 8 else ("fp32", "fp16")


def _matrix_rate(watch: Stopwatch, precision: str) -> float:
    """The best of a few sizes, in 10^12 FLOP/s."""
    import torch

    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)
    before, found = torch.get_float32_matmul_precision(), 0.0
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        for m in MATRIX_SIZES:
            if 16 * m * m > torch.cuda.mem_get_info()[0] or (precision == "fp32" and m > MATRIX_SIZES[0]):
                continue
            a, b = (torch.randn(m, m, device="cuda", dtype=dtype) for _ in range(2))
            c = torch.empty_like(a)
            found = max(found, 2 * m**3 / brief(watch, partial(torch.mm, a, b, out=c)) / 1e12)
    finally:
        torch.set_float32_matmul_precision(before)
    return found
