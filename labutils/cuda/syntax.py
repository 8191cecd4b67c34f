"""The functions of CUDA C++ as trees of statements and expressions, as far as changing a part of them needs.

Nothing is refused: what the reader does not know becomes a statement or an expression without parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from .text import blank
from .tokens import Token, code, partners

LONGER = ("<<=", ">>=", "...", "<<", ">>", "<=", ">=", "==", "!=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "||",
          "++", "--")  # fmt: skip
"""Operators of several signs that `tokens` gives one by one."""

BINARY = {op: level for level, ops in enumerate(
    (("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
     ("*", "/", "%")), 1) for op in ops}  # fmt: skip
"""Binary operators with how strongly they bind."""

ASSIGNING = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}

TYPES = {
    "bool", "char", "short", "int", "long", "unsigned", "signed", "float", "double", "half", "half2", "__half",
    "__half2", "__nv_bfloat16", "__nv_bfloat162", "size_t", "void", "auto", "uint",
    *(f"{kind}{bits}_t" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    *(f"{kind}{n}" for kind in ("float", "double", "int", "uint", "char", "uchar") for n in (2, 4)),
}  # fmt: skip
QUALIFIERS = {
    "const", "static", "constexpr", "volatile", "inline", "extern", "register", "__shared__", "__constant__",
    "__device__", "__restrict__",
}  # fmt: skip
FIXED = {"static", "constexpr", "extern", "__shared__", "__constant__", "using", "typedef", "struct", "static_assert",
         "asm", "namespace", "template", "case", "default"}  # fmt: skip
"""Words that begin a statement whose expressions a compiler may want to know."""


@dataclass
class Expression:
    """`kind`: "name", "number", "call", "index", "member", "unary", "postfix", "binary", "choice", "assign", "cast",
    "paren", "list", "lambda" or "other"; `word`: its operator, name or number. `parts` are its operands in order, of a
    call the arguments; of a lambda `body` has the statements."""

    kind: str
    begin: int
    end: int
    word: str = ""
    parts: list[Expression] = field(default_factory=list)
    body: Statement | None = None

    def walk(self) -> Iterator[Expression]:
        """It and everything in it, but for the bodies of lambdas."""
        yield self
        for part in self.parts:
            yield from part.walk()


@dataclass(frozen=True)
class Declared:
    """A name with its type, without const but with a `*` or `[]` for each level; known from `begin` on. `fixed`: it
    cannot be assigned to."""

    name: str
    type: str
    begin: int
    fixed: bool = False


@dataclass
class Statement:
    """`kind`: "block", "if", "for", "while", "do", "switch", "return", "declaration", "expression" or "other".
    `expressions` are those that may be changed, each with all its parts; `names` what it declares; `body` the
    statements in it."""

    kind: str
    begin: int
    end: int
    expressions: list[Expression] = field(default_factory=list)
    names: list[Declared] = field(default_factory=list)
    body: list[Statement] = field(default_factory=list)

    def walk(self) -> Iterator[Statement]:
        """It and every statement in it, also those in lambdas."""
        yield self
        for e in self.expressions:
            for inner in e.walk():
                if inner.body is not None:
                    yield from inner.body.walk()
        for s in self.body:
            yield from s.walk()


@dataclass(frozen=True)
class Function:
    """A function that is defined: where its head begins, its parameters and its body."""

    begin: int
    parameters: tuple[Declared, ...]
    body: Statement


def functions(source: str) -> list[Function]:
    """The functions of a text, in order."""
    return list(_Reader(source).functions())


class _Unknown(Exception):
    """The tokens here are no expression that the reader knows."""


def _joined(found: list[Token]) -> list[Token]:
    """The tokens with operators of several signs in one."""
    result, i = [], 0
    while i < len(found):
        token = found[i]
        for op in LONGER if token.kind == "sign" else ():
            near = found[i : i + len(op)]
            if "".join(t.text for t in near) == op and near[-1].end - token.start == len(op):
                token = Token("sign", op, token.start)
                i += len(op) - 1
                break
        result.append(token)
        i += 1
    return result


class _Reader:
    def __init__(self, source: str):
        plain = re.sub(r"(?m)^[ \t]*#.*$", lambda m: " " * len(m[0]), blank(source))
        self.found = _joined(code(plain))
        self.partner = partners(self.found)
        self.source = source

    def at(self, i: int) -> str:
        return self.found[i].text if 0 <= i < len(self.found) else ""

    def is_word(self, i: int) -> bool:
        return 0 <= i < len(self.found) and self.found[i].kind == "word"

    def functions(self) -> Iterator[Function]:
        i, head = 0, 0
        while i < len(self.found):
            here = self.at(i)
            if here == "{":
                before = i - 1
                while self.at(before) in ("const", "noexcept"):
                    before -= 1
                opening = next((k for k in range(before - 1, head - 1, -1) if self.partner[k] == before), -1)
                if self.at(before) == ")" and opening >= 0 and "constexpr" not in map(self.at, range(head, opening)):
                    parameters = [self._parameter(a, b) for a, b in self._between(opening + 1, before)]
                    numbers = [k + 1 for k in range(head, opening) if self.at(k) == "int" and self.is_word(k + 1)]
                    template = [Declared(self.at(k), "int", self.found[k].start, True) for k in numbers]
                    body = self._block(i)
                    yield Function(self.found[head].start, tuple(filter(None, [*template, *parameters])), body)
                i = head = self.partner[i] + 1
                continue
            if here == ";":
                head = i + 1
            i = self.partner[i] + 1

    def _between(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """The spans of tokens between commas that no bracket encloses."""
        first = i = begin
        while i < end:
            if self.at(i) == ",":
                yield first, i
                first = i + 1
            if self.at(i) == "<" and i and self.found[i - 1].end == self.found[i].start:
                i = self._template_end(i) or i
            i = self.partner[i] + 1
        if first < end:
            yield first, end

    def _parameter(self, begin: int, end: int) -> Declared | None:
        name = max((k for k in range(begin, end) if self.is_word(k)), default=begin)
        dims = sum(self.at(k) == "[" for k in range(begin, end))
        stars = sum(self.at(k) == "*" for k in range(begin, end))
        kind = " ".join(self.at(k) for k in range(begin, name) if self.is_word(k) and self.at(k) not in QUALIFIERS)
        constant = "const " if stars and "const" in map(self.at, range(begin, name)) else ""
        full = f"{constant}{kind}{'*' * stars}{'[]' * dims}"
        fixed = not stars and "const" in map(self.at, range(begin, name))
        return Declared(self.at(name), full, self.found[name].start, fixed) if kind else None

    # --- statements ------------------------------------------------------------------------------------------------

    def _block(self, i: int) -> Statement:
        """The block whose `{` is token `i`."""
        end = self.partner[i]
        block = Statement("block", self.found[i].start, self.found[end].end)
        i += 1
        while i < end:
            statement, i = self._statement(i, end)
            block.body.append(statement)
        return block

    def _statement(self, i: int, stop: int) -> tuple[Statement, int]:
        """The statement that begins with token `i`, and the number of the token behind it."""
        word, begin = self.at(i), self.found[i].start
        if word == "{":
            return self._block(i), self.partner[i] + 1
        if word in ("if", "for", "while", "switch"):
            opening = i + 2 if self.at(i + 1) == "constexpr" else i + 1
            made = Statement(word, begin, begin)
            if self.at(opening) == "(":
                close = self.partner[opening]
                if self.at(i + 1) != "constexpr":
                    self._header(made, opening + 1, close)
                inner, i = self._statement(close + 1, stop) if close + 1 < stop else (made, stop)
                made.body.append(inner)
                if word == "if" and self.at(i) == "else" and i + 1 < stop:
                    other, i = self._statement(i + 1, stop)
                    made.body.append(other)
                made.end = self.found[i - 1].end
                return made, i
        if word == "do" and i + 1 < stop:
            inner, i = self._statement(i + 1, stop)
            made = Statement("do", begin, begin, body=[inner])
            if self.at(i) == "while":
                made.expressions = self._expressions(i + 2, self.partner[i + 1])
                i = self.partner[i + 1] + 2
            made.end = self.found[min(i, stop) - 1].end
            return made, i
        if word in ("case", "default"):
            i = next((k for k in range(i, stop) if self.at(k) == ":"), stop - 1)
            return Statement("other", begin, self.found[i].end), i + 1
        end = i
        while end < stop and self.at(end) != ";":
            end = self.partner[end] + 1
        last = self.found[min(end, stop - 1)].end
        made = Statement("other", begin, last)
        if word == "return":
            made = Statement("return", begin, last, self._expressions(i + 1, end))
        elif not self._declaration(made, i, end) and word not in FIXED and word not in ("break", "continue", ";"):
            made.kind, made.expressions = "expression", self._expressions(i, end)
        return made, end + 1

    def _header(self, made: Statement, begin: int, end: int) -> None:
        """What stands in the brackets of an `if`, a loop or a `switch`."""
        parts, first, i = [], begin, begin
        while i < end:
            if self.at(i) == ";":
                parts.append((first, i))
                first = i + 1
            i = self.partner[i] + 1
        parts.append((first, end))
        for a, b in parts:
            if a < b and not self._declaration(made, a, b):
                made.expressions += self._expressions(a, b)

    def _declaration(self, made: Statement, i: int, end: int) -> bool:
        """Read tokens `i` to `end` as a declaration, if they are one."""
        first, fixed, words = i, False, []
        while i < end and (
            self.at(i) in QUALIFIERS or (self.at(i) in TYPES and self.is_word(i + 1)) or self._aligned(i)
        ):
            fixed |= self.at(i) in FIXED
            if self._aligned(i):
                i = self.partner[i + 1] + 1
                continue
            words += [] if self.at(i) in QUALIFIERS else [self.at(i)]
            i += 1
        if self.at(first) in FIXED and self.at(first) not in QUALIFIERS:
            return False
        if words and self.at(i + 1) in ("=", ";", "[", ",", "{", "(", ""):
            pass  # the type is complete: this is the name
        elif self.is_word(i):
            words.append(self.at(i))
            i += 1
            while self.at(i) == "::" and self.is_word(i + 1):
                words[-1] += "::" + self.at(i + 1)
                i += 2
            if self.at(i) == "<" and (close := self._template_end(i)):
                i = close + 1
        if not words:
            return False
        name = i
        while self.at(name) in ("*", "&", "const", "__restrict__") or (self.at(name) == "&&"):
            name += 1
        if not self.is_word(name) or name >= end or (self.at(name + 1) if name + 1 < end else ";") not in "=;[,{(:":
            return False
        made.kind = "declaration" if made.kind == "other" else made.kind
        constant = bool({"const", "constexpr"} & set(map(self.at, range(first, i))))
        for a, b in self._between(i, end):
            self._declarator(made, " ".join(words), constant, fixed, a, b)
        return True

    def _aligned(self, i: int) -> bool:
        return self.at(i) in ("__align__", "alignas") and self.at(i + 1) == "("

    def _declarator(self, made: Statement, kind: str, constant: bool, fixed: bool, i: int, end: int) -> None:
        stars = 0
        while i < end and not (self.is_word(i) and self.at(i) not in QUALIFIERS):
            stars += self.at(i) == "*"
            i += 1
        if i >= end:
            return
        name, i, dims = i, i + 1, 0
        while self.at(i) == "[" and i < end:
            i, dims = self.partner[i] + 1, dims + 1
        pointed = "const " if constant and stars else ""
        full = f"{pointed}{kind}{'*' * stars}{'[]' * dims}"
        made.names.append(Declared(self.at(name), full, self.found[end - 1].end, constant and not stars or fixed))
        if fixed or i >= end:
            return
        if self.at(i) == "=":
            made.expressions += self._expressions(i + 1, end)
        elif self.at(i) in "({":
            made.expressions += self._expressions(i + 1, self.partner[i])

    # --- expressions -----------------------------------------------------------------------------------------------

    def _expressions(self, begin: int, end: int) -> list[Expression]:
        """The expressions between commas; none where one of them is unknown."""
        found = []
        for a, b in self._between(begin, end):
            try:
                e, i = self._assignment(a, b)
            except _Unknown:
                continue
            if i == b:
                found += self._elements(e) if e.kind == "list" else [e]
        return found

    def _elements(self, e: Expression) -> list[Expression]:
        return [x for p in e.parts for x in (self._elements(p) if p.kind == "list" else [p])]

    def _assignment(self, i: int, end: int) -> tuple[Expression, int]:
        left, i = self._choice(i, end)
        if i < end and self.at(i) in ASSIGNING:
            op = self.at(i)
            right, i = self._assignment(i + 1, end)
            return Expression("assign", left.begin, right.end, op, [left, right]), i
        return left, i

    def _choice(self, i: int, end: int) -> tuple[Expression, int]:
        test, i = self._binary(i, end, 1)
        if i < end and self.at(i) == "?":
            yes, i = self._assignment(i + 1, end)
            if self.at(i) != ":" or i >= end:
                raise _Unknown
            no, i = self._assignment(i + 1, end)
            return Expression("choice", test.begin, no.end, "?", [test, yes, no]), i
        return test, i

    def _binary(self, i: int, end: int, least: int) -> tuple[Expression, int]:
        left, i = self._unary(i, end)
        while i < end and (level := BINARY.get(self.at(i), 0)) >= least:
            op = self.at(i)
            right, i = self._binary(i + 1, end, level + 1)
            left = Expression("binary", left.begin, right.end, op, [left, right])
        return left, i

    def _unary(self, i: int, end: int) -> tuple[Expression, int]:
        if i >= end:
            raise _Unknown
        here = self.found[i]
        if here.kind == "sign" and here.text in ("-", "+", "!", "~", "*", "&", "++", "--"):
            inner, after = self._unary(i + 1, end)
            return Expression("unary", here.start, inner.end, here.text, [inner]), after
        if here.text == "(" and self._is_type(i + 1, self.partner[i]):
            inner, after = self._unary(self.partner[i] + 1, end)
            return Expression("cast", here.start, inner.end, here.text, [inner]), after
        return self._postfix(i, end)

    def _is_type(self, begin: int, end: int) -> bool:
        words = [self.at(k) for k in range(begin, end)]
        known = any(w in TYPES for w in words) or (words[-1:] == ["*"] and len(words) > 1)
        return known and all(self.is_word(k) or self.at(k) in ("*", "::", "&") for k in range(begin, end))

    def _postfix(self, i: int, end: int) -> tuple[Expression, int]:
        e, i = self._primary(i, end)
        while i < end:
            here = self.at(i)
            close = self.partner[i]
            if here == "(":
                arguments = self._arguments(i + 1, close)
                e = Expression("call", e.begin, self.found[close].end, e.word, arguments)
                i = close + 1
            elif here == "[":
                inner, after = self._assignment(i + 1, close)
                if after != close:
                    raise _Unknown
                e = Expression("index", e.begin, self.found[close].end, e.word, [e, inner])
                i = close + 1
            elif here in (".", "->") and self.is_word(i + 1):
                word = f"{e.word}{here}{self.at(i + 1)}"
                e = Expression("member", e.begin, self.found[i + 1].end, word, [e])
                i += 2
                if self.at(i) == "<" and (closing := self._template_end(i)) and self.at(closing + 1) == "(":
                    i = closing + 1
            elif here in ("++", "--"):
                e = Expression("postfix", e.begin, self.found[i].end, here, [e])
                i += 1
            elif here == "{" and e.kind == "name":
                e = Expression("other", e.begin, self.found[close].end)
                i = close + 1
            else:
                break
        return e, i

    def _arguments(self, begin: int, end: int) -> list[Expression]:
        found = []
        for a, b in self._between(begin, end):
            e, after = self._assignment(a, b)
            if after != b:
                raise _Unknown
            found.append(e)
        return found

    def _primary(self, i: int, end: int) -> tuple[Expression, int]:
        here = self.found[i]
        if here.kind in ("number", "string"):
            return Expression("number" if here.kind == "number" else "other", here.start, here.end, here.text), i + 1
        close = self.partner[i]
        if here.text == "(":
            inner, after = self._assignment(i + 1, close)
            if after != close:
                raise _Unknown
            return Expression("paren", here.start, self.found[close].end, "", [inner]), close + 1
        if here.text == "{":
            return Expression("list", here.start, self.found[close].end, "", self._arguments(i + 1, close)), close + 1
        if here.text == "[":
            return self._lambda(i, end)
        if here.text in ("sizeof", "alignof") and self.at(i + 1) == "(":
            return Expression("other", here.start, self.found[self.partner[i + 1]].end), self.partner[i + 1] + 1
        if here.kind != "word" or here.text in FIXED:
            raise _Unknown
        last = i
        while self.at(last + 1) == "::" and self.is_word(last + 2):
            last += 2
        word, after = self.source[here.start : self.found[last].end], last + 1
        if (
            self.at(after) == "<"
            and (closing := self._template_end(after))
            and self.at(closing + 1) in ("(", "::", "{")
        ):
            after = closing + 1
            while self.at(after) == "::" and self.is_word(after + 1):
                after += 2
            return Expression("other", here.start, self.found[after - 1].end, word), after
        return Expression("name", here.start, self.found[last].end, word), after

    def _lambda(self, i: int, end: int) -> tuple[Expression, int]:
        after = self.partner[i] + 1
        parameters = []
        if self.at(after) == "(":
            parameters = [self._parameter(a, b) for a, b in self._between(after + 1, self.partner[after])]
            after = self.partner[after] + 1
        while after < end and self.at(after) != "{":
            after += 1
        if self.at(after) != "{" or self.at(i + 1) not in ("&", "="):
            raise _Unknown
        body = self._block(after)
        body.names = [p for p in parameters if p]
        close = self.partner[after]
        return Expression("lambda", self.found[i].start, self.found[close].end, body=body), close + 1

    def _template_end(self, i: int) -> int:
        """The `>` that closes the template arguments which the `<` at token `i` opens; 0 where it compares."""
        depth, k = 0, i
        while k < min(len(self.found), i + 40):
            here = self.at(k)
            depth += (here == "<") - (here == ">") - 2 * (here == ">>")
            if depth <= 0:
                return k if depth == 0 else 0
            if not (
                self.found[k].kind in ("word", "number")
                or here in ("<", ">", ",", "::", "*", "&", "+", "-", "/", "(", ")")
            ):
                return 0
            k += 1
        return 0
