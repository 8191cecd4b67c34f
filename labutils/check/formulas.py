"""Mistakes in a formula, run and not guessed: the reference's text with one term, factor, function or number changed.

A change is named only if it gives the learner's output in every refused case that is looked at: then the sentence is
true whatever the learner's text says.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

MODULES = ("torch", "math", "F")

COURSE = __name__.split(".")[0] + ".exercises"
"""Functions of these modules are changed; those of libraries are not."""

MOST_PARTS = 12
"""Functions of a reference that are looked at."""

SHOWN, INLINE = 34, 24
"""Characters of a part of a formula that a sentence shows at most (a larger one is "the formula"), and of the value
that stands for the name of an intermediate result."""

OTHER = {"exp": "exp2", "exp2": "exp", "log": "log2", "log2": "log", "amax": "amin", "sqrt": "rsqrt", "rsqrt": "sqrt",
         "maximum": "minimum", "minimum": "maximum", "sum": "mean", "mean": "sum", "sigmoid": "tanh"}  # fmt: skip
UNARY = ("tanh", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "abs", "sigmoid", "erf", "square", "relu", "log1p",
         "reciprocal", "silu", "gelu", "cos", "sin", "floor", "round", "ceil", "trunc")  # fmt: skip
SYMBOLS = {ast.Add: "+", ast.Sub: "−", ast.Mult: "·", ast.Div: "/", ast.FloorDiv: "//"}


@dataclass(frozen=True)
class Changed:
    """A reference with one change: what it is, as the end of a sentence, and the function."""

    what: str
    reference: Callable[..., Any]


@functools.lru_cache(maxsize=64)
def changed(reference: Callable[..., Any]) -> tuple[Changed, ...]:
    """All small changes of a reference and of the course's functions that it calls; none where it has no text."""
    parts = _parts(reference)
    if not parts:
        return ()
    found: dict[str, Changed] = {}
    for name, node in parts.items():
        for what, text in _changes(node):
            found.setdefault(what, Changed(what, functools.partial(_call, reference, name, text)))
    return tuple(found.values())


# --- the text of a reference ---------------------------------------------------------------------------------------


def _parts(reference: Callable[..., Any]) -> dict[str, ast.Lambda | ast.FunctionDef]:
    """The function and those of the course that it calls, by name, as syntax trees; nothing if it has no text."""
    parts: dict[str, ast.Lambda | ast.FunctionDef] = {}
    for fn in _functions(reference):
        node = None if fn.__closure__ else _node(fn)
        if node is None and fn is reference:
            return {}
        if node is not None:
            parts.setdefault(fn.__name__, node)
    return parts


def _functions(reference: Callable[..., Any]) -> list[FunctionType]:
    """The function, first, and those of the course that it calls."""
    found, left = [], [reference]
    while left and len(found) < MOST_PARTS:
        fn = left.pop()
        if isinstance(fn, FunctionType) and fn not in found:
            found.append(fn)
            left += _called(fn)
    return found


def _called(fn: FunctionType) -> list[FunctionType]:
    """The functions of the course that a function names."""
    named = (fn.__globals__.get(n) for n in fn.__code__.co_names)
    return [f for f in named if isinstance(f, FunctionType) and f.__module__.startswith(COURSE)]


@functools.lru_cache(maxsize=64)
def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


def _node(fn: FunctionType) -> ast.Lambda | ast.FunctionDef | None:
    try:
        tree = _tree(inspect.getmodule(fn))
    except (OSError, TypeError, SyntaxError):
        return None
    names = list(fn.__code__.co_varnames[: fn.__code__.co_argcount])
    kind = ast.Lambda if fn.__name__ == "<lambda>" else ast.FunctionDef
    for node in ast.walk(tree):
        if isinstance(node, kind) and node.lineno == fn.__code__.co_firstlineno:
            arguments = node.args.posonlyargs + node.args.args
            if [a.arg for a in arguments] == names:
                return node
    return None


def _call(reference: FunctionType, name: str, text: str, **inputs):
    return _defined(reference, name, text)(**inputs)


@functools.lru_cache(maxsize=512)
def _defined(reference: FunctionType, changed_name: str, text: str) -> Callable[..., Any]:
    """The reference with one of its functions defined anew. The others of its parts are too: they may call it."""
    namespace: dict[str, Any] = {}
    for fn in reversed(_functions(reference)):
        namespace |= fn.__globals__
    for name, code in _code(reference):
        exec(_compiled(name, text) if name == changed_name else code, namespace)
    return namespace[_plain(reference.__name__)]


@functools.lru_cache(maxsize=64)
def _code(reference: FunctionType) -> list[tuple[str, Any]]:
    return [(name, _compiled(name, ast.unparse(node))) for name, node in _parts(reference).items()]


def _compiled(name: str, text: str):
    return compile(f"{_plain(name)} = {text}" if name == "<lambda>" else text, "<formula>", "exec")


def _plain(name: str) -> str:
    return "_formula" if name == "<lambda>" else name


# --- changes -------------------------------------------------------------------------------------------------------


def _changes(function: ast.Lambda | ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """(what was changed, the function's text then), the likeliest first."""
    body = [function.body] if isinstance(function, ast.Lambda) else function.body
    nodes = [n for top in body for n in ast.walk(top) if isinstance(n, ast.expr)]
    shown = _Shown(function)
    for rule in (_terms, _calls, _numbers, _operators):
        for node in nodes:
            for what, new in rule(node, shown):
                yield what, _with(function, node, new)


def _with(function, node: ast.expr, new: ast.expr) -> str:
    """The function's text with another expression in a node's place."""

    class Exchange(ast.NodeTransformer):
        def visit(self, here):
            return new if here is node else self.generic_visit(here)

    memo: dict[int, Any] = {id(node): node, id(new): new}
    return ast.unparse(Exchange().visit(copy.deepcopy(function, memo)))


class _Shown:
    """Shows expressions of one function in a sentence: without underscores and modules, short intermediate results in
    place of their names."""

    def __init__(self, function: ast.Lambda | ast.FunctionDef):
        made = [n for n in ast.walk(function) if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)]
        names = [n.targets[0].id for n in made]
        self.values = {
            n.targets[0].id: n.value
            for n in made
            if names.count(n.targets[0].id) == 1
            and not re.search(rf"\b(_\w+|{n.targets[0].id})\b", ast.unparse(n.value))
        }

    def text(self, node: ast.expr) -> str:
        values = {n: v for n, v in self.values.items() if v is not node and len(ast.unparse(v)) <= INLINE}

        class Plain(ast.NodeTransformer):
            def visit_Name(self, here):
                return copy.deepcopy(values[here.id]) if here.id in values else ast.Name(here.id.lstrip("_"), here.ctx)

            def visit_Attribute(self, here):
                module = isinstance(here.value, ast.Name) and here.value.id in MODULES
                self.generic_visit(here)
                return ast.Name(here.attr, here.ctx) if module else here

        return ast.unparse(Plain().visit(copy.deepcopy(node)))

    def __call__(self, node: ast.expr) -> str:
        text = self.text(node)
        return f"`{text}`" if len(text) <= SHOWN else "the formula"

    def part(self, node: ast.expr) -> str:
        text = self.text(node)
        return f"`{text}`" if len(text) <= 2 * SHOWN else f"`{text[: 2 * SHOWN - 1]}…`"


def _terms(node: ast.expr, shown: _Shown) -> Iterator[tuple[str, ast.expr]]:
    if not isinstance(node, ast.BinOp):
        return
    whole, left, right = shown(node), shown.part(node.left), shown.part(node.right)
    if isinstance(node.op, (ast.Add, ast.Sub)):
        yield f"the term {right} is left out of {whole}", node.left
        yield (
            f"the term {left} is left out of {whole}",
            (node.right if isinstance(node.op, ast.Add) else ast.UnaryOp(ast.USub(), node.right)),
        )
    elif isinstance(node.op, ast.Mult):
        yield f"the factor {right} is left out of {whole}", node.left
        yield f"the factor {left} is left out of {whole}", node.right
    elif isinstance(node.op, (ast.Div, ast.Pow)):
        word = "the division by" if isinstance(node.op, ast.Div) else "the exponent"
        yield f"{word} {right} is left out of {whole}", node.left


def _calls(node: ast.expr, shown: _Shown) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield f"the sign of {shown(node)} is left out", node.operand
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return
    owner, name = node.func.value, node.func.attr
    module = isinstance(owner, ast.Name) and owner.id in MODULES
    arguments = node.args if module else [owner, *node.args]
    if name in UNARY and len(arguments) == 1:
        yield f"`{name}` is left out of {shown(node)}", arguments[0]
    if name in OTHER:
        func = ast.Attribute(owner, OTHER[name], ast.Load())
        yield f"`{OTHER[name]}` stands where {shown(node)} has `{name}`", ast.Call(func, node.args, node.keywords)
    if name == "where" and module and len(node.args) == 3:
        condition, yes, no = node.args
        yield f"the two values of {shown(node)} are exchanged", ast.Call(node.func, [condition, no, yes], [])
        yield f"{shown(node)} is always its first value", yes
        yield f"{shown(node)} is always its second value", no
    if name in ("clamp", "clamp_min", "clamp_max", "relu") and arguments:
        yield f"the limit is left out of {shown(node)}", arguments[0]


def _numbers(node: ast.expr, shown: _Shown) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.BinOp):
        for side in ("left", "right"):
            number = getattr(node, side)
            if isinstance(number, ast.Constant) and type(number.value) in (int, float):
                for value in _others(number.value):
                    new = ast.BinOp(node.left, node.op, node.right)
                    setattr(new, side, ast.Constant(value))
                    yield f"{shown(node)} has {value:g} in place of {number.value:g}", new


def _others(value: float) -> list[float]:
    found = [value + 1, value - 1, 2 * value, value / 2, 10 * value, value / 10]
    return [v for v in dict.fromkeys(found) if v and v != value and math.isfinite(v)]


def _operators(node: ast.expr, shown: _Shown) -> Iterator[tuple[str, ast.expr]]:
    if not isinstance(node, ast.BinOp):
        return
    swaps = {ast.Add: (ast.Sub, ast.Mult), ast.Sub: (ast.Add,), ast.Mult: (ast.Div, ast.Add), ast.Div: (ast.Mult,)}
    for op in swaps.get(type(node.op), ()):
        yield (
            f"{shown(node)} has {SYMBOLS[op]} in place of {SYMBOLS[type(node.op)]}",
            ast.BinOp(node.left, op(), node.right),
        )
    if isinstance(node.op, (ast.Sub, ast.Div)):
        yield f"the two sides of {shown(node)} are exchanged", ast.BinOp(node.right, node.op, node.left)
    if isinstance(node.op, ast.Mult) and ast.dump(node.left) != ast.dump(node.right):
        yield f"{shown.part(node.right)} is squared in {shown(node)}", ast.BinOp(node, ast.Mult(), node.right)
