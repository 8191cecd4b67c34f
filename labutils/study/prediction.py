"""How long a kernel takes on GPUs that are not here: from its counts, its machine code and the GPUs' datasheets.

Memory is taken to reach the share of its datasheet's bandwidth that a copy reaches on an H200. A prediction leaves out
the launch, waiting, and the bandwidth of the caches: it is a lower bound for a kernel that is bound by any of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..check.figures import Figures
from ..gpu import device
from ..gpu.device import GPU, SECTOR
from ..gpu.roofline import Roof, units
from ..spec.bounds import with_atomics
from ..spec.exercise import Cost, KernelExercise
from ..spec.inputs import torch_dtype
from ..timing.ceilings import H200

GPUS = ("T4", "A100 80GB", "H100 SXM", "RTX 4090", "B200")

REACHED = H200.copy_gbs / device.find("H200").bandwidth_gbs
"""Share of the datasheet's bandwidth that a copy reaches."""

REPEATED = 1.2
"""From this many times the compulsory bytes on, it matters whether a cache holds what is read again."""

PRECISION = {"float16": "fp16", "bfloat16": "bf16", "float32": "tf32", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8"}
"""Tensor-core peaks by element type of the inputs."""


@dataclass(frozen=True)
class Prediction:
    """Seconds if caches hold all that is read again, and if memory delivers every sector; `bound`: what takes longer in
    the first case."""

    least: float
    most: float
    bound: str

    def __str__(self) -> str:
        span = f" … {units(self.most, 's')}" if self.most > self.least else ""
        return units(self.least, "s") + span


def sectors(counts: Mapping[str, int]) -> float:
    """Sectors that loads, stores and atomics request, and those that bulk copies move."""
    direct = sum(with_atomics(counts, f"global_{way}_sectors") for way in ("load", "store"))
    return direct + sum(counts.get(f"tma_{way}_bytes", 0) for way in ("load", "store")) / SECTOR


def from_memory(counts: Mapping[str, int]) -> float:
    """Sectors that memory delivers or takes at most: of a Triton kernel, loads that neighboring programs share count
    once, as its recorder has it (`wave_load_sectors`)."""
    shared = counts.get("global_load_sectors", 0) + counts.get("global_atomic_sectors", 0)
    return sectors(counts) - max(0, shared - counts.get("wave_load_sectors", shared))


def work(exercise: KernelExercise) -> Cost | None:
    """What must move and be computed at the size of the benchmark; None without one."""
    if not exercise.bench:
        return None
    return exercise.cost(exercise.bench, torch_dtype(exercise.contract.dtype).itemsize)


def precision(exercise: KernelExercise, figures: Figures) -> str:
    """The peak that the kernel's arithmetic has: "fp32", or that of the tensor cores that its machine code uses."""
    on_tensor_cores = any(code.matrix for code in figures.code)
    return PRECISION.get(exercise.contract.dtype, "fp32") if on_tensor_cores else "fp32"


def roof(exercise: KernelExercise, figures: Figures, gpu: GPU) -> Roof:
    """The roofline of the pipe that the kernel uses."""
    wanted = precision(exercise, figures)
    name = wanted if gpu.peak(wanted) else "fp32"
    known = Roof.of(gpu, name)
    return Roof(known.name, known.flops, REACHED * known.bandwidth, known.source)


def predict(exercise: KernelExercise, figures: Figures, gpu: GPU) -> Prediction | None:
    """The time at the size of the benchmark, with the counted case's ratio of sectors to compulsory bytes."""
    cost = work(exercise)
    if cost is None:
        return None
    top = roof(exercise, figures, gpu)
    memory, compute = cost.bytes / top.bandwidth, cost.flops / top.flops
    repeated = SECTOR * from_memory(figures.counts) / figures.counts["compulsory_bytes"]
    least = max(memory, compute)
    if compute > memory or repeated < REPEATED:
        return Prediction(least, least, "compute" if compute > memory else "memory")
    return Prediction(least, max(memory * repeated, compute), "memory")
