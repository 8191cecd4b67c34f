"""An asm statement of a cell as GNU C++ writes it: template : outputs : inputs : clobbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ....cuda.tokens import Token, code, partners, split

WORDS = frozenset(("asm", "__asm", "__asm__"))

VOLATILE = frozenset(("volatile", "__volatile__", "__volatile"))

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\"}


class Malformed(Exception):
    """An asm statement that is not one of CUDA C++."""


@dataclass(frozen=True)
class Operand:
    """An operand: its constraint without `=` and `+`, the expression, and how it is used."""

    constraint: str
    expression: str
    written: bool
    read: bool


@dataclass(frozen=True)
class Statement:
    """An asm statement between the offsets `start` and `end` of the text; `words` is its template."""

    start: int
    end: int
    words: str
    operands: tuple[Operand, ...]


def is_asm(found: list[Token], i: int) -> bool:
    """Does an asm statement begin at token `i`?"""
    return found[i].kind == "word" and found[i].text in WORDS


def statements(text: str) -> Iterator[Statement | tuple[int, Malformed]]:
    """The asm statements of a text in order; of one that cannot be read its offset, and why."""
    found = code(text)
    if not any(is_asm(found, i) for i in range(len(found))):
        return
    partner = partners(found)
    i = 0
    while i < len(found):
        if not is_asm(found, i):
            i += 1
            continue
        opening = i + 1
        while opening < len(found) and found[opening].text in VOLATILE:
            opening += 1
        if opening == len(found) or found[opening].text != "(":
            yield found[i].start, Malformed('inline PTX is written as asm("instructions;" : outputs : inputs)')
            i += 1
            continue
        closing = partner[opening]
        try:
            yield _read(text, found, partner, i, opening, closing)
        except Malformed as e:
            yield found[i].start, e
        i = closing + 1


def _read(text: str, found: list[Token], partner: list[int], first: int, opening: int, closing: int) -> Statement:
    sections: list[list[int]] = [[]]
    i = opening + 1
    while i < closing:
        token = found[i]
        if token.kind == "sign" and token.text in (":", "::"):
            sections += [[] for _ in token.text]
            i += 1
        else:
            sections[-1].append(i)
            i = partner[i] + 1
    if len(sections) > 4:
        raise Malformed("inline PTX has a template, outputs, inputs and clobbers, and nothing else")
    template, *rest = sections
    words = "".join(_string(found[k]) for k in template)
    operands = []
    for n, section in enumerate(rest[:2]):
        operands += _operands(text, found, partner, section, outputs=n == 0)
    return Statement(found[first].start, found[closing].end, words, tuple(operands))


def _operands(text: str, found: list[Token], partner: list[int], section: list[int], outputs: bool) -> list[Operand]:
    """The operands of a section, of whose brackets `section` holds the opening ones."""
    operands, k = [], 0
    while k < len(section):
        if found[section[k]].text == "," and found[section[k]].kind == "sign":
            k += 1
            continue
        constraint = _string(found[section[k]])
        if k + 1 == len(section) or found[section[k + 1]].text != "(":
            raise Malformed(f'an operand of inline PTX is written as "{constraint}"(expression)')
        opening = section[k + 1]
        kind = constraint.lstrip("=+&%")
        if outputs != constraint.startswith(("=", "+")):
            raise Malformed(f'"{constraint[:20]}" is no constraint of an {"output" if outputs else "input"}')
        inside = text[found[opening].end : found[partner[opening]].start]
        operands.append(Operand(kind, _one_line(inside), outputs, not outputs or constraint.startswith("+")))
        k += 2
    return operands


def _one_line(expression: str) -> str:
    """An expression without comments and line ends: what is made of the statement stands on one line."""
    pieces = (" " if t.kind == "comment" else t.text.replace("\n", " ") for t in split(expression))
    return "".join(pieces).strip()


def _string(token: Token) -> str:
    """What a string literal stands for."""
    if token.kind != "string" or not token.text.startswith('"'):
        raise Malformed(f"inline PTX takes strings only, not `{token.text[:40]}`")
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), token.text[1:-1])
