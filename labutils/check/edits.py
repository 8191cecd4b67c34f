"""Small changes of a Triton kernel's text: where one of them makes the kernel right, the mistake is there.

Each is an edit of the text and says what it looks at ("the function", "the mask"), never what belongs there.
"""

from __future__ import annotations

import ast
import itertools
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..backends import child


@dataclass(frozen=True)
class Change:
    """Replace the characters from `begin` to `end` of a text by `new`. `what` names what is looked at; `line` counts
    from the text's first line, 1."""

    what: str
    begin: int
    end: int
    new: str
    line: int

    def applied(self, text: str) -> str:
        return text[: self.begin] + self.new + text[self.end :]


COMPARED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
OPERATORS = {ast.Add: "-*", ast.Sub: "+", ast.Mult: "/+", ast.Div: "*", ast.FloorDiv: "%/", ast.Mod: ("//",),
             ast.BitAnd: "|", ast.BitOr: "&", ast.LShift: (">>",), ast.RShift: ("<<",)}  # fmt: skip
FUNCTIONS = {"exp": ("exp2",), "exp2": ("exp",), "log": ("log2",), "log2": ("log",), "max": ("min", "sum"),
             "min": ("max",), "sum": ("max",), "maximum": ("minimum",), "minimum": ("maximum",), "sqrt": ("rsqrt",),
             "rsqrt": ("sqrt",), "zeros": (), "atomic_max": ("atomic_add",), "atomic_add": ("atomic_max",)}  # fmt: skip
INFINITE = ("float('-inf')", "0.0")


class Text:
    """A kernel's text with its tree and the names that it has."""

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

    def change(self, what: str, node: ast.AST, new: str) -> Change:
        return Change(what, *self.span(node), new, node.lineno)


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def changes(text: str, groups: Rules | None = None) -> list[Change]:
    """All small changes of one kernel's text, or by other rules of another function's, the likeliest mistakes first."""
    source = Text(text)
    found = [
        change for rules in groups or RULES for node in source.nodes for rule in rules for change in rule(source, node)
    ]
    return list({change.applied(text): change for change in reversed(found)}.values())[::-1]


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
    if name == "where" and len(node.args) == 3:
        a, b, c = map(source.of, node.args)
        yield source.change("the order of the two values", node, f"{source.of(node.func)}({a}, {c}, {b})")
    if name == "dot" and len(node.args) == 2:
        for acc in [n for n in source.assigned if "acc" in n]:
            yield source.change("the accumulator", node.args[1], f"{source.of(node.args[1])}, {acc}")


def _memory(source: Text, node: ast.AST) -> Iterator[Change]:
    """The mask, and what masked lanes hold."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
        return
    name = node.func.attr
    if name not in ("load", "store") and not name.startswith("atomic_"):
        return
    keywords = {k.arg: k.value for k in node.keywords}
    last = [*node.args, *keywords.values()][-1]
    if "mask" not in keywords and len(node.args) < (2 if name == "load" else 3):
        other = ", other=0.0" if name == "load" else ""  # without it masked lanes hold anything
        for mask in source.masks or _guessed_masks(source):
            yield source.change("the mask", last, f"{source.of(last)}, mask={mask}{other}")
    elif "mask" in keywords:
        for mask in source.masks:
            if mask != source.of(keywords["mask"]):
                yield source.change("the mask", keywords["mask"], mask)
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
    offsets = [n for n in source.assigned if n.startswith("off")]
    sizes = [p for p in source.parameters if re.fullmatch("[A-Zn]", p)]
    return [f"{o} < {s}" for o in offsets for s in sizes][:4]


def operators(source: Text, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        left, right = source.of(node.left), source.of(node.right)
        if isinstance(node.op, ast.FloorDiv):
            yield source.change("the rounding", node, f"(({left} + {right} - 1) // {right})")
        for symbol in OPERATORS[type(node.op)]:
            yield source.change("the operator", node, f"({left} {symbol} {right})")
        if isinstance(node.op, (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod)):
            yield source.change("the order of the operands", node, f"({right} {_symbol(node.op)} {left})")
    if isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
        symbol = "-=" if isinstance(node.op, ast.Add) else "+="
        yield source.change("the operator", node, f"{source.of(node.target)} {symbol} {source.of(node.value)}")
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        yield source.change("the sign", node, source.of(node.operand))


def terms(source: Text, node: ast.AST) -> Iterator[Change]:
    """A term or a factor too many."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.BitAnd)):
        for side in (node.left, node.right):
            yield source.change("the term (one may be too many)", node, source.of(side))


def _missing(source: Text, node: ast.AST) -> Iterator[Change]:
    """A term or a factor too few: one of the intermediate results that the text has, or a small number."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div))):
        return
    text = source.of(node)
    for number in (2, 3, 0.5):
        yield source.change("the factor (one may be missing)", node, f"({number} * ({text}))")
    before = [n for n in source.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    for name in dict.fromkeys(n.id for n in before if n.lineno < node.lineno):
        if not re.match(r"pid|off|mask|row|col", name):
            yield source.change("the term (one may be missing)", node, f"({text} + {name})")
            yield source.change("the factor (one may be missing)", node, f"(({text}) * {name})")


def _symbol(op: ast.operator) -> str:
    return {ast.Sub: "-", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"}[type(op)]


def _accumulations(source: Text, node: ast.AST) -> Iterator[Change]:
    """`acc = part` that should add."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        name = node.targets[0].id
        before = [n for n in source.nodes if isinstance(n, ast.Name) and n.id == name and n.lineno < node.lineno
                  and isinstance(n.ctx, ast.Store)]  # fmt: skip
        if before and not any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node.value)):
            yield source.change(
                "the assignment (it forgets the value before)", node.value, f"{name} + {source.of(node.value)}"
            )


def _names(source: Text, node: ast.AST) -> Iterator[Change]:
    """Another stride, size, tile, index or program ID."""
    if not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)):
        return
    for what, pattern in FAMILIES:
        if re.fullmatch(pattern, node.id):
            for other in dict.fromkeys([*source.parameters, *source.assigned]):
                if other != node.id and re.fullmatch(pattern, other):
                    yield source.change(what, node, other)
            return


FAMILIES = (
    ("the stride", r"stride\w*"),
    ("the tile size", r"BLOCK\w*|TILE\w*"),
    ("the size", r"[A-Z]|n|[a-z]?_?size"),
    ("the index", r"offs?\w*|pid\w*|rows?\w*|cols?\w*|columns?\w*|start\w*|i|j|k|m|idx\w*"),
    ("the pointer", r"\w+_ptrs?"),
)


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
    pattern, what = (
        (r"stride\w*", "the strides (which index has which)") if adds else (r"[A-Z]|n_?\w*|[a-z]?_?size", "the mask")
    )
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name) and re.fullmatch(pattern, n.id)]
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
    if not isinstance(node, ast.Constant) or isinstance(node.value, (str, bool, type(None))):
        return
    if isinstance(node.value, int):
        for value in dict.fromkeys((node.value + 1, node.value - 1, 0, 1)):
            if value != node.value and value >= 0:
                yield source.change("the number", node, str(value))
    else:
        for value in (0.0, 1.0, -1.0, node.value * 2, node.value / 2, -node.value):
            if value != node.value:
                yield source.change("the number", node, repr(value))
        yield source.change("the initial value", node, "float('-inf')")


def _initial(source: Text, node: ast.AST) -> Iterator[Change]:
    """-inf in place of 0, and the other way round."""
    if isinstance(node, ast.Call) and ast.unparse(node) in ("float('-inf')", "float('inf')"):
        yield source.change("the initial value", node, "0.0")


def _addresses(source: Text, node: ast.AST) -> Iterator[Change]:
    """A term that an address lacks: the row, the block, the batch."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
        return
    if node.func.attr not in ("load", "store"):
        return
    pointer = source.of(node.args[0])
    array = re.match(r"(\w+?)_ptr", pointer)
    indices = [n for n in source.assigned if re.match(r"pid|row|col|batch|head|b$|h$|m$", n)][:4]
    strides = [p for p in source.parameters if array and re.match(rf"stride_?{array[1][0]}", p)]
    for index in indices:
        for stride in [*strides, "1"]:
            if f"{index} * {stride}" not in pointer:
                yield source.change(
                    "the address (a term may be missing)", node.args[0], f"{pointer} + {index} * {stride}"
                )


Rules = tuple[tuple[Callable[[Text, ast.AST], Iterator[Change]], ...], ...]

RULES: Rules = (
    (comparisons, _functions, _accumulations, _shapes, _initial, _exchanged),
    (_memory, _addresses, operators),
    (_names, constants, terms),
    (_missing,),
)
"""The likeliest first; those of one group go through the text together."""


def first_right(jobs: Sequence[Callable[[], dict]], each: float, end: float, processes: int = 1) -> int | None:
    """The number of the first job that returns {"right": True}; None where there is none, or `end` of the monotonic
    clock comes first. The jobs run in child processes, each for at most `each` seconds; of N processes number k has
    jobs k, k + N, k + 2 N …"""
    turns = [_rights(jobs[k::processes], each, end) for k in range(processes)]
    try:
        for k, turn in itertools.cycle(enumerate(turns)):
            at, right = next(turn, (None, False))
            if right:
                return k + at * processes
            if at is None and k == 0:  # the first has at least as many jobs as any other
                return None
    finally:
        for turn in turns:
            turn.close()


def _rights(jobs: Sequence[Callable[[], dict]], each: float, end: float) -> Iterator[tuple[int, bool]]:
    """The number of each job, and is it right?"""
    at = 0
    while at < len(jobs) and time.monotonic() < end:
        results = child.run(jobs[at:], each)
        try:
            for result in results:
                at += 1
                yield at - 1, not isinstance(result, str) and result["right"]
                if time.monotonic() > end:
                    return
        finally:
            results.close()
