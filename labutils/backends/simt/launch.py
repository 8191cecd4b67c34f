"""Compiling a cell and launching its kernels."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from . import build, counters, elf, findings, lines, source
from .errors import CompileError, LaunchError

MAX_THREADS, MAX_STATIC, MAX_SHARED = 1024, 48 * 1024, 227 * 1024
MAX_COOPERATIVE_THREADS = 1 << 16
"""Threads of a cooperative launch: all of them live at once."""


@dataclass(frozen=True)
class MemoryRange:
    """An array that a kernel may touch: `elements` of `itemsize` bytes from `address` on.

    `inside` has one byte for each element, nonzero where it belongs to the array (rows with padding between them).
    `origin` is the element that is called index 0: guards that lie before it are in no array, but have a name.
    """

    address: int
    elements: int
    itemsize: int
    inside: bytes | None = None
    origin: int = 0


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel. `kind` is "integer", "unsigned", "floating", "pointer" or "other" (a struct)."""

    name: str
    type: str
    size: int
    kind: str


@dataclass
class LaunchResult:
    """What a launch did. `findings` are in the order of blocks; counters are empty after a fast launch.

    `shared_bytes` is the shared memory of one block, static and dynamic.
    """

    findings: list[findings.Finding]
    report: counters.Report
    printed: str
    seconds: float
    shared_bytes: int = 0

    @property
    def counters(self) -> counters.Counters:
        return self.report.total

    @property
    def ok(self) -> bool:
        return not self.findings


class _ArraySpec(ctypes.Structure):
    _fields_ = [("address", ctypes.c_size_t), ("elements", ctypes.c_uint64), ("item", ctypes.c_uint32),
                ("unused", ctypes.c_uint32), ("inside", ctypes.c_char_p)]  # fmt: skip


class _Range(ctypes.Structure):
    _fields_ = [("offset", ctypes.c_uint64), ("size", ctypes.c_uint64)]


class _LaunchSpec(ctypes.Structure):
    _fields_ = [
        ("entry", ctypes.c_void_p), ("arguments", ctypes.c_void_p), ("argument_block", ctypes.c_void_p),
        ("argument_bytes", ctypes.c_uint64), ("arrays", ctypes.c_void_p), ("shared_variables", ctypes.c_void_p),
        ("objects", ctypes.c_void_p), ("blocks", ctypes.c_void_p), ("shared_bytes", ctypes.c_uint64),
        ("seed", ctypes.c_uint64), ("time_limit", ctypes.c_double), ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3), ("array_count", ctypes.c_uint32), ("shared_variable_count", ctypes.c_uint32),
        ("object_count", ctypes.c_uint32), ("block_count", ctypes.c_uint32), ("checked", ctypes.c_uint32),
        ("threads", ctypes.c_uint32), ("cooperative", ctypes.c_uint32), ("cluster", ctypes.c_uint32),
    ]  # fmt: skip


class _Parameter(ctypes.Structure):
    _fields_ = [("type", ctypes.c_char_p), ("size", ctypes.c_uint32), ("kind", ctypes.c_uint32)]


_KINDS = ("integer", "unsigned", "floating", "pointer", "other")


@functools.cache
def _load_runtime(path: str) -> ctypes.CDLL:
    library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)  # kernels find the runtime's functions by name
    library.simt_launch.restype = ctypes.c_char_p
    library.simt_launch.argtypes = [ctypes.c_void_p]
    return library


@dataclass
class _Build:
    """One build of a module, loaded."""

    path: str
    library: ctypes.CDLL
    symbols: elf.Symbols
    lines: lines.Lines


@dataclass
class Module:
    """A compiled cell: `kernels` by name, in the order of the source."""

    source: source.Prepared
    names: list[str]
    filename: str
    compiler: build.Compiler
    kernels: dict[str, HostKernel] = field(default_factory=dict)
    _builds: dict[bool, _Build] = field(default_factory=dict, repr=False)

    def prepare(self, *modes: bool) -> None:
        """Have these builds ready: True is the checked one, False the fast one."""
        missing = [m for m in modes if m not in self._builds]
        if not missing:
            return
        paths = build.kernels(self.compiler, self.source.text, self.names, missing, self.filename)
        _load_runtime(str(build.runtime(self.compiler)))
        for mode, path in zip(missing, paths, strict=True):
            library = ctypes.CDLL(str(path), mode=ctypes.RTLD_LOCAL)
            self._builds[mode] = _Build(str(path), library, elf.read(str(path)), lines.Lines(str(path), self.filename))

    def built(self, checked: bool) -> _Build:
        self.prepare(checked)
        return self._builds[checked]

    def variable(self, name: str, checked: bool = True) -> tuple[int, int]:
        """Address and size in bytes of a `__device__` or `__constant__` variable of one build."""
        b = self.built(checked)
        for v in (*b.symbols.variables, *b.symbols.tables):
            if v.name == name:
                return _base(b) + v.offset, v.size
        raise KeyError(f"the source has no __device__ or __constant__ variable {name!r}")


def _base(b: _Build) -> int:
    """Where the module is loaded."""
    return ctypes.cast(b.library.simt_entry_0, ctypes.c_void_p).value - _entry_offset(b.path)


@functools.lru_cache(maxsize=256)
def _entry_offset(path: str) -> int:
    return elf.function(path, "simt_entry_0")


@dataclass
class HostKernel:
    """A kernel of a module."""

    module: Module
    name: str
    number: int
    parameters: list[Parameter]

    def launch(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        shared_bytes: int,
        args: Sequence,
        *,
        arrays: Mapping[str, MemoryRange | tuple] | None = None,
        checked: bool = True,
        seed: int = 0,
        time_limit: float = 10.0,
        blocks: Sequence[int] | None = None,
        threads: int | None = None,
        cooperative: bool | None = None,
        cluster: int = 1,
    ) -> LaunchResult:
        """Run the kernel. Pointers are given as addresses, structs as ctypes objects or bytes.

        `arrays` names all memory that the kernel may touch; only a checked launch looks at it. `blocks` are the
        numbers of the blocks to run (all). `threads` are the operating-system threads of a fast launch (one for each
        processor); a kernel with atomics, and any checked launch, runs its blocks in order on one, so that the
        result never depends on the machine. `cooperative`: None means if the kernel calls grid.sync().
        """
        grid3, block3 = _triple(grid, "grid"), _triple(block, "block")
        b = self.module.built(checked)
        uses_grid_sync = "simt_grid_barrier" in b.symbols.needed
        cooperative = uses_grid_sync if cooperative is None else cooperative
        self._check_limits(grid3, block3, shared_bytes, cooperative, b)
        self._check_cluster(grid3, block3, cluster, b)
        pointers, storage = self._arguments(args)
        named = {n: a if isinstance(a, MemoryRange) else MemoryRange(*a) for n, a in (arrays or {}).items()}
        base = _base(b)
        for v in b.symbols.variables:
            if v.name not in self.module.source.constants:
                item = 4 if v.size % 4 == 0 else 1
                named.setdefault(v.name, MemoryRange(base + v.offset, v.size // item, item))
        if len(named) > 250:
            raise LaunchError("a launch can name at most 250 arrays")
        ordered = bool(checked or cooperative or {"simt_atomic", "simt_fence"} & set(b.symbols.needed))
        total = grid3[0] * grid3[1] * grid3[2] // cluster
        chosen = sorted(set(blocks)) if blocks is not None else None
        if chosen and not 0 <= chosen[0] <= chosen[-1] < total:
            raise LaunchError(f"the grid has blocks 0 to {total - 1}")
        workers = 1 if ordered else max(1, min(threads or os.cpu_count() or 1, total, 64))

        specs = (_ArraySpec * max(1, len(named)))(
            *(_ArraySpec(a.address, a.elements, a.itemsize, 0, a.inside) for a in named.values())
        )
        shared = _ranges(b.symbols.shared)
        objects = _ranges(b.symbols.variables)
        numbers = (ctypes.c_uint32 * max(1, len(chosen)))(*chosen) if chosen is not None else None
        spec = _LaunchSpec(
            ctypes.cast(getattr(b.library, f"simt_entry_{self.number}"), ctypes.c_void_p).value,
            ctypes.addressof(pointers), ctypes.addressof(storage), ctypes.sizeof(storage), ctypes.addressof(specs),
            ctypes.addressof(shared), ctypes.addressof(objects), ctypes.addressof(numbers) if numbers else None,
            shared_bytes, seed, time_limit, (ctypes.c_uint32 * 3)(*grid3), (ctypes.c_uint32 * 3)(*block3), len(named),
            len(b.symbols.shared), len(b.symbols.variables), len(chosen or ()), int(checked), workers,
            int(cooperative), cluster,
        )  # fmt: skip
        runtime = _load_runtime(str(build.runtime(self.module.compiler)))
        raw = json.loads(runtime.simt_launch(ctypes.byref(spec)).decode(errors="replace"))
        result = _result(raw, self.module, b, named, grid3, block3, shared_bytes)
        result.shared_bytes = static_shared(b.symbols, self.name) + shared_bytes
        return result

    def _check_limits(self, grid, block, shared_bytes, cooperative, b: _Build) -> None:
        threads = block[0] * block[1] * block[2]
        if not 0 < threads <= MAX_THREADS:
            raise LaunchError(f"a block of {threads} threads: CUDA allows 1 to {MAX_THREADS}")
        if block[2] > 64:
            raise LaunchError(f"a block of {block[2]} threads in z: CUDA allows 64")
        if min(grid) < 1 or grid[0] > 2**31 - 1 or max(grid[1:]) > 65535:
            raise LaunchError(f"a grid of {grid} blocks: CUDA allows 1 to 2^31 - 1 in x, 65,535 in y and in z")
        if grid[0] * grid[1] * grid[2] >= 2**31:
            raise LaunchError(f"a grid of {grid} blocks has more than the 2^31 that the emulator can count")
        static = static_shared(b.symbols, self.name)
        if static > MAX_STATIC:
            raise LaunchError(
                f"{static:,} bytes of static shared memory: CUDA allows {MAX_STATIC:,} (48 KB); use extern __shared__ "
                "and give the size at the launch"
            )
        if shared_bytes < 0 or static + shared_bytes > MAX_SHARED:
            raise LaunchError(
                f"{static + shared_bytes:,} bytes of shared memory for a block: CUDA allows at most {MAX_SHARED:,} "
                "(227 KB)"
            )
        if cooperative and grid[0] * grid[1] * grid[2] * threads > MAX_COOPERATIVE_THREADS:
            raise LaunchError("a cooperative launch must fit on the GPU at once: use fewer blocks and a loop")

    def _check_cluster(self, grid, block, cluster: int, b: _Build) -> None:
        """A cluster's blocks run as one block of as many times the threads."""
        threads = block[0] * block[1] * block[2]
        if cluster == 1:
            return
        if not 1 < cluster <= 8 or grid[0] % cluster:
            raise LaunchError(
                f"{grid[0]} blocks in x are no whole clusters of {cluster}; a cluster has at most 8 blocks"
            )
        if threads % 32 or threads * cluster > MAX_THREADS:
            raise LaunchError(f"the emulator runs clusters of at most {MAX_THREADS} threads in whole warps")
        if static_shared(b.symbols, self.name):
            raise LaunchError("the emulator runs clusters of kernels whose shared memory is all dynamic")

    def _arguments(self, args: Sequence):
        """Copies of the arguments in one block of memory, and an array of pointers to them."""
        if len(args) != len(self.parameters):
            names = ", ".join(p.name for p in self.parameters) or "no arguments"
            raise LaunchError(f"{self.name} takes {len(self.parameters)} arguments ({names}), not {len(args)}")
        offsets, total = [], 0
        for p in self.parameters:
            total = -(-total // 16) * 16
            offsets.append(total)
            total += p.size
        storage = ctypes.create_string_buffer(max(total, 1) + 16)
        start = -(-ctypes.addressof(storage) // 16) * 16 - ctypes.addressof(storage)
        storage_at = ctypes.addressof(storage) + start
        pointers = (ctypes.c_void_p * max(1, len(args)))(*(storage_at + o for o in offsets))
        for p, value, offset in zip(self.parameters, args, offsets, strict=True):
            ctypes.memmove(storage_at + offset, _bytes_of(p, value), p.size)
        return pointers, storage


def _bytes_of(p: Parameter, value) -> bytes:
    """An argument as the bytes that the kernel's parameter holds."""
    plain = isinstance(value, ctypes._SimpleCData)
    if isinstance(value, (bytes, ctypes.Structure, ctypes.Array)) or (plain and ctypes.sizeof(value) == p.size):
        raw = bytes(value)
    else:
        raw = _number(p, (value.value or 0) if plain else value)
    if len(raw) != p.size:
        raise LaunchError(f"argument {p.name} ({p.type}) has {p.size} bytes, not {len(raw)}")
    return raw


def _number(p: Parameter, value) -> bytes:
    if p.kind == "other":
        raise LaunchError(f"argument {p.name} ({p.type}) is a struct: give its bytes")
    if p.kind == "floating":
        try:
            return bytes({4: ctypes.c_float, 8: ctypes.c_double}[p.size](value))
        except TypeError:
            raise LaunchError(f"argument {p.name} ({p.type}) must be a number, not {value!r}") from None
    if not hasattr(value, "__index__"):
        raise LaunchError(f"argument {p.name} ({p.type}) must be an integer, not {value!r}")
    value = value.__index__()
    bits = 8 * p.size
    signed = p.kind == "integer"
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if not low <= value <= high:
        raise LaunchError(f"argument {p.name} ({p.type}) cannot hold {value}")
    return value.to_bytes(p.size, "little", signed=signed)


def _triple(sizes: int | Sequence[int], what: str) -> tuple[int, int, int]:
    if hasattr(sizes, "__index__"):
        sizes = (sizes.__index__(),)
    sizes = tuple(int(s) for s in sizes)
    if not 1 <= len(sizes) <= 3:
        raise LaunchError(f"a {what} has one to three sizes, not {len(sizes)}")
    return (*sizes, 1, 1)[:3]


def _ranges(variables: list[elf.Variable]):
    return (_Range * max(1, len(variables)))(*(_Range(v.offset, v.size) for v in variables))


def static_shared(symbols: elf.Symbols, kernel: str) -> int:
    """Bytes of static shared memory of a kernel: its own variables and those of device functions."""
    plain = kernel.split("<")[0].split("::")[-1]
    mine = {v.function for v in symbols.shared if re.search(rf"{len(plain)}{plain}", v.function)}
    own = max((sum(v.size for v in symbols.shared if v.function == f) for f in mine), default=0)
    return own + sum(v.size for v in symbols.shared if not v.function)


# ---- results


def _result(raw: dict, module: Module, b: _Build, arrays, grid, block, shared_bytes) -> LaunchResult:
    names = list(arrays)
    pcs = {s[0] for s in raw["sites"]}
    for f in raw["findings"]:
        pcs |= {f["pc"], f["other_pc"]}
    line_of = b.lines.of(pcs)
    namer = _Namer(raw, module.source, b.symbols, arrays, shared_bytes)
    context = findings.Context(line_of, grid, block, namer.element, namer.nearest, namer.indexed)
    found = findings.translate(raw["findings"], context)
    return LaunchResult(found, counters.collect(raw, line_of, lambda i: names[i]), raw["printed"], raw["seconds"])


def _holds(a: MemoryRange, element: int) -> bool:
    return 0 <= element < a.elements and (a.inside is None or bool(a.inside[element]))


class _Namer:
    """Names elements of arrays, from what the launch and the source know."""

    def __init__(
        self, raw, prepared: source.Prepared, symbols: elf.Symbols, arrays: dict[str, MemoryRange], shared_bytes
    ):
        self._raw, self._source, self._symbols, self._arrays = raw, prepared, symbols, arrays
        self._shared_bytes = shared_bytes
        dynamic = [s for s in prepared.shared.values() if s.dynamic]
        self._dynamic = dynamic[0] if len(dynamic) == 1 else source.SharedArray("dynamic shared", None, None, True)

    def element(self, number: int, offset: int, size: int) -> findings.Element:
        """The element at an offset that lies in an array."""
        if number == findings.DYNAMIC:
            return self._shared(self._dynamic, offset, size, self._shared_bytes)
        if number == findings.STATIC:
            for v in self._symbols.shared:
                if v.offset <= offset < v.offset + v.size:
                    return self._static(v, offset - v.offset, size)
        name = list(self._arrays)[number]
        array = self._arrays[name]
        index = offset // array.itemsize - array.origin
        return findings.Element(f"{name}[{index}]", name, index)

    def _static(self, v: elf.Variable, offset: int, size: int) -> findings.Element:
        declared = self._source.shared.get(v.name) or source.SharedArray(v.name, None, None, False)
        return self._shared(declared, offset, size, v.size)

    @staticmethod
    def _shared(declared: source.SharedArray, offset: int, size: int, total: int) -> findings.Element:
        item = declared.item or size
        index, name = offset // item, declared.name
        if declared.lengths is None and not declared.dynamic and total == item:
            return findings.Element(name, name, 0)
        lengths = declared.lengths or ()
        count = 1
        for n in lengths:
            count *= n
        if len(lengths) < 2 or count * item != total:
            return findings.Element(f"{name}[{index}]", name, index)
        parts, rest = [], index
        for n in reversed(lengths[1:]):
            parts.append(rest % n)
            rest //= n
        parts.append(rest)
        return findings.Element(name + "".join(f"[{p}]" for p in reversed(parts)), name, index)

    def nearest(self, address: int, size: int) -> findings.Element:
        """What an address was meant to be: the array whose end is nearest."""
        best = None
        for name, low, length, item, origin, kind in self._regions():
            distance = low - address if address < low else max(0, address + size - (low + length))
            if best is None or distance < best[0]:
                best = (distance, name, low, length, item, origin, kind)
        if best is None or best[0] > 1 << 28:
            return findings.Element(f"{size} bytes at {address:#x}, which is in no array of the launch", "", None)
        _, name, low, length, item, origin, kind = best
        item = item or size
        index = (address - low) // item - origin
        if kind in ("", "guarded"):  # a wide access may begin inside: name its first element that is not
            a = self._arrays[name]
            span = range(index + origin, index + origin + -(-size // item))
            index = next((k for k in span if not _holds(a, k)), index + origin) - origin
        if kind == "dynamic":
            size_text = f"{length:,} bytes of dynamic shared memory that the launch asked for"
        elif kind == "guarded":
            inside = self._arrays[name].inside
            last = inside.rindex(1) - origin if 1 in inside else -1
            if 0 <= index <= last:
                size_text = "array: this lies between its rows"
            else:
                elements = inside.count(1)
                size_text = f"array of {elements} element{'s' if elements != 1 else ''}"
        else:
            count = length // item
            size_text = f"{kind}array of {count} element{'s' if count != 1 else ''}"
        return findings.Element(f"{name}[{index}], outside the {size_text}", name, index)

    def _regions(self):
        for name, a in self._arrays.items():
            kind = "" if a.inside is None else "guarded"
            yield name, a.address, a.elements * a.itemsize, a.itemsize, a.origin, kind
        for v in self._symbols.shared:
            declared = self._source.shared.get(v.name)
            yield v.name, self._raw["shared_low"] + v.offset, v.size, declared and declared.item, 0, "shared "
        for v in (*self._symbols.variables, *self._symbols.tables):
            if v.name in self._source.constants:
                yield v.name, self._raw["module"] + v.offset, v.size, None, 0, "constant "
        yield self._dynamic.name, self._raw["dynamic_low"], self._shared_bytes, self._dynamic.item, 0, "dynamic"

    def indexed(self, line: int, column: int) -> findings.Element:
        """The array that is indexed in the source at this place: the compiler's check says only its type."""
        text = self._source.text.splitlines()
        text = text[line - 1] if 0 < line <= len(text) else ""
        shared = [m for m in re.finditer(r"(\w+)\s*\[", text) if not m.group(1).isdigit()]
        before = [m for m in shared if m.start() < column] or shared
        names = [m.group(1) for m in before]
        known = [n for n in names if n in self._source.shared or n in self._source.constants]
        name = (known or names or [""])[-1]
        return findings.Element(name, name, None)


# ---- compiling


def compile(
    text: str,
    names: Sequence[str] | None = None,
    *,
    checked: bool | str = True,
    filename: str = "cell",
) -> Module:
    """Compile CUDA C++. `names` are the kernels wanted, instances of templates as "k<256>" (None: every kernel that is
    no template). `checked`: which build to make now, True, False or "both"; the other is made when it is needed.
    Raises CompileError, NoCompiler."""
    prepared = source.prepare(text)
    if names is None:
        names = [k for k in prepared.kernels if k not in prepared.templates]
        if not names:
            templates = ", ".join(f"{t}<…>" for t in sorted(prepared.templates))
            raise CompileError(
                f"name an instance of {templates}" if templates else "the cell has no __global__ function"
            )
    for name in names:
        plain = name.split("<")[0].split("::")[-1].strip()
        if plain not in prepared.kernels:
            known = ", ".join(prepared.kernels) or "none"
            raise CompileError(f"the cell has no kernel {name}; its kernels are: {known}")
        if plain in prepared.templates and "<" not in name:
            raise CompileError(f"{name} is a template: name an instance of it, such as {name}<256>")
    safe = re.sub(r"[^\w.-]", "_", filename) or "cell"
    module = Module(prepared, list(names), safe, build.compiler())
    modes = [True, False] if checked == "both" else [bool(checked)]
    module.prepare(*modes)
    library = module.built(modes[0]).library
    for i, name in enumerate(names):
        module.kernels[name] = HostKernel(module, name, i, _parameters(library, prepared, i, name))
    return module


def _parameters(library: ctypes.CDLL, prepared: source.Prepared, number: int, name: str) -> list[Parameter]:
    described = (_Parameter * 256)()
    count = getattr(library, f"simt_describe_{number}")(described)
    plain = prepared.kernels[name.split("<")[0].split("::")[-1].strip()]
    parameters = []
    for i in range(count):
        d = described[i]
        spelled = re.search(r"T = (.*?)\]$", d.type.decode())
        called = plain[i] if i < len(plain) else f"argument {i + 1}"
        kind = re.sub(r"\s+\*", "*", spelled.group(1)) if spelled else ""
        parameters.append(Parameter(called, kind, d.size, _KINDS[d.kind]))
    return parameters
