"""Where is the mistake in a plain function? Small changes of its text are tried: if one makes every case right, the
mistake is in that place. Only the place is reported, not the change.
"""

from __future__ import annotations

import ast
import contextlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace

from ..backends import child, extract
from ..gpu.device import DeviceLimits
from . import edits, statements

SECONDS, EACH, AGAIN = 2.0, 0.5, 0.5
"""CPU time for all changes, for one, and for a second place after the first was found."""

TOGETHER = 50
"""Changes between two messages of the child, if they take less than a fifth of EACH."""

MOST = 5000
"""Changes that are tried at most, the likeliest first."""


@dataclass(frozen=True)
class Place:
    """A part of a function's text that a change makes right; `what` says what is looked at there. `other` is a place on
    another line where a change does so too."""

    what: str
    text: str
    line: int
    statement: str
    other: Place | None = None

    @property
    def cause(self) -> str:
        if self.other:
            return f"one change makes every result right, on line {self.line} or on line {self.other.line}"
        shown = statements.shortened(self.statement)
        return f"one change of your line {self.line}, `{shown}`, makes every result right"

    @property
    def sentence(self) -> str:
        """The cause as a sentence of its own."""
        if self.other:
            return f"One change makes every result right, on line {self.line} or on line {self.other.line}."
        shown = statements.shortened(self.statement)
        return f"One change of your line {self.line}, `{shown}`, makes every result right."

    @property
    def advice(self) -> str:
        text = statements.shortened(self.text, 80)
        if self.other:
            return (
                f"Which of the two lines is not what the text of the exercise says: line {self.line}, {self.what} in "
                f"`{text}`, or line {self.other.line}, `{statements.shortened(self.other.statement)}`?"
            )
        return (
            f"Look at line {self.line}, first at {self.what} in `{text}`. If that is as it should be, look at the rest "
            "of the line and at what uses it."
        )


def find(fn: Callable, tests: list[Callable[[Callable], bool]], seconds: float = SECONDS) -> Place | None:
    """The first place where one small change makes all tests true. `tests` take the function, in a child; those that
    `fn` itself fails come first."""
    try:
        parts = extract.module_parts(fn)
    except extract.NotExtractable:
        return None
    tries = _tries(parts)
    found = _first(fn.__name__, parts, tries, tests, seconds)
    if found is None:
        return None
    number, change = tries[found]
    later = [(n, c) for n, c in tries[found + 1 :] if (n, c.line) != (number, change.line)]
    second = _first(fn.__name__, parts, later, tests, AGAIN)
    place = _place(parts, number, change)
    return place if second is None else replace(place, other=_place(parts, *later[second]))


def _tries(parts: list[extract.Part]) -> list[tuple[int, edits.Change]]:
    """(number of the part, change), the likeliest of all parts first."""
    functions = [(n, part) for n, part in enumerate(parts) if part.text.lstrip().startswith("def ")]
    found: dict[tuple[int, str], tuple[int, edits.Change]] = {}
    for rules in RULES:
        for number, part in functions:
            for change in _changes(part, rules):
                found.setdefault((number, change.applied(part.text)), (number, change))
    return list(found.values())[:MOST]


def _changes(part: extract.Part, rules) -> list[edits.Change]:
    try:
        return edits.changes(part.text, (rules,))
    except (SyntaxError, StopIteration):
        return []


def _first(entry: str, parts, tries: list[tuple[int, edits.Change]], tests, seconds: float) -> int | None:
    """The number of the first of these changes that makes all tests true. `seconds` are of CPU time: on a busy machine
    it takes up to PATIENCE times as long by the clock."""
    at, used, end = 0, 0.0, time.monotonic() + child.PATIENCE * seconds
    while at < len(tries) and used < seconds and time.monotonic() < end:
        walk = _walk(entry, parts, tries, tests, at)
        with contextlib.closing(child.run([walk] * (len(tries) - at), EACH)) as results:
            before = used
            for result in results:
                if isinstance(result, str):  # the process died: not again with what it was at
                    at, used = at + TOGETHER, used + EACH
                    break
                if result["right"] is not None:
                    return result["right"]
                at, used = result["at"], before + result["seconds"]
                if at >= len(tries) or used > seconds or time.monotonic() > end:
                    break
    return None


def _walk(entry: str, parts, tries: list[tuple[int, edits.Change]], tests, begin: int) -> Callable[[], dict]:
    """A job for a child that goes on, each time it is called, with the next few changes: the number of one that is
    right, or None, where it stands, and its CPU time so far. A message for each change would take longer than it."""
    code = [compile(part.text, part.file, "exec") for part in parts]
    at = begin

    def some() -> dict:
        nonlocal at
        first, until = at, time.monotonic() + EACH / 5
        while at < min(first + TOGETHER, len(tries)) and time.monotonic() < until:
            with child.alarm(child.PATIENCE * EACH, EACH):
                right = _all_right(entry, parts, code, *tries[at], tests)
            at += 1
            if right:
                return {"right": at - 1}
        return {"right": None, "at": at, "seconds": time.process_time()}

    return some


def _all_right(entry: str, parts, code: list, number: int, change: edits.Change, tests) -> bool:
    part, namespace = parts[number], {"__name__": "changed"}
    try:
        for n, own in enumerate(code):
            exec(own if n != number else compile(change.applied(part.text), part.file, "exec"), namespace)
        return all(test(namespace[entry]) for test in tests)
    except (Exception, child.TimeLimit):  # a change that is no Python, or without an end, is no repair
        return False


def _place(parts: list[extract.Part], number: int, change: edits.Change) -> Place:
    part = parts[number]
    statement = statements.statement(part.text.splitlines(), change.line)
    return Place(change.what, part.text[change.begin : change.end], part.line + change.line - 1, statement)


# --- changes that only plain functions need ------------------------------------------------------------------------

CALLED = {"min": "max", "max": "min", "floor": "ceil", "ceil": "floor", "int": "round", "round": "int", "any": "all",
          "all": "any", "log": "log2", "log2": "log", "abs": "float", "sum": "max", "list": "sorted"}  # fmt: skip

SYMBOLS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**"}

OTHERS = {"+": "-*", "-": "+", "*": ("/", "+", "//"), "/": ("*", "//", "-"), "//": ("/", "%", "*"), "%": ("//",),
          "**": ("*",)}  # fmt: skip

UNITS = (10, 100, 1000, 1024, 10**6, 2**20, 10**9)
"""Factors by which numbers are wrong where two units are mixed up."""

USUAL = (0, 1, 2, 3, 4, 8, 10, 16, 20, 32, 64, 128)
"""Numbers that formulas have."""


def _called(source: edits.Text, node: ast.AST) -> Iterator[edits.Change]:
    """Another function, or none."""
    if not isinstance(node, ast.Call):
        return
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if name in CALLED:
        whole = source.of(node.func)
        yield source.change("the function", node.func, whole[: len(whole) - len(name)] + CALLED[name])
    if len(node.args) == 1 and not node.keywords:
        yield source.change("the function", node, f"({source.of(node.args[0])})")
    if name in ("min", "max"):
        for argument in node.args:
            yield source.change("the function", node, f"({source.of(argument)})")


def _grouped(source: edits.Text, node: ast.AST) -> Iterator[edits.Change]:
    """What an exponent or an operator takes in: a factor inside of it or outside."""
    if not isinstance(node, ast.BinOp):
        return
    right, outer = source.of(node.right), SYMBOLS.get(type(node.op))
    if isinstance(node.left, ast.BinOp) and (inner := SYMBOLS.get(type(node.left.op))) and outer:
        a, b = source.of(node.left.left), source.of(node.left.right)
        what = "what the exponent takes in" if outer == "**" else "the parentheses"
        yield source.change(what, node, f"(({a}) {inner} (({b}) {outer} ({right})))")
        if outer == "**":
            yield source.change(what, node, f"(({a}) ** ({right}) {inner} ({b}))")
    if isinstance(node.right, ast.BinOp) and (inner := SYMBOLS.get(type(node.right.op))) and outer:
        a, b = source.of(node.right.left), source.of(node.right.right)
        yield source.change("the parentheses", node, f"((({source.of(node.left)}) {outer} ({a})) {inner} ({b}))")
    if isinstance(node.op, ast.Mult):
        inside = [n for n in ast.walk(node.left) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.FloorDiv)]
        for n in inside:
            begin, end = source.span(n.left)
            b0, e0 = source.span(node.left)
            text = source.text[b0:begin] + f"({source.of(n.left)}) * ({right})" + source.text[end:e0]
            yield source.change("what is rounded", node, f"({text})")


def _rounded(source: edits.Text, node: ast.AST) -> Iterator[edits.Change]:
    """A quotient rounded down, up, or not at all."""
    if (quotient := _quotient(node)) is None:
        return
    a, b = source.of(quotient.left), source.of(quotient.right)
    inner = quotient.left
    if isinstance(node, ast.UnaryOp):
        if not isinstance(inner, (ast.UnaryOp, ast.BinOp)):
            return
        a = f"-({a})"  # -(-x // y)
    elif isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Sub) and isinstance(inner.left, ast.BinOp):
        yield source.change("the rounding", node, f"(({source.of(inner.left.left)}) // ({b}))")  # (x + y - 1) // y
    for new in (f"(({a}) // ({b}))", f"-(-({a}) // ({b}))", f"(({a}) / ({b}))", f"(({a}) // ({b}) + 1)"):
        yield source.change("the rounding", node, new)


def _quotient(node: ast.AST) -> ast.BinOp | None:
    """The division that a node rounds, or is."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
        return node if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv) else None
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name not in ("ceil", "floor", "round", "int"):
            return None
        node = node.args[0]
    return node if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.FloorDiv)) else None


def _operators(source: edits.Text, node: ast.AST) -> Iterator[edits.Change]:
    """Another operator, or the operands the other way round."""
    if isinstance(node, ast.BinOp) and (symbol := SYMBOLS.get(type(node.op))):
        left, right = source.of(node.left), source.of(node.right)
        for other in OTHERS[symbol]:
            yield source.change("the operator", node, f"(({left}) {other} ({right}))")
        if symbol in "-/%//":
            yield source.change("the order of the operands", node, f"(({right}) {symbol} ({left}))")
    if isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
        for symbol in ("+=", "-=", "*=", "/=", "="):
            yield source.change("the operator", node, f"{source.of(node.target)} {symbol} {source.of(node.value)}")
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        for symbol in ("+=", "*="):
            yield source.change("the operator", node, f"{source.of(node.targets[0])} {symbol} {source.of(node.value)}")
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        yield source.change("the sign", node, f"({source.of(node.operand)})")


def _conditions(source: edits.Text, node: ast.AST) -> Iterator[edits.Change]:
    """A condition that is inverted, too many, or joined to another one in the wrong way."""
    if isinstance(node, ast.BoolOp):
        parts = [f"({source.of(v)})" for v in node.values]
        word, other = (" and ", " or ") if isinstance(node.op, ast.And) else (" or ", " and ")
        yield source.change("the condition", node, f"({other.join(parts)})")
        for n in range(len(parts)):
            yield source.change("the condition", node, f"({word.join(parts[:n] + parts[n + 1 :])})")
    if isinstance(node, ast.IfExp):
        one, test, two = source.of(node.body), source.of(node.test), source.of(node.orelse)
        for new in (f"({two} if {test} else {one})", f"({one})", f"({two})"):
            yield source.change("the condition", node, new)
    if isinstance(node, (ast.If, ast.IfExp)):
        for new in (f"not ({source.of(node.test)})", "True", "False"):
            yield source.change("the condition", node.test, new)
    if isinstance(node, ast.comprehension):
        for test in node.ifs:
            for new in (f"not ({source.of(test)})", "True"):
                yield source.change("the condition", test, new)


def _any_name(source: edits.Text, node: ast.AST) -> Iterator[edits.Change]:
    """Another of the function's names, or another attribute or key that the function uses."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        names = [*source.parameters, *source.assigned]
        if node.id in names or re.fullmatch(r"[A-Z][A-Z_0-9]*", node.id):
            for other in dict.fromkeys([*names, *_constants_of(source, node.id)]):
                if other != node.id:
                    yield source.change("the name", node, other)
    if isinstance(node, ast.Call):
        for argument in node.args:
            if not isinstance(argument, (ast.Name, ast.Constant)):
                for other in dict.fromkeys([*source.parameters, *source.assigned]):
                    yield source.change("the argument", argument, other)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        keys = {n.value for n in source.nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        for other in sorted(keys - {node.value}):
            yield source.change("the name", node, repr(other))


def _constants_of(source: edits.Text, name: str) -> list[str]:
    """The names in capitals that the function uses, where `name` is one."""
    if not name.isupper():
        return []
    return [n.id for n in source.nodes if isinstance(n, ast.Name) and n.id.isupper()]


def _arguments(source: edits.Text, node: ast.AST) -> Iterator[edits.Change]:
    """Two neighboring arguments exchanged, another range, another index."""
    if isinstance(node, ast.Call) and len(node.args) > 1 and not any(isinstance(a, ast.Starred) for a in node.args):
        for one, two in zip(node.args, node.args[1:], strict=False):
            begin, end = source.span(one)[0], source.span(two)[1]
            between = source.text[source.span(one)[1] : source.span(two)[0]]
            new = source.of(two) + between + source.of(one)
            yield edits.Change("the order of the arguments", begin, end, new, one.lineno)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        last = node.args[min(1, len(node.args) - 1)]
        for sign in "+-":
            yield source.change("the end of the range", last, f"{source.of(last)} {sign} 1")
        if len(node.args) == 1:
            yield source.change("the start of the range", last, f"1, {source.of(last)}")
            yield source.change("the start of the range", last, f"1, {source.of(last)} + 1")
        else:
            yield source.change("the start of the range", node.args[0], "0")
            yield source.change("the start of the range", node.args[0], f"{source.of(node.args[0])} + 1")


def _numbers(source: edits.Text, node: ast.AST) -> Iterator[edits.Change]:
    """Another number: near, a usual one, a half, twice, or of another unit."""
    if not isinstance(node, ast.Constant) or type(node.value) not in (int, float):
        return
    value = node.value
    if isinstance(value, float):
        yield from edits.constants(source, node)
        others = [*(value * u for u in UNITS), *(value / u for u in UNITS)]
    else:
        others = [value + 1, value - 1, 2 * value, value // 2, *USUAL]
        others += [10**3, 2**10, 10**6, 2**20, 10**9, 2**30] if value in UNITS else []
    for other in dict.fromkeys(others):
        if other != value and other >= 0:
            yield source.change("the number", node, repr(other))


def _dropped(source: edits.Text, node: ast.AST) -> Iterator[edits.Change]:
    """A term or a factor too many."""
    if isinstance(node, ast.BinOp):
        for side in (node.left, node.right):
            yield source.change("the term (one may be too many)", node, f"({source.of(side)})")


def _unused(source: edits.Text, node: ast.AST) -> Iterator[edits.Change]:
    """A factor, a divisor or a term that is missing: a name that the function has and never reads."""
    read = {n.id for n in source.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    yield from _with(source, node, [n for n in [*source.parameters, *source.assigned] if n not in read])


def _inserted(source: edits.Text, node: ast.AST) -> Iterator[edits.Change]:
    """A factor, a divisor or a term that is missing."""
    others = [*source.parameters, *_attributes(source), *source.assigned, "2"]
    yield from _with(source, node, others)
    for change in _with(source, node, ["1"]):
        if "term" in change.what:
            yield change


def _with(source: edits.Text, node: ast.AST, others: list[str]) -> Iterator[edits.Change]:
    """The expression with each of the others as a factor, a divisor or a term."""
    kinds = (ast.BinOp, ast.Name, ast.Call, ast.Attribute, ast.Constant, ast.Subscript)
    if not isinstance(node, kinds) or isinstance(getattr(node, "ctx", None), ast.Store):
        return
    if isinstance(node, ast.Constant) and type(node.value) not in (int, float):
        return
    text = source.of(node)
    for other in others:
        yield source.change("the factor (one may be missing)", node, f"(({text}) * {other})")
        yield source.change("the factor (one may be missing)", node, f"(({text}) / {other})")
        yield source.change("the divisor (one may be missing)", node, f"(({text}) // {other})")
        yield source.change("the divisor (one may be missing)", node, f"(({text}) % {other})")
        yield source.change("the term (one may be missing)", node, f"(({text}) + {other})")
        yield source.change("the term (one may be missing)", node, f"(({text}) - {other})")


def _attributes(source: edits.Text) -> list[str]:
    """The attributes of parameters and intermediate results that the function reads, such as `limits.max_warps`."""
    names = {*source.parameters, *source.assigned}
    read = [n for n in source.nodes if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)]
    return list(dict.fromkeys(source.of(n) for n in read if n.value.id in names and isinstance(n.ctx, ast.Load)))


def _any_attribute(source: edits.Text, node: ast.AST) -> Iterator[edits.Change]:
    """Another attribute of the same object: those that the function reads, and those of a GPU's limits."""
    if not (
        isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and source.of(node) in _attributes(source)
    ):
        return
    owner = node.value.id
    read = [a.split(".")[1] for a in _attributes(source) if a.split(".")[0] == owner]
    limits = [f.name for f in fields(DeviceLimits)]
    for other in dict.fromkeys([*read, *(limits if node.attr in limits else ())]):
        if other != node.attr:
            yield source.change("the attribute", node, f"{owner}.{other}")


RULES = (
    (edits.comparisons, _called, _rounded, _grouped, _operators, _conditions, _unused),
    (_any_name, _arguments, _any_attribute, _numbers, _dropped),
    (_inserted,),
)
"""The likeliest first; those of one group go through the text together."""
