"""Triton's language: the part of Python that its compiler reads, and nothing that its interpreter could also run."""

from __future__ import annotations

import ast
import builtins
import functools
import importlib.util
import re
from pathlib import Path

from .refusal import NotAKernel

BUILTINS = {"range", "min", "max", "abs", "int", "float", "bool", "len", "print", "tuple", "list", "zip"}
"""Python's own functions that Triton's compiler knows. `isinstance` is left out: it tells compiler and interpreter
apart."""

NOT_LANGUAGE = {
    "builtin", "dispatch", "extern", "extern_elementwise", "JITCallable", "is_builtin", "jit", "must_use_result",
    "str_to_ty", "to_tensor", "constexpr_function",
}  # fmt: skip
"""What Triton's language modules hold for Triton's own use."""

STATEMENTS = (
    ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While,
    ast.If, ast.Expr, ast.Pass, ast.Break, ast.Continue, ast.Assert,
    ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.Call, ast.keyword, ast.Constant, ast.Attribute,
    ast.Subscript, ast.Slice, ast.Name, ast.Tuple, ast.List, ast.Starred, ast.ListComp, ast.comprehension,
    ast.GeneratorExp, ast.JoinedStr, ast.FormattedValue,
    ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop,
)  # fmt: skip
"""The part of Python that Triton's compiler reads."""

ENUMERATIONS = {"PropagateNan"}
"""Enumerations of Triton's compiler that its language passes on: their values are names of the language."""

SUBMODULES = {"math", "extra", "libdevice", "cuda", "core", "standard", "random"}

IMPORTS = re.compile(
    r"triton(\.language(\.extra(\.cuda(\.libdevice)?|\.libdevice)?|\.math|\.standard|\.random|\.core)?)?"
)
FROM_TRITON = {"jit", "cdiv", "next_power_of_2", "language", "constexpr_function"}

DECORATORS = re.compile(r"(triton\.)?jit(\([\w=, ]*\))?|(triton\.|tl\.)?constexpr_function")
"""What may stand above a function. One of constants runs as Python when the kernel is compiled, and holds no more than
a kernel may, which the interpreter runs as Python, too."""

LINE_ENDS = re.compile(r"\r(?!\n)|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""What ends a line for some readers of Python and not for others; Triton reads a kernel's text line by line."""

ANNOTATIONS = (ast.Name, ast.Attribute, ast.Constant, ast.Subscript, ast.BinOp, ast.BitOr, ast.Tuple, ast.expr_context)


@functools.cache
def _attributes() -> frozenset[str]:
    """Names after a dot that Triton's language gives a meaning."""
    import triton.language as tl

    known = {"shape", "dtype", "type", "value", "T", "base", "strides", "block_shape", "element_ty", "scalar"}
    for kind in (tl.tensor, tl.dtype, tl.constexpr, getattr(tl, "tensor_descriptor", tl.tensor)):
        known |= {n for n in dir(kind) if not n.startswith("_")}
    return frozenset(known)


@functools.cache
def _public(path: tuple[str, ...]) -> bool:
    """Is `tl.path` part of Triton's language, rather than something its modules happen to import?"""
    import triton.language as tl

    for submodule in ("libdevice", "cuda.libdevice"):  # modules know what was imported of them
        importlib.import_module(f"triton.language.extra.{submodule}")

    value = tl
    for k, name in enumerate(path):
        if name.startswith("_") or name in NOT_LANGUAGE:
            return False
        value = getattr(value, name, None)
        if value is None:
            return False
        if type(value).__name__ == "module" and (k == len(path) - 1 or name not in SUBMODULES):
            return False
    if path[0] in ENUMERATIONS:
        return len(path) == 1 or type(value) is getattr(tl, path[0])
    home = getattr(value, "__module__", None) or type(value).__module__
    return home.startswith(("triton.language", "triton.runtime"))


def prepare() -> None:
    """Look at Triton's language once, before the first kernel."""
    _attributes()
    _public(("exp",))
    _interpreters_own()


ATOMIC_PTX = re.compile(r"\b(?:atom|red)\.")


def calls_atomics(spec: dict) -> bool:
    """Does the code call an atomic operation, of Triton's language or in inline PTX?"""
    nodes = [node for text, *_ in spec["module"] for node in ast.walk(ast.parse(text))]
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    imported = [a for node in nodes if isinstance(node, ast.ImportFrom) for a in node.names]
    known = {a.asname or a.name for a in imported if a.name.startswith("atomic_")}
    aliases = [n for n in nodes if isinstance(n, ast.Assign) and getattr(n.value, "attr", "").startswith("atomic_")]
    known |= {t.id for n in aliases for t in n.targets if isinstance(t, ast.Name)}
    for f in called:
        if getattr(f, "attr", "").startswith("atomic_") or getattr(f, "id", "") in known:
            return True
    assembly = any("inline_asm_elementwise" in (getattr(f, "attr", ""), getattr(f, "id", "")) for f in called)
    texts = [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return assembly and any(ATOMIC_PTX.search(t) for t in texts)


def check(spec: dict) -> None:
    """Raises NotAKernel unless every text of a launch's module holds kernels and constants only."""
    bound: dict[str, object] = {}
    for text, _, line in spec["module"]:
        if strange := LINE_ENDS.search(text):
            raise NotAKernel(f"the text holds {strange[0]!r}, which only some readers take for the end of a line")
        tree = ast.parse(text)
        try:
            for node in tree.body:
                _part(node, bound, line - 1)
        except NotAKernel as e:
            e.quote(text, line)
            raise
        # Triton's interpreter takes the last line that begins with "def " for the function's own.
        heads = {n.lineno for n in tree.body if isinstance(n, ast.FunctionDef)}
        seen = {k for k, t in enumerate(text.splitlines(), 1) if t.strip().startswith("def ")}
        if heads != seen or len(heads) > 1:
            raise NotAKernel('inside a kernel no line may begin with "def", not even in a docstring')
    named = [c["function"] for c in spec["constants"].values() if isinstance(c, dict) and "function" in c]
    for name in [spec["kernel"], *named]:
        if bound.get(name) not in ("function", "name" if name in named else "function"):
            raise NotAKernel(f"{name} is no kernel")


@functools.cache
def _interpreters_own() -> frozenset[str]:
    """Names that Triton's interpreter puts within reach of every kernel: its own module's."""
    tree = ast.parse(Path(importlib.util.find_spec("triton.runtime.interpreter").origin).read_text(encoding="utf-8"))
    names = {"interpreter_semantic", "interpreter_builder", "_interpreter"}
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(a.asname or a.name).split(".")[0] for a in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        else:
            names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return frozenset(names)


def _bind(bound: dict, name: str, value: object) -> None:
    """A name at the top of a kernel's module stands for one thing: what was read with the one must not run with
    another."""
    if bound.setdefault(name, value) != value:
        raise NotAKernel(f"{name} stands for two things")


def _part(node: ast.stmt, bound: dict, before: int) -> None:
    """One statement of a kernel's module; `bound` collects what the names at its top stand for."""
    if isinstance(node, ast.Import):
        for a in node.names:
            if not (IMPORTS.fullmatch(a.name) or a.name in ("torch", "importlib")):
                raise NotAKernel(f"a kernel can use Triton's language only, not {a.name}", node.lineno + before)
            _bind(bound, a.asname or a.name.split(".")[0], a.name if a.asname else a.name.split(".")[0])
    elif isinstance(node, ast.ImportFrom):
        for a in node.names:
            module = (node.module or "").split(".")
            if module[:2] == ["triton", "language"]:
                fine = IMPORTS.fullmatch(node.module) and _public((*module[2:], a.name))
            else:
                fine = node.module in ("triton.runtime.jit", "triton") and a.name in FROM_TRITON
            if not fine or node.level:
                raise NotAKernel(f"a kernel can use Triton's language only, not {a.name} of {node.module}")
            _bind(bound, a.asname or a.name, "name")
    elif isinstance(node, ast.FunctionDef):
        decorators = [ast.unparse(d) for d in node.decorator_list]
        if any(not DECORATORS.fullmatch(d) for d in decorators):
            raise NotAKernel(f"{node.name} is decorated with more than @triton.jit", node.lineno + before)
        _bind(bound, node.name, "function")
        _function(node, bound, before)
    elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        _bind(bound, node.targets[0].id, _assigned(node.targets[0].id, node.value, bound))
    else:
        raise NotAKernel("a kernel's text holds functions and constants only", node.lineno + before)


def _assigned(name: str, value: ast.expr, bound: dict) -> object:
    """What a top-level assignment binds; only the forms that labutils.backends.extract writes."""
    if isinstance(value, ast.Call):
        called = ast.unparse(value.func)
        if called == "importlib.import_module" and len(value.args) == 1 and isinstance(value.args[0], ast.Constant):
            module = value.args[0].value
            if not (isinstance(module, str) and (IMPORTS.fullmatch(module) or module == "torch")):
                raise NotAKernel(f"a kernel can use Triton's language only, not {module}")
            return module
        if called == "triton.jit" and len(value.args) == 1 and bound.get(ast.unparse(value.args[0])) == "function":
            return "function"
    if isinstance(value, ast.Name) and bound.get(value.id) in ("function", "name"):
        return bound[value.id]
    _literal(name, value, bound)
    return "constant"


def _literal(name: str, node: ast.expr, bound: dict) -> None:
    """A constant: literals, containers of them, element types."""
    message = f"{name} is no constant that a kernel could use"
    if isinstance(node, (ast.Tuple, ast.List)):
        for n in node.elts:
            _literal(name, n, bound)
    elif isinstance(node, ast.UnaryOp):
        _literal(name, node.operand, bound)
    elif isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        ours = called in ("triton.language.dtype", "triton.language.constexpr") and bound.get("triton") == "triton"
        if node.keywords or not (ours or called in ("float", "list", "tuple", "dict") and called not in bound):
            raise NotAKernel(message)
        for n in node.args:
            _literal(name, n, bound)
    elif isinstance(node, ast.Attribute):
        if bound.get("torch") != "torch" or not re.fullmatch(r"torch\.\w+", ast.unparse(node)) or not _dtype(node.attr):
            raise NotAKernel(message)
    elif not isinstance(node, ast.Constant):
        raise NotAKernel(message)


def _dtype(name: str) -> bool:
    import torch

    return isinstance(getattr(torch, name, None), torch.dtype)


def _function(function: ast.FunctionDef, bound: dict, before: int) -> None:
    for default in [*function.args.defaults, *filter(None, function.args.kw_defaults)]:
        if not (isinstance(default, ast.Name) and bound.get(default.id) in ("constant", "name")):
            _default(default, bound, default.lineno + before)
    arguments = [a for a in ast.walk(function.args) if isinstance(a, ast.arg)]
    for annotation in filter(None, [*(a.annotation for a in arguments), function.returns]):
        if not all(isinstance(n, ANNOTATIONS) for n in ast.walk(annotation)):
            raise NotAKernel("this annotation is more than a type", annotation.lineno + before)
    own = {a.arg for a in arguments} | _stored(function.body)
    reader = _Body(function, bound, before)
    for statement in function.body:
        reader.read(statement, own)


def _default(node: ast.expr, bound: dict, line: int) -> None:
    if isinstance(node, ast.Attribute):
        _chain(node, set(), bound, set(), line)
    else:
        _literal("a default value", node, bound)


COMPREHENSIONS = (ast.ListComp, ast.GeneratorExp)


def _stored(nodes) -> set[str]:
    """Names that statements bind, without those that live in a comprehension only."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        if isinstance(node, COMPREHENSIONS):
            continue
        found |= _stored(ast.iter_child_nodes(node))
    return found


class _Body:
    """Reads what stands in a function, with the names that Python would find where it stands."""

    def __init__(self, function: ast.FunctionDef, bound: dict, before: int):
        self.function, self.bound, self.before = function, bound, before
        self.inside: set[int] = set()  # attribute chains that were looked at as a whole

    def read(self, node: ast.AST, own: set[str]) -> None:
        line = getattr(node, "lineno", self.function.lineno) + self.before
        if not isinstance(node, STATEMENTS) or isinstance(node, (ast.FunctionDef, ast.arguments)):
            raise NotAKernel(f"Triton has no {type(node).__name__.lower()} inside a kernel", line)
        if isinstance(node, COMPREHENSIONS):
            self._comprehension(node, own)
            return
        if isinstance(node, ast.Name):
            self._name(node, own, line)
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            raise NotAKernel(f"{ast.unparse(node)} cannot be assigned to inside a kernel", line)
        if isinstance(node, ast.keyword) and (node.arg or "_").startswith("_") or _patched(node):
            raise NotAKernel(f"a kernel cannot pass {node.arg or '**'} to a function", line)
        if isinstance(node, ast.Attribute) and id(node) not in self.inside:
            _chain(node, own, self.bound, self.inside, line)
        for child in ast.iter_child_nodes(node):
            self.read(child, own)

    def _comprehension(self, node, own: set[str]) -> None:
        """The first iterable is looked up outside, everything else inside."""
        self.read(node.generators[0].iter, own)
        inner = own | _stored([g.target for g in node.generators])
        for number, g in enumerate(node.generators):
            for part in [g.target, *g.ifs, *([g.iter] if number else [])]:
                self.read(part, inner)
        self.read(node.elt, inner)

    def _name(self, node: ast.Name, own: set[str], line: int) -> None:
        name = node.id
        if name.startswith("interpreter_"):
            raise NotAKernel(f"{name} belongs to Triton's interpreter", line)
        if name in own or name in self.bound or name in BUILTINS:
            return
        if name.startswith("__") or hasattr(builtins, name):
            raise NotAKernel(f"a kernel cannot use Python's {name}", line)
        if name in _interpreters_own():
            raise NotAKernel(f"{name} is not defined", line)


def _patched(node: ast.AST) -> bool:
    """Triton's interpreter wraps its functions in others whose own argument is called this."""
    return isinstance(node, ast.keyword) and node.arg == "member"


def _chain(node: ast.Attribute, own: set, bound: dict, inside: set, line: int) -> None:
    """`tl.exp`, `x.to`, `x.dtype.element_ty`: a name of Triton's language, or a tensor's public attribute."""
    path, n = [], node
    while isinstance(n, ast.Attribute):
        inside.add(id(n))
        path.insert(0, n.attr)
        n = n.value
    module = bound.get(n.id) if isinstance(n, ast.Name) and n.id not in own else None
    if isinstance(module, str) and module.startswith("triton"):
        prefix = module.split(".")[2:] if module.startswith("triton.language") else None
        if prefix is None:
            if path[0] == "language":
                prefix, path = [], path[1:]
            elif path[0] in FROM_TRITON:
                return
        if prefix is not None:
            for end in range(len(path), 0, -1):  # tl.float32.primitive_bitwidth: the rest are attributes
                if _public((*prefix, *path[:end])) and all(p in _attributes() for p in path[end:]):
                    return
        raise NotAKernel(f"{ast.unparse(node)} is not part of Triton's language", line)
    if module == "torch":
        if len(path) == 1 and _dtype(path[0]):
            return
        raise NotAKernel(f"a kernel cannot use {ast.unparse(node)}", line)
    for name in path:
        if name not in _attributes():
            raise NotAKernel(f"a kernel cannot use .{name}", line)
