"""`__launch_bounds__`: how many threads a kernel may be launched with, as the compiler works it out.

The number is any constant expression, of template parameters too. So each kernel gets a function beside it, behind its
body on the same line, that returns what its bounds say; the build's tail asks that of the instances that are wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...cuda.tokens import Token, code, partners

BOUNDS = "__launch_bounds__"
BEFORE_NAMES = (BOUNDS, "__maxnreg__", "__cluster_dims__", "alignas")
"""What may stand between `__global__` and a kernel's name with an argument of its own."""

_SPECIFIERS = ("static", "inline", "extern", "void", '"C"')


@dataclass(frozen=True)
class _Kernel:
    """A declaration of a kernel: its template's head, its name with the arguments of a specialization behind it, what
    its bounds say, and where it ends. `is_defined`: with a body."""

    head: str
    name: str
    arguments: str
    bounds: str
    end: int
    is_defined: bool

    def function(self, declared: _Kernel | None) -> str:
        """The function that tells its bounds, or those of the declaration before it."""
        said = self if self.bounds or declared is None else declared
        name = f"simt_bounds_{self.name}{self.arguments}"
        return f" {said.head} constexpr unsigned {name}() {{ return {said.bounds or 0}; }}"


def told(text: str) -> tuple[str, bool]:
    """The text with a function beside each kernel that tells its bounds, if any kernel has some; whether one has."""
    if BOUNDS not in text:
        return text, False
    pieces, last, declared, known = [], 0, {}, set()
    for kernel in _Kernels(text).all():
        before = declared.get(kernel.name)
        if not kernel.is_defined:
            if before is None or kernel.bounds:
                declared[kernel.name] = kernel
            continue
        pieces.append(text[last : kernel.end])
        if kernel.arguments and before and kernel.name not in known:
            pieces.append(before.function(None))
        pieces.append(kernel.function(None if kernel.arguments else before))
        known.add(kernel.name)
        last = kernel.end
    return "".join([*pieces, text[last:]]), True


def tail(names: Iterable[str]) -> str:
    """What is compiled behind the text, so that `simt_describe_N` tells the bounds of kernel N."""
    lines = []
    for number, name in enumerate(names):
        plain, less, arguments = name.partition("<")
        space, colons, plain = plain.strip().rpartition("::")
        called = f"{space}{colons}simt_bounds_{plain.strip()}{less}{arguments}()"
        lines.append(f"template <> constexpr unsigned simt::launch_bounds<{number}> = {called};\n")
    return '\n#line 1 "kernel entry"\n' + "".join(lines)


class _Kernels:
    """The kernels of a text, by its tokens."""

    def __init__(self, text: str):
        self.found = code(text)
        self.partner = partners(self.found)
        self.opening = {close: i for i, close in enumerate(self.partner) if close != i}

    def at(self, i: int) -> str:
        return self.found[i].text if 0 <= i < len(self.found) else ""

    def all(self) -> Iterator[_Kernel]:
        """Each declaration of a kernel, in order."""
        begin = i = 0
        template: int | None = None
        while i < len(self.found):
            here = self.at(i)
            if here in (";", "{", "}"):
                begin, template = i + 1, None
            elif here == "template" and self.at(i + 1) == "<" and template is None:
                template = i
            elif here == "(":
                i = self.partner[i]
            elif here == "__global__":
                kernel, i = self._kernel(begin, i, template)
                if kernel:
                    yield kernel
                begin, template = i, None
                continue
            i += 1

    def _kernel(self, begin: int, at: int, template: int | None) -> tuple[_Kernel | None, int]:
        """The kernel whose `__global__` is token `at`, and the token at which what follows is read."""
        name = at + 1
        while name < len(self.found) and self.at(name) not in (";", "{", "}", "__global__"):
            opens = self.at(name + 1)
            if self.found[name].kind == "word" and self.at(name) in BEFORE_NAMES and opens == "(":
                name = self.partner[name + 1]
            elif self.found[name].kind == "word" and opens in ("(", "<") and self.at(name) != "alignas":
                break
            name += 1
        parameters = name + 1
        while parameters < len(self.found) and self.at(parameters) not in ("(", ";", "{", "}", "__global__"):
            parameters += 1
        if self.at(parameters) != "(" or name >= len(self.found):
            return None, name
        end = self.partner[parameters] + 1
        while end < len(self.found) and self.at(end) not in (";", "{", "}", "__global__"):
            end = self.partner[end] + 1
        if self.at(end) not in (";", "{"):
            return None, end
        said = [*self._bounds(begin, name), *self._bounds(self.partner[parameters], end)]
        defined = self.at(end) == "{"
        last = self.partner[end]
        kernel = _Kernel(
            self._head(at, template), self.at(name), self._text(name + 1, parameters), _tightest(said),
            self.found[last].end, defined,
        )  # fmt: skip
        return kernel, last + 1

    def _bounds(self, start: int, end: int) -> Iterator[str]:
        """The arguments of the launch bounds among these tokens."""
        for i in range(start, end - 1):
            if self.at(i) == BOUNDS and self.at(i + 1) == "(":
                yield self._text(i + 2, self.partner[i + 1])

    def _head(self, at: int, template: int | None) -> str:
        """`template <…>` before the kernel whose `__global__` is token `at`; empty where it is none."""
        last = at - 1
        while self.at(last) in _SPECIFIERS or self.at(self.opening.get(last, 0) - 1) in BEFORE_NAMES:
            last = self.opening[last] - 2 if self.at(last) == ")" else last - 1
        if template is None or self.at(last) != ">" or last <= template:
            return ""
        return self._text(template, last + 1)

    def _text(self, start: int, end: int) -> str:
        """These tokens on one line, apart where they are apart."""
        pieces: list[str] = []
        before: Token | None = None
        for token in self.found[start:end]:
            pieces += [" "] if before and before.end < token.start else []
            pieces.append(token.text)
            before = token
        return "".join(pieces)


def _tightest(said: list[str]) -> str:
    together = ""
    for arguments in said:
        one = f"simt::bounds({arguments})"
        together = f"simt::tighter({together}, {one})" if together else one
    return together
