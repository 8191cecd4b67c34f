"""Arrays in memory that a kernel may touch, and names for their elements."""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import elf, findings, source


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

    def holds(self, element: int) -> bool:
        """Does this element of the range belong to the array?"""
        return 0 <= element < self.elements and (self.inside is None or bool(self.inside[element]))


class Namer:
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
            index = next((k for k in span if not a.holds(k)), index + origin) - origin
        if kind == "dynamic":
            size_text = f"{length:,} bytes of dynamic shared memory that the launch asked for"
            return findings.Element(f"{name}[{index}], outside the {size_text}", name, index)
        elements = length // item
        if kind == "guarded":
            kind, inside = "", self._arrays[name].inside
            last = inside.rindex(1) - origin if 1 in inside else -1
            if 0 <= index <= last:
                text = f"{name}[{index}], outside the array: this lies between its rows"
                return findings.Element(text, name, index)
            elements = inside.count(1)
        size_text = f" of {elements} element{'s' if elements != 1 else ''}"
        return findings.Element(f"{name}[{index}], outside the {kind}array{size_text}", name, index)

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
