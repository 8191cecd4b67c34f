"""What a `__global__` function takes: parameters read from the CUDA C++ text, and arguments checked against them."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from typing import Any

from .tensor_map import BYTES, TensorMap
from .text import blank

ELEMENTS: dict[str, tuple[str, int]] = {
    "float": ("float32", 1),
    "float2": ("float32", 2),
    "float3": ("float32", 3),
    "float4": ("float32", 4),
    "double": ("float64", 1),
    "double2": ("float64", 2),
    "int": ("int32", 1),
    "int2": ("int32", 2),
    "int4": ("int32", 4),
    "int32_t": ("int32", 1),
    "unsigned": ("int32", 1),
    "unsigned int": ("int32", 1),
    "uint32_t": ("int32", 1),
    "uint4": ("int32", 4),
    "long long": ("int64", 1),
    "int64_t": ("int64", 1),
    "unsigned long long": ("int64", 1),
    "short": ("int16", 1),
    "char": ("int8", 1),
    "signed char": ("int8", 1),
    "int8_t": ("int8", 1),
    "unsigned char": ("uint8", 1),
    "uint8_t": ("uint8", 1),
    "uchar4": ("uint8", 4),
    "bool": ("bool", 1),
    "half": ("float16", 1),
    "__half": ("float16", 1),
    "half2": ("float16", 2),
    "__half2": ("float16", 2),
    "__nv_bfloat16": ("bfloat16", 1),
    "__nv_bfloat162": ("bfloat16", 2),
    "nv_bfloat16": ("bfloat16", 1),
    "nv_bfloat162": ("bfloat16", 2),
}
"""Element type in C++ -> (PyTorch's name of the tensor's dtype, how many tensor elements one of them holds)."""

NUMBERS: dict[str, Any] = {
    "int": ctypes.c_int32,
    "int32_t": ctypes.c_int32,
    "unsigned": ctypes.c_uint32,
    "unsigned int": ctypes.c_uint32,
    "uint": ctypes.c_uint32,
    "uint32_t": ctypes.c_uint32,
    "long": ctypes.c_int64,
    "long long": ctypes.c_int64,
    "int64_t": ctypes.c_int64,
    "unsigned long": ctypes.c_uint64,
    "unsigned long long": ctypes.c_uint64,
    "ulong": ctypes.c_uint64,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_uint64,
    "ptrdiff_t": ctypes.c_int64,
    "clock_t": ctypes.c_int64,
    "short": ctypes.c_int16,
    "int16_t": ctypes.c_int16,
    "unsigned short": ctypes.c_uint16,
    "ushort": ctypes.c_uint16,
    "uint16_t": ctypes.c_uint16,
    "char": ctypes.c_int8,
    "signed char": ctypes.c_int8,
    "int8_t": ctypes.c_int8,
    "unsigned char": ctypes.c_uint8,
    "uchar": ctypes.c_uint8,
    "uint8_t": ctypes.c_uint8,
    "bool": ctypes.c_bool,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}


VECTORS: dict[str, tuple[str, int]] = {
    **{
        f"{kind}{n}": (element, n)
        for kind, element in (
            ("char", "char"), ("uchar", "unsigned char"), ("short", "short"), ("ushort", "unsigned short"),
            ("int", "int"), ("uint", "unsigned"), ("longlong", "long long"), ("ulonglong", "unsigned long long"),
            ("float", "float"), ("double", "double"),
        )
        for n in (1, 2, 3, 4)
    },
    "dim3": ("unsigned", 3),
}  # fmt: skip
"""Vector type in C++ -> (the type of its members, how many it has)."""


_TAG = re.compile(r"(bool|integral)_constant<.*>|(true|false)_type")
"""Types of parameters that choose a function: all that there is to them is the type."""


class MapBytes(ctypes.Structure):
    """A tensor map as a kernel's parameter."""

    _fields_ = [("opaque", ctypes.c_uint8 * BYTES)]


class ArgumentError(TypeError):
    """A launch whose arguments do not fit the kernel; the message names the parameter."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel: `kind` is the type without const, `&` and `*`."""

    name: str
    kind: str
    is_pointer: bool
    is_const: bool


@dataclass(frozen=True)
class Signature:
    """A `__global__` function: its name, its parameters and the names of its template parameters."""

    name: str
    parameters: tuple[Parameter, ...]
    template: tuple[str, ...] = ()


_WORD = re.compile(r"\w+|[^\w\s]")
_BEFORE_A_NAME = {"static", "inline", "void"}
_WITH_NUMBERS = {"__launch_bounds__", "__maxnreg__", "__cluster_dims__"}
_MOST_TEMPLATE, _MOST_PARAMETER = 2000, 1000
"""Characters of a template's parameters, and of one parameter, that are looked at."""


def signatures(source: str) -> dict[str, Signature]:
    """Every `__global__` function that the text defines, in order. In time proportional to the text, whatever it is."""
    text = blank(source)
    words = [(m.group(), m.start()) for m in _WORD.finditer(text)]
    ends, templates, found, behind = _ends(words), _templates(words), {}, 0
    declared: set[str] = set()
    for i, (word, _) in enumerate(words):
        if word != "__global__" or i < behind:
            continue
        at = _name_at(words, i + 1, ends)
        if at + 1 >= len(words) or words[at + 1][0] != "(" or not words[at][0].isidentifier():
            continue
        name, end = words[at][0], ends.get(at + 1)
        behind = at + 1 if end is None else end  # no kernel is defined among another one's parameters
        pieces = [] if end is None else _split(text[words[at + 1][1] + 1 : words[end][1] + 1])
        template = _template(text, words, i, templates)
        signature = Signature(name, tuple(map(_parameter, pieces)), template)
        if name not in found or (name in declared and not _ends_there(words, end)):
            found[name] = signature  # a definition has the parameters' names
        if _ends_there(words, end):
            declared.add(name)
    return found


def _ends_there(words: list[tuple[str, int]], end: int | None) -> bool:
    """Is the function whose parameters end at that word declared and not defined?"""
    return end is not None and end + 1 < len(words) and words[end + 1][0] == ";"


def _name_at(words: list[tuple[str, int]], at: int, ends: dict[int, int]) -> int:
    """The word behind everything that may stand between `__global__` and a kernel's name, a macro with arguments too:
    another name with parentheses follows that."""
    while at < len(words):
        if words[at][0] in _BEFORE_A_NAME:
            at += 1
        elif words[at][0] in _WITH_NUMBERS and at + 1 < len(words) and words[at + 1][0] == "(":
            end = ends.get(at + 1)
            if end is None or any(words[i][0] == "__global__" for i in range(at, end)):
                return len(words)
            at = end + 1
        elif (
            (end := ends.get(at + 1))
            and end + 2 < len(words)
            and words[end + 2][0] == "("
            and words[end + 1][0].isidentifier()
            and words[end + 1][0] not in _WITH_NUMBERS
        ):
            at = end + 1
        else:
            break
    return at


def _ends(words: list[tuple[str, int]]) -> dict[int, int]:
    """For each opening parenthesis, by its number, the closing one at its depth, whatever brackets stand between."""
    depth, levels = 0, []
    for word, _ in words:
        depth -= word in ")]}>"
        levels.append(depth)
        depth += word in "([{<"
    ends, next_at = {}, {}
    for i in range(len(words) - 1, -1, -1):
        if words[i][0] == ")":
            next_at[levels[i]] = i
        elif words[i][0] == "(" and levels[i] in next_at:
            ends[i] = next_at[levels[i]]
    return ends


def _templates(words: list[tuple[str, int]]) -> list[int | None]:
    """For each word the first `template` behind the last statement or block before it."""
    first, found = None, []
    for i, (word, _) in enumerate(words):
        found.append(first)
        if word in ";{}":
            first = None
        elif word == "template" and first is None and i + 1 < len(words) and words[i + 1][0] == "<":
            first = i
    return found


def _template(text: str, words: list[tuple[str, int]], at: int, templates: list[int | None]) -> tuple[str, ...]:
    """The names of the template parameters of the kernel whose `__global__` is word number `at`."""
    begin, last = templates[at], at - 1
    last -= last >= 0 and words[last][0] == "static"
    if last >= 2 and [w for w, _ in words[last - 2 : last + 1]] == ["extern", '"', '"']:
        last -= 3
    if begin is None or last <= begin or words[last][0] != ">":
        return ()
    inside = text[words[begin + 1][1] + 1 : words[last][1]]
    if len(inside) > _MOST_TEMPLATE:
        return ()
    return tuple(p.split("=")[0].split()[-1] for p in inside.split(",") if p.split("=")[0].split())


def _split(text: str) -> list[str]:
    """The parameters up to the closing parenthesis at the end, split at the commas that are not inside brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if i == len(text) - 1 or c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
        depth += (c in "([{<") - (c in ")]}>")
    return [p.strip() for p in parts if p.strip()]


def _parameter(text: str) -> Parameter:
    text = " ".join(text[:_MOST_PARAMETER].split("=")[0].split())
    text = re.sub(r"\b(__restrict__|__restrict|__grid_constant__|volatile|struct|typename)\b", " ", text)
    is_pointer = "*" in text or bool(re.search(r"\[ ?\d* ?\] ?$", text))
    text = re.sub(r"\[ ?\d* ?\] ?$", "", text)
    words = re.findall(r"[\w:]+(?:<[^>]*>)?", text.replace("*", " ").replace("&", " "))
    is_const = "const" in words
    words = [w for w in words if w != "const"] or [""]
    kind = " ".join(words[:-1]) if len(words) > 1 else words[0]  # it may have no name
    return Parameter(words[-1], kind.removeprefix("std::"), is_pointer, is_const)


def convert(signature: Signature, arguments: tuple, device: str) -> list[tuple[Any, Any]]:
    """(value, ctypes type) for each argument. Raises ArgumentError naming the parameter that does not fit."""
    wanted = [f"{p.kind}{'*' if p.is_pointer else ''} {p.name}" for p in signature.parameters]
    if len(arguments) != len(wanted):
        raise ArgumentError(
            f"{signature.name} takes {len(wanted)} arguments ({', '.join(wanted)}), but {len(arguments)} were given"
        )
    pairs = zip(signature.parameters, arguments, strict=True)
    return [_one(signature, p, a, device) for p, a in pairs]


def _one(signature: Signature, p: Parameter, value: Any, device: str):
    if p.kind == "CUtensorMap" and not p.is_pointer:
        return _map(signature, p, value, device)
    if p.kind in VECTORS and not p.is_pointer:
        return _vector(signature, p, value)
    return _pointer(signature, p, value, device) if p.is_pointer else _number(signature, p, value)


def _map(signature: Signature, p: Parameter, value: Any, device: str):
    """A tensor map's bytes: the driver's own on a GPU, what the emulator reads elsewhere, nothing where none runs."""
    what = f"{signature.name}: the argument for CUtensorMap {p.name}"
    if not isinstance(value, TensorMap):
        raise ArgumentError(f"{what} must be a lab.tensor_map(…), not a {type(value).__name__}")
    if value.tensor.device.type != device:
        raise ArgumentError(f"{what} is of a tensor on {value.tensor.device.type}, but the kernel runs on {device}")
    if device == "meta":
        return bytes(BYTES), MapBytes.from_buffer_copy
    return value.encoded() if device == "cuda" else value.described(), MapBytes.from_buffer_copy


def _pointer(signature: Signature, p: Parameter, value: Any, device: str):
    what = f"{signature.name}: the argument for {p.kind}* {p.name}"
    if value is None:
        return 0, ctypes.c_void_p
    import torch

    if not isinstance(value, torch.Tensor):
        raise ArgumentError(f"{what} must be a tensor, not a {type(value).__name__}")
    if value.device.type != device:
        raise ArgumentError(f"{what} is on {value.device.type}, but the kernel runs on {device}")
    if not value.is_contiguous():
        raise ArgumentError(f"{what} is not contiguous: a pointer knows no strides; pass {p.name}.contiguous()")
    if p.kind in ELEMENTS:
        wanted, width = ELEMENTS[p.kind]
        if (given := str(value.dtype).removeprefix("torch.")) != wanted:
            raise ArgumentError(f"{what} has dtype {given}, but {p.kind}* needs {wanted}")
        unit = value.element_size() * (1 if width == 3 else width)
        if value.data_ptr() % unit:
            raise ArgumentError(f"{what} starts at an address that is not a multiple of {unit} bytes")
    return value.data_ptr(), ctypes.c_void_p


def _vector(signature: Signature, p: Parameter, value: Any):
    """The bytes of a vector that is passed by value, from a tuple of numbers."""
    element, count = VECTORS[p.kind]
    if not isinstance(value, (tuple, list)) or len(value) != count:
        what = f"{signature.name}: the argument for {p.kind} {p.name}"
        raise ArgumentError(f"{what} must be a tuple of {count} numbers, not {value!r}")
    members = [_number(signature, Parameter(f"{p.name}[{i}]", element, False, True), v) for i, v in enumerate(value)]
    array = members[0][1] * count
    return bytes(array(*(v for v, _ in members))), array.from_buffer_copy


def _number(signature: Signature, p: Parameter, value: Any):
    import torch

    what = f"{signature.name}: the argument for {p.kind} {p.name}"
    if isinstance(value, torch.Tensor):
        raise ArgumentError(f"{what} is a tensor; pass a number ({p.name}.item())")
    if not isinstance(value, (bool, int, float)):
        raise ArgumentError(f"{what} must be a number, not a {type(value).__name__}")
    if _TAG.fullmatch(p.kind):
        return 0, ctypes.c_uint8
    kind, element = NUMBERS.get(p.kind), ELEMENTS.get(p.kind)
    if element in (("float16", 1), ("bfloat16", 1)):
        return torch.tensor(float(value), dtype=getattr(torch, element[0])).view(torch.uint16).item(), ctypes.c_uint16
    if kind is None:
        if p.kind not in signature.template:
            raise ArgumentError(f"{what}: numbers of type {p.kind} cannot be passed from Python")
        kind = ctypes.c_float if isinstance(value, float) else ctypes.c_int32
    if kind in (ctypes.c_float, ctypes.c_double):
        return float(value), kind
    if isinstance(value, float):
        raise ArgumentError(f"{what} is {value}; an integer is needed")
    if kind is not ctypes.c_bool and kind(value).value != value:
        raise ArgumentError(f"{what} is {value}, which does not fit into {p.kind}")
    return value, kind
