"""Launching a kernel of a compiled cell."""

from __future__ import annotations

import ctypes
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from . import counters, elf, findings
from .arrays import MemoryRange, Namer
from .errors import LaunchError
from .module import Build, Module, Parameter, static_shared

MAX_THREADS, MAX_STATIC, MAX_SHARED = 1024, 48 * 1024, 227 * 1024
MAX_LIVE_THREADS = 24 * 1024
"""Threads that are simulated at the same time: each has a stack and a guard page, two mappings of the 65530 that Linux
allows a process. All threads of a cooperative launch live at once."""


@dataclass(frozen=True)
class LaunchOptions:
    """How to run a launch.

    `arrays` names all memory that the kernel may touch; only a checked launch looks at it. `blocks` are the numbers of
    the blocks to run (all). `threads` are the operating-system threads of a fast launch (one for each processor); a
    kernel with atomics, and any checked launch, runs its blocks one after another on one, so that the result never
    depends on the machine; `order` seeds the order in which a checked one takes them (0: by number). `cooperative`:
    None means if the kernel calls grid.sync(). `cluster` is the number of blocks of a cluster. `trace` is the file
    descriptor of a counter's process (counting.py), which then counts in place of this one; with `film` it is one of a
    file, which also gets notes and values (runtime/film.cpp).
    """

    arrays: Mapping[str, MemoryRange | tuple] | None = None
    checked: bool = True
    seed: int = 0
    time_limit: float = 10.0
    blocks: Sequence[int] | None = None
    threads: int | None = None
    cooperative: bool | None = None
    cluster: int = 1
    trace: int = -1
    order: int = 0
    film: bool = False


@dataclass(frozen=True)
class _Shape:
    """What a launch configuration says: `k<<<grid, block, shared_bytes>>>`."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int

    @property
    def blocks(self) -> int:
        return math.prod(self.grid)

    @property
    def threads(self) -> int:
        """Threads of one block."""
        return math.prod(self.block)


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


class _FormSpec(ctypes.Structure):
    _fields_ = [("pc", ctypes.c_uint32), ("forms", ctypes.c_uint32)]


class _LaunchSpec(ctypes.Structure):
    _fields_ = [
        ("entry", ctypes.c_void_p), ("arguments", ctypes.c_void_p), ("argument_block", ctypes.c_void_p),
        ("argument_bytes", ctypes.c_uint64), ("arrays", ctypes.c_void_p), ("shared_variables", ctypes.c_void_p),
        ("objects", ctypes.c_void_p), ("blocks", ctypes.c_void_p), ("shared_bytes", ctypes.c_uint64),
        ("seed", ctypes.c_uint64), ("time_limit", ctypes.c_double), ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3), ("array_count", ctypes.c_uint32), ("shared_variable_count", ctypes.c_uint32),
        ("object_count", ctypes.c_uint32), ("block_count", ctypes.c_uint32), ("checked", ctypes.c_uint32),
        ("threads", ctypes.c_uint32), ("cooperative", ctypes.c_uint32), ("cluster", ctypes.c_uint32),
        ("trace", ctypes.c_int32), ("static_shared_bytes", ctypes.c_uint32), ("order", ctypes.c_uint64),
        ("film", ctypes.c_uint32), ("form_count", ctypes.c_uint32), ("forms", ctypes.c_void_p),
    ]  # fmt: skip


@dataclass
class HostKernel:
    """A kernel of a module. `bound` is the number of threads in its `__launch_bounds__`, or 0. `forms` are what
    the machine code of the lines of its instructions does, or None: nobody knows."""

    module: Module
    name: str
    number: int
    parameters: list[Parameter]
    bound: int = 0
    forms: ctypes.Array | None = None

    def use_forms(self, forms: Mapping[int, int]) -> None:
        """From now on count as the compiler's machine code does: `forms` are those of each source line that has any
        (`cuda.cubin.Form`)."""
        lines = self.module.built(True).lines.of_calls() if forms else {}
        found = [(pc, forms[line]) for pc, line in lines.items() if line in forms]
        self.forms = (_FormSpec * max(1, len(found)))(*found)

    def launch(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        shared_bytes: int,
        args: Sequence,
        **options,
    ) -> LaunchResult:
        """Run the kernel. Pointers are given as addresses, structs as ctypes objects or bytes.

        The options are those of `LaunchOptions`, by keyword.
        """
        chosen = LaunchOptions(**options)
        shape = _Shape(_triple(grid, "grid"), _triple(block, "block"), shared_bytes)
        b = self.module.built(chosen.checked)
        if chosen.cooperative is None:
            chosen = replace(chosen, cooperative="simt_grid_barrier" in b.symbols.needed)
        self._check_limits(shape, chosen.cooperative, b)
        self._check_cluster(shape, chosen.cluster, b)
        arrays = self._arrays(chosen, b)
        raw = self._run(shape, args, arrays, chosen, b)
        result = _result(raw, self.module, b, arrays, shape)
        result.shared_bytes = static_shared(b.symbols, self.name, self.module.source.kernels) + shared_bytes
        return result

    def _arrays(self, options: LaunchOptions, b: Build) -> dict[str, MemoryRange]:
        """All memory that the kernel may touch: what the options name, and the module's own variables."""
        ranges = {n: a if isinstance(a, MemoryRange) else MemoryRange(*a) for n, a in (options.arrays or {}).items()}
        base = b.base()
        for v in b.symbols.variables:
            if v.name not in self.module.source.constants:
                item = 4 if v.size % 4 == 0 else 1
                ranges.setdefault(v.name, MemoryRange(base + v.offset, v.size // item, item))
        if len(ranges) > 250:
            raise LaunchError("a launch can name at most 250 arrays")
        if any(a.elements * a.itemsize > 2**32 for a in ranges.values()):
            raise LaunchError("the emulator runs kernels on arrays of at most 4 GiB")
        return ranges

    def _run(self, shape: _Shape, args: Sequence, arrays: dict[str, MemoryRange], options: LaunchOptions, b: Build):
        """Call the runtime; returns its report as it was read from JSON."""
        pointers, storage = self._arguments(args)
        total = shape.blocks // options.cluster
        numbers = _block_numbers(options.blocks, total)
        specs = (_ArraySpec * max(1, len(arrays)))(
            *(_ArraySpec(address=a.address, elements=a.elements, item=a.itemsize, inside=a.inside)
              for a in arrays.values())
        )  # fmt: skip
        shared, objects = _ranges(b.symbols.shared), _ranges(b.symbols.variables)
        in_order = bool(options.checked or options.cooperative or {"simt_atomic", "simt_fence"} & set(b.symbols.needed))
        most = MAX_LIVE_THREADS // (shape.threads * options.cluster)
        workers = 1 if in_order else max(1, min(options.threads or os.cpu_count() or 1, total, most, 64))
        spec = _LaunchSpec(
            entry=ctypes.cast(getattr(b.library, f"simt_entry_{self.number}"), ctypes.c_void_p).value,
            arguments=ctypes.addressof(pointers),
            argument_block=ctypes.addressof(storage),
            argument_bytes=ctypes.sizeof(storage),
            arrays=ctypes.addressof(specs),
            array_count=len(arrays),
            shared_variables=ctypes.addressof(shared),
            shared_variable_count=len(b.symbols.shared),
            objects=ctypes.addressof(objects),
            object_count=len(b.symbols.variables),
            blocks=None if numbers is None else ctypes.addressof(numbers),
            block_count=len(set(options.blocks or ())),
            shared_bytes=shape.shared_bytes,
            seed=options.seed,
            time_limit=options.time_limit,
            grid=shape.grid,
            block=shape.block,
            checked=int(options.checked),
            threads=workers,
            cooperative=int(options.cooperative),
            cluster=options.cluster,
            trace=options.trace if options.checked else -1,
            static_shared_bytes=static_shared(b.symbols, self.name, self.module.source.kernels),
            order=options.order,
            film=int(options.film and options.checked),
            forms=None if self.forms is None else ctypes.addressof(self.forms),
            form_count=sum(1 for known in self.forms or () if known.pc),
        )
        return json.loads(self.module.load_runtime().simt_launch(ctypes.byref(spec)).decode(errors="replace"))

    def _check_limits(self, shape: _Shape, cooperative: bool, b: Build) -> None:
        grid, block, shared_bytes, threads = shape.grid, shape.block, shape.shared_bytes, shape.threads
        if not 0 < threads <= MAX_THREADS:
            raise LaunchError(f"a block of {threads} threads: CUDA allows 1 to {MAX_THREADS}")
        if self.bound and threads > self.bound:
            raise LaunchError(
                f"a block of {threads} threads: {self.name} has __launch_bounds__({self.bound}), and CUDA launches no "
                "block of more"
            )
        if block[2] > 64:
            raise LaunchError(f"a block of {block[2]} threads in z: CUDA allows 64")
        if min(grid) < 1 or grid[0] > 2**31 - 1 or max(grid[1:]) > 65535:
            raise LaunchError(f"a grid of {grid} blocks: CUDA allows 1 to 2^31 - 1 in x, 65,535 in y and in z")
        if shape.blocks >= 2**31:
            raise LaunchError(f"a grid of {grid} blocks has more than the 2^31 that the emulator can count")
        static = static_shared(b.symbols, self.name, self.module.source.kernels)
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
        if cooperative and shape.blocks * threads > MAX_LIVE_THREADS:
            raise LaunchError(
                f"a cooperative launch of {shape.blocks * threads:,} threads: they all run at the same time, and the "
                f"emulator runs at most {MAX_LIVE_THREADS:,}. Use fewer blocks and a grid-stride loop"
            )

    def _check_cluster(self, shape: _Shape, cluster: int, b: Build) -> None:
        """A cluster's blocks run as one block of as many times the threads."""
        grid, threads = shape.grid, shape.threads
        if cluster == 1:
            return
        if not 1 < cluster <= 16 or grid[0] % cluster:
            raise LaunchError(
                f"{grid[0]} blocks in x are no whole clusters of {cluster}; a cluster has at most 16 blocks"
            )
        if threads % 32 or threads * cluster > MAX_THREADS:
            raise LaunchError(f"the emulator runs clusters of at most {MAX_THREADS} threads in whole warps")
        if static_shared(b.symbols, self.name, self.module.source.kernels):
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


def _block_numbers(blocks: Sequence[int] | None, total: int):
    """The blocks to run, in order, for the runtime; None for all of them."""
    if blocks is None:
        return None
    chosen = sorted(set(blocks))
    if chosen and not 0 <= chosen[0] <= chosen[-1] < total:
        raise LaunchError(f"the grid has blocks 0 to {total - 1}")
    return (ctypes.c_uint32 * max(1, len(chosen)))(*chosen)


def _ranges(variables: list[elf.Variable]):
    return (_Range * max(1, len(variables)))(*(_Range(v.offset, v.size) for v in variables))


# ---- results


def _result(raw: dict, module: Module, b: Build, arrays: dict[str, MemoryRange], shape: _Shape) -> LaunchResult:
    names = list(arrays)
    pcs = {s[0] for s in raw["sites"]}
    for f in raw["findings"]:
        pcs |= {f["pc"], f["other_pc"]}
    line_of = b.lines.of(pcs)
    namer = Namer(raw, module.source, b.symbols, arrays, shape.shared_bytes)
    context = findings.Context(line_of, shape.grid, shape.block, namer.element, namer.nearest, namer.indexed)
    found = findings.translate(raw["findings"], context)
    return LaunchResult(found, counters.collect(raw, line_of, lambda i: names[i]), raw["printed"], raw["seconds"])
