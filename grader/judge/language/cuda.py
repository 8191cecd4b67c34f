"""CUDA C++: nothing that would tell the compilers apart that read it, or reach past the language."""

from __future__ import annotations

import re

from .refusal import NotAKernel

HEADERS = {
    "cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "mma.h", "cooperative_groups.h", "cooperative_groups/reduce.h",
    "cooperative_groups/memcpy_async.h", "cooperative_groups/scan.h", "cuda_pipeline.h", "cuda/pipeline",
    "cuda/barrier", "cuda/ptx", "cuda.h", "cuda_runtime.h", "math_constants.h", "cuda/std/limits", "cuda/std/cstdint",
    "cuda/std/utility", "cuda_pipeline_primitives.h", "cuda/atomic", "cuda/std/array", "cuda/std/type_traits",
    "lab/hopper.cuh", "lab/mma.cuh",
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
        kind, token_text = token.lastgroup, token.group()
        if kind in ("raw", "broken"):
            what = "raw strings" if kind == "raw" else "a quotation mark or a comment that is not closed"
            raise NotAKernel(f"a kernel may not hold {what}", source.count("\n", 0, token.start()))
        blanked = re.sub(r"[^\n]", " ", token_text)
        code.append(blanked if kind == "comment" else token_text)
        text.append(
            blanked
            if kind == "comment"
            else token_text[0] + blanked[1:-1] + token_text[-1]
            if kind == "string"
            else token_text
        )
        if kind == "number":
            fraction = re.search(r"[.]|^(?!0[xX])[\d']*[eE]|[pP]", token_text)
            suffix = re.search(r"[a-zA-Z]*$", token_text)[0]
            if (
                fraction
                and suffix.lower() not in ("", "f")
                and not re.fullmatch(r"(?i)0x[\da-f.']*p[+-]?\d+f?", token_text)
            ):
                raise NotAKernel(f"{token_text} is a number of a type that a GPU does not have")
    return "".join(code), "".join(text)


def check(spec: dict) -> None:
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
