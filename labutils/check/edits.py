"""Small changes of a Triton kernel's text: where one of them makes the kernel right, the mistake is there.

Each is an edit of the text and says what it looks at ("the function", "the mask"), never what belongs there. What is
missing is taken from other places of the same text: a term of another address, another mask, another value. What a name
stands for is read from how it is computed, not from how it is spelled.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..backends import child


@dataclass(frozen=True)
class Change:
    """Replace the characters from `begin` to `end` of a text by `new`. `what` names what is looked at; `line` counts
    from the text's first line, 1. `group` is that of the rule that made it, 0 for the likeliest; `formula`: it changes
    what is computed, not which elements are loaded, stored or compared; None where that is open."""

    what: str
    begin: int
    end: int
    new: str
    line: int
    group: int = 0
    formula: bool | None = None

    def applied(self, text: str) -> str:
        return text[: self.begin] + self.new + text[self.end :]


COMPARED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
OPERATORS = {ast.Add: "-*", ast.Sub: "+", ast.Mult: "/+", ast.Div: "*", ast.FloorDiv: "%/", ast.Mod: ("//",),
             ast.BitAnd: "|", ast.BitOr: "&", ast.LShift: (">>",), ast.RShift: ("<<",)}  # fmt: skip
FUNCTIONS = {"exp": ("exp2",), "exp2": ("exp",), "log": ("log2",), "log2": ("log",), "max": ("min", "sum"),
             "min": ("max",), "sum": ("max",), "maximum": ("minimum",), "minimum": ("maximum",), "sqrt": ("rsqrt",),
             "rsqrt": ("sqrt",), "atomic_max": ("atomic_add",),
             "atomic_add": ("atomic_max",)}  # fmt: skip
INFINITE = ("float('-inf')", "0.0")
COMPUTED = {"dot", "zeros", "full", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sigmoid", "sum", "rand"}
"""Functions of Triton whose results are values, beside loads."""


class Text:
    """A function's text with its tree and the names that it has."""

    def __init__(self, text: str):
        self.text = text
        self.starts = [0]
        for line in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line.encode()))
        self.bytes = text.encode()
        self.function = next(n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef))
        self.parameters = [a.arg for a in self.function.args.args]
        self.nodes = [n for top in self.function.body for n in ast.walk(top) if not is_docstring(top)]
        self.assigned = list(
            dict.fromkeys(n.id for n in self.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        )
        self.masks = list(
            dict.fromkeys(self.of(k.value) for n in self.nodes if isinstance(n, ast.Call) for k in n.keywords
                          if k.arg == "mask")
        )  # fmt: skip

    def span(self, node: ast.AST) -> tuple[int, int]:
        begin = self.starts[node.lineno - 1] + node.col_offset
        end = self.starts[node.end_lineno - 1] + node.end_col_offset
        return len(self.bytes[:begin].decode()), len(self.bytes[:end].decode())

    def of(self, node: ast.AST) -> str:
        begin, end = self.span(node)
        return self.text[begin:end]

    def operand(self, node: ast.AST) -> str:
        """The text of an expression that is to stand beside an operator."""
        plain = isinstance(node, (ast.Name, ast.Call, ast.Subscript, ast.Attribute, ast.Constant))
        return self.of(node) if plain else f"({self.of(node)})"

    def change(self, what: str, node: ast.AST, new: str) -> Change:
        return Change(what, *self.span(node), new, node.lineno)

    @functools.cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return {c: n for n in ast.walk(self.function) for c in ast.iter_child_nodes(n)}

    @functools.cached_property
    def first(self) -> dict[str, int]:
        """The line on which each name is bound first."""
        found: dict[str, int] = dict.fromkeys(self.parameters, 0)
        for n in self.nodes:
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
                found[n.id] = min(n.lineno, found.get(n.id, n.lineno))
        return found

    @functools.cached_property
    def kinds(self) -> dict[str, str]:
        """What each name of a kernel stands for: a pointer, stride, size, tile (known to the compiler), index, block
        (of indices), mask or value."""
        found = {}
        for a in self.function.args.args:
            tile = a.annotation is not None and "constexpr" in ast.unparse(a.annotation)
            pointer = re.search(r"_(ptrs?|desc)$", a.arg)
            stride = a.arg.startswith("stride")
            found[a.arg] = "tile" if tile else "pointer" if pointer else "stride" if stride else "size"
        if "pointer" not in found.values():  # a function that a kernel calls
            found = {n: "value" if k == "size" else k for n, k in found.items()}
        for _ in range(2):  # a loop uses what it assigns further below
            for n in sorted((n for n in self.nodes if isinstance(n, ast.stmt)), key=lambda n: n.lineno):
                if isinstance(n, ast.For) and isinstance(n.target, ast.Name):
                    found[n.target.id] = "index"
                for target, value in _assigned(n):
                    found.setdefault(target, self.kind(value, found))
        return found

    def kind(self, node: ast.AST, kinds: dict[str, str] | None = None) -> str:
        """What an expression of a kernel stands for, as `kinds`."""
        kinds = self.kinds if kinds is None else kinds
        if isinstance(node, (ast.Compare, ast.BoolOp)):
            return "mask"
        if isinstance(node, ast.Subscript):
            return self.kind(node.value, kinds)
        joined = isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr))
        if joined and "mask" in (self.kind(node.left, kinds), self.kind(node.right, kinds)):
            return "mask"
        if isinstance(node, ast.Call) and _called(node) in ("load", "atomic_add", "atomic_max", *COMPUTED):
            return "value"
        if isinstance(node, ast.Call) and _called(node) == "arange":
            return "block"
        if isinstance(node, ast.Name):
            return kinds.get(node.id, "index")
        if isinstance(node, ast.Constant):
            return "value" if isinstance(node.value, float) else "index"
        inside = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
        if isinstance(node, ast.Call) and not isinstance(node.func, ast.Attribute):
            inside = node.args
        of = {self.kind(n, kinds) for n in inside if not (isinstance(n, ast.Name) and n.id in ("tl", "triton"))}
        return next((k for k in ("pointer", "value", "block", "mask") if k in of), "index")

    def named(self, *kinds: str, before: int = 1 << 30) -> list[str]:
        """Names of these kinds that are bound above a line."""
        return [n for n, k in self.kinds.items() if k in kinds and self.first.get(n, 0) < before]

    def is_formula(self, node: ast.AST) -> bool | None:
        """Is this part of a value, and of no address, mask or index in it? None in a function without pointers."""
        if "pointer" not in self.kinds.values():
            return None
        while (parent := self.parents.get(node)) is not None and not isinstance(node, ast.stmt):
            if isinstance(parent, ast.Call) and _is_access(parent) and node is not parent.func:
                return node in parent.args[1:2] and _called(parent) != "load"
            if isinstance(parent, (ast.Compare, ast.For, ast.If)):
                return False
            node = parent
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            first = target.elts[0] if isinstance(target, ast.Tuple) else target
            return self.kind(first) == "value"
        return False

    @functools.cached_property
    def addresses(self) -> list[ast.expr]:
        """Expressions that are pointers: what loads and stores get, and what is assigned to pointers."""
        found = [n.args[0] for n in self.nodes if isinstance(n, ast.Call) and _is_access(n)]
        found += [v for n in self.nodes if isinstance(n, ast.Assign) for _, v in _assigned(n)]
        return [n for n in found if self.kind(n) == "pointer" and not isinstance(n, ast.Call)]

    @functools.cached_property
    def terms(self) -> list[str]:
        """The terms of all addresses without their pointers."""
        found = (t for a in self.addresses for t in _summands(a) if self.kind(t) != "pointer")
        return list(dict.fromkeys(map(self.of, found)))

    @functools.cached_property
    def blocks(self) -> list[str]:
        """The blocks of indices as the text has them, also as rows and columns: `offs`, `offs[:, None]`."""
        found = [n for n in self.nodes if isinstance(n, (ast.Name, ast.Subscript)) and self.kind(n) == "block"]
        return list(dict.fromkeys(self.of(n) for n in found if not isinstance(n.ctx, ast.Store)))

    @functools.cached_property
    def comparisons(self) -> list[str]:
        """The comparisons of all masks, each in parentheses, and the masks with a name."""
        found = [f"({self.of(n)})" for n in self.nodes if isinstance(n, ast.Compare) and self.kind(n.left) == "block"]
        return list(dict.fromkeys([*found, *self.named("mask")]))


def _assigned(statement: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The names that an assignment binds, each with its value."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple):
        values = value.elts if isinstance(value, ast.Tuple) else [value] * len(target.elts)
        for t, v in zip(target.elts, values, strict=False):
            if isinstance(t, ast.Name):
                yield t.id, v


def _summands(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_summands(node.left), *_summands(node.right)]
    return [node]


def _called(node: ast.Call) -> str:
    """The last name of what is called: `tl.load` is load."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _is_access(node: ast.Call) -> bool:
    name = _called(node)
    return bool(node.args) and isinstance(node.func, ast.Attribute) and (
        name in ("load", "store") or name.startswith("atomic_")
    )  # fmt: skip


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def changes(text: str, groups: Rules | None = None) -> list[Change]:
    """All small changes of one kernel's text, or by other rules of another function's, the likeliest mistakes first."""
    source = Text(text)
    found = [
        replace(change, group=number, formula=source.is_formula(node) and "mask" not in change.what)
        for number, rules in enumerate(groups or RULES)
        for node in source.nodes
        for rule in rules
        for change in rule(source, node)
    ]
    return list({change.applied(text): change for change in reversed(found)}.values())[::-1]


def unused(text: str) -> list[tuple[str, int]]:
    """The names of one kernel's text that it never uses: variables with the line (from 1) on which they are bound, and
    parameters that are not known to the compiler, with 0; a loop that moves its pointers on needs no counter. [] if the
    text cannot be read."""
    try:
        source = Text(text)
    except (SyntaxError, StopIteration):
        return []
    used = {n.id for n in source.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    loops = [n for n in source.nodes if isinstance(n, ast.For) and isinstance(n.target, ast.Name)]
    used |= {n.target.id for n in loops if any(_moves_a_pointer(inside) for inside in n.body)}
    bound = {n: k for n, k in source.first.items() if n not in used and not n.startswith("_")}
    return [(n, k) for n, k in bound.items() if n not in source.parameters or source.kinds[n] != "tile"]


def _moves_a_pointer(node: ast.stmt) -> bool:
    return isinstance(node, ast.AugAssign) and "ptr" in ast.unparse(node.target)


# --- something else in the place of what is there -------------------------------------------------------------------


def comparisons(source: Text, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
        left, right = source.of(node.left), source.of(node.comparators[0])
        yield source.change("the comparison", node, f"{left} {COMPARED[type(node.ops[0])]} {right}")


def _functions(source: Text, node: ast.AST) -> Iterator[Change]:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return
    name = node.func.attr
    for other in FUNCTIONS.get(name, ()):
        owner = source.of(node.func.value)
        yield source.change("the function", node.func, f"{owner}.{other}")
    if name == "program_id" and node.args:
        for axis in "012":
            if source.of(node.args[0]) != axis:
                yield source.change("the axis of the program ID", node.args[0], axis)
    for keyword in node.keywords:
        if keyword.arg == "axis" and source.of(keyword.value) in "01":
            yield source.change("the axis", keyword.value, str(1 - int(source.of(keyword.value))))
        if keyword.arg == "input_precision":
            yield source.change("the precision of the product", keyword.value, '"ieee"')
    if name == "where" and len(node.args) == 3:
        a, b, c = map(source.of, node.args)
        yield source.change("the order of the two values", node, f"{source.of(node.func)}({a}, {c}, {b})")
    if name == "dot" and len(node.args) == 2:
        for acc in source.named("value"):
            if "acc" in acc or _is_accumulator(source, acc):
                for kept in [acc, *(f"{acc} * {v}[:, None]" for v in source.named("value", before=node.lineno))]:
                    yield source.change("the accumulator", node.args[1], f"{source.of(node.args[1])}, {kept}")
    if name == "to" and len(node.args) == 1:
        yield source.change("the type", node, source.of(node.func.value))


def _is_accumulator(source: Text, name: str) -> bool:
    """Is the name bound to zeros first?"""
    return any(
        t == name and isinstance(v, ast.Call) and _called(v) in ("zeros", "full")
        for n in source.nodes for t, v in _assigned(n)
    )  # fmt: skip


def _memory(source: Text, node: ast.AST) -> Iterator[Change]:
    """The mask, and what masked lanes hold."""
    if not (isinstance(node, ast.Call) and _is_access(node)):
        return
    name = node.func.attr
    keywords = {k.arg: k.value for k in node.keywords}
    last = [*node.args, *keywords.values()][-1]
    if "mask" not in keywords and len(node.args) < (2 if name == "load" else 3):
        other = ", other=0.0" if name == "load" else ""  # without it masked lanes hold anything
        for mask in dict.fromkeys([*source.masks, *source.comparisons]) or _guessed_masks(source):
            yield source.change("the mask", last, f"{source.of(last)}, mask={mask}{other}")
    elif "mask" in keywords:
        mask = keywords["mask"]
        inside = "".join(source.of(mask).split())
        for other in dict.fromkeys([*source.masks, *source.comparisons]):
            if other != source.of(mask):
                yield source.change("the mask", mask, other)
        for other in source.comparisons:
            if "".join(other.strip("()").split()) not in inside:
                yield source.change("the mask", mask, f"({source.of(mask)}) & {other}")
    if name == "load":
        if "other" in keywords:
            for value in INFINITE:
                if ast.unparse(keywords["other"]) != value:
                    yield source.change("the neutral value of masked lanes", keywords["other"], value)
        elif "mask" in keywords:
            for value in INFINITE:
                yield source.change("the neutral value of masked lanes", last, f"{source.of(last)}, other={value}")
        yield source.change("the type of what is loaded", node, f"{source.of(node)}.to(tl.float32)")


def _guessed_masks(source: Text) -> list[str]:
    return [f"{o} < {s}" for o in source.named("block") for s in source.named("size")][:6]


def operators(source: Text, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        left, right = source.operand(node.left), source.operand(node.right)
        if isinstance(node.op, ast.FloorDiv):
            yield source.change("the rounding", node, f"(({left} + {right} - 1) // {right})")
        for symbol in OPERATORS[type(node.op)]:
            yield source.change("the operator", node, f"({left} {symbol} {right})")
        if isinstance(node.op, (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod)):
            yield source.change("the order of the operands", node, f"({right} {SYMBOLS[type(node.op)]} {left})")
    if isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
        symbol = "-=" if isinstance(node.op, ast.Add) else "+="
        yield source.change("the operator", node, f"{source.of(node.target)} {symbol} {source.of(node.value)}")
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        yield source.change("the sign", node, source.operand(node.operand))


def _grouped(source: Text, node: ast.AST) -> Iterator[Change]:
    """Parentheses in a formula: `(a + b) * c` and `a + b * c`, and so on."""
    if not isinstance(node, ast.BinOp) or source.kind(node) != "value":
        return
    outer, left, right = SYMBOLS.get(type(node.op)), node.left, node.right
    if isinstance(left, ast.BinOp) and outer and (inner := SYMBOLS.get(type(left.op))):
        a, b, c = map(source.operand, (left.left, left.right, right))
        yield source.change("the parentheses", node, f"({a} {inner} ({b} {outer} {c}))")
    if isinstance(right, ast.BinOp) and outer and (inner := SYMBOLS.get(type(right.op))):
        a, b, c = map(source.operand, (left, right.left, right.right))
        yield source.change("the parentheses", node, f"(({a} {outer} {b}) {inner} {c})")


SYMBOLS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"}


def _rounding(source: Text, node: ast.AST) -> Iterator[Change]:
    """Down in place of up."""
    if isinstance(node, ast.Call) and _called(node) == "cdiv" and len(node.args) == 2:
        yield source.change("the rounding", node, f"(({source.of(node.args[0])}) // ({source.of(node.args[1])}))")
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
        left, right = "".join(source.of(node.left).split()).strip("()"), source.of(node.right)
        if left.endswith((f"+{right}-1", f"+({right}-1")):
            first = next(n for n in ast.walk(node.left) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Add)).left
            yield source.change("the rounding", node, f"(({source.of(first)}) // {right})")


def _accumulations(source: Text, node: ast.AST) -> Iterator[Change]:
    """`acc = part` that should add."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        name = node.targets[0].id
        if source.first[name] < node.lineno and not any(
            isinstance(n, ast.Name) and n.id == name for n in ast.walk(node.value)
        ):
            yield source.change(
                "the assignment (it forgets the value before)", node.value, f"{name} + {source.of(node.value)}"
            )


def _exchanged_values(source: Text, node: ast.AST) -> Iterator[Change]:
    """`a, b = y, x`"""
    if isinstance(node, (ast.Assign, ast.Return)) and isinstance(node.value, ast.Tuple) and len(node.value.elts) == 2:
        one, other = map(source.of, node.value.elts)
        yield source.change("the order of the two values", node.value, f"({other}, {one})")


def _names(source: Text, node: ast.AST) -> Iterator[Change]:
    """Another stride, size, tile, index, block, pointer or value."""
    if not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)):
        return
    kind = source.kinds.get(node.id)
    alike = ("size", "tile") if kind in ("size", "tile") else (kind,)
    if kind in LOOKED_AT:
        others = source.named(*alike, before=node.lineno)
        for other in sorted(others, key=lambda n: source.kinds[n] != kind):
            if other != node.id:
                yield source.change(LOOKED_AT[kind], node, other)


LOOKED_AT = {"stride": "the stride", "size": "the size", "tile": "the tile size", "index": "the index",
             "block": "the index", "pointer": "the pointer"}  # fmt: skip


def _values(source: Text, node: ast.AST) -> Iterator[Change]:
    """Another intermediate result."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and source.kinds.get(node.id) == "value":
        for other in source.named("value", before=node.lineno):
            if other != node.id:
                yield source.change("the value", node, other)


def _shapes(source: Text, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Subscript):
        inside = "".join(source.of(node.slice).split())
        for one, other in ((":,None", "None, :"), ("None,:", ":, None")):
            if inside in (one, f"({one})"):
                yield source.change("[:, None] or [None, :]", node, f"{source.of(node.value)}[{other}]")


def _exchanged(source: Text, node: ast.AST) -> Iterator[Change]:
    """Two strides of one address, or the two sizes of one mask, in each other's place."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Add, ast.BitAnd)):
        return
    adds = isinstance(node.op, ast.Add)
    kind, what = ("stride", "the strides (which index has which)") if adds else ("size", "the mask")
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name) and source.kinds.get(n.id) == kind]
    if not adds:
        right = {id(c) for n in ast.walk(node) if isinstance(n, ast.Compare) for c in n.comparators}
        names = [n for n in names if id(n) in right]
    if len(names) != 2 or names[0].id == names[1].id:
        return
    begin, _ = source.span(node)
    text = source.of(node)
    (a, b), (c, d) = sorted(source.span(n) for n in names)
    one, other = source.text[a:b], source.text[c:d]
    yield source.change(what, node, text[: a - begin] + other + text[b - begin : c - begin] + one + text[d - begin :])


def constants(source: Text, node: ast.AST) -> Iterator[Change]:
    if not isinstance(node, ast.Constant):
        return
    if isinstance(node.value, bool):
        yield source.change("the flag", node, str(not node.value))
    elif isinstance(node.value, int):
        for value in dict.fromkeys((node.value + 1, node.value - 1, 0, 1)):
            if value != node.value and value >= 0:
                yield source.change("the number", node, str(value))
    elif isinstance(node.value, float):
        for value in (0.0, 1.0, -1.0, node.value * 2, node.value / 2, -node.value):
            if value != node.value:
                yield source.change("the number", node, repr(value))
        yield source.change("the initial value", node, "float('-inf')")


def _initial(source: Text, node: ast.AST) -> Iterator[Change]:
    """-inf in place of 0, and the other way round; float32 in place of 16 bits."""
    if isinstance(node, ast.Call) and ast.unparse(node) in ("float('-inf')", "float('inf')"):
        yield source.change("the initial value", node, "0.0")
        if not isinstance(source.parents.get(node), ast.UnaryOp):
            yield source.change("the sign", node, f"-{source.of(node)}")
    if isinstance(node, ast.Attribute) and node.attr in ("float16", "bfloat16"):
        yield source.change("the type", node, f"{source.of(node.value)}.float32")


# --- something too many --------------------------------------------------------------------------------------------


def terms(source: Text, node: ast.AST) -> Iterator[Change]:
    """A term or a factor too many."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.BitAnd)):
        for side in (node.left, node.right):
            yield source.change("the term (one may be too many)", node, source.operand(side))


def _statements(source: Text, node: ast.AST) -> Iterator[Change]:
    """A statement too many; one that belongs into the loop behind it; a store that other programs' must not replace."""
    if isinstance(node, ast.Call) and _is_access(node) and _called(node) == "store":
        yield source.change("the function", node.func, f"{source.of(node.func.value)}.atomic_add")
    again = isinstance(node, ast.AugAssign) or any(source.first[t] < node.lineno for t, _ in _assigned(node))
    if again:
        yield source.change("the statement (it may be one too many)", node, "pass")
    if isinstance(node, ast.For):
        body, pad = node.body[0], " " * node.body[0].col_offset
        used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        for before in source.nodes:
            for name, value in _assigned(before):
                if before.lineno < node.lineno and name in used and source.kind(value) in ("value", "index"):
                    at, _ = source.span(body)
                    yield Change("where it is set (before the loop, or anew in each iteration)", at, at,
                                 f"{name} = {source.of(value)}\n{pad}", before.lineno)  # fmt: skip


# --- something missing ---------------------------------------------------------------------------------------------


def _addresses(source: Text, node: ast.AST) -> Iterator[Change]:
    """A term that an address lacks: one of another address, or the row, the block, the batch; or a factor."""
    if not any(node is a for a in source.addresses):
        return
    pointer = source.of(node)
    inside = {"".join(source.of(t).split()) for t in _summands(node)}
    array = re.match(r"(\w+?)_ptr", pointer)
    strides = [p for p in source.named("stride") if array and p.startswith(f"stride_{array[1][0]}")]
    strides = strides or source.named("stride")
    scalars = source.named("index", before=node.lineno)
    wanted = [*source.terms, *(f"{i} * {s}" for i in scalars for s in strides), *scalars, *source.blocks]
    wanted += [f"{b} * {s}" for b in source.blocks for s in strides]
    for term in dict.fromkeys(wanted):
        if "".join(term.split()) not in inside:
            yield source.change("the address (a term may be missing)", node, f"{pointer} + {term}")
    yield from _factors(source, node, strides, "the address (a factor may be missing)")


def _factors(source: Text, node: ast.expr, strides: list[str], what: str) -> Iterator[Change]:
    """Factors that the terms of an index or an address lack."""
    for term in _summands(node):
        kind = source.kind(term)
        if kind in ("index", "block") and not isinstance(term, ast.Constant):
            for factor in [*strides, *source.named("size", "tile")]:
                yield source.change(what, term, f"{source.operand(term)} * {factor}")
        if kind in ("stride", "size", "tile"):
            for factor in [*source.named("index", before=node.lineno), *source.blocks]:
                yield source.change(what, term, f"{factor} * {source.operand(term)}")


def _indices(source: Text, node: ast.AST) -> Iterator[Change]:
    """A term or a factor that an index lacks."""
    for _, value in _assigned(node):
        if source.kind(value) not in ("index", "block", "tile", "size") or isinstance(value, ast.Constant):
            continue
        scalars, sizes = source.named("index", before=node.lineno), source.named("size", "tile")
        text = source.of(value)
        for term in [*source.blocks, *scalars, *(f"{i} * {s}" for i in scalars for s in sizes)]:
            if term not in text:
                yield source.change("the index (a term may be missing)", value, f"{text} + {term}")
        yield from _factors(source, value, [], "the index (a factor may be missing)")


def _bounds(source: Text, node: ast.AST) -> Iterator[Change]:
    """A comparison without the start of the block."""
    if isinstance(node, ast.Compare) and source.kind(node.left) == "block":
        for index in source.named("index", before=node.lineno):
            yield source.change("what is compared", node.left, f"({index} + {source.of(node.left)})")


def _signs(source: Text, node: ast.AST) -> Iterator[Change]:
    """A sign, or `1 -` and `1 +`, that a part of a formula lacks."""
    if _is_operand(source, node) and source.kind(node) == "value":
        plain = source.operand(node)
        yield source.change("the sign", node, f"(-{plain})")
        for sign in "-+":
            yield source.change("the term (one may be missing)", node, f"(1 {sign} {plain})")


def _missing(source: Text, node: ast.AST) -> Iterator[Change]:
    """A term or a factor too few in a formula: one of the intermediate results that the text has, or a small number."""
    if not _is_operand(source, node) or source.kind(node) != "value":
        return
    text = source.of(node)
    plain = source.operand(node)
    for number in ("2", "3", "0.5"):
        yield source.change("the factor (one may be missing)", node, f"({number} * {plain})")
    parent = source.parents.get(node)
    added_to = source.of(parent.target) if isinstance(parent, ast.AugAssign) else ""  # less itself: an assignment
    for name in [*source.named("value", before=node.lineno), *_scalars(source)]:
        if name not in (text, added_to):
            yield source.change("the term (one may be missing)", node, f"({text} + {name})")
            yield source.change("the factor (one may be missing)", node, f"({plain} * {name})")
            yield source.change("the factor (one may be missing)", node, f"({plain} / {name})")
            yield source.change("the term (one may be missing)", node, f"({text} - {name})")
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for name in source.named("value", before=node.lineno):
            yield source.change("the factor (one may be missing)", node, f"({text} * (1 - {name}))")


def _is_operand(source: Text, node: ast.AST) -> bool:
    """Is this part of a formula, or all of it?"""
    if not isinstance(node, (ast.BinOp, ast.Name, ast.Call)) or isinstance(getattr(node, "ctx", None), ast.Store):
        return False
    parent = source.parents.get(node)
    return isinstance(parent, (ast.BinOp, ast.Assign, ast.AugAssign, ast.Return, ast.UnaryOp)) or (
        isinstance(parent, ast.Call) and node in parent.args and not (_is_access(parent) and node is parent.args[0])
    )


def _scalars(source: Text) -> list[str]:
    """Parameters that formulas use: no index and no comparison has them."""
    used = {n.id for a in [*source.addresses, *(n for n in source.nodes if isinstance(n, ast.Compare))]
            for n in ast.walk(a) if isinstance(n, ast.Name)}  # fmt: skip
    return [n for n in source.named("size") if n not in used or n in ("N", "n")]


def _moves(source: Text, node: ast.AST) -> Iterator[Change]:
    """A pointer that stays where it is in a loop."""
    if not isinstance(node, ast.For):
        return
    inside = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    moved = {n.id for n in inside if isinstance(n.ctx, ast.Store)}
    end, pad = source.span(node.body[-1])[1], " " * node.body[0].col_offset
    for name in dict.fromkeys(n.id for n in inside if n.id not in moved):
        if source.kinds.get(name) == "pointer" and name not in source.parameters:
            strides = [s for s in source.named("stride") if s.startswith(f"stride_{name[0]}")]
            for tile in source.named("tile"):
                for step in [f"{tile} * {s}" for s in strides] + [tile]:
                    yield Change("the pointers (one may have to move on)", end, end, f"\n{pad}{name} += {step}",
                                 node.lineno)  # fmt: skip


Rules = tuple[tuple[Callable[[Text, ast.AST], Iterator[Change]], ...], ...]

RULES: Rules = (
    (comparisons, _functions, _accumulations, _shapes, _initial, _exchanged, _exchanged_values, _rounding),
    (_memory, operators, _grouped),
    (_names, constants, terms),
    (_signs,),
    (_addresses, _bounds, _indices, _statements, _moves),
    (_missing,),
    (_values,),
)
"""The likeliest first; those of one group go through the text together."""


def first_right(jobs: Sequence[Callable[[], dict]], each: float, end: float) -> int | None:
    """The number of the first job that returns {"right": True}; None where there is none, or `end` of the monotonic
    clock comes first. The jobs run in a child process, each for at most `each` seconds."""
    at = 0
    while at < len(jobs) and time.monotonic() < end:
        with contextlib.closing(child.run(jobs[at:], each)) as results:
            for result in results:
                at += 1
                if isinstance(result, str):  # it hung or died: the others go on in a new process
                    break
                if result["right"]:
                    return at - 1
                if time.monotonic() > end:
                    break
    return None
