"""This machine's GPU, and a catalogue of GPUs to reason about when there is none.

Figures come from `gpus.toml`, each with its source. What a driver reports about this machine's GPU (SMs, L2,
memory, shared memory, registers) is preferred to the catalogue, which adds the peaks that no driver tells.
This is the only module that asks PyTorch whether there is a GPU; everyone else asks `has_gpu()`.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import warnings
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SECTOR = 32
"""Bytes that the L2 and the memory move at least (CUDA Programming Guide; NVIDIA's profiler counts them)."""


class DeviceMissing(RuntimeError):
    """Raised by `requires` when the GPU that a lesson needs is not here."""


@dataclass(frozen=True)
class DeviceLimits:
    """What one SM of a compute capability can hold, and in which units it hands it out.

    KB are 1024 bytes. Source: the compute-capability tables of the CUDA Programming Guide and the toolkit's
    `cuda_occupancy.h`; values equal on every capability we know (7.0 to 12.0) are the defaults here.
    """

    cores: int  # FP32 lanes; each does one multiply-add, two FLOPs, a clock
    max_warps: int
    max_blocks: int
    shared_per_sm_kb: int
    shared_per_block_kb: int  # at most, after opting in; 48 KB without
    l1_kb: int  # L1 cache and shared memory together
    tensor_fma: int  # dense FP16 multiply-adds a clock, all tensor cores (GeForce: half with FP32 accumulation)
    shared_reserved_kb: int = 1  # the system's own share of each resident block
    shared_unit_bytes: int = 128
    registers: int = 65536  # 32-bit, for each SM and also at most for each block
    registers_per_thread: int = 255
    register_unit: int = 256  # registers are handed to a warp in multiples of this
    warp_unit: int = 4  # and to a block for a multiple of this many warps
    threads_per_block: int = 1024


@dataclass(frozen=True)
class GPU:
    """A GPU: its size from the driver or the catalogue, its peaks from the catalogue; `None` is unknown."""

    name: str
    capability: tuple[int, int]
    sms: int
    limits: DeviceLimits
    source: str
    boost_mhz: int | None = None
    fp32_tflops: float | None = None  # outside the tensor cores, in 10^12 FLOP/s
    tensor_tflops: dict[str, float] = field(default_factory=dict, hash=False)  # dense, by precision: "fp16", "tf32" …
    bandwidth_gbs: float | None = None  # device memory, in 10^9 bytes/s
    l2_mb: float | None = None  # in 2^20 bytes
    memory_gib: float | None = None  # in 2^30 bytes

    @property
    def sm(self) -> int:
        """The compute capability as compilers call it: 90 for sm_90."""
        return 10 * self.capability[0] + self.capability[1]

    def peak(self, precision: str) -> float | None:
        """Return the peak in TFLOP/s for "fp32" (ordinary cores) or a tensor precision; `None` if unknown."""
        return self.fp32_tflops if precision == "fp32" else self.tensor_tflops.get(precision)


@lru_cache(maxsize=1)
def _tables() -> tuple[dict[tuple[int, int], DeviceLimits], dict[str, GPU], dict[str, str]]:
    """Read `gpus.toml`: limits by capability, GPUs by name, and names by the key that `find` looks up."""
    data = tomllib.loads(Path(__file__).with_name("gpus.toml").read_text(encoding="utf-8"))
    limits = {_capability(text): DeviceLimits(**row) for text, row in data["limits"].items()}
    gpus, names = {}, {}
    for row in data["gpu"]:
        aliases = [row["name"], *row.pop("reported", [])]
        capability = _capability(row.pop("capability"))
        gpus[row["name"]] = GPU(capability=capability, limits=limits[capability], **row)
        names.update((_key(alias), row["name"]) for alias in aliases)
    return limits, gpus, names


def _capability(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)


def _dotted(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))


def _key(name: str) -> str:
    """Drop what drivers add or leave out from one version to the next: brand words, spaces and hyphens."""
    return re.sub(r"nvidia|geforce|tesla|[^a-z0-9]", "", name.lower())


def catalogue() -> dict[str, GPU]:
    """Return every GPU of the catalogue by its short name ("T4", "H100 SXM" …), oldest first."""
    return dict(_tables()[1])


@lru_cache(maxsize=1)
def others() -> list[dict]:
    """Accelerators without CUDA, to compare with: what `gpus.toml` says of each."""
    return tomllib.loads(Path(__file__).with_name("gpus.toml").read_text(encoding="utf-8"))["other"]


def find(name: str) -> GPU | None:
    """Return the catalogue's GPU of this short name or driver-reported name, or `None`.

    The whole name must match: "NVIDIA H100 NVL" or a MIG slice is not an "H100 SXM", and "A100" alone is no
    GPU, since its bandwidth depends on the memory size.
    """
    _, gpus, names = _tables()
    return gpus.get(names.get(_key(name), ""))


def limits_for(capability: tuple[int, int]) -> DeviceLimits:
    """Return the limits of a compute capability; for an unknown one, those of the nearest one below it."""
    known = _tables()[0]
    below = [c for c in known if c <= tuple(capability)]
    return known[max(below)] if below else known[min(known)]


def interpreting() -> bool:
    """Tell whether TRITON_INTERPRET is set, with the words that Triton takes for yes."""
    return os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "yes", "on", "y")


def has_gpu() -> bool:
    """Tell whether kernels run on a CUDA GPU: one is usable and TRITON_INTERPRET does not say otherwise."""
    return not interpreting() and _usable()


def runs(only: int | None) -> bool:
    """Tell whether kernels for `only` this target (90 for sm_90) run on this machine's GPU; None: for any."""
    return has_gpu() and only in (None, current().sm)


@lru_cache
def _has_driver() -> bool:
    """Tell whether NVIDIA's driver is here. Where it is not, nobody needs PyTorch, which takes a second to import."""
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return True


def _usable() -> bool:
    """Tell whether PyTorch can use a CUDA GPU here."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "" or not _has_driver():
        return False
    import torch

    with warnings.catch_warnings():
        # PyTorch warns of an unusable driver on stderr; nbgrader gives a cell that writes there no points.
        warnings.simplefilter("ignore")
        return torch.version.cuda is not None and torch.cuda.is_available()


def current() -> GPU | None:
    """Return this machine's GPU, sized by its driver and completed from the catalogue; `None` without a GPU.

    A GPU that the catalogue does not know has no peaks. Nor has one whose SM count differs from its
    namesake's (a partition of it, say): the full part's peaks would be wrong for it.
    """
    if not has_gpu():
        return None
    import torch

    driver = torch.cuda.get_device_properties(torch.cuda.current_device())
    capability = (driver.major, driver.minor)
    size = {
        "name": driver.name,
        "capability": capability,
        "sms": driver.multi_processor_count,
        "l2_mb": driver.L2_cache_size / 2**20,
        "memory_gib": driver.total_memory / 2**30,
        # PyTorch does not tell the most blocks an SM takes nor the allocation units: those stay the table's.
        "limits": replace(
            limits_for(capability),
            max_warps=driver.max_threads_per_multi_processor // 32,
            registers=driver.regs_per_multiprocessor,
            shared_per_sm_kb=driver.shared_memory_per_multiprocessor // 1024,
            shared_per_block_kb=driver.shared_memory_per_block_optin // 1024,
        ),
    }
    known = find(driver.name)
    if known and (known.capability, known.sms) == (capability, driver.multi_processor_count):
        return replace(known, **size, source=f"Driver for sizes; peaks: {known.source}")
    return GPU(**size, source="Driver; this GPU is not in the catalogue, so its peaks are unknown")


def card() -> str:
    """Return one or two lines that tell a reader what their kernels run on and what to expect of it."""
    gpu = current()
    if gpu is None:
        why = "TRITON_INTERPRET is set" if _usable() else "No GPU"  # without a GPU, labutils sets it itself
        return f"{why}: kernels run in Triton's interpreter on the CPU: same checks, exact counts, no times"
    lines = [
        f"{gpu.name}, compute capability {_dotted(gpu.capability)}, {gpu.sms} SMs, "
        f"{gpu.memory_gib:.0f} GiB of memory, {gpu.l2_mb:.0f} MB of L2"
    ]
    if gpu.bandwidth_gbs:
        peaks = {"fp32": gpu.fp32_tflops, **gpu.tensor_tflops}
        rates = ", ".join(f"{precision} {rate:g}" for precision, rate in peaks.items())
        lines.append(f"Peaks by datasheet: {gpu.bandwidth_gbs:g} GB/s of memory; TFLOP/s: {rates}")
    return "\n".join(lines)


def requires(capability: tuple[int, int] = (7, 5), what: str = "This lesson") -> GPU:
    """Return this machine's GPU if its compute capability is at least this.

    Otherwise raise `DeviceMissing`, whose one sentence says what is needed and starts with `what`:
    `requires((9, 0), "TMA")`.
    """
    gpu = current()
    if gpu and gpu.capability >= tuple(capability):
        return gpu
    examples = [known.name for known in catalogue().values() if known.capability >= tuple(capability)][:3]
    such_as = f" ({', '.join(examples)}, for example)" if examples else ""
    if gpu:
        here = f"this is {gpu.name} with {_dotted(gpu.capability)}"
    else:
        here = "TRITON_INTERPRET is set, so none is used" if interpreting() else "there is none here"
    raise DeviceMissing(
        f"{what} needs a GPU of compute capability {_dotted(capability)} or newer{such_as}, and {here}."
    )
