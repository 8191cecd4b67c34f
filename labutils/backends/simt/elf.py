"""Symbols of a compiled kernel: where its shared arrays and variables lie, and what it calls from outside."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

_OBJECT, _TLS = 1, 6
_WRITABLE = 1


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
    initialisers: int
    text: tuple[int, int]


def read(path: str) -> Symbols:
    """Read a 64-bit little-endian ELF file."""
    with open(path, "rb") as f:
        data = f.read()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path} is not a 64-bit ELF file")
    table, size, count, names_at = *struct.unpack_from("<Q", data, 0x28), *struct.unpack_from("<HHH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]

    def string(section: int, offset: int) -> str:
        start = sections[section][4] + offset
        return data[start : data.index(b"\0", start)].decode(errors="replace")

    names = [string(names_at, s[0]) for s in sections]
    shared, variables, tables, needed = [], [], [], []
    for s in sections:
        kind, link = s[1], s[6]
        if kind not in (2, 11):  # symtab, dynsym
            continue
        for i in range(1, s[5] // 24):
            name_at, info, _, section, value, length = struct.unpack_from("<IBBHQQ", data, s[4] + i * 24)
            name = string(link, name_at)
            if section == 0:
                if kind == 11 and name:
                    needed.append(name)
                continue
            if kind == 11 or section >= count or not length:
                continue
            if info & 15 == _TLS:
                shared.append(_variable(name, value, length))
            elif info & 15 == _OBJECT and not _internal(name):
                target = variables if sections[section][2] & _WRITABLE and ".ro" not in names[section] else tables
                target.append(_variable(name, value, length))
    initialisers = sum(s[5] for n, s in zip(names, sections, strict=True) if n in (".init_array", ".ctors")) // 8
    text = next(((s[3], s[3] + s[5]) for n, s in zip(names, sections, strict=True) if n == ".text"), (0, 0))
    by_offset = {"key": lambda v: v.offset}
    return Symbols(
        sorted(shared, **by_offset), sorted(variables, **by_offset), sorted(tables, **by_offset), needed,
        initialisers, text,
    )  # fmt: skip


def function(path: str, wanted: str) -> int:
    """Offset of a function in the module."""
    with open(path, "rb") as f:
        data = f.read()
    table, size, count = *struct.unpack_from("<Q", data, 0x28), *struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    for s in sections:
        if s[1] not in (2, 11):
            continue
        for i in range(1, s[5] // 24):
            name_at, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", data, s[4] + i * 24)
            start = sections[s[6]][4] + name_at
            if section and data[start : data.index(b"\0", start)].decode(errors="replace") == wanted:
                return value
    raise ValueError(f"{path} has no {wanted}")


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
