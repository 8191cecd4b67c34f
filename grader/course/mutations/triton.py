"""First-order mutations of Python: Triton kernels and their launchers."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator

from grader.course.mutations.edits import Edit, regions

MEMORY = {"load", "store", "atomic_add", "atomic_max", "atomic_min", "atomic_xchg", "atomic_cas", "atomic_or"}
COMPARISONS = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
SYMBOLS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
ARITHMETIC = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
              ast.BitAnd: "&", ast.BitOr: "|", ast.LShift: "<<", ast.RShift: ">>"}  # fmt: skip
SWAPPED = {"+": "-", "-": "+", "*": "+", "/": "*", "//": "%", "%": "//", "&": "|", "|": "&", "<<": ">>", ">>": "<<"}
FUNCTIONS = {
    "max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum", "sum": "max", "exp": "exp2",
    "exp2": "exp", "log": "log2", "log2": "log", "sqrt": "rsqrt", "rsqrt": "sqrt", "cdiv": None,
}  # fmt: skip
SIZES = re.compile(r"[A-Z][A-Z0-9]?|n|n_\w+|num_\w+|[a-z]+_len")
TILES = re.compile(r"(BLOCK|TILE|GROUP)(_\w+)?")
INDICES = re.compile(r"(offs|pid|row|col|rows|cols)(_\w+)?")


class _Text:
    """A module's text with its tree: segments of nodes, and the parameters of the function around each."""

    def __init__(self, text: str):
        self.text, self.tree = text, ast.parse(text)
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines = text.splitlines(keepends=True)
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def _at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def span(self, node: ast.AST) -> tuple[int, int]:
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def of(self, node: ast.AST) -> str:
        begin, end = self.span(node)
        text = self.text[begin:end]
        return f"({text})" if isinstance(node, (ast.BinOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.UnaryOp)) else text

    def function(self, node: ast.AST) -> ast.FunctionDef | None:
        while node is not None and not isinstance(node, ast.FunctionDef):
            node = self.parents.get(node)
        return node

    def parameters(self, node: ast.AST) -> list[str]:
        function = self.function(node)
        return [a.arg for a in function.args.args] if function else []

    def assigned(self, node: ast.AST) -> list[str]:
        """Names that the function around a node binds, in order, without repeats."""
        function = self.function(node) or self.tree
        names = [n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        return list(dict.fromkeys(names))


Found = Iterator[tuple[str, ast.AST, str]]
"""(operator, node that is replaced, what stands there instead)"""


def edits(text: str) -> Iterator[Edit]:
    """Every first-order mutation inside the text's solution regions."""
    source, spans = _Text(text), regions(text)
    for node in ast.walk(source.tree):
        if not hasattr(node, "lineno") or _is_docstring(source, node):
            continue
        begin, end = source.span(node)
        if not any(low <= begin and end <= high for low, high in spans):
            continue
        for operators in OPERATORS.get(type(node), ()):
            for operator, target, new in operators(source, node):
                yield Edit(operator, *source.span(target), new)


def _is_docstring(source: _Text, node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _called(node: ast.Call) -> str:
    """The last name of what is called: `tl.load` is load."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _rebuilt(source: _Text, node: ast.Call, args: list[str], keywords: dict[str, str], name: str | None = None) -> str:
    begin, end = source.span(node.func)
    return f"{name or source.text[begin:end]}({', '.join([*args, *(f'{k}={v}' for k, v in keywords.items())])})"


def _parts(source: _Text, node: ast.Call) -> tuple[list[str], dict[str, str]]:
    def plain(n: ast.AST) -> str:
        begin, end = source.span(n)
        return source.text[begin:end]

    return [plain(a) for a in node.args], {k.arg: plain(k.value) for k in node.keywords if k.arg}


def memory_calls(source: _Text, node: ast.Call) -> Found:
    """Masks, `other`, atomics and memory order of loads and stores."""
    name = _called(node)
    if name not in MEMORY or any(k.arg is None for k in node.keywords):
        return
    args, keywords = _parts(source, node)
    if "mask" in keywords:
        left = {k: v for k, v in keywords.items() if k not in ("mask", "other")}
        yield "mask removed", node, _rebuilt(source, node, args, left)
    if "other" in keywords:
        left = {k: v for k, v in keywords.items() if k != "other"}
        yield "other removed", node, _rebuilt(source, node, args, left)
        for value in ("0.0", "1.0", 'float("-inf")'):
            if not _same_number(keywords["other"], value):
                yield "other changed", node, _rebuilt(source, node, args, keywords | {"other": value})
    if name.startswith("atomic_") and name != "atomic_cas":
        kept = {k: v for k, v in keywords.items() if k == "mask"}
        function = source.text[slice(*source.span(node.func))].replace(name, "store")
        yield "atomic made plain", node, _rebuilt(source, node, args, kept, function)
    if "sem" in keywords and "relaxed" not in keywords["sem"]:
        yield "memory order relaxed", node, _rebuilt(source, node, args, keywords | {"sem": '"relaxed"'})


def _same_number(one: str, other: str) -> bool:
    first, second = _number(one), _number(other)
    return one == other if first is None or second is None else first == second


def _number(text: str) -> float | None:
    """What a literal or `float("inf")` is, with or without a sign; None for anything else."""
    try:
        node, sign = ast.parse(text, mode="eval").body, 1
        while isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            node, sign = node.operand, -sign
        if isinstance(node, ast.Call) and _called(node) == "float" and len(node.args) == 1:
            node = node.args[0]
        return sign * float(ast.literal_eval(node))
    except (ValueError, SyntaxError, TypeError):
        return None


def other_calls(source: _Text, node: ast.Call) -> Found:
    """Reductions, casts, initial values, axes, accumulators, barriers."""
    name = _called(node)
    args, keywords = _parts(source, node)
    module = source.text[slice(*source.span(node.func))][: -len(name)] if isinstance(node.func, ast.Attribute) else ""
    if FUNCTIONS.get(name) and module in ("tl.", "tl.math."):
        yield "function changed", node, _rebuilt(source, node, args, keywords, module + FUNCTIONS[name])
    if name == "cdiv" and len(args) == 2:
        yield "ceiling made floor", node, f"({source.of(node.args[0])} // {source.of(node.args[1])})"
    if name == "to" and len(args) == 1 and isinstance(node.func, ast.Attribute):
        yield "cast removed", node, source.of(node.func.value)
    if name == "zeros" and module == "tl.":
        for value in ("1.0", 'float("-inf")'):
            yield "initial value", node, _rebuilt(source, node, [args[0], value, *args[1:]], keywords, "tl.full")
    if name == "full" and module == "tl." and len(args) >= 2:
        for value in ("0.0", "1.0", 'float("-inf")'):
            if not _same_number(args[1], value):
                yield "initial value", node, _rebuilt(source, node, [args[0], value, *args[2:]], keywords)
    if name == "float" and args in (['"-inf"'], ['"inf"']):
        yield "infinity made 0", node, "0.0"
    if name == "dot" and len(args) == 3:
        yield "accumulator dropped", node, _rebuilt(source, node, args[:2], keywords)
    if "ieee" in keywords.get("input_precision", ""):
        yield "precision lowered", node, _rebuilt(source, node, args, keywords | {"input_precision": '"tf32"'})
    if name == "where" and len(args) == 3:
        yield "branches swapped", node, _rebuilt(source, node, [args[0], args[2], args[1]], keywords)
    yield from _axes(source, node, name, args, keywords)


def _axes(source: _Text, node: ast.Call, name: str, args: list[str], keywords: dict[str, str]) -> Found:
    if name in ("program_id", "num_programs") and args in (["0"], ["1"], ["2"]):
        for axis in "012":
            if axis != args[0]:
                yield "axis changed", node, _rebuilt(source, node, [axis], keywords)
    if keywords.get("axis") in ("0", "1"):
        flipped = str(1 - int(keywords["axis"]))
        yield "axis changed", node, _rebuilt(source, node, args, keywords | {"axis": flipped})
    if name in ("sum", "max", "min", "argmax") and len(args) == 2 and args[1] in ("0", "1"):
        yield "axis changed", node, _rebuilt(source, node, [args[0], str(1 - int(args[1]))], keywords)
    if name in ("range", "static_range") and args:
        yield from _loops(source, node, args, keywords)


def _loops(source: _Text, node: ast.Call, args: list[str], keywords: dict[str, str]) -> Found:
    """Begin, end and step of a loop."""
    full = ["0", args[0], "1"] if len(args) == 1 else [*args, "1"][:3]
    step = full[2]
    changes = [
        [step, full[1], step],
        [full[0], f"({full[1]}) - 1", step],
        [full[0], f"({full[1]}) - ({step})", step],
        [full[0], f"({full[1]}) + ({step})", step],
    ]
    if step != "1":
        changes.append([full[0], full[1], f"2 * ({step})"])
    for changed in changes:
        yield "loop bound", node, _rebuilt(source, node, changed, keywords)


def comparisons(source: _Text, node: ast.Compare) -> Found:
    """`<` and `<=`, and a bound that is one off."""
    if len(node.ops) != 1 or type(node.ops[0]) not in COMPARISONS:
        return
    left, right, kind = source.of(node.left), source.of(node.comparators[0]), type(node.ops[0])
    yield "comparison changed", node, f"{left} {COMPARISONS[kind]} {right}"
    if math.isinf(_number(right) or 0):
        return  # and one more or less is the same
    yield "bound one off", node, f"{left} {SYMBOLS[kind]} {right} - 1"
    yield "bound one off", node, f"{left} {SYMBOLS[kind]} {right} + 1"


def arithmetic(source: _Text, node: ast.BinOp) -> Found:
    """An operator changed, an operand dropped (an offset, a factor, a conjunct of a mask)."""
    if type(node.op) not in ARITHMETIC:
        return
    symbol, left, right = ARITHMETIC[type(node.op)], source.of(node.left), source.of(node.right)
    what = {"&": "condition dropped", "+": "term dropped", "-": "term dropped"}.get(symbol, "factor dropped")
    yield "operator changed", node, f"({left} {SWAPPED[symbol]} {right})"
    yield what, node, left
    if not _is_pointer(node.left) and symbol not in ("//", "/", "%", "<<", ">>"):
        yield what, node, right
    if symbol == "//":
        yield "floor made ceiling", node, f"(({left} + {right} - 1) // {right})"


def _is_pointer(node: ast.AST) -> bool:
    names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
    return any(name.endswith(("_ptr", "_ptrs")) for name in names)


def both(source: _Text, node: ast.BoolOp) -> Found:
    for number in range(len(node.values)):
        left = [source.of(v) for k, v in enumerate(node.values) if k != number]
        word = " and " if isinstance(node.op, ast.And) else " or "
        yield "condition dropped", node, word.join(left)


def names(source: _Text, node: ast.Name) -> Found:
    """One stride, size, tile or index for another."""
    if not isinstance(node.ctx, ast.Load):
        return
    parameters, bound = source.parameters(node), source.assigned(node)
    if node.id.startswith("stride"):
        alike = [p for p in parameters if p.startswith("stride")]
        what = "stride for stride"
    elif TILES.fullmatch(node.id):
        alike, what = [p for p in parameters if TILES.fullmatch(p)], "tile for tile"
    elif SIZES.fullmatch(node.id):
        alike, what = [p for p in [*parameters, *bound] if SIZES.fullmatch(p)], "size for size"
    elif INDICES.fullmatch(node.id):
        alike, what = [p for p in bound if p.split("_")[0] == node.id.split("_")[0]], "index for index"
    else:
        return
    for name in dict.fromkeys(alike):
        if name != node.id:
            yield what, node, name


def subscripts(source: _Text, node: ast.Subscript) -> Found:
    inside = source.text[slice(*source.span(node.slice))]
    for one, other in ((":, None", "None, :"), ("None, :", ":, None")):
        if inside == one:
            yield "axes swapped", node, f"{source.of(node.value)}[{other}]"


def constants(source: _Text, node: ast.Constant) -> Found:
    """A number one more or one less; a factor of a formula doubled; a flag turned."""
    parent = source.parents.get(node)
    if isinstance(node.value, bool):
        yield "flag turned", node, str(not node.value)
    elif isinstance(node.value, int) and isinstance(parent, (ast.BinOp, ast.Compare, ast.Assign, ast.AugAssign)):
        yield "constant changed", node, str(node.value + 1)
        if node.value:
            yield "constant changed", node, str(node.value - 1)
    elif isinstance(node.value, float):
        yield "constant changed", node, repr(2 * node.value if node.value else 1.0)
        if node.value:
            yield "constant changed", node, "0.0"


def branches(source: _Text, node: ast.If | ast.While | ast.IfExp) -> Found:
    """A condition turned, or ignored either way."""
    test = source.of(node.test)
    yield "condition turned", node.test, f"not {test}"
    if not isinstance(node, ast.While):
        yield "condition ignored", node.test, "True"
        yield "condition ignored", node.test, "False"


def accumulations(source: _Text, node: ast.AugAssign) -> Found:
    target, value = source.of(node.target), source.of(node.value)
    yield "accumulate made assign", node, f"{target} = {value}"
    yield "statement removed", node, "pass"
    if type(node.op) in (ast.Add, ast.Sub):
        yield "operator changed", node, f"{target} {'-=' if isinstance(node.op, ast.Add) else '+='} {value}"


def assignments(source: _Text, node: ast.Assign) -> Found:
    """A second assignment left out: the first value stays."""
    function = source.function(node)
    if function is None or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
        return
    name = node.targets[0].id
    before = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name
              and isinstance(n.ctx, ast.Store) and n.lineno < node.lineno]  # fmt: skip
    if before or name in source.parameters(node):
        yield "statement removed", node, "pass"


def statements(source: _Text, node: ast.Expr) -> Found:
    if isinstance(node.value, ast.Call):
        yield "statement removed", node, "pass"


def unary(source: _Text, node: ast.UnaryOp) -> Found:
    yield "sign dropped", node, source.of(node.operand)


OPERATORS: dict[type, tuple[Callable[..., Found], ...]] = {
    ast.Call: (memory_calls, other_calls),
    ast.Compare: (comparisons,),
    ast.BinOp: (arithmetic,),
    ast.BoolOp: (both,),
    ast.Name: (names,),
    ast.Subscript: (subscripts,),
    ast.Constant: (constants,),
    ast.If: (branches,),
    ast.While: (branches,),
    ast.IfExp: (branches,),
    ast.AugAssign: (accumulations,),
    ast.Assign: (assignments,),
    ast.Expr: (statements,),
    ast.UnaryOp: (unary,),
}
