"""A case: one kernel of a collection, its launch, its arguments, and what it must compute, in float64.

case(
    "kernels/relu/relu.cu", "relu_f32_kernel", grid=4, block=256,
    arguments=dict(x=normal(1024), y=out(1024), N=1024),
    expect=lambda x: np.maximum(x, 0),
)
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from labutils import cuda
from labutils.backends import emulator

from .sources import SOURCES
from .text import device_code

f16, bf16, f32, f64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
i8, u8, i16, i32, i64 = torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64

ROUNDING = {f16: 2.0**-11, bf16: 2.0**-8, f32: 2.0**-24, f64: 2.0**-53, "tf32": 2.0**-11}
"""The largest relative error of one rounding to a type."""

POISON = -77
"""What an output of integers begins with; one of floats begins with NaN."""

Make = Callable[[np.random.Generator], torch.Tensor]


@dataclass(frozen=True)
class Array:
    """An argument that is a tensor. `is_output`: the kernel writes it, and what it held before is poison. `is_scratch`:
    what it holds afterwards is the kernel's own business."""

    make: Make
    is_output: bool = False
    is_scratch: bool = False

    def as_scratch(self) -> Array:
        return replace(self, is_scratch=True)


def normal(*shape: int, dtype=f32, scale: float = 1.0, mean: float = 0.0) -> Array:
    """Normally distributed numbers."""
    return Array(lambda rng: torch.from_numpy(rng.normal(mean, scale, shape)).to(dtype))


def uniform(*shape: int, low: float = 0.0, high: float = 1.0, dtype=f32) -> Array:
    return Array(lambda rng: torch.from_numpy(rng.uniform(low, high, shape)).to(dtype))


def integers(*shape: int, low: int = 0, high: int = 100, dtype=i32) -> Array:
    """Whole numbers from `low` to `high` - 1, of any type."""
    return Array(lambda rng: torch.from_numpy(rng.integers(low, high, shape)).to(dtype))


def full(value: float, *shape: int, dtype=f32) -> Array:
    return Array(lambda rng: torch.full(shape, value, dtype=dtype))


def values(make: Callable[[np.random.Generator], Any], dtype=f32) -> Array:
    """What `make(rng)` returns."""
    return Array(lambda rng: torch.as_tensor(np.ascontiguousarray(make(rng))).to(dtype))


def out(*shape: int, dtype=f32) -> Array:
    """An array that the kernel fills."""
    poison = float("nan") if dtype.is_floating_point else POISON % 256 if dtype == u8 else POISON
    return Array(lambda rng: torch.full(shape, poison, dtype=dtype), is_output=True)


def scratch(*shape: int, dtype=f32) -> Array:
    """Zeros, for the kernel to write what it likes."""
    return Array(lambda rng: torch.zeros(shape, dtype=dtype), is_scratch=True)


@dataclass(frozen=True)
class Case:
    """One launch of one kernel.

    `arguments` are arrays and numbers in the order of the parameters. `expect` is called with those that it names, as
    float64 (integers as they are), before the launch, and returns the output, or several by name. An element may be
    off by `steps` roundings to `precision` (the output's type) of its size plus the array's mean size. `setup` is text
    in front of the kernel's: defines and the like that its author gives by other means; `edits` are (old, new) texts,
    for values that the author's host code stores in a `__constant__` array. `keep`, `drop` and `folders` are those of
    `device_code`. `needs` says what the emulator does not have and the kernel cannot do without; `fault` says what is
    wrong with the kernel.
    """

    source: str
    path: str
    kernel: str
    grid: int | tuple[int, ...] = 1
    block: int | tuple[int, ...] = 1
    arguments: Mapping[str, Any] = field(default_factory=dict)
    expect: Callable[..., Any] = lambda: {}
    shared: int = 0
    steps: float = 8.0
    precision: Any = None
    setup: str = ""
    edits: tuple[tuple[str, str], ...] = ()
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    needs: str = ""
    fault: str = ""
    time_limit: float = 30.0
    cluster: int = 1

    @property
    def id(self) -> str:
        return f"{self.source}/{self.path}:{self.kernel}"

    def files(self) -> dict[str, str]:
        """The texts of the files that it is made of, by path. Raises NotHere."""
        found: dict[str, str] = {}
        self._device_code(lambda path: found.setdefault(path, SOURCES[self.source].read(path)))
        return found

    def _device_code(self, read: Callable[[str], str]) -> str:
        name = self.kernel.split("<")[0]
        return device_code(read, self.path, name, self.keep, self.drop, self.folders)

    def text(self) -> str:
        """The device code that is compiled. Raises NotHere."""
        text = self._device_code(SOURCES[self.source].read)
        for old, new in self.edits:
            if text.count(old) != 1:
                raise ValueError(f"{self.id}: {old!r} stands {text.count(old)} times in the text")
            text = text.replace(old, new)
        return (self.setup and self.setup.rstrip("\n") + "\n") + text

    def drawn(self) -> dict[str, Any]:
        """The arguments; the same on every machine."""
        seed = int.from_bytes(hashlib.sha256(self.id.encode()).digest()[:8], "little")
        rng = np.random.default_rng(seed)
        return {n: a.make(rng) if isinstance(a, Array) else a for n, a in self.arguments.items()}

    def compiled(self) -> cuda.Kernel:
        kernel = cuda.compile(self.text(), self.kernel)
        return kernel.clustered(self.cluster) if self.cluster > 1 else kernel

    def sizes(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """The grid and the block, each with three sides."""
        return tuple((*(s if isinstance(s, tuple) else (s,)), 1, 1)[:3] for s in (self.grid, self.block))

    def references(self, arguments: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """What each array must hold after the launch; those that `expect` does not name must not change."""
        exact = {n: _exact(a) if isinstance(a, torch.Tensor) else a for n, a in arguments.items()}
        copies = {n: a.copy() if isinstance(a, np.ndarray) else a for n, a in exact.items()}
        named = inspect.signature(self.expect).parameters.values()
        result = self.expect(**{p.name: copies[p.name] for p in named if p.default is p.empty})
        outputs = [n for n, a in self.arguments.items() if isinstance(a, Array) and a.is_output]
        if not isinstance(result, dict):
            (name,) = outputs
            result = {name: result}
        if missing := set(outputs) - set(result):
            raise ValueError(f"{self.id}: nothing is expected of {', '.join(sorted(missing))}")
        checked = {n for n, a in self.arguments.items() if isinstance(a, Array) and not a.is_scratch}
        return {n: np.ma.asarray(result.get(n, exact[n])) for n in exact if n in checked}

    def difference(self, arguments: Mapping[str, Any], references: Mapping[str, np.ndarray]) -> str:
        """Where the arrays are not what they must be, in a sentence, or ""."""
        for name, wanted in references.items():
            given = _exact(arguments[name]).reshape(-1)
            wanted = np.broadcast_to(wanted, arguments[name].shape, subok=True).reshape(-1)
            ignored, wanted = np.ma.getmaskarray(wanted), np.ma.getdata(wanted)
            unit = ROUNDING.get(self.precision or arguments[name].dtype, 0.0)
            finite = np.abs(wanted[np.isfinite(wanted)]).astype(np.float64)
            allowed = self.steps * unit * (np.abs(wanted) + (finite.mean() if finite.size else 0.0))
            with np.errstate(invalid="ignore"):
                same = (given == wanted) | (np.isnan(given) & np.isnan(wanted)) | (np.abs(given - wanted) <= allowed)
            same |= ignored
            if not same.all():
                at = int(np.argmin(same))
                return (
                    f"{name}[{at}] is {given[at]:.6g} in place of {wanted[at]:.6g}, "
                    f"and {(~same).sum()} of {same.size} elements differ"
                )
        return ""

    def launch_emulated(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Compile and run in the emulator; gives what `emulator.alone` does."""
        grid, block = self.sizes()
        return emulator.alone(self.compiled(), grid, block, self.shared, tuple(arguments.values()), self.time_limit)


def _exact(tensor: torch.Tensor) -> np.ndarray:
    exact = tensor.double() if tensor.is_floating_point() else tensor.byte() if tensor.dtype == torch.bool else tensor
    return exact.cpu().numpy()
