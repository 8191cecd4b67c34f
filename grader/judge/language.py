"""What a kernel's text may hold: Triton's language, or CUDA C++, and nothing else.

A kernel meets the judge's data in an interpreter or an emulator on the CPU too, and both could run far more than a GPU
can: Python from NumPy to ctypes, C++ with the system's own functions. So the text is read first. Whatever passes here
can compute, and touch the memory that it is given; what it computes decides.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib.util
import re
from pathlib import Path

from labutils.backends import Problem

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

SUBMODULES = {"math", "extra", "libdevice", "cuda", "core", "standard", "random"}

IMPORTS = re.compile(r"triton(\.language(\.extra(\.cuda|\.libdevice)?|\.math|\.standard|\.random|\.core)?)?")
FROM_TRITON = {"jit", "cdiv", "next_power_of_2", "language", "constexpr_function"}

LINE_ENDS = re.compile(r"\r(?!\n)|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""What ends a line for some readers of Python and not for others; Triton reads a kernel's text line by line."""

ANNOTATIONS = (ast.Name, ast.Attribute, ast.Constant, ast.Subscript, ast.BinOp, ast.BitOr, ast.Tuple, ast.expr_context)


class NotAKernel(ValueError):
    """This text holds something that is no kernel; the message says what, `line` and `source` where."""

    def __init__(self, message: str, line: int | None = None):
        super().__init__(message)
        self.line, self.source = line, ""

    def quote(self, text: str, first: int) -> None:
        """Keep the line itself, from a text that begins with line `first`."""
        lines = text.split("\n")
        if self.line is not None and 0 <= self.line - first < len(lines):
            self.source = lines[self.line - first].strip()[:200]


def problem(spec: dict) -> Problem | None:
    """Why the kernel of one launch is refused, or None."""
    try:
        (_triton if spec["language"] == "triton" else _cuda)(spec)
    except NotAKernel as e:
        if spec["language"] == "cuda":
            e.quote(spec["source"], 0)
        return Problem("does-not-compile", str(e), e.line if e.source else None, e.source)
    except (SyntaxError, ValueError, LookupError, TypeError, RecursionError, MemoryError) as e:
        return Problem("does-not-compile", f"the kernel's text cannot be read: {type(e).__name__}")
    return None


# --- Triton --------------------------------------------------------------------------------------------------------


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
    home = getattr(value, "__module__", None) or type(value).__module__
    return home.startswith(("triton.language", "triton.runtime"))


def _triton(spec: dict) -> None:
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
        if any(not re.fullmatch(r"(triton\.)?jit(\([\w=, ]*\))?", d) for d in decorators):
            raise NotAKernel(f"{node.name} is decorated with more than @triton.jit", node.lineno + before)
        _bind(bound, node.name, "function")
        _function(node, bound, before)
    elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        _bind(bound, node.targets[0].id, _assigned(node.targets[0].id, node.value, bound))
    else:
        raise NotAKernel("a kernel's text holds functions and constants only", node.lineno + before)


def _assigned(name: str, value: ast.expr, bound: dict) -> object:
    """What a top-level assignment binds; only the forms that labutils.source writes."""
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
    said = f"{name} is no constant that a kernel could use"
    if isinstance(node, (ast.Tuple, ast.List)):
        for n in node.elts:
            _literal(name, n, bound)
    elif isinstance(node, ast.UnaryOp):
        _literal(name, node.operand, bound)
    elif isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        ours = called in ("triton.language.dtype", "triton.language.constexpr") and bound.get("triton") == "triton"
        if node.keywords or not (ours or called in ("float", "list", "tuple", "dict") and called not in bound):
            raise NotAKernel(said)
        for n in node.args:
            _literal(name, n, bound)
    elif isinstance(node, ast.Attribute):
        if bound.get("torch") != "torch" or not re.fullmatch(r"torch\.\w+", ast.unparse(node)) or not _dtype(node.attr):
            raise NotAKernel(said)
    elif not isinstance(node, ast.Constant):
        raise NotAKernel(said)


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


# --- CUDA C++ ------------------------------------------------------------------------------------------------------

HEADERS = {
    "cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "mma.h", "cooperative_groups.h", "cooperative_groups/reduce.h",
    "cooperative_groups/memcpy_async.h", "cooperative_groups/scan.h", "cuda_pipeline.h", "cuda/pipeline",
    "cuda/barrier", "cuda/ptx", "cuda.h", "cuda_runtime.h", "math_constants.h", "cuda/std/limits", "cuda/std/cstdint",
    "cuda/std/utility", "cuda_pipeline_primitives.h", "cuda/atomic", "cuda/std/array", "cuda/std/type_traits",
}  # fmt: skip

UNDERSCORED = re.compile(
    r"__(global|device|host|shared|constant|restrict|forceinline|noinline|launch_bounds|maxnreg|cluster_dims|"
    r"grid_constant|align|inline|syncthreads\w*|syncwarp|threadfence\w*|shfl\w*|ballot\w*|any_sync|all_sync|"
    r"activemask|match\w*|reduce_\w+|popc\w*|clz\w*|ffs\w*|brev\w*|ldg|ldca|ldcg|ldcs|ldlu|ldcv|st\w\w|sad|usad|mul\w+|"
    r"umul\w+|fmaf?\w*|f\w+_r\w|d\w+_r\w|exp\w*f|log\w*f|sinf|cosf|tanf|powf|saturatef|fdividef|sincosf|tanhf|"
    r"float\w*|double\w*|int\w*|uint\w*|ll\w*|ull\w*|short\w*|ushort\w*|half\w*|bfloat\w*|low\w*|high\w*|h\w+|"
    r"byte_perm|dp[24]a\w*|v\w+[24]|nv_\w+|pipeline_\w+|nanosleep|assert\w*|prof_trigger|trap|brkpt|cvta_\w+|"
    r"isShared|isGlobal|isLocal|isConstant|unroll|builtin_assume|builtin_expect|line__|"
    r"barrier_\w+|alignof__|restrict__|\w+2half\w*|\w+2bfloat\w*|\w+_rn|\w+_rz|\w+_ru|\w+_rd|floats2half2_rn)(__)?"
)

DIRECTIVES = {"", "include", "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "pragma", "error"}

RESERVED = re.compile(r"__\w*|_[A-Z]\w*|simt(_\w*)?|SIMT_\w*")
"""Names that belong to the compilers and to the emulator: nobody else may give them a meaning."""

MACROS = {"threadIdx", "blockIdx", "blockDim", "gridDim", "memcpy", "memset", "assert", "printf"}
"""Words of CUDA C++ that are macros in the emulator."""

ATTRIBUTES = {"maybe_unused", "nodiscard", "likely", "unlikely", "fallthrough", "no_unique_address"}

NAME = re.compile(r"[A-Za-z_]\w*(\s*<[\w\s,:<>*&+-]*>)?")
"""A kernel as it is named for a launch: with its template's arguments, where it has any."""

TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<raw>\b(?:u8|[uUL])?R")
    |(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')
    |(?P<number>(?<!\w)\.?\d(?:[eEpP][+-]|'?[\w.])*)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<broken>["']|/\*)
    |(?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)


def _tokens(source: str) -> tuple[str, str]:
    """The text as a compiler splits it: with comments blanked, and with the insides of strings blanked as well.

    Character for character as long as each other, and with as many lines as the source.
    """
    if re.search(r"\?\?[=/'()!<>-]|%:|<:(?!:)", source):
        raise NotAKernel("a kernel may not use trigraphs and digraphs such as ??= and %:")
    if re.search(r"\\[ \t\f\v\r]+\n", source):
        raise NotAKernel("a backslash at the end of a line has blanks behind it")
    lines, joined = [], 0
    for line in source.split("\n"):
        if line.endswith("\\"):
            lines.append(line[:-1])
            joined += 1
        else:
            lines.append(line + "\n" * (1 + joined))
            joined = 0
    source = "".join(lines)
    code, text = [], []
    for token in TOKEN.finditer(source):
        kind, said = token.lastgroup, token.group()
        if kind in ("raw", "broken"):
            what = "raw strings" if kind == "raw" else "a quotation mark or a comment that is not closed"
            raise NotAKernel(f"a kernel may not hold {what}", source.count("\n", 0, token.start()))
        blanked = re.sub(r"[^\n]", " ", said)
        code.append(blanked if kind == "comment" else said)
        text.append(blanked if kind == "comment" else said[0] + blanked[1:-1] + said[-1] if kind == "string" else said)
        if kind == "number":
            fraction = re.search(r"[.]|^(?!0[xX])[\d']*[eE]|[pP]", said)
            suffix = re.search(r"[a-zA-Z]*$", said)[0]
            if fraction and suffix.lower() not in ("", "f") and not re.fullmatch(r"(?i)0x[\da-f.']*p[+-]?\d+f?", said):
                raise NotAKernel(f"{said} is a number of a type that a GPU does not have")
    return "".join(code), "".join(text)


def _cuda(spec: dict) -> None:
    """Two compilers read CUDA C++ here, NVIDIA's and the emulator's: nothing may tell them apart, and nothing may
    reach past the language into what either of them runs on."""
    if not NAME.fullmatch(spec["name"]) or any(RESERVED.fullmatch(w) for w in re.findall(r"\w+", spec["name"])
                                               if not UNDERSCORED.fullmatch(w)):  # fmt: skip
        raise NotAKernel("this kernel's name cannot be read")
    code, text = _tokens(spec["source"])

    def line_of(at: int) -> int:
        return text.count("\n", 0, at)

    def refuse(pattern: str, what: str, where: str) -> None:
        for match in re.finditer(pattern, where):
            words = [" ".join(w.split()) for w in (match.group(0), *(g or "" for g in match.groups()))]
            raise NotAKernel(f"a kernel may not use {what.format(*words)}", line_of(match.start()))

    for match in re.finditer(r"(?m)^[ \t\f\v]*#[ \t]*(\w*)(.*)$", text):
        _directive(match[1], code[match.start(2) : match.end(2)], line_of(match.start()))
    refuse(r"#+", "# to join or to quote words", re.sub(r"(?m)^[ \t\f\v]*#", "", text))
    defined = set(re.findall(r"#[ \t]*define\s+(\w+)", text))
    for match in re.finditer(r"(?m)^[ \t\f\v]*#[ \t]*(if|ifdef|ifndef|elif)\b(.*)$", text):
        words = set(re.findall(r"[A-Za-z_]\w*", match[2])) - {"defined"} - defined
        if words:
            raise NotAKernel(
                f"#{match[1]} may ask only for macros of your own, not {sorted(words)[0]}", line_of(match.start())
            )
    for pattern, what in (
        (r"__has_\w+|__COUNTER__|__DATE__|__TIME__|__FILE__|__BASE_FILE__|__VERSION__", "{0}"),
        (r"\blong\s+double\b|\bdouble\s+long\b|\b__float128\b", "{0}, which a GPU does not have"),
        (r"\b(goto|throw|try|catch|typeid|dynamic_cast|thread_local|co_\w+|import|module)\b", "{0}"),
        (r"\boperator\s+new\b|\bconsteval\b|\bis_constant_evaluated\b|\bsource_location\b", "{0}"),
        (r"\b_[A-Z]\w*", "{0}"),
        (r"\bsimt\b|\b(?:simt|SIMT)_\w*", "{0}, a name of the emulator"),
        (r"\\", "a backslash outside of text"),
    ):
        refuse(pattern, what, text)
    refuse(r"\bextern\s+\"\s*C?\s*\"\s*(?!__global__|\{)[^;{]*;", "a declaration of a function from elsewhere", code)
    for match in re.finditer(r"\[\s*\[([^\]]*)\]?", text):
        if set(re.findall(r"\w+", match[1])) - ATTRIBUTES or not match[1].strip():
            raise NotAKernel(f"[[{match[1].strip()}]] is no attribute of CUDA C++", line_of(match.start()))
    for match in re.finditer(r"\b__\w+", text):
        if not UNDERSCORED.fullmatch(match.group(0)):
            raise NotAKernel(f"{match.group(0)} is no function or word of CUDA C++", line_of(match.start()))
    for match in re.finditer(r"\b(asm|__asm__|__asm)\b", text):
        if not re.match(r"(asm|__asm__)\s*(volatile\s*)?\(", text[match.start() :]):
            raise NotAKernel("this asm statement cannot be read", line_of(match.start()))


def _directive(word: str, rest: str, line: int) -> None:
    """One line of the preprocessor's."""
    if word not in DIRECTIVES:
        raise NotAKernel(f"a kernel may not use #{word}", line)
    if word == "include":
        name = re.fullmatch(r"\s*(?:<([^>\"]*)>|\"([^>\"]*)\")\s*", rest)
        if name is None or (name[1] or name[2]) not in HEADERS:
            raise NotAKernel("a kernel may include only CUDA's own device headers", line)
    elif word in ("define", "undef"):
        name = re.match(r"\s*(\w+)", rest)
        if name is None or RESERVED.fullmatch(name[1]) or name[1] in MACROS:
            raise NotAKernel(f"#{word} may not give {name[1] if name else 'this'} another meaning", line)
    elif word == "pragma" and not re.match(r"\s*(unroll|once)\b", rest):
        raise NotAKernel(f"a kernel may not use #pragma {rest.strip()}", line)
