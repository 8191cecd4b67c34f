"""ELF files: the sections, symbols and relocations of a compiled kernel, and where its memory lies."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

_OBJECT, _TLS = 1, 6
_WRITABLE, _EXECUTABLE = 1, 4
_RELA, _DYNAMIC, _NO_BITS = 4, 6, 8
"""Types of sections."""
_AARCH64 = 183


@dataclass(frozen=True)
class Variable:
    """A variable of the module: its plain name, its offset and its size in bytes; the function that it is local to."""

    name: str
    offset: int
    size: int
    function: str = ""


@dataclass(frozen=True)
class Symbols:
    """What a module's symbol tables say."""

    shared: list[Variable]
    variables: list[Variable]
    tables: list[Variable]
    needed: list[str]
    text: tuple[int, int]


class Section(NamedTuple):
    """One section of a file: what its header says, and its bytes (none of those that are only memory)."""

    name: str
    kind: int
    flags: int
    address: int
    link: int
    info: int
    size: int
    data: bytes


class Symbol(NamedTuple):
    """One symbol: `kind` is its type (2: a function, 6: thread-local, 10: chosen at load time), `section` the number of
    the section that defines it (0: none does)."""

    name: str
    kind: int
    section: int
    value: int
    size: int


class Relocation(NamedTuple):
    """One place that the linker fills in: its offset in the section, the type, the symbol's number, the addend."""

    offset: int
    kind: int
    symbol: int
    addend: int


class Image:
    """A 64-bit little-endian ELF file: an object or a shared library."""

    def __init__(self, path: str):
        with open(path, "rb") as f:
            self.data = data = f.read()
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path} is not a 64-bit ELF file")
        self.machine = struct.unpack_from("<H", data, 0x12)[0]
        table, size, count, names_at = *struct.unpack_from("<Q", data, 0x28), *struct.unpack_from("<HHH", data, 0x3A)
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
        self.sections = [
            Section(_string(data, headers[names_at][4] + h[0]), h[1], h[2], h[3], h[6], h[7], h[5],
                    b"" if h[1] == _NO_BITS else data[h[4] : h[4] + h[5]])
            for h in headers
        ]  # fmt: skip

    def symbols(self, kind: int) -> list[Symbol]:
        """The symbols of a table (2: all, 11: those that are looked up at load time), without the empty first one."""
        found = []
        for s in self.sections:
            if s.kind == kind:
                names = self.sections[s.link].data
                for name, info, _, section, value, size in struct.iter_unpack("<IBBHQQ", s.data):
                    found.append(Symbol(_string(names, name), info & 15, section, value, size))
        return found[1:]

    def relocations(self) -> Iterator[tuple[Section, list[Relocation]]]:
        """The relocations of each section that has some."""
        for s in self.sections:
            if s.kind == _RELA:
                entries = [Relocation(o, i & 0xFFFFFFFF, i >> 32, a) for o, i, a in struct.iter_unpack("<QQq", s.data)]
                yield self.sections[s.info], entries

    def segments(self) -> list[tuple[int, int]]:
        """The type and the flags of each segment (flags: 1 executable, 2 writable)."""
        table, size, count = *struct.unpack_from("<Q", self.data, 0x20), *struct.unpack_from("<HH", self.data, 0x36)
        return [struct.unpack_from("<II", self.data, table + i * size) for i in range(count)]

    def dynamic(self) -> dict[int, int]:
        """The entries of the dynamic section."""
        entries = next((s.data for s in self.sections if s.kind == _DYNAMIC), b"")
        return dict(struct.iter_unpack("<QQ", entries))


def _string(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode(errors="replace")


def read(path: str) -> Symbols:
    """The symbols of a module that has been linked."""
    image = Image(path)
    shared, variables, tables = [], [], []
    for name, kind, section, value, length in image.symbols(2):
        if section == 0 or section >= len(image.sections) or not length:
            continue
        if kind == _TLS:
            shared.append(_variable(name, value, length))
        elif kind == _OBJECT and not _internal(name):
            home = image.sections[section]
            target = variables if home.flags & _WRITABLE and ".ro" not in home.name else tables
            target.append(_variable(name, value, length))
    needed = [s.name for s in image.symbols(11) if s.section == 0 and s.name]
    text = next(((s.address, s.address + s.size) for s in image.sections if s.name == ".text"), (0, 0))
    by_offset = {"key": lambda v: v.offset}
    return Symbols(
        sorted(shared, **by_offset), sorted(variables, **by_offset), sorted(tables, **by_offset), needed, text
    )


def function(path: str, wanted: str) -> int:
    """Offset of a function in the module."""
    image = Image(path)
    for symbol in (*image.symbols(2), *image.symbols(11)):
        if symbol.section and symbol.name == wanted:
            return symbol.value
    raise ValueError(f"{path} has no {wanted}")


def plain_name(symbol: str) -> str:
    """A function's name as the source has it: `scale` of `_Z5scalePf`."""
    return _variable(symbol, 0, 0).name


def call_returns(path: str) -> list[int]:
    """Offsets of the instructions that follow a direct call; on x86-64, where calls cannot be told apart from bytes
    that only look like calls, some others too."""
    with open(path, "rb") as f:
        data = f.read()
    table, count = *struct.unpack_from("<Q", data, 0x28), *struct.unpack_from("<H", data, 0x3C)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * 64) for i in range(count)]
    code = [(s[3], data[s[4] : s[4] + s[5]]) for s in sections if s[1] == 1 and s[2] & _EXECUTABLE]
    if struct.unpack_from("<H", data, 0x12)[0] == _AARCH64:  # bl: six bits, and 26 of distance
        words = [(at + i, word) for at, text in code for i, (word,) in _each_word(text)]
        return [at + 4 for at, word in words if word >> 26 == 0b100101]
    low, high = min((at for at, _ in code), default=0), max((at + len(text) for at, text in code), default=0)
    found = []
    for at, text in code:
        for m in re.finditer(rb"(?s)\xe8(?=(....))", text):  # call, and 32 bits of distance
            after = at + m.start() + 5
            if low <= after + struct.unpack("<i", m[1])[0] < high:
                found.append(after)
    return found


def _each_word(text: bytes):
    return ((4 * i, word) for i, word in enumerate(struct.iter_unpack("<I", text[: len(text) // 4 * 4])))


def _internal(name: str) -> bool:
    """A symbol of the compiler's, not of the source."""
    return "." in name or name.startswith(("_DYNAMIC", "_GLOBAL_OFFSET", "__dso_handle", "__TMC_END__", "_ZTV", "_ZGV"))


def _variable(symbol: str, offset: int, size: int) -> Variable:
    """Plain names from mangled ones: `_ZZ1kPfE4tile` is `tile` in `_Z1kPf`, `_ZN2ns1wE` is `w`, `table` is itself."""
    if symbol.startswith("_ZZ"):
        for m in re.finditer(r"E(?=(\d+))", symbol):
            length = int(m.group(1))
            start = m.end() + len(m.group(1))
            if re.fullmatch(r"(_\d+|__\d+_)?", symbol[start + length :]):
                return Variable(symbol[start : start + length], offset, size, symbol[2 : m.start()])
    if symbol.startswith("_Z"):
        plain, position = symbol, 2
        while m := re.compile(r"[NLrVK]*(\d+)").match(symbol, position):
            position = m.end() + int(m.group(1))
            plain = symbol[m.end() : position]
        return Variable(plain, offset, size)
    return Variable(symbol, offset, size)
