"""The learner's source: which kernels it holds, and the few places that must be rewritten.

Everything else of CUDA C++ is C++ that the headers in `include/` make compile as it stands. A rewrite never adds or
removes a line, so that line numbers stay the learner's. All readers below pass over the tokens once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...cuda.tokens import Token, code, partners
from . import bounds

HEADERS = frozenset(
    re.findall(
        r"\S+",
        """cuda.h cuda_runtime.h cuda_runtime_api.h device_launch_parameters.h math_constants.h vector_types.h
    cuda_fp16.h cuda_bf16.h cuda_fp8.h mma.h cooperative_groups.h cooperative_groups/reduce.h cooperative_groups/scan.h
    cooperative_groups/memcpy_async.h cuda_pipeline.h cuda_pipeline_primitives.h cuda/pipeline
    cuda/atomic cuda/barrier cuda/std/type_traits
    stdint.h cstdint stddef.h cstddef stdio.h cstdio math.h cmath assert.h cassert float.h cfloat limits.h
    climits limits type_traits utility lab/hopper.cuh lab/mma.cuh""",
    )
)

GPU_HEADERS = re.compile(r"cuda/(std/\w+|ptx|semaphore|latch|functional)|cub/[\w./]+")
"""Headers of CUDA that the emulator does not have, and NVIDIA's compiler does."""

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
    bounded: bool = False
    """Does a kernel have launch bounds? Then each of them has a function that tells its own (bounds.py)."""


def prepare(text: str) -> Prepared:
    """Find the kernels and the memory of a text that has been read (`rules`); rewrite its dynamic shared arrays."""
    text, bounded = bounds.told(_shared_first(text))
    cell = _Cell(text)
    prepared = Prepared(text, bounded=bounded)
    prepared.kernels, prepared.templates = cell.kernels()
    prepared.shared = cell.shared_arrays()
    prepared.constants = cell.constants()
    prepared.text = cell.with_dynamic_shared()
    return prepared


_ALIGNED = ("__align__", "alignas")


def _shared_first(text: str) -> str:
    """`extern T __shared__ s[];` as `extern __shared__ T s[];`, and `static __shared__` without the word that it means
    in any case; of the same length."""
    found = code(text)
    for i, token in enumerate(found):
        if token.text == "static" and "__shared__" in (
            t.text for t in (*found[i + 1 : i + 2], *found[max(i, 1) - 1 : i])
        ):
            text = f"{text[: token.start]}{' ' * len(token.text)}{text[token.end :]}"
        if token.text != "extern":
            continue
        end = next((t for t in found[i + 1 : i + 8] if t.text in ("__shared__", ";", "[")), None)
        if end and end.text == "__shared__" and end != found[i + 1]:
            kind = text[token.end : end.start]
            text = f"{text[: token.end]} __shared__{kind[:-1] if kind[-1].isspace() else kind}{text[end.end :]}"
    return text


@dataclass
class _Dynamic:
    """`extern __shared__ T s[];`: its tokens from `first` to `last`, the type as it is written, the name, and the
    lengths that follow the empty brackets, such as `[16]`."""

    first: int
    last: int
    kind: str
    name: str
    lengths: str


class _Cell:
    """The tokens of a cell, with the partner of each bracket."""

    def __init__(self, text: str):
        self.text, self.found = text, code(text)
        self.partner = partners(self.found)

    def at(self, i: int) -> str:
        """The text of token `i`; nothing behind the end."""
        return self.found[i].text if 0 <= i < len(self.found) else ""

    def kernels(self) -> tuple[dict[str, list[str]], set[str]]:
        """Names of the kernels with those of their parameters; names of those that are templates."""
        kernels: dict[str, list[str]] = {}
        templates, template, i = set(), False, 0
        while i < len(self.found):
            here = self.at(i)
            if here in (";", "}"):
                template = False
            elif here == "template" and self.at(i + 1) == "<":
                template = True
            elif here == "__global__":
                i += 1
                while i < len(self.found) and self.at(i) not in (";", "{", "}", "__global__"):
                    if self.at(i + 1) == "(" and self.found[i].kind == "word":
                        if self.at(i) not in bounds.BEFORE_NAMES:
                            kernels[self.at(i)] = self._parameters(i + 1)
                            templates |= {self.at(i)} if template else set()
                            i = self.partner[i + 1]
                            break
                        i = self.partner[i + 1]
                    i += 1
                continue
            i += 1
        return kernels, templates

    def _parameters(self, opening: int) -> list[str]:
        """The names of the parameters between the brackets that open there."""
        names = []
        for n, part in enumerate(self._parts(opening + 1, self.partner[opening])):
            texts = [t.text for t in part]
            if texts == ["void"]:
                continue
            name = _declared(part)
            names.append(name or f"argument {n + 1}")
        return names

    def _parts(self, start: int, end: int) -> list[list[Token]]:
        """The tokens between the commas that no bracket encloses."""
        parts, depth = [[]], 0
        for token in self.found[start:end]:
            if token.kind == "sign":
                depth += (token.text in ("(", "<", "[", "{")) - (token.text in (")", ">", "]", "}"))
            if token.text == "," and depth == 0:
                parts.append([])
            else:
                parts[-1].append(token)
        return [p for p in parts if p]

    def constants(self) -> set[str]:
        """Names of the `__constant__` variables."""
        names, i = set(), 0
        while i < len(self.found):
            if self.at(i) == "__constant__":
                end = i + 1
                while end < len(self.found) and self.at(end) not in (";", "=", "{"):
                    end += 1
                names |= {name for p in self._parts(i + 1, end) if (name := _declared(p))}
                i = end
            i += 1
        return names

    def _integers(self) -> dict[str, int]:
        """Integers that the source names by const or by constexpr, also several in one declaration."""
        found: dict[str, int] = {}
        for i in range(len(self.found) - 5):
            constant = self.at(i) in ("const", "constexpr") and self.at(i + 1) in ("int", "unsigned", "size_t", "uint")
            if not constant or self.at(i + 3) != "=":
                continue
            end = next((k for k in range(i + 4, len(self.found)) if self.at(k) in (";", "{", "}")), i)
            for name, equals, *value in ([t.text for t in part] for part in self._parts(i + 2, end) if len(part) > 2):
                number = _value([str(found.get(t, t)) for t in value]) if equals == "=" else None
                if number is not None:
                    found[name] = number
        return found

    def shared_arrays(self) -> dict[str, SharedArray]:
        """The shared arrays that the source declares, by name."""
        integers, found, i = self._integers(), {}, 0
        while i < len(self.found):
            if self.at(i) != "__shared__":
                i += 1
                continue
            dynamic, begin = self.at(i - 1) == "extern", self._past_alignment(i + 1)
            i = begin
            while i < len(self.found) and self.at(i) not in (";", "__shared__"):
                i += 1
            kind = begin
            while self.at(kind + 1) == "::":
                kind += 2
            for part in self._parts(kind + 1, i):
                if name := _declared(part):
                    lengths = _lengths(part, integers)
                    known = tuple(lengths) if lengths and None not in lengths else None
                    found[name] = SharedArray(name, _SIZES.get(self.at(kind)), known, dynamic)
        return found

    def _past_alignment(self, i: int) -> int:
        """The first token from here that says neither `volatile` nor an alignment."""
        while True:
            if self.at(i) in _ALIGNED and self.at(i + 1) == "(":
                i = self.partner[i + 1] + 1
            elif self.at(i) == "volatile":
                i += 1
            else:
                return i

    def with_dynamic_shared(self) -> str:
        """The text with `extern __shared__ T s[];` as a pointer to the block's dynamic shared memory: where it stands,
        or, at file scope, at the head of every function that uses it."""
        bodies = list(self._bodies())
        edits: list[tuple[int, int, str]] = list(self._alignments_first())
        at_file_scope: dict[str, _Dynamic] = {}
        declared, within = list(self._dynamic()), iter([*bodies, (len(self.found), len(self.found))])
        body = next(within)
        for d in declared:
            while body[1] < d.first:
                edits += self._heads(body, at_file_scope)
                body = next(within)
            start, end = self.found[d.first].start, self.found[d.last].end
            newlines = "\n" * self.text.count("\n", start, end)
            if body[0] < d.first:
                edits.append((start, end, _pointer(d) + newlines))
            else:
                at_file_scope[d.name] = d
                edits.append((start, end, newlines))
        for rest in (body, *within):
            edits += self._heads(rest, at_file_scope)
        pieces, last = [], 0
        for start, end, text in sorted(edits):
            pieces += [self.text[last:start], text]
            last = end
        return "".join([*pieces, self.text[last:]])

    def _alignments_first(self) -> Iterator[tuple[int, int, str]]:
        """`__shared__ alignas(n)` as `alignas(n) __shared__`, as edits: g++ wants it at a declaration's head."""
        for i, token in enumerate(self.found):
            if token.text == "__shared__" and self.at(i - 1) != "extern" and self.at(i + 1) == "alignas":
                last = self.found[self.partner[i + 2]]
                yield token.start, token.end, " " * len(token.text)
                yield last.end, last.end, " __shared__"

    def _heads(self, body: tuple[int, int], names: dict[str, _Dynamic]) -> list[tuple[int, int, str]]:
        """The pointers that a function needs, as edits."""
        if not names or body[0] >= len(self.found):
            return []
        used = {t.text for t in self.found[body[0] : body[1]] if t.text in names}
        at = self.found[body[0]].end
        return [(at, at, f" {_pointer(names[n])}") for n in sorted(used)]

    def _dynamic(self) -> Iterator[_Dynamic]:
        """The declarations of dynamic shared arrays, in order."""
        i = 0
        while i < len(self.found) - 1:
            if self.at(i) == "extern" and self.at(i + 1) == "__shared__":
                first = self._alignment_before(i)
                begin = self._past_alignment(i + 2)
                i = begin
                while i < len(self.found) and self.at(i) not in (";", "extern"):
                    i += 1
                empty = next((k for k in range(begin, i - 1) if self.at(k) == "[" and self.at(k + 1) == "]"), 0)
                if self.at(i) == ";" and empty - 2 >= begin:
                    end = empty - 1
                    if self.at(end - 1) == ")":  # an alignment between the type and the name
                        end = next((k for k in range(begin, end) if self.at(k) in _ALIGNED), end)
                    kind = self.text[self.found[begin].start : self.found[end - 1].end]
                    lengths = self.text[self.found[empty + 1].end : self.found[i].start]
                    yield _Dynamic(first, i, kind, self.at(empty - 1), lengths)
            else:
                i += 1

    def _alignment_before(self, i: int) -> int:
        """The token at which an alignment that stands before token `i` begins, else `i`."""
        if self.at(i - 1) != ")":
            return i
        for back in range(i - 2, max(-1, i - 12), -1):
            if self.at(back) in _ALIGNED and self.partner[back + 1] == i - 1:
                return back
        return i

    def _bodies(self) -> Iterator[tuple[int, int]]:
        """The braces of each function body: an outermost `{` that follows a parameter list."""
        i = 0
        while i < len(self.found):
            if self.at(i) == "{" and self.found[i].kind == "sign":
                before = i - 1
                while self.at(before) in ("const", "noexcept", "mutable"):
                    before -= 1
                if self.at(before) == ")":
                    yield i, self.partner[i]
                    i = self.partner[i]
            i += 1


def _pointer(d: _Dynamic) -> str:
    if d.lengths:
        return f"{d.kind} (*const {d.name}){d.lengths} = ({d.kind} (*){d.lengths})simt_dynamic_shared();"
    return f"{d.kind}* const {d.name} = ({d.kind}*)simt_dynamic_shared();"


def _declared(part: list[Token]) -> str:
    """The name that a declarator declares: the last word before its lengths, its value or its brackets."""
    name = ""
    for i, token in enumerate(part):
        if token.text in ("=", "{"):
            break
        if token.text == "[" and name and part[i - 1].kind == "word":
            break
        if token.text == ")" and i and part[i - 1].kind == "word":
            break
        if token.kind == "word":
            name = token.text
    return name if name else ""


def _lengths(part: list[Token], integers: dict[str, int]) -> list[int | None]:
    """The lengths of an array where they are made of numbers, named constants, + - and *."""
    lengths, inside = [], None
    for token in part:
        if token.text == "=":
            break
        if token.text == "[" and inside is None:
            inside = []
        elif token.text == "]" and inside is not None:
            lengths.append(_value(inside))
            inside = None
        elif inside is not None:
            inside.append(str(integers.get(token.text, token.text)))
    return lengths


def _value(texts: list[str]) -> int | None:
    if not texts or len(texts) > 50 or not all(re.fullmatch(r"[0-9]{1,12}|[-+*()]", t) for t in texts):
        return None
    try:
        value = eval(" ".join(texts), {"__builtins__": {}})  # digits, brackets and operators only, no two side by side
    except (SyntaxError, TypeError):
        return None
    return int(value)
