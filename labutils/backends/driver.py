"""What launchers ask Triton's driver, answered on a machine without a GPU.

Public launchers ask for the current target, the device, the number of SMs. Kernels are compiled for sm_80 where there
is no GPU, so the answers are those of an A100. What only hardware can answer, a time first of all, says so.
"""

from __future__ import annotations

import types

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from ..gpu import device

LIKE = "A100 80GB"
SHARED_MEMORY = 163 * 1024
"""Bytes that a block may have on compute capability 8.0: CUDA C++ Programming Guide, technical specifications."""


class NoGpu(RuntimeError):
    """Only a GPU can answer this; the message says so."""

    def _render_traceback_(self):
        return [str(self)]


class WithoutGpu:
    """Stands for the driver."""

    def __init__(self):
        gpu = device.catalogue()[LIKE]
        self._capability = gpu.capability
        properties = {
            "multiprocessor_count": gpu.sms,
            "max_shared_mem": SHARED_MEMORY,
            "max_num_regs": 65536,
            "warpSize": 32,
            "sm_clock_rate": int(gpu.boost_mhz * 1000),
        }
        self.utils = types.SimpleNamespace(get_device_properties=lambda _: dict(properties))

    def get_current_target(self) -> GPUTarget:
        major, minor = self._capability
        return GPUTarget("cuda", 10 * major + minor, 32)

    def get_device_capability(self, *_) -> tuple[int, int]:
        return self._capability

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, *_) -> int:
        return 0

    def __getattr__(self, name: str):
        raise NoGpu(f"There is no GPU here, so nothing can be timed or loaded (driver.active.{name}).")


def install() -> None:
    """From now on Triton's driver is this one."""
    driver.set_active(WithoutGpu())
