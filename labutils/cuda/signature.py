"""What a `__global__` function takes: parameters read from the CUDA C++ text, and arguments checked against them."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from typing import Any

import torch

from .tensor_map import BYTES, TensorMap
from .text import blank

ELEMENTS: dict[str, tuple[torch.dtype, int]] = {
    "float": (torch.float32, 1),
    "float2": (torch.float32, 2),
    "float3": (torch.float32, 3),
    "float4": (torch.float32, 4),
    "double": (torch.float64, 1),
    "double2": (torch.float64, 2),
    "int": (torch.int32, 1),
    "int2": (torch.int32, 2),
    "int4": (torch.int32, 4),
    "int32_t": (torch.int32, 1),
    "unsigned": (torch.int32, 1),
    "unsigned int": (torch.int32, 1),
    "uint32_t": (torch.int32, 1),
    "uint4": (torch.int32, 4),
    "long long": (torch.int64, 1),
    "int64_t": (torch.int64, 1),
    "unsigned long long": (torch.int64, 1),
    "short": (torch.int16, 1),
    "char": (torch.int8, 1),
    "signed char": (torch.int8, 1),
    "int8_t": (torch.int8, 1),
    "unsigned char": (torch.uint8, 1),
    "uint8_t": (torch.uint8, 1),
    "uchar4": (torch.uint8, 4),
    "bool": (torch.bool, 1),
    "half": (torch.float16, 1),
    "__half": (torch.float16, 1),
    "half2": (torch.float16, 2),
    "__half2": (torch.float16, 2),
    "__nv_bfloat16": (torch.bfloat16, 1),
    "__nv_bfloat162": (torch.bfloat16, 2),
    "nv_bfloat16": (torch.bfloat16, 1),
    "nv_bfloat162": (torch.bfloat16, 2),
}
"""Element type in C++ -> (the tensor's dtype, how many tensor elements one of them holds)."""

NUMBERS: dict[str, Any] = {
    "int": ctypes.c_int32,
    "int32_t": ctypes.c_int32,
    "unsigned": ctypes.c_uint32,
    "unsigned int": ctypes.c_uint32,
    "uint32_t": ctypes.c_uint32,
    "long": ctypes.c_int64,
    "long long": ctypes.c_int64,
    "int64_t": ctypes.c_int64,
    "unsigned long": ctypes.c_uint64,
    "unsigned long long": ctypes.c_uint64,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_uint64,
    "short": ctypes.c_int16,
    "char": ctypes.c_int8,
    "unsigned char": ctypes.c_uint8,
    "bool": ctypes.c_bool,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}


class MapBytes(ctypes.Structure):
    """A tensor map as a kernel's parameter."""

    _fields_ = [("opaque", ctypes.c_uint8 * BYTES)]


class ArgumentError(TypeError):
    """A launch whose arguments do not fit the kernel; the message names the parameter."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel: `kind` is the type without const, reference marks and pointer."""

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


def signatures(source: str) -> dict[str, Signature]:
    """Every `__global__` function that the text defines, in order."""
    text, found = blank(source), {}
    for match in re.finditer(r"__global__", text):
        rest = text[match.end() :]
        rest = re.sub(
            r"^(\s*__(?:launch_bounds|maxnreg)__\s*\([^)]*\)|\s*__cluster_dims__\s*\([^)]*\)|\s*(static|inline|void)\b)+",
            "",
            rest,
        )
        head = re.match(r"\s*(?:__(?:launch_bounds|maxnreg)__\s*\([^)]*\)\s*)?(\w+)\s*\(", rest)
        if head is None:
            continue
        before = re.search(r"template\s*<([^;{}]*)>\s*(?:extern\s+\"\s*\"\s*)?(?:static\s+)?$", text[: match.start()])
        template = tuple(p.split("=")[0].split()[-1] for p in before.group(1).split(",")) if before else ()
        parameters = tuple(_parameter(p) for p in _split(rest[head.end() :]))
        found.setdefault(head.group(1), Signature(head.group(1), parameters, template))
    return found


def _split(text: str) -> list[str]:
    """The parameters up to the closing parenthesis, split at the commas that are not inside brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c == ")" and depth == 0:
            parts.append(text[start:i])
            break
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
        depth += (c in "([{<") - (c in ")]}>")
    return [p.strip() for p in parts if p.strip()]


def _parameter(text: str) -> Parameter:
    text = re.sub(r"\b(__restrict__|__restrict|__grid_constant__|volatile|struct|typename)\b", " ", text.split("=")[0])
    is_pointer = "*" in text or bool(re.search(r"\[\s*\d*\s*\]\s*$", text))
    text = re.sub(r"\[\s*\d*\s*\]\s*$", "", text)
    words = re.findall(r"[\w:]+(?:<[^>]*>)?", text.replace("*", " ").replace("&", " "))
    is_const = "const" in words
    words = [w for w in words if w != "const"]
    return Parameter(words[-1], " ".join(words[:-1]).removeprefix("std::"), is_pointer, is_const)


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
    if not isinstance(value, torch.Tensor):
        raise ArgumentError(f"{what} must be a tensor, not a {type(value).__name__}")
    if value.device.type != device:
        raise ArgumentError(f"{what} is on {value.device.type}, but the kernel runs on {device}")
    if not value.is_contiguous():
        raise ArgumentError(f"{what} is not contiguous: a pointer knows no strides; pass {p.name}.contiguous()")
    if p.kind in ELEMENTS:
        dtype, width = ELEMENTS[p.kind]
        if value.dtype != dtype:
            raise ArgumentError(f"{what} has dtype {_short(value.dtype)}, but {p.kind}* needs {_short(dtype)}")
        unit = dtype.itemsize * (1 if width == 3 else width)
        if value.data_ptr() % unit:
            raise ArgumentError(f"{what} starts at an address that is not a multiple of {unit} bytes")
    return value.data_ptr(), ctypes.c_void_p


def _number(signature: Signature, p: Parameter, value: Any):
    what = f"{signature.name}: the argument for {p.kind} {p.name}"
    if isinstance(value, torch.Tensor):
        raise ArgumentError(f"{what} is a tensor; pass a number ({p.name}.item())")
    if not isinstance(value, (bool, int, float)):
        raise ArgumentError(f"{what} must be a number, not a {type(value).__name__}")
    kind = NUMBERS.get(p.kind)
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


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
