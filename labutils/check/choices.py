"""Many changes of a CUDA C++ text in one program, of which a number chooses one when a kernel runs.

Compiling each change by itself takes longer than running it. So one text holds them all: `a < b` becomes
`(chosen == 7 ? (a <= b) : (a < b))`, and a statement `s` becomes `if (chosen != 9) s`. (Known from mutation
testing as mutant schemata: Untch, Offutt and Harrold 1993.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from ..cuda import syntax
from ..cuda.syntax import Expression, Statement
from .edits import Change

CHOICE, PLACE = "lab_choice", "lab_place"
"""The program's variables in constant memory: the number of the change, and that of the expression or statement which
it is in. All others then cost one comparison."""

CHOSEN, AT = "lab_chosen", "lab_at"
"""Copies of them that each function makes."""


def program(text: str, changes: Mapping[int, Change]) -> tuple[str, dict[int, int]]:
    """The text with changes by the numbers that choose them, 0 chooses none; and the place of each. Its lines stay."""
    made = _Program(text, changes)
    return made.text(), made.places


class _Program:
    def __init__(self, source: str, changes: Mapping[int, Change]):
        self.source = source
        self.at: dict[tuple[int, int], list[tuple[int, Change]]] = defaultdict(list)
        for number, change in changes.items():
            self.at[change.begin, change.end].append((number, change))
        self.places: dict[int, int] = {}
        self.last_place = 0

    def text(self) -> str:
        functions = syntax.functions(self.source)
        first = functions[0].begin if functions else 0
        pieces, last = [self.source[:first], f"__constant__ int {CHOICE}, {PLACE}; "], first
        for f in functions:
            own = f"const int {CHOSEN} = {CHOICE}, {AT} = {PLACE};"
            pieces += [self.source[last : f.body.begin], self._block(f.body, own)]
            last = f.body.end
        return "".join([*pieces, self.source[last:]])

    def _place(self, changes: list[tuple[int, Change]]) -> int:
        """A new place with these changes."""
        self.last_place += 1
        self.places |= {number: self.last_place for number, _ in changes}
        return self.last_place

    def _within(self, begin: int, end: int) -> list[tuple[int, Change]]:
        return [c for (b, e), own in self.at.items() if begin <= b and e <= end for c in own]

    def _between(self, begin: int, end: int, parts: list[tuple[int, int, str]]) -> str:
        """The text of a span with some of its parts replaced."""
        pieces, last = [], begin
        for b, e, new in sorted(parts):
            pieces += [self.source[last:b], new]
            last = e
        return "".join([*pieces, self.source[last:end]])

    def _block(self, block: Statement, first: str = "") -> str:
        parts = [(block.begin, block.begin + 1, "{" + first)]
        for s, following in zip(block.body, [*block.body[1:], None], strict=True):
            swapped = self.at.get((s.begin, following.end), []) if following else []
            before = [*self.at.get((s.begin, s.begin), ())]
            for number, change in swapped:  # the other first, and nothing in its own place
                before.append((number, replace(change, new=self.source[following.begin : following.end])))
                self.at[following.begin, following.end].append((number, replace(change, new="")))
            parts.append((s.begin, s.end, self._before(before) + self._statement(s)))
        last = self._before(self.at.get((block.end - 1, block.end - 1), []))
        parts.append((block.end - 1, block.end, last + "}"))
        return self._between(block.begin, block.end, parts)

    def _before(self, own: list[tuple[int, Change]]) -> str:
        return "".join(f"if ({CHOSEN} == {n}) {{ {_line(c.new)} }} " for n, c in own)

    def _statement(self, s: Statement) -> str:
        if s.kind == "block":
            return self._block(s)
        parts = [(e.begin, e.end, self._whole(e)) for e in s.expressions]
        parts += [(b.begin, b.end, self._statement(b)) for b in s.body]
        return self._unless((s.begin, s.end), self._between(s.begin, s.end, parts))

    def _unless(self, span: tuple[int, int], text: str) -> str:
        """A statement, if none of its changes is chosen."""
        own = self.at.get(span, ())
        if not own:
            return text
        place = self._place([c for c in own if c[0] not in self.places])
        new = "".join(f"if ({CHOSEN} == {n}) {{ lab_done = true; {_line(c.new)} }} " for n, c in own)
        swapped = any(c.end > span[1] or c.begin < span[0] for _, c in own)
        test = "true" if swapped else f"{AT} == {place}"
        return f"{{ bool lab_done = false; if ({test}) {{ {new}}} if (!lab_done) {text} }}"

    def _whole(self, e: Expression) -> str:
        """An expression that is part of no other one."""
        if any(inner.body is not None for inner in e.walk()):
            return self._expression(e)
        own = self._within(e.begin, e.end)
        text = self.source[e.begin : e.end]
        return f"({AT} == {self._place(own)} ? {self._expression(e)} : {text})" if own else text

    def _expression(self, e: Expression) -> str:
        if e.body is not None:
            return self._between(e.begin, e.end, [(e.body.begin, e.body.end, self._block(e.body))])
        text = self._between(e.begin, e.end, [(p.begin, p.end, self._expression(p)) for p in e.parts])
        own = self.at.get((e.begin, e.end), ())
        chosen = "".join(f"{CHOSEN} == {n} ? ({_line(c.new)}) : " for n, c in own)
        return f"({chosen}{text})" if own else text


def _line(text: str) -> str:
    return " ".join(text.split("\n"))
