"""The second reading of a kernel: the object file, before anything loads it.

`rules` has read the text. Whatever got past it shows here: a call to a function that no kernel has, a branch to an
address that is computed, the address of a function, code that runs by itself when a library is loaded, instructions
that speak to the operating system, and functions without the calls that record their accesses. Symbols and relocations
are read always, instructions where binutils or LLVM has left a disassembler (g++ never comes without one).
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from . import elf
from .errors import CompileError, NeedsGpu

_HERE = Path(__file__).parent

_MATH = re.findall(
    r"\w+",
    """exp exp2 exp10 expm1 log log2 log10 log1p sqrt cbrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh
    erf erfc tgamma lgamma fabs floor ceil trunc round rint nearbyint pow fmod atan2 fmax fmin copysign hypot fdim
    remainder fma ldexp sincos""",
)
_PROVIDED = frozenset([*_MATH, *(n + "f" for n in _MATH), "abs"])

_STRUCTS = frozenset(["memcpy", "memmove", "memset", "memcmp", "bcmp"])
"""What compilers call for structs by themselves. In a checked build of g++ such a call is the source's own, and none
that is recorded: there g++ moves structs without it (see the flags in `build`)."""

_CALLBACKS = re.compile(
    r"__tsan_(init|func_entry|func_exit|vptr_(read|update)|(unaligned_)?(volatile_)?(read|write|read_write)\d+|"
    r"(read|write)_range|mem(cpy|move|set))|__sanitizer_cov_trace_pc|__ubsan_handle_out_of_bounds(_abort)?|"
    r"__wrap_mem(cpy|move|set)"
)

_LINKER = frozenset(["__tls_get_addr", "_GLOBAL_OFFSET_TABLE_", "_DYNAMIC", "__dso_handle"])

_THUNK = re.compile(r"__x86_indirect_thunk_\w+|__llvm_(external_)?retpoline_\w+")

_SHOWN = {"_Znwm": "new", "_Znam": "new[]", "_ZdlPv": "delete", "_ZdlPvm": "delete", "_ZdaPv": "delete[]"}

_OURS = re.compile(r"simt_(entry|describe)_\d+|_ZNK?4simt.*")
"""Functions of the emulator in a kernel's object: no kernel can name anything in the namespace simt."""

_RUN_AT_LOAD = re.compile(r"\.(preinit_array|init_array|ctors|fini_array|dtors|init|fini)(\..*)?")

_START_UP = {
    ".init_array.00099": "_sub_I_00099_0",
    ".init_array": "tsan.module_ctor",
    ".init_array.0": "tsan.module_ctor",
}
"""The one thing that runs at load time in a checked build: a sanitizer's own start, by section (g++, clang)."""

_ALLOC, _EXECUTABLE, _CODE, _IFUNC = 2, 4, 2, 10

_BRANCHES = {62: (), 183: (279, 280, 282, 283)}
"""Types of relocations that only branches have, by machine. On x86-64 the instruction itself says it."""

POINTERS = "function pointers and virtual functions run on a GPU only; here, use a template parameter or a lambda"


def check(path: str, checked: bool, family: str, watched: Collection[str] | None = None) -> None:
    """Inspect an object file that has not been linked. `watched` are the functions of which the compiler says that it
    has instrumented them, None if it does not tell. Raises CompileError, or NeedsGpu for what only a GPU can run."""
    image = elf.Image(path)
    symbols = [elf.Symbol("", 0, 0, 0, 0), *image.symbols(2)]
    _check_sections(image, symbols, checked)
    _check_symbols(image, symbols, checked, family)
    _check_addresses(image, symbols)
    for function in _disassembled(path):
        _check_instructions(function)
        if checked and not _OURS.fullmatch(function.name) and function.name not in _START_UP.values():
            _check_recorded(function, watched)


def check_library(path: str) -> None:
    """Inspect the linked library: no memory that is both writable and executable, no code that is changed at load."""
    image = elf.Image(path)
    for kind, flags in image.segments():
        if flags & 3 == 3 and kind in (1, _STACK):
            raise CompileError("the kernel asks for memory that can be written and run: a GPU has none")
    dynamic = image.dynamic()
    if 22 in dynamic or dynamic.get(30, 0) & 4:
        raise CompileError("the kernel's code would be changed as it is loaded: use no addresses of functions")


_STACK = 0x6474E551


def _check_sections(image: elf.Image, symbols: list[elf.Symbol], checked: bool) -> None:
    targets = {home.name: [symbols[r.symbol] for r in entries] for home, entries in image.relocations()}
    for s in image.sections:
        if _RUN_AT_LOAD.fullmatch(s.name) and s.size:
            start = [_name(t, image) for t in targets.get(s.name, [])]
            if not checked or start != [_START_UP.get(s.name)]:
                raise CompileError(
                    "a __device__, __constant__ or __shared__ variable cannot be initialized by running code"
                )
        if s.flags & _EXECUTABLE and (s.flags & 1 or not re.match(r"\.text\b", s.name)):
            raise CompileError("the kernel holds code in a place where no compiler puts it")


def _check_symbols(image: elf.Image, symbols: list[elf.Symbol], checked: bool, family: str) -> None:
    for s in symbols[1:]:
        if s.kind == _IFUNC:
            raise CompileError(
                f"`{s.name}` would be chosen by running code as the kernel is loaded: write a plain function"
            )
        if s.section:
            if not _OURS.fullmatch(s.name) and s.kind == _CODE and _is_provided(s.name, True, "clang"):
                raise CompileError(f"`{s.name}` belongs to the compiler: give your function another name")
            continue
        if _THUNK.fullmatch(s.name):
            raise NeedsGpu(POINTERS)
        if s.name and not _is_provided(s.name, checked, family):
            shown = _SHOWN.get(s.name, s.name)
            raise CompileError(f"`{shown}` is not a device function: a kernel can call device functions only")


def _is_provided(name: str, checked: bool, family: str) -> bool:
    """May a kernel call this function, which is not its own?"""
    if name in _STRUCTS:
        return not checked or family != "gcc"
    return name in _PROVIDED or name in _LINKER or name in declared() or bool(checked and _CALLBACKS.fullmatch(name))


@functools.cache
def declared() -> frozenset[str]:
    """The functions of the runtime that the headers declare."""
    texts = [p.read_text() for p in sorted((_HERE / "include").rglob("*.*h"))]
    return frozenset(re.findall(r"\b(simt_\w+)\s*\(", "\n".join(texts))) | {"simt_printf"}


def _name(symbol: elf.Symbol, image: elf.Image) -> str:
    """The name of a symbol; a section's is that of the function in it."""
    if symbol.name:
        return symbol.name
    return re.sub(r"^\.text(\.(unlikely|hot|startup|exit))?\.", "", image.sections[symbol.section].name)


def _check_addresses(image: elf.Image, symbols: list[elf.Symbol]) -> None:
    """Functions may be called, and their addresses be used for nothing else."""
    for home, entries in image.relocations():
        if not home.flags & _ALLOC or home.name in _START_UP:
            continue
        for r in entries:
            target = symbols[r.symbol]
            code = (
                image.sections[target.section].flags & _EXECUTABLE
                if 0 < target.section < 0xFF00
                else not target.section
            )
            if not code or target.name in _LINKER or _is_branch(image.machine, home, r):
                continue
            if not _OURS.fullmatch(_name(target, image)):
                raise NeedsGpu(POINTERS)


def _is_branch(machine: int, home: elf.Section, r: elf.Relocation) -> bool:
    if not home.flags & _EXECUTABLE:
        return False
    if machine != 62:
        return r.kind in _BRANCHES.get(machine, ())
    before = home.data[max(0, r.offset - 2) : r.offset]
    return before[-1:] in (b"\xe8", b"\xe9") or (before[:1] == b"\x0f" and 0x80 <= before[-1] < 0x90)


# ---- instructions


class Instruction(NamedTuple):
    """One instruction as a disassembler writes it, and the symbol of its relocation."""

    name: str
    operands: str
    symbol: str


class Function(NamedTuple):
    """The instructions of one function."""

    name: str
    instructions: list[Instruction]


_FORBIDDEN = re.compile(
    r"syscall|sysenter|sysexit\w*|sysret\w*|int|int1|into|icebp|iret\w*|ljmp\w*|lcall\w*|lret\w*|"
    r"wr[fg]sbase\w*|wrpkru|svc|hvc|smc|msr"
)

_INDIRECT = re.compile(r"(notrack |bnd )*(call|jmp)[qw]? +\*.*|(blr|br|blraa|braa|blrab|brab)\w* .*")


def _disassembled(path: str) -> Iterator[Function]:
    """The functions of an object; none where there is no disassembler."""
    tool = shutil.which("objdump") or shutil.which("llvm-objdump")
    if tool is None:
        return
    text = subprocess.run(
        [tool, "-dr", "--no-show-raw-insn", path], capture_output=True, text=True, errors="replace"
    ).stdout  # fmt: skip
    function = None
    for line in text.split("\n"):
        if header := re.match(r"[0-9a-f]+ <(.+)>:$", line):
            if function:
                yield function
            function = Function(header[1], [])
        elif relocation := re.match(r"\s+[0-9a-f]+: R_\w+\s+([^\s+-]+)", line):
            if function and function.instructions:
                last = function.instructions[-1]
                function.instructions[-1] = last._replace(symbol=relocation[1])
        elif function and (found := re.match(r"\s*[0-9a-f]+:\s+(\S.*)", line)):
            name, operands = re.match(r"((?:notrack |bnd |rep\w* |data16 |cs |lock )*\S+)\s*(.*)", found[1]).groups()
            function.instructions.append(Instruction(name, operands.partition("#")[0].strip(), ""))
    if function:
        yield function


def _check_instructions(function: Function) -> None:
    for i in function.instructions:
        if _INDIRECT.fullmatch(f"{i.name} {i.operands}"):
            raise NeedsGpu(POINTERS)
        if _FORBIDDEN.fullmatch(i.name):
            raise CompileError(f"the kernel holds the instruction `{i.name}`, which no GPU has")


def _check_recorded(function: Function, watched: Collection[str] | None) -> None:
    """A function of the source in a checked build tells where it goes, and what it reads and writes beyond its own
    variables. An attribute can switch either off, and does it for a whole function."""
    called = {i.symbol for i in function.instructions}
    plain = elf.plain_name(function.name)
    if watched is None:
        recorded = any(s.startswith("__tsan_") for s in called) or not _touches_memory(function)
    else:
        recorded = function.name.split(".cold")[0] in watched
    if not recorded or "__sanitizer_cov_trace_pc" not in called:
        raise CompileError(f"the accesses of `{plain}` would not be recorded: delete its attributes")


_REGISTER = re.compile(r"%(?:[er]?([abcd])[xlh]|[er]?([sd]i)l?|[er]?([sb]p)l?|r(\d+)[dwb]?)")
_MEMORY = re.compile(r"(?:%([c-gs]s):)?[-\w.+]*\(([^)]*)\)")


def _registers(text: str) -> set[str]:
    return {next(filter(None, m.groups())) for m in _REGISTER.finditer(text)}


def _touches_memory(function: Function) -> bool:
    """Does it use an address that is not made from the stack pointer (x86-64)? Instructions are read in the order of
    the text, and what comes from the stack counts as its own."""
    own = {"sp"}
    for i in function.instructions:
        if i.name.startswith(("nop", "call", "data16")):
            own -= {"a", "c", "d", "si", "di", "8", "9", "10", "11"} if i.name.startswith("call") else set()
            continue
        memory = _MEMORY.search(i.operands)
        inside = _registers(memory[2]) if memory else set()
        constant = bool(memory) and "%rip" in memory[2]
        if memory and not constant and inside and not inside & own and not i.name.startswith("lea"):
            return True
        target = i.operands.rsplit(",", 1)[-1].strip()
        if not target.startswith("%") or i.name.startswith(("cmp", "test", "push")):
            continue
        sources = _registers(i.operands.rsplit(",", 1)[0]) if "," in i.operands else set()
        changed = _registers(target)
        stays = bool(sources & own) or constant
        if re.match(r"(add|sub|and|or|inc|dec)", i.name):
            stays = stays or bool(changed & own)
        own = own | changed if stays else own - (changed - {"sp"})
    return False
