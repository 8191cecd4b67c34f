"""Many changes of a CUDA C++ text in one program, of which a number chooses one when a kernel runs.

Compiling each change by itself takes longer than running it. So one text holds them all: `a < b` becomes
`(chosen == 7 ? (a <= b) : (a < b))`, and a statement `s` becomes `if (chosen == 9) {} else s`. (Known from mutation
testing as mutant schemata: Untch, Offutt and Harrold 1993.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from ..cuda import syntax
from ..cuda.syntax import Expression, Statement
from .edits import Change

NAME, OWN = "lab_choice", "lab_chosen"
"""The program's variable in constant memory, and the copy of it that each function makes."""


def program(text: str, changes: Mapping[int, Change]) -> str:
    """The text with changes by the numbers that choose them, 0 chooses none. Its lines stay."""
    return _Program(text, changes).text()


class _Program:
    def __init__(self, source: str, changes: Mapping[int, Change]):
        self.source = source
        self.at: dict[tuple[int, int], list[tuple[int, Change]]] = defaultdict(list)
        for number, change in changes.items():
            self.at[change.begin, change.end].append((number, change))

    def text(self) -> str:
        functions = syntax.functions(self.source)
        first = functions[0].begin if functions else 0
        pieces, last = [self.source[:first], f"__constant__ int {NAME}; "], first
        for f in functions:
            pieces += [self.source[last : f.body.begin], self._block(f.body, f"const int {OWN} = {NAME};")]
            last = f.body.end
        return "".join([*pieces, self.source[last:]])

    def _any(self, begin: int, end: int) -> bool:
        return any(begin <= b and e <= end for b, e in self.at)

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
            text = self._before(s.begin)
            for number, change in self.at.get((s.begin, following.end), ()) if following else ():  # the other first
                text += f"if ({OWN} == {number}) {{ {_line(self.source[following.begin : following.end])} }} "
                self.at[following.begin, following.end].append((number, replace(change, new="")))
            parts.append((s.begin, s.end, text + self._statement(s)))
        parts.append((block.end - 1, block.end, self._before(block.end - 1) + "}"))
        return self._between(block.begin, block.end, parts)

    def _before(self, at: int) -> str:
        return "".join(f"if ({OWN} == {n}) {{ {c.new} }} " for n, c in self.at.get((at, at), ()))

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
        return "{ " + "".join(f"if ({OWN} == {n}) {{ {_line(c.new)} }} else " for n, c in own) + text + " }"

    def _whole(self, e: Expression) -> str:
        """An expression that is part of no other one."""
        return self._expression(e) if self._any(e.begin, e.end) or e.kind == "lambda" else self.source[e.begin : e.end]

    def _expression(self, e: Expression) -> str:
        if e.body is not None:
            return self._between(e.begin, e.end, [(e.body.begin, e.body.end, self._block(e.body))])
        text = self._between(e.begin, e.end, [(p.begin, p.end, self._expression(p)) for p in e.parts])
        own = self.at.get((e.begin, e.end), ())
        chosen = "".join(f"{OWN} == {n} ? ({_line(c.new)}) : " for n, c in own)
        return f"({chosen}{text})" if own else text


def _line(text: str) -> str:
    return " ".join(text.split("\n"))
