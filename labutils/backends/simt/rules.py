"""What a kernel may say: CUDA C++ and nothing that only the compiler of this machine knows.

The emulator compiles a kernel for this CPU, so a kernel could ask for far more than a GPU has: attributes that switch
the recording off, the system's functions, machine code. Read here is the text after the preprocessor (`expansion`):
nothing is hidden in a macro any more. Inline PTX passes if it is what the emulator runs, and reaches no compiler
(`ptx`). `inspection` looks at the compiled object for the same things.
"""

from __future__ import annotations

import re
from collections import Counter

from ...cuda.tokens import Token, code, partners
from . import ptx
from .errors import CompileError, NeedsGpu
from .expansion import refuse

UNDERSCORED = re.compile(
    r"__(global|device|host|shared|constant|restrict|forceinline|noinline|launch_bounds|maxnreg|cluster_dims|"
    r"grid_constant|align|inline|syncthreads\w*|syncwarp|threadfence\w*|shfl\w*|ballot\w*|any_sync|all_sync|"
    r"activemask|match\w*|reduce_\w+|popc\w*|clz\w*|ffs\w*|brev\w*|ldg|ldca|ldcg|ldcs|ldlu|ldcv|st\w\w|sad|usad|mul\w+|"
    r"umul\w+|fmaf?\w*|f\w+_r\w|d\w+_r\w|exp\w*f|log\w*f|sinf|cosf|tanf|powf|saturatef|fdividef|sincosf|tanhf|"
    r"float\w*|double\w*|longlong_as_double|int\w*|uint\w*|ll\w*|ull\w*|short\w*|ushort\w*|half\w*|bfloat\w*|low\w*|high\w*|h\w+|"
    r"byte_perm|dp[24]a\w*|v\w+[24]|nv_\w+|NV_(NOSAT|SATFINITE|E4M3|E5M2)|x|pipeline_\w+|nanosleep|assert\w*|prof_trigger|trap|brkpt|cvta_\w+|"
    r"isShared|isGlobal|isLocal|isConstant|unroll|builtin_assume(_aligned)?|builtin_expect|"
    r"barrier_\w+|smem(_d)?|alignof|LINE|VA_ARGS|funnelshift_\w+|\w+2half\w*|\w+2bfloat\w*|\w+_rn|\w+_rz|\w+_ru|\w+_rd)(__)?"
)
"""Names of CUDA that begin with two underscores, and `__smem`, as NVIDIA's samples call a block's memory; all others
are the compiler's."""

_FOREIGN = re.compile(r"__has_\w*|__builtin_(?!assume|expect)\w*|__int128\w*|__float(80|128|16|32|64)\w*")
"""Of those that `UNDERSCORED` lets pass, the ones that are a compiler's after all."""

_EMULATOR = re.compile(r"simt(_\w*)?|SIMT_\w*")

ATTRIBUTES = {"maybe_unused", "nodiscard", "likely", "unlikely", "fallthrough"}

_NO_WORDS = {
    "goto": "jumps by `goto` cannot be recorded: use a loop or a function",
    **dict.fromkeys(("throw", "try", "catch"), "a GPU has no exceptions"),
    **dict.fromkeys(("typeid", "dynamic_cast"), "a GPU has no type information at run time"),
    "thread_local": "use __shared__ for memory of the block, and a local variable for memory of the thread",
    **dict.fromkeys(
        ("co_await", "co_return", "co_yield", "requires", "concept", "consteval", "char8_t", "constinit"),
        "this word of C++20 means nothing to CUDA's compiler, which reads C++17",
    ),
    **dict.fromkeys(("is_constant_evaluated", "source_location"), "it differs between compilers"),
    "_Pragma": "write #pragma unroll on a line of its own",
}  # fmt: skip

_NEEDS_GPU = (
    (re.compile(r"wgmma\w*"), "warpgroup matrix instructions (WGMMA) need a Hopper GPU: an H100 or H200, compute "
     "capability 9.0"),
    (re.compile(r"cp_async_bulk\w*|CUtensorMap|cuTensorMap\w*|tma_\w+"), "bulk copies by the tensor memory accelerator "
     "(TMA) need an H100, H200 or newer GPU, compute capability 9.0"),
    (re.compile(r"__cluster_dims__|cluster_group|this_cluster|clusterIdx|clusterDim|__cluster\w+"), "thread block "
     "clusters need an H100, H200 or newer GPU, compute capability 9.0"),
    (re.compile(r"cuda(Texture|Surface)Object_t|CUtexObject|CUsurfObject|tex[123]D\w*|texCubemap\w*|surf[123]D\w*"),
     "textures and surfaces are hardware of a GPU: here, read the array itself"),
    (re.compile(r"pipeline_role"), "a pipeline whose threads only produce or only consume needs a GPU: here, let all "
     "threads do both"),
    (re.compile(r"tcgen05\w*"), "tcgen05 instructions need a Blackwell GPU: a B200, compute capability 10.0"),
)  # fmt: skip

_EMULATED = re.compile(r"wgmma\w*|CUtensorMap|tma_\w+")
"""What the emulator has where a cell includes lab/hopper.cuh."""

_RUNTIME = re.compile(r"cuda(Malloc|Free|Memcpy|Memset|DeviceSynchronize|GetLastError|Stream|Event)\w*")

_SPECIFIERS = {"const", "volatile", "static", "constexpr", "inline", "extern", "register", "signed", "unsigned", "int",
               "long", "double", "typedef", "mutable"}  # fmt: skip

_CUDAS_NAMESPACES = {"cooperative_groups", "nvcuda", "wmma", "cuda", "std"}

_STANDARD = re.compile(
    r"move|forward|numeric_limits|is(inf|nan|finite)|(integral|bool)_constant|(true|false)_type|"
    r"(enable_if|conditional|void)(_t)?|(remove|is)_\w+"
)
"""Names of <utility>, <type_traits>, <limits> and <cmath>: those of `std` that the emulator has."""

_CUDAS_VARIABLES = frozenset(("threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize"))

_CUDAS_CLASSES = frozenset(
    ("thread_block", "grid_group", "thread_block_tile", "coalesced_group", "thread_group", "fragment", "pipeline",
     "pipeline_shared_state", "barrier", "atomic", "atomic_ref")
)  # fmt: skip
"""Classes of whose layout CUDA's documentation says nothing: the emulator's have another."""

_DEEPEST = 64
"""Tokens that are looked at behind a word: enough for anything that people write, and a bound on the time."""

_POINTERS = "function pointers and virtual functions run on a GPU only; here, use a template parameter or a lambda"


def check(text: str) -> None:
    """Read the text of a kernel after the preprocessor. Raises CompileError, or NeedsGpu if only a GPU can tell."""
    reader = check_words(text)
    for i, token in enumerate(reader.found):
        if token.kind == "sign":
            reader.bracket(i)
    if reader.inline_ptx:
        ptx.translated(text)  # raises where it is nothing that the emulator runs


def check_words(text: str) -> _Reader:
    """Read what can be read before the preprocessor too, when brackets are not in pairs yet; raises the same."""
    reader = _Reader(text, code(text))
    for i, token in enumerate(reader.found):
        if token.kind == "word":
            reader.word(i)
        elif token.kind == "number":
            reader.number(i)
        elif token.kind == "sign":
            reader.sign(i)
    return reader


def is_cudas(word: str) -> bool:
    """May a kernel use this word? Names of the compilers' and of the emulator's are theirs."""
    if _EMULATOR.fullmatch(word) or re.match(r"_[A-Z]", word):
        return False
    return not word.startswith("__") or bool(UNDERSCORED.fullmatch(word)) and not _FOREIGN.fullmatch(word)


class _Reader:
    """The rules, one token at a time; each looks at a bounded number of neighbors or at each bracket once."""

    def __init__(self, text: str, found: list[Token]):
        self.text, self.found, self.partner = text, found, partners(found)
        self.hopper = "<lab/hopper.cuh>" in text
        self.functions = self._functions()
        self.fixed = self._fixed_pointers()
        """Brackets of types of function pointers that only template parameters have."""
        self.inline_ptx: int | None = None
        """The line of the first asm statement."""
        self._at, self._line = 0, 1

    def _functions(self) -> set[str]:
        """Names that are defined as functions, and as nothing else that has an address."""
        functions, variables = set(), set()
        for i, token in enumerate(self.found[:-1]):
            if (
                token.kind != "word"
                or not i
                or self.found[i - 1].kind != "word"
                and self.found[i - 1].text not in "*&>"
            ):
                continue
            if self.is_sign(i + 1, "("):
                close = self.partner[i + 1]
                if self.is_sign(close + 1, "{"):
                    functions.add(token.text)
            elif self.found[i + 1].text in "=;[,{)" and self._is_type(i - 1) and self._is_type(i - 2, True):
                variables.add(token.text)
        return functions - variables

    def _fixed_pointers(self) -> set[int]:
        """The brackets `(*` of function pointers that are template parameters, and of aliases that are used for nothing
        else: which function is called is then known as the kernel is compiled. (`inspection` sees what is not.)"""
        inside = self._template_parameters()
        fixed = {i for i in inside if self.is_sign(i, "(") and self.is_sign(i + 1, "*")}
        outside = Counter(token.text for i, token in enumerate(self.found) if i not in inside)
        for i, token in enumerate(self.found[:-5]):
            if token.text != "using" or i in inside or not self.is_word(i + 1) or not self.is_sign(i + 2, "="):
                continue
            at = next((k for k in range(i + 3, min(i + _DEEPEST, len(self.found))) if self.found[k].text in "(;"), i)
            named_once = outside[self.found[i + 1].text] == 1  # here
            if self.is_sign(at, "(") and self.is_sign(at + 1, "*") and named_once:
                fixed.add(at)
        return fixed

    def _template_parameters(self) -> set[int]:
        """The tokens between the angle brackets of every `template <…>` that holds no statement and no comparison: a
        `<` that opens no bracket would let the list go on behind its end."""
        inside: set[int] = set()
        for i, token in enumerate(self.found):
            if token.text != "template" or not self.is_sign(i + 1, "<"):
                continue
            depth = 0
            for k in range(i + 1, min(i + 4 * _DEEPEST, len(self.found))):
                depth += self.is_sign(k, "<") - self.is_sign(k, ">")
                if depth == 0:
                    inside.update(range(i + 1, k))
                if depth == 0 or self.found[k].text in ";{}":
                    break
        return inside

    def line(self, i: int) -> int:
        """The line of a token; asked for tokens in rising order it counts each character once."""
        start = self.found[i].start
        if start < self._at:
            self._at, self._line = 0, 1
        self._line += self.text.count("\n", self._at, start)
        self._at = start
        return self._line

    def is_sign(self, i: int, text: str) -> bool:
        return 0 <= i < len(self.found) and self.found[i].kind == "sign" and self.found[i].text == text

    def is_word(self, i: int, *texts: str) -> bool:
        return 0 <= i < len(self.found) and self.found[i].kind == "word" and (not texts or self.found[i].text in texts)

    def refuse(self, i: int, why: str) -> CompileError:
        return refuse(self.line(i), why)

    def needs_gpu(self, i: int, why: str) -> NeedsGpu:
        return NeedsGpu(f"line {self.line(i)}: {why}", self.line(i))

    # --- words

    def word(self, i: int) -> None:
        """Is this word one of CUDA C++, used as CUDA C++ has it?"""
        text = self.found[i].text
        if text in ptx.WORDS or (text in ptx.VOLATILE and i and self.found[i - 1].text in ptx.WORDS):
            self.inline_ptx = self.inline_ptx or self.line(i)
            return
        if len(text) > 1000 or not text.isascii():
            raise self.refuse(
                i, f"`{text[:40]}` cannot be a name here: use the letters a to z, and at most 1000 of them"
            )
        if _EMULATOR.fullmatch(text):
            raise self.refuse(i, f"`{text}` is a name of the emulator: choose another")
        if not is_cudas(text) and text not in _NO_WORDS:
            raise self.refuse(i, f"`{text}` is no function or word of CUDA C++")
        if text in _NO_WORDS:
            raise self.refuse(i, f"`{text}` cannot be used in a kernel: {_NO_WORDS[text]}")
        for pattern, sentence in _NEEDS_GPU:
            if pattern.fullmatch(text) and not (self.hopper and _EMULATED.fullmatch(text)):
                raise self.needs_gpu(i, sentence)
        self._host_word(i, text)
        if special := getattr(self, f"_{text}", None) if text in _SPECIAL else None:
            special(i)

    def _host_word(self, i: int, text: str) -> None:
        if _RUNTIME.fullmatch(text):
            raise self.refuse(i, "calls to the CUDA runtime are host code: here Python allocates, copies and launches")
        cudas = self.is_sign(i - 1, "::") and self.is_word(i - 2, "cuda")
        named = self.found[i + 2].text if i + 2 < len(self.found) else ""
        if text == "std" and self.is_sign(i + 1, "::") and not cudas and not _STANDARD.fullmatch(named):
            raise self.refuse(i, "`std::` is the host's library: a kernel can call device functions only")
        if text == "main" and self.is_sign(i + 1, "(") and self.is_word(i - 1, "int", "void"):
            raise self.refuse(i, "`main` is host code: the cell holds kernels and device functions only")
        if text in ("memcpy", "memset", "memmove", "memcmp", "printf") and not self.is_sign(i + 1, "("):
            raise self.refuse(i, f"`{text}` can only be called: `{text}(…)`")

    def _long(self, i: int) -> None:
        """`long double`, in any order and with other specifiers between."""
        step = i
        while self.is_word(step + 1) and self.found[step + 1].text in _SPECIFIERS and step < i + 8:
            step += 1
            if self.found[step].text == "double":
                raise self.refuse(i, "`long double` is a type that a GPU does not have: use double")

    def _double(self, i: int) -> None:
        step = i
        while self.is_word(step + 1) and self.found[step + 1].text in _SPECIFIERS and step < i + 8:
            step += 1
            if self.found[step].text == "long":
                raise self.refuse(i, "`long double` is a type that a GPU does not have: use double")

    def _extern(self, i: int) -> None:
        """Only `extern __shared__`, and the linkage of a function that is defined here."""
        following = [t.text for t in self.found[i + 1 : i + 8]]
        if "__shared__" in following:
            return
        if following[:1] == ['"C"'] and (following[1:2] == ["{"] or _in_line(following[1:])):
            return
        raise self.refuse(i, "`extern` declares what is defined elsewhere: a kernel can use what its own cell defines")

    def _virtual(self, i: int) -> None:
        raise self.needs_gpu(i, _POINTERS)

    def _operator(self, i: int) -> None:
        if self.is_word(i + 1, "new", "delete"):
            raise self.refuse(i, "a kernel cannot define how memory is allocated")

    def _namespace(self, i: int) -> None:
        """Nobody adds to a namespace of CUDA's. An alias for one, or its use, is followed by no brace."""
        end = i + 1
        while end < i + _DEEPEST and (self.is_word(end) or self.is_sign(end, "::")):
            end += 1
        names = {t.text for t in self.found[i + 1 : end]} & _CUDAS_NAMESPACES
        if (names and self.is_sign(end, "{")) or end == i + _DEEPEST:
            raise self.refuse(i, f"the namespace `{min(names, default='…')}` is not yours: choose another name")

    def _decltype(self, i: int) -> None:
        """Of a name of the cell's own: of an expression, or of a variable that CUDA declares, it can ask what only one
        compiler's headers have. The emulator declares dynamic shared memory, too."""
        if self.is_sign(i + 1, "(") and self.partner[i + 1] > i + 3:
            raise self.refuse(i, "`decltype` of an expression cannot be used here: name the type, or use auto")
        if self.is_word(i + 2) and (self.found[i + 2].text in _CUDAS_VARIABLES | self._dynamic_shared()):
            raise self.refuse(i, f"`decltype({self.found[i + 2].text})` cannot be used here: name the type")

    def _dynamic_shared(self) -> set[str]:
        """Names of the arrays that are declared with `extern __shared__`."""
        return {
            self.found[k - 1].text
            for k, token in enumerate(self.found)
            if token.text == "[" and self.is_sign(k + 1, "]") and self.is_word(k - 1)
        }

    def _sizeof(self, i: int) -> None:
        """Of a type or a variable: of a call or a member it can ask what only one compiler's headers have."""
        inside = self.found[i + 2 : min(self.partner[i + 1], i + _DEEPEST)] if self.is_sign(i + 1, "(") else []
        if any(t.kind == "sign" and t.text in ("(", ".", "->") for t in inside):
            raise self.refuse(i, f"`{self.found[i].text}` of a call or a member cannot be used here: name the type")
        if any(t.kind == "word" and t.text in _CUDAS_CLASSES for t in inside):
            raise self.refuse(i, f"`{self.found[i].text}` of a class of CUDA's own cannot be used here: it is opaque")

    _noexcept = _alignof = _sizeof

    # --- signs and numbers

    def sign(self, i: int) -> None:
        """Is this sign part of something that a kernel may not say?"""
        token = self.found[i]
        if token.text == "\\":
            raise self.refuse(i, "a backslash can only stand in a string or at the end of a line")
        if not token.text.isascii() or token.text in "@`$":
            raise self.refuse(i, f"the sign {token.text} has no meaning in C++")
        if token.text == "[" and self.is_sign(i + 1, "["):
            self._attribute(i)
        elif token.text == "<" and self._adjacent(i, "<<<"):
            raise self.refuse(i, "a launch `<<<…>>>` is host code: here Python launches the kernel")

    def bracket(self, i: int) -> None:
        """Is this sign part of a function pointer, an address of code, or a parameter list that takes anything?"""
        token = self.found[i]
        if token.text == "(":
            self._parameters(i)
        elif token.text == "&&" and self.is_word(i + 1) and not self._is_operand(i - 1) and not self._is_type(i - 1):
            raise self.refuse(i, "the address of a label cannot be taken")
        elif token.text == "&" and i + 1 < len(self.found) and self.found[i + 1].text in self.functions:
            if self.is_sign(i + 2, "("):
                return  # of what it returns
            raise self.needs_gpu(i, _POINTERS)

    def _attribute(self, i: int) -> None:
        inside = [t.text for t in self.found[i + 2 : self.partner[i + 1]]]
        if not inside or set(inside) - ATTRIBUTES - {","}:
            shown = "".join(inside)[:80]
            raise self.refuse(i, f"`[[{shown}]]` is no attribute of CUDA C++: delete it")

    def _parameters(self, i: int) -> None:
        if i in self.fixed:
            return
        if self.found[i + 1 : i + 5] and [t.text for t in self.found[i + 1 : i + 5]] == [".", ".", ".", ")"]:
            raise self.refuse(i, "`(...)` takes any arguments: name the parameters")
        pointer = self.is_sign(i + 1, "*") or (self.is_sign(i + 1, "&") and self._is_type(i - 1))
        member = self.is_word(i + 1) and self.is_sign(i + 2, "::") and self.is_sign(i + 3, "*")
        short = self.partner[i] - i < _DEEPEST
        if short and (pointer or member) and self._is_type(i - 1) and self.is_sign(self.partner[i] + 1, "("):
            inside = self.found[i + 1 : self.partner[i]]
            if all(t.kind == "word" or t.text in "*&[]::" or t.kind == "number" for t in inside):
                raise self.needs_gpu(i, _POINTERS)

    def _adjacent(self, i: int, signs: str) -> bool:
        tokens = self.found[i : i + len(signs)]
        return "".join(t.text for t in tokens) == signs and tokens[-1].start - tokens[0].start == len(signs) - 1

    def _is_operand(self, i: int) -> bool:
        """Is the token the end of an operand, so that what follows it is a binary operator?"""
        if i < 0:
            return False
        token = self.found[i]
        if token.kind == "word":
            return token.text not in ("return", "case", "else", "do", "and", "or", "not", "sizeof")
        return token.kind in ("number", "string") or token.text in (")", "]", "}")

    def _is_type(self, i: int, or_before: bool = False) -> bool:
        """Can the token be the end of a type? With `or_before`, or stand before one that is a single word?"""
        if i < 0 or (or_before and self.found[i + 1].kind == "word"):
            return or_before
        if self.found[i].kind == "word":
            return self.found[i].text not in (
                "return",
                "case",
                "else",
                "do",
                "and",
                "or",
                "not",
                "sizeof",
                "while",
                "if",
            )
        return self.found[i].text in (">", "*", "&", "&&")

    def number(self, i: int) -> None:
        """A number of a type that a GPU has."""
        text = self.found[i].text
        if len(text) > 1000:
            raise self.refuse(i, "a number has at most 1000 digits")
        hexadecimal = text[:2] in ("0x", "0X")
        exponent = "pP" if hexadecimal else "eE"
        if "." not in text and not any(c in text for c in exponent):
            return
        digits = "0-9a-fA-F.'" if hexadecimal else "0-9.'"
        if not re.fullmatch(rf"(0[xX])?[{digits}]*([{exponent}][+-]?[0-9']+)?[fF]?", text):
            raise self.refuse(i, f"{text[:80]} is a number of a type that a GPU does not have")


_SPECIAL = {"long", "double", "extern", "virtual", "operator", "namespace", "decltype", "sizeof",
            "noexcept", "alignof"}  # fmt: skip
"""Words with a rule of their own: the method of that name with an underscore before it."""


def _in_line(following: list[str]) -> bool:
    """Does a definition with C linkage begin like one of a kernel or device function?"""
    return following[:1] in (
        ["__global__"],
        ["__launch_bounds__"],
        ["__device__"],
        ["__constant__"],
        ["static"],
        ["inline"],
        ["__forceinline__"],
    )
