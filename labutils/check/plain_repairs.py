"""Where is the mistake in a plain function? Small changes of its text are tried: if one makes every case right, the
mistake is in that place. Only the place is reported, not the change.
"""

from __future__ import annotations

import ast
import functools
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..backends import extract
from . import edits, statements

SECONDS, EACH = 2.0, 0.5
"""Time for all changes, and for one."""

MOST = 1500
"""Changes that are tried at most, the likeliest first."""


@dataclass(frozen=True)
class Place:
    """A part of a function's text that a change makes right."""

    text: str
    line: int
    statement: str

    @property
    def cause(self) -> str:
        return f"one change on line {self.line} makes every result right, `{statements.shortened(self.statement)}`"

    @property
    def sentence(self) -> str:
        """The cause as a sentence of its own."""
        return f"One change on line {self.line} makes every result right, `{statements.shortened(self.statement)}`."

    @property
    def advice(self) -> str:
        return (
            f"Look at line {self.line}, first at `{statements.shortened(self.text, 80)}`. If that is as it should be, "
            "look at the rest of the line and at what uses it."
        )


def find(fn: Callable, tests: list[Callable[[Callable], bool]], seconds: float = SECONDS) -> Place | None:
    """The first place where one small change makes all tests true. `tests` take the function, in a child; those that
    `fn` itself fails come first."""
    end = time.monotonic() + seconds
    try:
        parts = extract.module_parts(fn)
    except extract.NotExtractable:
        return None
    tries = [(n, c) for n, part in enumerate(parts) if part.text.lstrip().startswith("def ") for c in _changes(part)]
    tries = tries[:MOST]
    jobs = [functools.partial(_all_right, fn.__name__, parts, *t, tests) for t in tries]
    found = edits.first_right(jobs, EACH, end)
    return None if found is None else _place(parts, *tries[found])


def _changes(part: extract.Part) -> list[edits.Change]:
    try:
        return edits.changes(part.text, RULES)
    except (SyntaxError, StopIteration):
        return []


def _all_right(entry: str, parts, number: int, change: edits.Change, tests) -> dict:
    part, changed = parts[number], [*parts]
    changed[number] = part._replace(text=change.applied(part.text), file=f"<changed {part.file}>")
    try:
        fn = extract.load(changed, "changed")[entry]
    except Exception:  # a change that is no Python is no repair
        return {"right": False}
    return {"right": all(test(fn) for test in tests)}


def _place(parts: list[extract.Part], number: int, change: edits.Change) -> Place:
    part = parts[number]
    statement = statements.statement(part.text.splitlines(), change.line)
    return Place(part.text[change.begin : change.end], part.line + change.line - 1, statement)


# --- changes that only plain functions need ------------------------------------------------------------------------

CALLED = {"min": "max", "max": "min", "floor": "ceil", "ceil": "floor", "int": "round", "round": "int", "any": "all",
          "all": "any", "log": "log2", "log2": "log", "abs": "float", "sum": "max"}  # fmt: skip


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
    """What an exponent, a rounding or a division takes in: a factor inside of it or outside."""
    if not isinstance(node, ast.BinOp):
        return
    if isinstance(node.op, ast.Pow) and isinstance(node.left, ast.BinOp):
        a, b, c = source.of(node.left.left), source.of(node.left.right), source.of(node.right)
        sign = {ast.Mult: "*", ast.Div: "/", ast.Add: "+"}.get(type(node.left.op))
        if sign:
            yield source.change("what the exponent takes in", node, f"(({a}) {sign} ({b}) ** ({c}))")
            yield source.change("what the exponent takes in", node, f"(({a}) ** ({c}) {sign} ({b}))")
    if isinstance(node.op, ast.Mult):
        inside = [n for n in ast.walk(node.left) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.FloorDiv)]
        for n in inside:
            begin, end = source.span(n.left)
            b0, e0 = source.span(node.left)
            text = source.text[b0:begin] + f"({source.of(n.left)}) * ({source.of(node.right)})" + source.text[end:e0]
            yield source.change("what is rounded", node, f"({text})")
    if isinstance(node.op, ast.FloorDiv):
        left, right = source.of(node.left), source.of(node.right)
        yield source.change("the rounding", node, f"-(-({left}) // ({right}))")


def _any_name(source: edits.Text, node: ast.AST) -> Iterator[edits.Change]:
    """Another of the function's names."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        names = [*source.parameters, *source.assigned]
        if node.id in names or re.fullmatch(r"[A-Z][A-Z_0-9]*", node.id):
            for other in dict.fromkeys(names):
                if other != node.id:
                    yield source.change("the name", node, other)
    if isinstance(node, ast.Call):
        for argument in node.args:
            if not isinstance(argument, (ast.Name, ast.Constant)):
                for other in dict.fromkeys([*source.parameters, *source.assigned]):
                    yield source.change("the argument", argument, other)


def _inserted(source: edits.Text, node: ast.AST) -> Iterator[edits.Change]:
    """A factor, a divisor or a term that is missing."""
    if not isinstance(node, (ast.BinOp, ast.Name, ast.Call)) or isinstance(getattr(node, "ctx", None), ast.Store):
        return
    text = source.of(node)
    for other in [*source.parameters, "2", "1"]:
        if other != "1":
            yield source.change("the factor (one may be missing)", node, f"(({text}) * {other})")
            yield source.change("the factor (one may be missing)", node, f"(({text}) / {other})")
        yield source.change("the term (one may be missing)", node, f"(({text}) + {other})")
        yield source.change("the term (one may be missing)", node, f"(({text}) - {other})")


RULES = (
    (edits.comparisons, _called, _grouped, edits.operators),
    (_any_name, edits.constants, edits.terms),
    (_inserted,),
)
"""The likeliest first; those of one group go through the text together."""
