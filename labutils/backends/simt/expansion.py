"""The text of a cell after the preprocessor, with the cell's own macros and nobody else's.

Two compilers read a cell, NVIDIA's and the emulator's, each with headers and macros of its own. So the preprocessor
runs first and alone: no header, no predefined macro. What comes out holds neither macros nor conditions, only the
includes and the unroll pragmas, and both compilers get it. No condition can then tell one from the other, and what is
read (`rules`) is what is compiled. Lines keep their numbers.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable

from ...cuda.tokens import Token, split
from . import build
from .errors import CompileError, NeedsGpu
from .source import GPU_HEADERS, HEADERS

LIMIT = 1 << 20
"""Characters that macros may expand to."""

SECONDS = 2
"""CPU time that the preprocessor may take; a cell takes it some milliseconds."""

_OWNED = re.compile(r"__\w*|_[A-Z]\w*|simt(_\w*)?|SIMT_\w*|defined")
"""Names that belong to the compilers and to the emulator: nobody else may give them a meaning."""

_MACROS = {"threadIdx", "blockIdx", "blockDim", "gridDim", "memcpy", "memset", "assert", "printf"}
"""Words of CUDA C++ that are macros in the emulator."""

_PREDEFINED = ("__DATE__", "__TIME__", "__TIMESTAMP__", "__COUNTER__", "__FILE__", "__BASE_FILE__", "__INCLUDE_LEVEL__")

_CONDITIONS = ("if", "ifdef", "ifndef", "elif")

DECIDED = {
    "__CUDA_ARCH__": "800",
    "__CUDACC__": "1",
    "__CUDACC_VER_MAJOR__": "12",
    "__CUDACC_VER_MINOR__": "0",
    "__cplusplus": "201703L",
    "__linux__": "1",
}
"""Macros of NVIDIA's compiler that conditions may ask for, as they are decided: for both compilers in the same way, so
that they get one text. In the code itself they have no place."""

_GUARD = re.compile(r"_+[A-Z][A-Z0-9_]*(?<!__)|_+\w+_(?i:H|HPP|CH|CUH|CU)_*")
"""Names with which files guard themselves and set switches: a text may define them, as nothing."""

_ELSEWHERE = re.compile(r"_?WIN(32|64)|_MSC_VER|__APPLE__|__MACOSX|__QNX\w*|__ANDROID__")
"""Macros of other systems: not defined."""


def refuse(line: int, why: str) -> CompileError:
    """An error at a line, as the compilers' own are shown."""
    return CompileError(f"line {line}: {why}", line)


def joined(source: str) -> str:
    """The text with continued lines joined, its lines keeping their numbers, and without characters that one compiler
    reads differently from another. Raises CompileError."""
    source = source.replace("\r\n", "\n")
    if bad := re.search(r"[^\n\t\f\v -~\x80-\U0010ffff]|[\x80-\x9f\u2028\u2029\ufeff]", source):
        line = source.count("\n", 0, bad.start()) + 1
        raise refuse(
            line, f"the character U+{ord(bad.group()):04X} cannot be seen and has no meaning in C++: delete it"
        )
    lines, waiting = [], 0
    for number, line in enumerate(source.split("\n"), 1):
        if line.endswith("\\"):
            lines.append(line[:-1])
            waiting += 1
            continue
        end = line.rstrip(" \t\f\v")
        if len(end) < len(line) and end.endswith("\\"):
            raise refuse(number, "a backslash at the end of a line has blanks behind it: delete them")
        lines.append(line + "\n" * (1 + waiting))
        waiting = 0
    return "".join(lines)[:-1]


def tokens(text: str) -> list[Token]:
    """The tokens of a text from `joined`; refused are those that compilers split in different ways."""
    found, line = split(text), 1
    for i, token in enumerate(found):
        if token.kind == "raw":
            raise refuse(line, "raw strings cannot be used in a kernel: write an ordinary string")
        if token.kind == "broken":
            raise refuse(line, "a quotation mark or a comment is not closed")
        if token.kind == "sign" and token.text in "<%:?@`$" and _split_differently(found, i):
            raise refuse(
                line, f"trigraphs, digraphs, at signs, backticks and dollar signs cannot be used: `{_around(found, i)}`"
            )
        line += token.text.count("\n")
    return found


def _split_differently(found: list[Token], i: int) -> bool:
    """Is the token a sign that C++ has not, or the beginning of a digraph or trigraph?"""
    text, following = found[i].text, "".join(t.text[:2] for t in found[i + 1 : i + 4])
    if text in "@`$":
        return True
    if text == "?":
        return following[:1] == "?" and following[1:2] in tuple("=/'()!<>-")
    if text == "<":
        return following[:1] == "%" or (following[:1] == ":" and following[:2] != "::")
    return following[:1] in ((":", ">") if text == "%" else (">",))


def _around(found: list[Token], i: int) -> str:
    return "".join(t.text for t in found[i : i + 3])


def directives(
    text: str, nobody_defines: Callable[[list[str], list[str]], bool] | None = None
) -> tuple[str, list[str], bool]:
    """The text with its includes and pragmas replaced by marks, the includes, and whether there is anything left for a
    preprocessor to do. Raises CompileError for what a cell may not ask of it: macros of others too, unless
    `nobody_defines(includes, names)` says that these includes leave them undefined everywhere. Where it may say so,
    conditions may also ask for what is `DECIDED`."""
    lines, includes, needed, foreign = _without_comments(text), [], False, {}
    words = [_directive(line) for line in lines]
    defined = {_macro(rest) for word, rest in filter(None, words) if word == "define"}
    original = text.split("\n")
    for number, found in enumerate(words):
        if found is None:
            _refuse_values(lines[number], number + 1)
            needed = needed or "__LINE__" in lines[number]
            continue
        word, rest = found
        if word == "include":
            includes.append(_include(original[number], number + 1))
            original[number] = f"@include {len(includes) - 1}"
        elif word == "pragma":
            original[number] = _pragma(rest, number + 1)
            needed = needed or bool(original[number])
        else:
            foreign |= {name: (word, number + 1) for name in _asked(word, rest, number + 1) if name not in defined}
            if word not in _CONDITIONS:
                _refuse_values(rest, number + 1)
            needed = True
    names = sorted(n for n in foreign if not (nobody_defines and (n in DECIDED or _ELSEWHERE.fullmatch(n))))
    if names and not (nobody_defines and not any(map(_OWNED.fullmatch, names)) and nobody_defines(includes, names)):
        word, line = foreign[names[0]]
        raise refuse(
            line, f"#{word} may ask only for macros of your own, not `{names[0]}`: a kernel must be the same for every "
            "compiler"
        )  # fmt: skip
    return "\n".join(original), includes, needed


def _without_comments(text: str) -> list[str]:
    """Its lines with comments, and the insides of strings, blank."""
    pieces = []
    for kind, piece, _ in tokens(text):
        if kind in ("comment", "string"):
            piece = re.sub(r"[^\n]", " ", piece)
        pieces.append(piece)
    return "".join(pieces).split("\n")


def _directive(line: str) -> tuple[str, str] | None:
    """The word of a preprocessor's line and what follows it."""
    line = line.lstrip(" \t\f\v")
    if not line.startswith("#"):
        return None
    found = re.match(r"#[ \t\f\v]*(\w*)", line)
    return found[1], line[found.end() :]


def _macro(rest: str) -> str:
    found = re.match(r"\s*(\w+)", rest)
    return found[1] if found else ""


def _include(line: str, number: int) -> str:
    text = "".join(t.text for t in split(line) if t.kind != "comment").strip(" \t\f\v")
    found = re.fullmatch(r'#[ \t\f\v]*include[ \t\f\v]*(<[^<>"]*>|"[^<>"]*")', text)
    if found and found[1][1:-1] not in HEADERS and GPU_HEADERS.fullmatch(found[1][1:-1]):
        raise NeedsGpu(f"line {number}: {found[1]} is not among the emulator's headers", number)
    if not found or found[1][1:-1] not in HEADERS:
        shown = text[:80] if not found else f"#include {found[1]}"
        raise refuse(
            number, f"`{shown}` is not allowed: a kernel may include CUDA's device headers only (cuda_fp16.h, mma.h, "
            "cooperative_groups.h, …)"
        )  # fmt: skip
    return found[1]


def _pragma(rest: str, number: int) -> str:
    if found := re.match(r"\s*unroll\b(.*)", rest):
        return f"@unroll {found[1]}"
    if re.match(
        r"\s*(once|(nv_)?diag_\w+|nv_diagnostic|(clang|GCC) diagnostic)\b", rest
    ):  # what a compiler warns of is no part of a kernel
        return ""
    raise refuse(number, f"`#pragma{rest.rstrip()[:80]}` is not allowed: a kernel may use #pragma unroll only")


def _refuse_values(text: str, number: int) -> None:
    """A condition may ask for what is `DECIDED`, and nothing may use its value."""
    if used := DECIDED.keys() & set(re.findall(r"\w+", text)):
        raise refuse(number, f"`{min(used)}` can only be asked for by #if")


def _asked(word: str, rest: str, number: int) -> set[str]:
    """The macros that a directive asks for. Raises CompileError where the directive is not allowed."""
    if word in ("define", "undef"):
        name = _macro(rest)
        if word == "define" and _GUARD.fullmatch(rest.strip()):
            return set()
        if not name or _OWNED.fullmatch(name) or name in _MACROS:
            raise refuse(number, f"#{word} cannot give `{name}` another meaning: choose another name")
    elif word in _CONDITIONS:
        words = set(re.findall(r"[^\W\d]\w*", rest))
        return words - {"defined", "true", "false", "and", "or", "not"}
    elif word not in ("", "else", "endif", "error"):
        raise refuse(number, f"`#{word}` is not allowed in a kernel")
    return set()


def without_directives(source: str) -> str:
    """The text before the preprocessor with its directives blank, but for what macros stand for. Raises CompileError
    for a directive that is not allowed."""
    text = joined(source)
    directives(text)
    lines = text.split("\n")
    for number, found in enumerate(map(_directive, _without_comments(text))):
        if found and found[0] == "define":
            lines[number] = re.sub(r"^\s*\w+(\([^()]*\))?", "", found[1])
        elif found and found[0] != "include":
            lines[number] = ""
    return "\n".join(lines)


def expand(
    source: str,
    compiler: build.Compiler | None = None,
    nobody_defines: Callable[[list[str], list[str]], bool] | None = None,
) -> str:
    """The text that both compilers get; `nobody_defines` is that of `directives`. Raises CompileError, NoCompiler."""
    text, includes, needed = directives(joined(source), nobody_defines)
    if needed:
        for name in _PREDEFINED:
            if name in text:
                raise CompileError(f"`{name}` differs between compilers and runs: a kernel cannot use it")
        text = _preprocessed(text, compiler or build.compiler())
    return _marks_replaced(text, includes)


@functools.lru_cache(maxsize=64)
def _preprocessed(text: str, compiler: build.Compiler) -> str:
    """Kept in the cache beside what is built of it: a process that may start no program any more finds it there."""
    key = hashlib.sha256(f"{compiler}\0{text}".encode(errors="replace")).hexdigest()[:24]
    kept = build.cache_dir() / f"{key}.i"
    if kept.exists():
        return kept.read_text(encoding="utf-8")
    expanded = _run(text, compiler)
    partial = kept.with_name(f"{kept.name}.{os.getpid()}")
    partial.write_text(expanded, encoding="utf-8")
    os.replace(partial, kept)
    return expanded


def _run(text: str, compiler: build.Compiler) -> str:
    # limits of its own: a few lines of macros can ask for any amount of text, and of time
    limits = f"ulimit -f {LIMIT // 512}; ulimit -t {SECONDS}; ulimit -v 2000000"
    decided = [f"-D{name}={value}" for name, value in DECIDED.items() if name != "__cplusplus"]
    command = ["sh", "-c", f'{limits}; exec "$@"', "sh", *compiler.command, "-E", "-undef", "-nostdinc", *decided,
               "-std=c++17", "-fdiagnostics-color=never", "-x", "c++", "-"]  # fmt: skip
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(
            command, input=text.encode(errors="replace"), stdout=output, stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
        size = output.tell()
        output.seek(0)
        expanded = output.read().decode(errors="replace")
    errors = done.stderr.decode(errors="replace")
    ended = "terminated program" in errors or "compiler error" in errors or "error:" not in errors
    if done.returncode and (ended or size >= LIMIT):
        raise CompileError(f"the macros expand to more than {LIMIT:,} characters: use functions and loops")
    if done.returncode:
        raise build.compile_error(errors, "<stdin>", [])
    return _by_line(expanded, text.count("\n") + 1)


def _by_line(expanded: str, count: int) -> str:
    """The preprocessor's output with every line where it was in the text, and no line markers."""
    lines, number, own = [""] * count, 1, True
    for line in expanded.split("\n"):
        if marker := re.match(r'# (\d+) "([^"]*)"', line):
            number, own = int(marker[1]), marker[2] == "<stdin>"
        else:
            if own and line and number <= count:
                lines[number - 1] += (" " if lines[number - 1] else "") + line
            number += 1
    return "\n".join(lines)


def _marks_replaced(text: str, includes: list[str]) -> str:
    """Directives again where their placeholders are; there are no others."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if "@" not in line and "#" not in line:
            continue
        mark = re.fullmatch(r"\s*@(include|unroll) ?([^@]*)", line)
        if mark:
            lines[i] = f"#include {includes[int(mark[2])]}" if mark[1] == "include" else f"#pragma unroll {mark[2]}"
        elif any(t.text in ("@", "#") for t in split(line)):  # between the brackets of a macro's call, or a _Pragma
            raise refuse(i + 1, "a directive can only stand on a line of its own, and not inside of a macro")
    return "\n".join(lines)
