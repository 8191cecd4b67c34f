"""What public launchers ask of a machine with a GPU, answered without one, so that their modules can be imported.

Nothing here runs a kernel, and nothing of labutils is imported: plain Triton is measured with it, too.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Collection
from pathlib import Path
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

PROPERTIES = types.SimpleNamespace(
    name="NVIDIA A100", major=8, minor=0, multi_processor_count=108, warp_size=32, total_memory=80 << 30,
    shared_memory_per_block_optin=163 << 10, shared_memory_per_multiprocessor=164 << 10, L2_cache_size=40 << 20,
)  # fmt: skip
"""Of the GPU that labutils/backends/driver.py answers for."""

ANSWERS = {
    "current_device": 0,
    "current_stream": types.SimpleNamespace(cuda_stream=0, wait_stream=lambda _: None),
    "device_count": 1,
    "get_device_capability": (8, 0),
    "get_device_name": PROPERTIES.name,
    "get_device_properties": PROPERTIES,
    "is_available": True,
    "is_bf16_supported": True,
    "synchronize": None,
}


def answer_for_a_gpu() -> None:
    """From now on `torch.cuda` says that there is a GPU, and each tensor that it is there."""
    for name, value in ANSWERS.items():
        setattr(torch.cuda, name, lambda *_, value=value, **__: value)
    torch.cuda.device = lambda *_: contextlib.nullcontext()
    torch.cuda.default_generators = (_Philox(),)
    torch.Tensor.is_cuda = property(lambda _: True)


class _Philox:
    """The part of a GPU's generator that launchers use: a state of 16 bytes, a seed and an offset."""

    def __init__(self):
        self._state = torch.tensor([25, 0]).view(torch.uint8)

    def get_state(self) -> torch.Tensor:
        return self._state.clone()

    def set_state(self, state: torch.Tensor) -> None:
        self._state = state.clone()


class OnTheCpu(TorchFunctionMode):
    """Within this context, what is created on "cuda" is created on the CPU."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if str(kwargs.get("device", "")).startswith("cuda"):
            kwargs["device"] = "cpu"
        return function(*args, **kwargs)


def without_init(folder: Path, packages: Collection[str], version: str = "0") -> None:
    """From now on these packages lie in `folder`, and importing them runs nothing: their modules are imported alone."""
    for name in packages:
        package = sys.modules[name] = types.ModuleType(name)
        package.__path__ = [str(folder.joinpath(*name.split(".")))]
        package.__version__ = version
        parent, _, own = name.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], own, package)


def imitate(names: Collection[str]) -> None:
    """From now on these packages, which are not installed, can be imported; what they hold does nothing."""
    sys.meta_path.append(_Imitation(frozenset(names)))


class _Imitation(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names: frozenset[str]):
        self._names = names

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self._names:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = mock.MagicMock(name=spec.name)
        module.__spec__, module.__path__, module.__version__ = spec, [], "0"
        return module

    def exec_module(self, module):
        pass
