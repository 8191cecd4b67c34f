"""What the emulator's tests share: launching a kernel on torch tensors, and a cache of their own."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from labutils.backends import simt

HERE = Path(__file__).parent


@pytest.fixture(scope="session", autouse=True)
def _needs_a_compiler():
    reason = simt.available()
    if reason:
        pytest.skip(reason)


def aligned(values: torch.Tensor) -> torch.Tensor:
    """A copy that starts at a multiple of 256 bytes, as memory from a GPU's allocator does."""
    storage = torch.zeros(values.numel() * values.element_size() + 256, dtype=torch.uint8)
    start = -storage.data_ptr() % 256
    view = storage[start : start + values.numel() * values.element_size()].view(values.dtype).view(values.shape)
    return view.copy_(values)


@dataclass
class Launcher:
    """`kernel[grid, block, shared_bytes](x, y, n)` with tensors for pointers; findings and counters in `result`."""

    kernel: simt.HostKernel
    checked: bool = True
    options: dict = None
    result: simt.LaunchResult = None

    def __getitem__(self, configuration):
        grid, block, shared_bytes = (*configuration, 0)[:3]

        def launch(*arguments, **options):
            arrays, values = {}, []
            for parameter, a in zip(self.kernel.parameters, arguments, strict=True):
                if isinstance(a, torch.Tensor):
                    arrays[parameter.name] = simt.MemoryRange(a.data_ptr(), a.numel(), a.element_size())
                    a = a.data_ptr()
                values.append(a)
            self.result = self.kernel.launch(
                grid,
                block,
                shared_bytes,
                values,
                arrays=arrays,
                checked=self.checked,
                **(self.options or {}),
                **options,
            )
            return self.result

        return launch


@pytest.fixture(scope="session")
def build():
    """(source or file below this folder, kernel) -> Launcher."""

    def compiled(source, name=None, checked=True, **options) -> Launcher:
        if isinstance(source, Path):
            source = source.read_text()
        module = simt.compile(source, [name] if name else None, checked=checked)
        return Launcher(next(iter(module.kernels.values())), checked, options)

    return compiled


@pytest.fixture(scope="session")
def clang():
    """Use clang++ for the time of a test."""
    import shutil

    if not shutil.which("clang++"):
        pytest.skip("no clang++ here")
    before = os.environ.get("CXX")
    os.environ["CXX"] = "clang++"
    yield
    if before is None:
        del os.environ["CXX"]
    else:
        os.environ["CXX"] = before
