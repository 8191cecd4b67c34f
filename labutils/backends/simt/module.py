"""A compiled cell: its builds, loaded, and the parameters and memory of its kernels."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import bounds, build, elf, lines, source

if TYPE_CHECKING:
    from .launch import HostKernel


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel. `kind` is "integer", "unsigned", "floating", "pointer" or "other" (a struct)."""

    name: str
    type: str
    size: int
    kind: str


class _Parameter(ctypes.Structure):
    _fields_ = [("type", ctypes.c_char_p), ("size", ctypes.c_uint32), ("kind", ctypes.c_uint32)]


_KINDS = ("integer", "unsigned", "floating", "pointer", "other")


@functools.cache
def load_runtime(path: str) -> ctypes.CDLL:
    library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)  # kernels find the runtime's functions by name
    library.simt_launch.restype = ctypes.c_char_p
    library.simt_launch.argtypes = [ctypes.c_void_p]
    library.simt_count.argtypes = [ctypes.c_int] * 3
    library.simt_count.restype = None
    return library


@dataclass
class Build:
    """One build of a module, loaded."""

    path: str
    library: ctypes.CDLL
    symbols: elf.Symbols
    lines: lines.Lines

    def base(self) -> int:
        """The address at which the module is loaded."""
        return ctypes.cast(self.library.simt_entry_0, ctypes.c_void_p).value - _entry_offset(self.path)


@dataclass
class Module:
    """A compiled cell: `kernels` by name, in the order of the source."""

    source: source.Prepared
    names: list[str]
    filename: str
    compiler: build.Compiler
    kernels: dict[str, HostKernel] = field(default_factory=dict)
    _builds: dict[bool, Build] = field(default_factory=dict, repr=False)
    _runtime: ctypes.CDLL | None = field(default=None, repr=False)

    def prepare(self, *modes: bool) -> None:
        """Have these builds ready: True is the checked one, False the fast one."""
        missing = [m for m in modes if m not in self._builds]
        if not missing:
            return
        paths = build.kernels(self.compiler, self.text, self.names, missing, self.filename)
        self.load_runtime()
        for mode, path in zip(missing, paths, strict=True):
            library = ctypes.CDLL(str(path), mode=ctypes.RTLD_LOCAL)
            _entry_offset(str(path))  # remembered: a caged process opens no file when it launches
            self._builds[mode] = Build(str(path), library, elf.read(str(path)), lines.Lines(str(path), self.filename))

    @property
    def text(self) -> str:
        """What is built, but for the entries."""
        return self.source.text + (bounds.tail(self.names) if self.source.bounded else "")

    def load_runtime(self) -> ctypes.CDLL:
        if self._runtime is None:
            self._runtime = load_runtime(str(build.runtime(self.compiler)))
        return self._runtime

    def built(self, checked: bool) -> Build:
        self.prepare(checked)
        return self._builds[checked]

    def variable(self, name: str, checked: bool = True) -> tuple[int, int]:
        """Address and size in bytes of a `__device__` or `__constant__` variable of one build."""
        b = self.built(checked)
        for v in (*b.symbols.variables, *b.symbols.tables):
            if v.name == name:
                return b.base() + v.offset, v.size
        raise KeyError(f"the source has no __device__ or __constant__ variable {name!r}")


@functools.lru_cache(maxsize=256)
def _entry_offset(path: str) -> int:
    return elf.function(path, "simt_entry_0")


def static_shared(symbols: elf.Symbols, kernel: str, kernels: Iterable[str] = ()) -> int:
    """Bytes of static shared memory of a kernel: its own variables, and those of functions that are no kernel of the
    cell (`kernels`), since it may call them."""

    def mangled(name: str) -> str:
        plain = name.split("<")[0].split("::")[-1].strip()
        return f"{len(plain)}{plain}"

    mine = {v.function for v in symbols.shared if re.search(mangled(kernel), v.function)}
    own = max((sum(v.size for v in symbols.shared if v.function == f) for f in mine), default=0)
    others = [mangled(name) for name in {*kernels, kernel}]
    called = (v for v in symbols.shared if not any(re.search(o, v.function) for o in others))
    return own + sum(v.size for v in called)


def described(library: ctypes.CDLL, prepared: source.Prepared, number: int, name: str) -> tuple[list[Parameter], int]:
    """The parameters of a kernel, names from the source, types and sizes from the compiler; and its launch bounds, the
    most threads that a block may have (0: as many as CUDA allows)."""
    records = (_Parameter * 257)()
    count = getattr(library, f"simt_describe_{number}")(records)
    plain = prepared.kernels[name.split("<")[0].split("::")[-1].strip()]
    parameters = []
    for i in range(count):
        d = records[i]
        spelled = re.search(r"T = (.*?)\]$", d.type.decode())
        called = plain[i] if i < len(plain) else f"argument {i + 1}"
        kind = re.sub(r"\s+\*", "*", spelled.group(1)) if spelled else ""
        parameters.append(Parameter(called, kind, d.size, _KINDS[d.kind]))
    return parameters, records[count].size
