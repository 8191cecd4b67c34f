"""CUDA's driver with Python's manners: calls that raise, memory that is freed, waiting that gives up."""

from __future__ import annotations

import contextlib
import ctypes
import time
from dataclasses import dataclass, field

from cuda.bindings import driver as cu


class DriverError(RuntimeError):
    """The driver refused a call or lost the context; `name` is its own word for why."""

    def __init__(self, name: str):
        self.name = name
        super().__init__(name.removeprefix("CUDA_ERROR_").lower().replace("_", " "))


class Stuck(RuntimeError):
    """The GPU did not finish in time. Nothing can be launched in this process any more."""


def ok(result):
    """The values of a driver call; raises DriverError."""
    status, *values = result
    if int(status) != 0:
        raise DriverError(status.name)
    return values[0] if len(values) == 1 else tuple(values) or None


def begin() -> None:
    """Load the driver, which takes a while and no memory of the GPU."""
    ok(cu.cuInit(0))


@dataclass
class Device:
    """A fresh context on one GPU, with one stream."""

    number: int = 0
    stream: object = field(init=False)
    small: Buffer = field(init=False)

    def __post_init__(self):
        self.handle = ok(cu.cuDeviceGet(self.number))
        try:
            self.context = ok(cu.cuCtxCreate(None, 0, self.handle))
        except TypeError:  # CUDA 12's bindings
            self.context = ok(cu.cuCtxCreate(0, self.handle))
        self.stream = ok(cu.cuStreamCreate(1))
        with contextlib.suppress(DriverError):  # nothing stays in the L2 on request; before Ampere nothing can
            ok(cu.cuCtxSetLimit(cu.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0))
        self.l2_bytes = self.attribute("L2_CACHE_SIZE")
        self.shared_limit = self.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        # Small arrays come from a chunk of 2 MB, which the driver gives back with the last of them. While one is kept
        # no case asks for a chunk anew, and waits for it while another process makes its context.
        self.small = Buffer(self, 1)

    def attribute(self, name: str) -> int:
        return ok(cu.cuDeviceGetAttribute(getattr(cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), self.handle))

    def wait(self, seconds: float) -> None:
        """Until everything launched is done. Raises Stuck after that time, DriverError where a kernel crashed."""
        done = ok(cu.cuEventCreate(2))
        ok(cu.cuEventRecord(done, self.stream))
        end = time.monotonic() + seconds
        while True:
            late = time.monotonic() > end  # asked first: the machine may have slept, and the GPU not
            (status,) = cu.cuEventQuery(done)
            if int(status) == 0:
                break
            if status != cu.CUresult.CUDA_ERROR_NOT_READY:
                raise DriverError(status.name)
            if late:
                raise Stuck
            time.sleep(0.0001)
        ok(cu.cuEventDestroy(done))


class Buffer:
    """Memory of the GPU, freed with the object."""

    def __init__(self, device: Device, size: int):
        self.device, self.size = device, max(size, 16)
        self.address = int(ok(cu.cuMemAlloc(self.size)))

    def write(self, source: memoryview) -> None:
        """Queue. Without a stream the copy may land after a kernel that is launched later: this one waits for no other
        stream, and from pageable memory a copy returns once it is staged."""
        if len(source):
            ok(cu.cuMemcpyHtoDAsync(self.address, _address(source), len(source), self.device.stream))

    def read(self, target: memoryview) -> None:
        if len(target):
            ok(cu.cuMemcpyDtoH(_address(target), self.address, len(target)))

    def fill(self, word: int) -> None:
        """Queue: every 32-bit word becomes this one."""
        ok(cu.cuMemsetD32Async(self.address, word & 0xFFFFFFFF, self.size // 4, self.device.stream))

    def free(self) -> None:
        if self.address:
            cu.cuMemFree(self.address)
            self.address = 0


def _address(view: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(view))
