"""What a kernel cell may hold of a CUDA file: its device code, with every line where it was.

A file is split into directives and top-level declarations. Host functions, other kernels, headers of the host and
bindings to Python are left out; headers of the same repository are put in the place of their `#include`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from labutils.cuda.tokens import Token, split

DEVICE = frozenset(("__global__", "__device__", "__constant__", "__shared__", "__managed__"))
DECLARES = frozenset(
    ("struct", "class", "union", "enum", "typedef", "using", "const", "constexpr", "static_assert", "namespace")
)
CUDA_HEADER = re.compile(
    r"cuda(_(?!profiler|gl)\w+)?\.h|cuda/.*|mma\.h|cooperative_groups.*|cub/.*|cute/.*|cutlass/.*|vector_types\.h"
    r"|math_constants\.h|device_launch_parameters\.h|type_traits|c?(assert|float|limits|math|stddef|stdint|stdio)(\.h)?"
)


@dataclass(frozen=True)
class _Item:
    """A directive, a declaration or the bracket of a namespace; `words` are those of its code."""

    kind: str
    text: str
    words: tuple[str, ...]


def device_code(
    read: Callable[[str], str],
    path: str,
    kernel: str,
    keep: Collection[str] = (),
    drop: Collection[str] = (),
    folders: Collection[str] = (),
) -> str:
    """The device code of the file `path` for one kernel. `read` gives a file's text or raises FileNotFoundError.

    `keep` and `drop` name declarations that the rules get wrong; `folders` are searched for headers.
    """
    seen: set[str] = set()
    marks = set(DEVICE)

    def taken(path: str) -> str:
        seen.add(path)
        return "".join(piece(path, item) for item in _items(read(path)))

    def piece(path: str, item: _Item) -> str:
        gap = "\n" * item.text.count("\n")
        if item.kind == "directive":
            return directive(path, item.text, gap)
        if item.kind == "bracket":
            return item.text
        return item.text if _wanted(item, kernel, marks, keep, drop) else gap

    def directive(path: str, text: str, gap: str) -> str:
        code = _without_comments(text)
        if match := re.match(r'\s*#\s*include\s*([<"])([^>"]+)', code):
            quoted, name = match[1] == '"', match[2]
            for folder in (posixpath.dirname(path), *folders) if quoted else folders:
                inside = posixpath.normpath(posixpath.join(folder, name))
                if inside in seen:
                    return gap
                try:
                    return gap + taken(inside)
                except FileNotFoundError:
                    continue
            return f"{gap}#include <{name}>" if CUDA_HEADER.fullmatch(name) else gap
        if re.match(r"\s*#\s*pragma\s+once", code):
            return gap
        if match := re.match(r"\s*#\s*define\s+(\w+)", code):
            words = set(re.findall(r"\w+", code[match.end() :]))
            if words & marks:
                marks.add(match[1])
            if match[1] in drop or "__FILE__" in words:  # a host's check of an error
                return gap
        return text

    return taken(path)


def _wanted(item: _Item, kernel: str, marks: set[str], keep: Collection[str], drop: Collection[str]) -> bool:
    words = set(item.words)
    if words & set(drop) and not (kernel in words and "__global__" in words):
        return False
    if words & set(keep):
        return True
    if "__global__" in words:
        return kernel in item.words[: _header(item)]
    if words & marks:
        return True
    first = [w for w in item.words[:6] if w != "static"]
    if item.kind == "function" or "torch" in words:
        return "constexpr" in first
    return bool(set(first[:1] if first[:1] != ["template"] else item.words) & DECLARES)


def _header(item: _Item) -> int:
    """The number of words before a function's body."""
    return len(re.findall(r"[A-Za-z_]\w*", _without_comments(item.text).split("{")[0]))


def _without_comments(text: str) -> str:
    return "".join(" " if t.kind == "comment" else t.text for t in split(text))


def _items(text: str) -> Iterator[_Item]:
    """The parts of a file in order; joined, their texts are the file."""
    tokens = split(text)
    begin, depth, code, i = 0, 0, [], 0
    function = False

    def item(kind: str, end: int) -> _Item:
        return _Item(kind, "".join(t.text for t in tokens[begin:end]), tuple(t.text for t in code if t.kind == "word"))

    while i < len(tokens):
        token = tokens[i]
        if token.kind in ("space", "comment"):
            i += 1
            continue
        if token.text == "#" and _begins_line(tokens, i):
            end = _directive_end(tokens, i)
            if not code:
                yield item("directive", end)
                begin = end
            i = end
            continue
        sign = token.text if token.kind == "sign" else ""
        if not depth and len(code) > 2 and sign not in ("{", ";", ":", "=", "[", ",") and _is_call(code):
            yield item("call", i)  # a macro without a semicolon
            begin, code = i, []
        code.append(token)
        i += 1
        if sign in ("(", "[", "{"):
            if sign == "{" and not depth:
                if _opens_scope(code):
                    yield item("bracket", i)
                    begin, code = i, []
                    continue
                of_type = code[0].text in ("typedef", "struct", "class", "union", "enum")  # it may be aligned
                function = len(code) > 1 and code[-2].text in (")", "const", "noexcept") and not of_type
            depth += 1
        elif sign in (")", "]", "}"):
            if not depth:  # the end of a namespace
                yield item("bracket", i)
                begin, code = i, []
                continue
            depth -= 1
            if sign == "}" and not depth and function:
                yield item("function", i)
                begin, code, function = i, [], False
        elif sign == ";" and not depth:
            yield item("declaration", i)
            begin, code, function = i, [], False
    if begin < len(tokens):
        yield item("declaration" if code else "directive", len(tokens))


def _begins_line(tokens: list[Token], i: int) -> bool:
    while i and tokens[i - 1].kind in ("space", "comment"):
        i -= 1
        if "\n" in tokens[i].text:
            return True
    return i == 0


def _directive_end(tokens: list[Token], i: int) -> int:
    """Behind the directive's last token: before the first line end that no backslash precedes."""
    while i < len(tokens):
        token = tokens[i]
        if token.kind == "space" and "\n" in token.text and tokens[i - 1].text != "\\":
            return i
        i += 1
    return i


def _is_call(code: list[Token]) -> bool:
    """Is this NAME(…), in capitals, and nothing else?"""
    if not re.fullmatch(r"[A-Z][A-Z0-9_]+", code[0].text) or code[1].text != "(" or code[-1].text != ")":
        return False
    depth = 0
    for n, token in enumerate(code[1:], 1):
        depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        if not depth:
            return n == len(code) - 1
    return False


def _opens_scope(code: list[Token]) -> bool:
    words = [t.text for t in code]
    return words[0] in ("namespace", "inline") and "namespace" in words[:2] or words == ["extern", '"C"', "{"]
