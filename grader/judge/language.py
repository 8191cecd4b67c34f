"""What a kernel's text may hold: Triton's language, or CUDA C++, and nothing else.

A kernel meets the judge's data in an interpreter or an emulator on the CPU too, and both could run far more than a GPU
can: Python from NumPy to ctypes, C++ with the system's own functions. So the text is read first. Whatever passes here
can compute, and touch the memory that it is given; what it computes decides.
"""

from __future__ import annotations

import ast
import builtins
import functools
import re

from labutils.backends import Problem
from labutils.cudatext import blank

BUILTINS = {"range", "min", "max", "abs", "int", "float", "bool", "len", "print", "tuple", "list", "zip", "isinstance"}
"""Python's own functions that Triton's compiler knows."""

STATEMENTS = (
    ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While,
    ast.If, ast.Expr, ast.Pass, ast.Break, ast.Continue, ast.Assert,
    ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.Call, ast.keyword, ast.Constant, ast.Attribute,
    ast.Subscript, ast.Slice, ast.Name, ast.Tuple, ast.List, ast.Starred, ast.ListComp, ast.comprehension,
    ast.GeneratorExp, ast.JoinedStr, ast.FormattedValue,
    ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop,
)  # fmt: skip
"""The part of Python that Triton's compiler reads."""

SUBMODULES = {"math", "extra", "libdevice", "cuda", "core", "standard", "random", "target_info"}

IMPORTS = re.compile(r"triton(\.language(\.extra(\.cuda|\.libdevice)?|\.math|\.standard|\.random|\.core)?)?")
FROM_TRITON = {"jit", "cdiv", "next_power_of_2", "language", "constexpr_function"}


class NotAKernel(ValueError):
    """This text holds something that is no kernel; the message says what, `line` where."""

    def __init__(self, message: str, line: int | None = None):
        super().__init__(message)
        self.line = line


def problem(spec: dict) -> Problem | None:
    """Why the kernel of one launch is refused, or None."""
    try:
        (_triton if spec["language"] == "triton" else _cuda)(spec)
    except NotAKernel as e:
        return Problem("does-not-compile", str(e), e.line)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
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

    value = tl
    for k, name in enumerate(path):
        if name.startswith("_"):
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
        tree = ast.parse(text)
        for node in tree.body:
            _part(node, bound, line - 1)
    if bound.get(spec["kernel"]) != "function":
        raise NotAKernel(f"{spec['kernel']} is no kernel")


def _part(node: ast.stmt, bound: dict, before: int) -> None:
    """One statement of a kernel's module; `bound` collects what the names at its top stand for."""
    if isinstance(node, ast.Import):
        for a in node.names:
            if not (IMPORTS.fullmatch(a.name) or a.name in ("torch", "importlib")):
                raise NotAKernel(f"a kernel can use Triton's language only, not {a.name}", node.lineno + before)
            bound[a.asname or a.name.split(".")[0]] = a.name if a.asname else a.name.split(".")[0]
    elif isinstance(node, ast.ImportFrom):
        for a in node.names:
            fine = IMPORTS.fullmatch(node.module or "") and (node.module != "triton" or a.name in FROM_TRITON)
            if not fine and node.module in ("triton.runtime.jit", "triton"):
                fine = a.name in FROM_TRITON
            if not fine or a.name.startswith("_"):
                raise NotAKernel(f"a kernel can use Triton's language only, not {a.name} of {node.module}")
            bound[a.asname or a.name] = "name"
    elif isinstance(node, ast.FunctionDef):
        decorators = [ast.unparse(d) for d in node.decorator_list]
        if any(not re.fullmatch(r"(triton\.)?jit(\([\w=, ]*\))?", d) for d in decorators):
            raise NotAKernel(f"{node.name} is decorated with more than @triton.jit", node.lineno + before)
        bound[node.name] = "function"
        _function(node, bound, before)
    elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        bound[node.targets[0].id] = _assigned(node.targets[0].id, node.value, bound)
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
        if called == "triton.jit" and len(value.args) == 1 and ast.unparse(value.args[0]) in bound:
            return "function"
    if isinstance(value, ast.Name) and bound.get(value.id) in ("function", "name"):
        return bound[value.id]
    _literal(name, value)
    return "constant"


def _literal(name: str, node: ast.expr) -> None:
    constructors = {"float", "list", "tuple", "dict", "triton.language.dtype", "triton.language.constexpr"}
    for n in ast.walk(node):
        if isinstance(n, ast.Call) and ast.unparse(n.func) not in constructors:
            raise NotAKernel(f"{name} is no constant that a kernel could use")
        if not isinstance(
            n, (ast.Call, ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Name, ast.Attribute, ast.UnaryOp,
                ast.operator, ast.unaryop, ast.expr_context)
        ):  # fmt: skip
            raise NotAKernel(f"{name} is no constant that a kernel could use")
        if isinstance(n, ast.Attribute) and not re.fullmatch(
            r"(torch\.\w+|triton\.language|triton\.language\.(dtype|constexpr))", ast.unparse(n)
        ):
            raise NotAKernel(f"{name} is no constant that a kernel could use")


def _function(function: ast.FunctionDef, bound: dict, before: int) -> None:
    own = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
    own |= {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    inside = set()  # attribute chains that were looked at as a whole
    for node in ast.walk(function):
        line = getattr(node, "lineno", function.lineno) + before
        if not isinstance(node, STATEMENTS) or (node is not function and isinstance(node, ast.FunctionDef)):
            raise NotAKernel(f"Triton has no {type(node).__name__.lower()} inside a kernel", line)
        if isinstance(node, ast.Name):
            known = node.id in own or node.id in bound or node.id in BUILTINS
            if not known and (node.id.startswith("__") or hasattr(builtins, node.id)):
                raise NotAKernel(f"a kernel cannot use Python's {node.id}", line)
        if isinstance(node, ast.Attribute) and id(node) not in inside:
            _chain(node, own, bound, inside, line)


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
        if path == [path[0]] and re.fullmatch(r"(float|int|uint|bfloat|bool)\w*", path[0]):
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
    r"isShared|isGlobal|isLocal|isConstant|CUDA_ARCH__|cplusplus|unroll|builtin_assume|builtin_expect|line__|"
    r"barrier_\w+|alignof__|restrict__|\w+2half\w*|\w+2bfloat\w*|\w+_rn|\w+_rz|\w+_ru|\w+_rd|floats2half2_rn)(__)?"
)

CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif)\b(.*)$", re.MULTILINE)


def _cuda(spec: dict) -> None:
    """Two compilers read CUDA C++ here, NVIDIA's and the emulator's: nothing may tell them apart."""
    text = blank(spec["source"])
    if "\\\n" in spec["source"] or "??" in text or "%:" in text:
        text = blank(spec["source"].replace("\\\n", " "))

    def line_of(at: int) -> int:
        return text.count("\n", 0, at)

    for number, line in enumerate(spec["source"].splitlines()):
        if match := re.match(r"\s*(?:#|%:|\?\?=)\s*include\b(.*)", line):
            name = re.match(r"\s*[<\"]([^>\"]*)[>\"]", match[1])
            if name is None or name[1] not in HEADERS:
                raise NotAKernel("a kernel may include only CUDA's own device headers", number)
    defined = set(re.findall(r"#\s*define\s+(\w+)", text))
    for match in CONDITION.finditer(text):
        words = set(re.findall(r"[A-Za-z_]\w*", match[2])) - {"defined"} - defined
        if words:
            raise NotAKernel(
                f"#{match[1]} may ask only for macros of your own, not {sorted(words)[0]}", line_of(match.start())
            )
    for pattern, what in (
        (r"__has_\w+|__COUNTER__|__DATE__|__TIME__|__FILE__|__BASE_FILE__|__VERSION__", "{0}"),
        (r"#\s*(pragma)\s+(?!unroll\b|once\b)\w+", "#pragma {1}"),
        (r"\blong\s+double\b|\b__float128\b|\b_Float\w+\b", "{0}, which a GPU does not have"),
        (r"\b(goto|throw|try|catch|typeid|dynamic_cast|thread_local|co_\w+|import|module)\b", "{0}"),
        (r"\boperator\s+new\b|\bconsteval\b|\bis_constant_evaluated\b|\bsource_location\b", "{0}"),
        (r"\bextern\s+\"\s*C?\s*\"\s*(?!__global__|\{)[^;{]*;", "a declaration of a function from elsewhere"),
    ):
        for match in re.finditer(pattern, spec["source"] if "extern" in pattern else text):
            words = [match.group(0), *match.groups()]
            line = spec["source"].count("\n", 0, match.start())
            raise NotAKernel(f"a kernel may not use {what.format(*words)}", line)
    for match in re.finditer(r"\b__\w+", text):
        if not UNDERSCORED.fullmatch(match.group(0)) and match.group(0) not in defined:
            raise NotAKernel(f"{match.group(0)} is no function or word of CUDA C++", line_of(match.start()))
    for match in re.finditer(r"\b(asm|__asm__|__asm)\b", text):
        if not re.match(r"(asm|__asm__)\s*(volatile\s*)?\(", text[match.start() :]):
            raise NotAKernel("this asm statement cannot be read", line_of(match.start()))
