"""The learner's source: what it may contain, which kernels it holds, and the few places that must be rewritten.

Everything else of CUDA C++ is C++ that the headers in `include/` make compile as it stands. A rewrite never adds or
removes a line, so that line numbers stay the learner's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ...cuda.text import blank
from .errors import CompileError

HEADERS = frozenset(
    re.findall(
        r"\S+",
        """cuda.h cuda_runtime.h cuda_runtime_api.h device_launch_parameters.h math_constants.h vector_types.h
    cuda_fp16.h cuda_bf16.h mma.h cooperative_groups.h cooperative_groups/reduce.h cooperative_groups/scan.h
    cooperative_groups/memcpy_async.h cuda_pipeline.h cuda_pipeline_primitives.h cuda/pipeline
    stdint.h cstdint stddef.h cstddef stdio.h cstdio math.h cmath assert.h cassert float.h cfloat limits.h
    climits lab/hopper.cuh lab/mma.cuh""",
    )
)

_NEEDS_GPU = (
    (
        r"\b(asm|__asm|__asm__)\b",
        "inline PTX (`asm`) runs on an NVIDIA GPU only; this machine has none",
    ),
    (
        r"\bwgmma\w*",
        "warpgroup matrix instructions (WGMMA) need a Hopper GPU: an H100 or H200, compute capability 9.0",
    ),
    (
        r"\b(cp_async_bulk\w*|CUtensorMap|cuTensorMap\w*|tma_\w+)",
        "bulk copies by the tensor memory accelerator (TMA) need an H100, H200 or newer GPU, compute capability 9.0",
    ),
    (
        r"\b(__cluster_dims__|cluster_group|this_cluster|clusterIdx|clusterDim|__cluster\w+)",
        "thread block clusters need an H100, H200 or newer GPU, compute capability 9.0",
    ),
    (r"\btcgen05\w*", "tcgen05 instructions need a Blackwell GPU: a B200, compute capability 10.0"),
)

_HOST_ONLY = (
    (r"\bstd\s*::", "`std::` is the host's library: a kernel can call device functions only"),
    (r"<<<", "a launch `<<<…>>>` is host code: here Python launches the kernel"),
    (
        r"\bcuda(Malloc|Free|Memcpy|Memset|DeviceSynchronize|GetLastError|Stream|Event)\w*",
        "calls to the CUDA runtime are host code: here Python allocates, copies and launches",
    ),
    (r"\b(int|void)\s+main\s*\(", "`main` is host code: the cell holds kernels and device functions only"),
)

_SIZES = {
    **dict.fromkeys(("char", "bool", "int8_t", "uint8_t", "uchar"), 1),
    **dict.fromkeys(("short", "ushort", "int16_t", "uint16_t", "half", "__half", "__nv_bfloat16"), 2),
    **dict.fromkeys(("int", "unsigned", "uint", "float", "int32_t", "uint32_t", "half2", "__half2", "uchar4"), 4),
    **dict.fromkeys(("double", "float2", "int2", "uint2", "size_t", "int64_t", "uint64_t"), 8),
    **dict.fromkeys(("float4", "int4", "uint4", "double2"), 16),
}


@dataclass(frozen=True)
class SharedArray:
    """A declaration of a shared array in the source: the bytes of an element and the lengths, where they are plain."""

    name: str
    item: int | None
    lengths: tuple[int, ...] | None
    dynamic: bool


@dataclass
class Prepared:
    """Source that is ready for the compiler, and what was read from it."""

    text: str
    kernels: dict[str, list[str]] = field(default_factory=dict)
    templates: set[str] = field(default_factory=set)
    shared: dict[str, SharedArray] = field(default_factory=dict)
    constants: set[str] = field(default_factory=set)


def prepare(source: str) -> Prepared:
    """Check the source, find its kernels, rewrite its dynamic shared arrays. Raises CompileError."""
    plain = blank(source)
    _refuse(source, plain)
    kernels, templates = _kernels(plain)
    prepared = Prepared(source, kernels, templates)
    prepared.shared = _shared_arrays(plain)
    for m in re.finditer(r"__constant__\s+([^;={]+)", plain):
        prepared.constants.update(re.findall(r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?:,|$)", m.group(1).strip()))
    prepared.text = _point_dynamic_shared(source, plain)
    return prepared


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _refuse(source: str, plain: str) -> None:
    if m := re.search(r'\b(?:u8|[uUL])?R"', plain):
        raise CompileError(f"line {_line(plain, m.start())}: raw string literals are not supported", None)
    # As the preprocessor does, join lines that end in a backslash before looking for directives.
    joints = {i for m in re.finditer(r"\\[ \t]*\n", plain) for i in range(*m.span())}
    origin = [i for i in range(len(plain)) if i not in joints]
    joined = "".join(plain[i] for i in origin)
    for m in re.finditer(r"^[ \t]*(?:#|%:)[ \t]*(\w+)(.*)$", joined, flags=re.M):
        directive = m.group(1)
        if directive not in ("include", "include_next", "import", "embed"):
            continue
        # the name of an include in quotes is blanked in `plain`: read it from the source
        rest = "".join(source[i] for i in origin[m.start(2) : m.end(2)]).strip()
        name = re.fullmatch(r'[<"]([^>"]+)[>"]\s*(?://.*|/\*.*\*/\s*)?', rest)
        line = _line(source, origin[m.start(1)])
        if directive != "include" or not name or name.group(1) not in HEADERS:
            shown = name.group(0) if name else rest
            raise CompileError(
                f"line {line}: `#{directive} {shown}` is not allowed: a kernel may include CUDA's device headers only "
                "(cuda_fp16.h, mma.h, cooperative_groups.h, …)",
                line,
            )
    emulated = re.search(r"#[ \t]*include[ \t]*<lab/hopper\.cuh>", plain)
    for rules in (_NEEDS_GPU[:1] if emulated else _NEEDS_GPU, _HOST_ONLY):
        for pattern, sentence in rules:
            if m := re.search(pattern, plain):
                line = _line(plain, m.start())
                raise CompileError(f"line {line}: {sentence}", line)


def _closing(text: str, start: int, pair: str = "()") -> int:
    """Position of the bracket that closes the one at `start`, or the end of the text."""
    depth = 0
    for i in range(start, len(text)):
        depth += {pair[0]: 1, pair[1]: -1}.get(text[i], 0)
        if depth == 0:
            return i
    return len(text)


def _split(text: str) -> list[str]:
    """The parts between the commas that no bracket encloses."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "(<[{") - (c in ")>]}")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [p.strip() for p in (*parts, text[start:]) if p.strip()]


def _kernels(plain: str) -> tuple[dict[str, list[str]], set[str]]:
    """Names of the kernels with those of their parameters; names of those that are templates."""
    kernels: dict[str, list[str]] = {}
    templates: set[str] = set()
    for m in re.finditer(r"\b__global__\b", plain):
        position = m.end()
        while found := re.compile(r"(\w+)\s*\(").search(plain, position):
            close = _closing(plain, found.end() - 1)
            if found.group(1) not in ("__launch_bounds__", "__maxnreg__", "__attribute__", "alignas"):
                break
            position = close + 1
        if not found:
            continue
        parameters = []
        for i, p in enumerate(_split(plain[found.end() : close])):
            p = re.sub(r"\(\s*[*&]\s*(\w+)\s*\)\s*", r" \1 ", p.split("=")[0]).strip()  # a pointer to an array
            name = re.search(r"(\w+)\s*(?:\[[^\]]*\])*$", p)
            if p != "void":
                parameters.append(name.group(1) if name else f"argument {i + 1}")
        kernels[found.group(1)] = parameters
        before = plain[: m.start()]
        start = max(before.rfind(";"), before.rfind("}")) + 1
        if re.search(r"\btemplate\s*<", before[start:]):
            templates.add(found.group(1))
    return kernels, templates


def _constants(plain: str) -> dict[str, int]:
    """Integers that the source names: by #define, by const or by constexpr."""
    found = {}
    for m in re.finditer(r"#[ \t]*define[ \t]+(\w+)[ \t]+\(?(\d+)\)?[ \t]*$", plain, flags=re.M):
        found[m.group(1)] = int(m.group(2))
    for m in re.finditer(r"\bconst(?:expr)?\s+(?:int|unsigned|size_t|uint)\s+(\w+)\s*=\s*(\d+)\s*;", plain):
        found[m.group(1)] = int(m.group(2))
    return found


def _length(text: str, constants: dict[str, int]) -> int | None:
    """The value of an array length made of numbers, named constants, + - and *."""
    text = re.sub(r"\b[A-Za-z_]\w*", lambda m: str(constants.get(m.group(0), m.group(0))), text).strip()
    if not re.fullmatch(r"[\d\s+*()-]+", text):
        return None
    try:
        return int(eval(text, {"__builtins__": {}}))  # digits, brackets and operators only
    except (SyntaxError, TypeError):
        return None


def _shared_arrays(plain: str) -> dict[str, SharedArray]:
    constants, found = _constants(plain), {}
    declaration = r"(extern\s+)?__shared__\s+(?:__align__\s*\([^)]*\)|alignas\s*\([^)]*\)|volatile|\s)*([\w:]+)([^;]*);"
    for m in re.finditer(declaration, plain):
        item = _SIZES.get(m.group(2))
        for part in _split(m.group(3).replace("unsigned", " ").replace("long", " ")):
            name = re.match(r"(?:\w+\s+)*(\w+)\s*((?:\[[^\]]*\]\s*)*)", part)
            if not name:
                continue
            lengths = [_length(x, constants) for x in re.findall(r"\[([^\]]*)\]", name.group(2))]
            known = tuple(lengths) if lengths and None not in lengths else None
            found[name.group(1)] = SharedArray(name.group(1), item, known, bool(m.group(1)))
    return found


_EXTERN = re.compile(
    r"(?:__align__\s*\([^)]*\)\s*|alignas\s*\([^)]*\)\s*)?extern\s+__shared__\s+"
    r"(?:__align__\s*\([^)]*\)\s*|alignas\s*\([^)]*\)\s*)?([\w\s:<>,*]+?)\s*"
    r"(?:__align__\s*\([^)]*\)\s*|alignas\s*\([^)]*\)\s*)?\b(\w+)\s*\[\s*\]\s*;"
)


def _point_dynamic_shared(source: str, plain: str) -> str:
    """`extern __shared__ T s[];` becomes a pointer to the block's dynamic shared memory: where it stands, or, at file
    scope, at the head of every function that uses it."""
    edits: list[tuple[int, int, str]] = []
    for m in _EXTERN.finditer(plain):
        kind, name = m.group(1), m.group(2)
        pointer = f"{kind}* const {name} = ({kind}*)simt_dynamic_shared();"
        newlines = "\n" * m.group(0).count("\n")
        if _in_function(plain, m.start()):
            edits.append((m.start(), m.end(), pointer + newlines))
            continue
        edits.append((m.start(), m.end(), newlines))
        for start, end in _bodies(plain, m.end()):
            if re.search(rf"\b{name}\b", plain[start:end]):
                edits.append((start + 1, start + 1, f" {pointer}"))
    for start, end, text in sorted(edits, reverse=True):
        source = source[:start] + text + source[end:]
    return source


def _in_function(plain: str, position: int) -> bool:
    return any(start < position < end for start, end in _bodies(plain, 0))


def _bodies(plain: str, start: int):
    """(start, end) of the braces of each function body: an outermost `{` that follows a parameter list."""
    position = start
    while (position := plain.find("{", position)) >= 0:
        head = plain[:position].rstrip()
        head = re.sub(r"\b(const|noexcept|mutable)$", "", head).rstrip()
        if head.endswith(")"):
            end = _closing(plain, position, "{}")
            yield position, end
            position = end
        else:
            position += 1  # a namespace, a struct, an initialiser: look inside
