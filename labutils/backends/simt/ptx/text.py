"""The text of inline PTX: instructions with their operands, declarations, labels and braces, in order."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*[^*]*(?:\*(?!/)[^*]*)*(?:\*/)?)
    |(?P<place>%[0-9]+)
    |(?P<number>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?U?)
    |(?P<word>(?:%{0,2}[A-Za-z_$]|\.)[\w$]*(?:(?:\.|::)[\w$]+)*)
    |(?P<sign>.)""",
    re.DOTALL | re.VERBOSE,
)


class Unsupported(Exception):
    """Inline PTX that the emulator does not run. The message is what it says, shortened."""


@dataclass(frozen=True)
class Place:
    """`%3`: an operand of the asm statement, by number."""

    number: int


@dataclass(frozen=True)
class Name:
    """A register of the text's own, a special register, a label, or `_`."""

    text: str


@dataclass(frozen=True)
class Number:
    """An immediate value as it is written, with its sign."""

    text: str


@dataclass(frozen=True)
class Address:
    """`[base + offset + …]`."""

    base: Operand
    offsets: tuple[Operand, ...]


@dataclass(frozen=True)
class Vector:
    """`{a, b}`."""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Negated:
    """`!p`."""

    predicate: Operand


@dataclass(frozen=True)
class Pair:
    """`d|p`: a result and a predicate."""

    first: Operand
    second: Operand


Operand = Place | Name | Number | Address | Vector | Negated | Pair


@dataclass(frozen=True)
class Instruction:
    """`@guard opcode operands;`."""

    opcode: str
    operands: tuple[Operand, ...]
    guard: Operand | None


@dataclass(frozen=True)
class Declaration:
    """`.reg .type names;`, each name with the length of a range (`r<4>`) or None."""

    type: str
    names: tuple[tuple[str, int | None], ...]


@dataclass(frozen=True)
class Label:
    """`name:`."""

    name: str


@dataclass(frozen=True)
class Brace:
    """The beginning or the end of a scope."""

    opens: bool


def parse(text: str) -> list[Instruction | Declaration | Label | Brace]:
    """The statements of a template. Raises Unsupported."""
    return _Parser(text).statements()


class _Parser:
    def __init__(self, text: str):
        self.found = [(m.lastgroup, m.group()) for m in _TOKEN.finditer(text) if m.lastgroup != "space"]
        self.at = 0

    def peek(self, ahead: int = 0) -> str:
        i = self.at + ahead
        return self.found[i][1] if i < len(self.found) else ""

    def next(self) -> tuple[str, str]:
        if self.at == len(self.found):
            raise Unsupported("text that ends in the middle of an instruction")
        self.at += 1
        return self.found[self.at - 1]

    def accept(self, *texts: str) -> bool:
        if self.peek() in texts and self.at < len(self.found):
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        kind, found = self.next()
        if found != text:
            raise Unsupported(found)

    def statements(self) -> list[Instruction | Declaration | Label | Brace]:
        result = []
        while self.at < len(self.found):
            if self.accept(";"):
                continue
            if self.peek() in ("{", "}"):
                result.append(Brace(self.next()[1] == "{"))
            elif self.peek().startswith(".reg"):
                result.append(self._declaration())
            elif self.peek(1) == ":":
                result.append(Label(self._name()))
                self.expect(":")
            else:
                result.append(self._instruction())
        return result

    def _name(self) -> str:
        kind, text = self.next()
        if kind != "word":
            raise Unsupported(text)
        return text.replace("%%", "%", 1)

    def _declaration(self) -> Declaration:
        kinds = self.next()[1].split(".")[2:]
        while self.peek().startswith("."):
            kinds += self.next()[1].split(".")[1:]
        names = []
        while True:
            name, length = self._name(), None
            if self.accept("<"):
                kind, number = self.next()
                if kind != "number" or not number.isdigit() or int(number) > 64:
                    raise Unsupported(f".reg {name}<{number}>")
                length = int(number)
                self.expect(">")
            names.append((name, length))
            if not self.accept(","):
                break
        self.expect(";")
        if len(kinds) != 1:
            raise Unsupported(".reg ." + ".".join(kinds))
        return Declaration(kinds[0], tuple(names))

    def _instruction(self) -> Instruction:
        guard = None
        if self.accept("@"):
            negated = self.accept("!")
            guard = Name(self._name())
            guard = Negated(guard) if negated else guard
        kind, opcode = self.next()
        if kind != "word" or opcode.startswith((".", "%")):
            raise Unsupported(opcode)
        operands = []
        while self.at < len(self.found) and self.peek() != ";":
            operands.append(self._operand())
            if not self.accept(","):
                break
        if self.at < len(self.found):
            self.expect(";")
        return Instruction(opcode, tuple(operands), guard)

    def _operand(self) -> Operand:
        first = self._single()
        return Pair(first, self._single()) if self.accept("|") else first

    def _single(self) -> Operand:
        if self.accept("["):
            base, offsets = self._single(), []
            while not self.accept("]"):
                if self.peek() != "-":
                    self.expect("+")
                offsets.append(self._single())
            return Address(base, tuple(offsets))
        if self.accept("{"):
            items = [self._single()]
            while self.accept(","):
                items.append(self._single())
            self.expect("}")
            return Vector(tuple(items))
        if self.accept("!"):
            return Negated(self._single())
        if self.accept("-"):
            kind, text = self.next()
            if kind != "number":
                raise Unsupported(f"-{text}")
            return Number(f"-{text}")
        kind, text = self.next()
        if kind == "place":
            return Place(int(text[1:]))
        if kind == "number":
            return Number(text)
        if kind == "word" and not text.startswith("."):
            self.at -= 1
            return Name(self._name())
        raise Unsupported(text)
