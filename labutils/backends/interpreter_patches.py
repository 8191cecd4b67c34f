"""Patches for the bugs of Triton's interpreter, one function a bug.

Seen in Triton 3.6, 3.7 and 3.9, where a function names no version. `patch()` applies all of them, once a process. This
module imports Triton, so import it only where Triton is installed and the interpreter is on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import triton
import triton.language as tl
import triton.runtime.interpreter as interpreter
from triton.runtime.interpreter import TensorHandle

BUILDER = type(interpreter.interpreter_builder)

ARITHMETIC = ("binary_op", "unary_op", "ternary_op", "create_dot", "create_fma", "create_rsqrt", "create_erf")
"""Methods of the interpreter's builder that all arithmetic goes through."""

CONVERSIONS = ("cast_impl", "create_fp_to_fp")
"""Methods of the interpreter's builder that all conversions of floating-point numbers go through."""


# --- numbers as bits -----------------------------------------------------------------------------------------------


def widen(bits: np.ndarray) -> np.ndarray:
    """bfloat16 as 16-bit integers to float32: exact."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def narrow(values: np.ndarray) -> np.ndarray:
    """Numbers to bfloat16 as 16-bit integers, rounded to nearest even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


def tf32(values: np.ndarray) -> np.ndarray:
    """float32 with the 13 bits of mantissa cut off that a tensor core does not read."""
    return (np.ascontiguousarray(values).view(np.uint32) & 0xFFFFE000).view(np.float32)


# --- handles: the interpreter's values -----------------------------------------------------------------------------


def _version() -> tuple[int, int]:
    major, minor = triton.__version__.split(".")[:2]
    return int(major), int(minor)


def _is_bf16(x) -> bool:
    return isinstance(x, TensorHandle) and not x.dtype.is_ptr() and x.dtype.scalar == tl.bfloat16


def _widened(x):
    """A bfloat16 handle as float32; anything else as it is."""
    return TensorHandle(widen(x.data), tl.float32) if _is_bf16(x) else x


def _narrowed(data: np.ndarray):
    """Numbers as a bfloat16 handle."""
    return TensorHandle(narrow(data), tl.bfloat16)


def _tensor_of(handle, like):
    """A handle as a tensor of the shape of another tensor."""
    return tl.tensor(handle, tl.block_type(handle.dtype, like.shape) if like.type.is_block() else handle.dtype)


def _wrap(owner: type, name: str, wrapper: Callable) -> None:
    """Replace a method by `wrapper(method, self, *args, **kwargs)`."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def patched(self, *args, **kwargs):
        return wrapper(method, self, *args, **kwargs)

    setattr(owner, name, patched)


# --- the bugs ------------------------------------------------------------------------------------------------------


def patch_bf16_arithmetic() -> None:
    """The interpreter keeps bfloat16 as 16-bit integers, and adds, multiplies and compares these integers.

    This also happens in `tl.dot`, so a correct bfloat16 kernel gets garbage. The patch computes in float32 and rounds
    the result to nearest even, as a GPU does.
    """

    def in_float32(method, self, *operands):
        if not any(map(_is_bf16, operands)):
            return method(self, *operands)
        result = method(self, *map(_widened, operands))
        if result.dtype.scalar != tl.float32 or method.__name__ == "create_dot":
            return result
        if result.data.dtype == bool:  # a comparison
            return TensorHandle(result.data, tl.bfloat16)
        return _narrowed(result.data)

    for name in ARITHMETIC:
        _wrap(BUILDER, name, in_float32)


def patch_bf16_reductions() -> None:
    """Reductions and scans of bfloat16 compute with its bits as integers, too. The patch computes in float32."""

    def in_float32(method, self, inputs):
        was_bf16 = [_is_bf16(x.handle) for x in inputs]
        wide = (_tensor_of(_widened(x.handle), x) if b else x for x, b in zip(inputs, was_bf16, strict=True))
        results = method(self, tuple(wide))
        if not any(was_bf16):
            return results
        results = results if isinstance(results, (list, tuple)) else [results]
        back = zip(results, was_bf16, strict=False)
        return [_tensor_of(_narrowed(x.handle.data), x) if b else x for x, b in back]

    for ops in (interpreter.ReduceOps, interpreter.ScanOps):
        _wrap(ops, "apply_impl", in_float32)


def patch_bf16_conversions() -> None:
    """Conversions to bfloat16 truncate, and those from it to other types than float32 convert its bits as integers.

    The patch rounds to nearest even, as a GPU does, unless the kernel asks for truncation ("rtz").
    """

    def rounded(method, self, src, dst_type, *rest):
        to, rounding = dst_type.scalar, rest[0] if rest else None
        if _is_bf16(src) and to != tl.bfloat16:
            src = _widened(src)
            return src if to == tl.float32 else method(self, src, dst_type, *rest)
        if to == tl.bfloat16 and not _is_bf16(src) and "RTZ" not in str(rounding):
            return _narrowed(src.data)
        return method(self, src, dst_type, *rest)

    for name in CONVERSIONS:
        _wrap(BUILDER, name, rounded)


def patch_bf16_constants() -> None:
    """Before Triton 3.9 the builder has no bfloat16 constants: `x + 1.0` fails. In 3.9 the patch changes nothing."""
    BUILDER.get_bf16 = lambda self, value: _narrowed(np.array([value], np.float32))


def patch_tf32_dot() -> None:
    """`tl.dot` of float32 operands keeps all 23 bits of mantissa where `input_precision` is TF32.

    A GPU keeps 10 of them, so a kernel that is not precise enough would pass. The patch cuts the operands to TF32.
    """

    def cut(method, self, a, b, d, input_precision, *rest, **named):
        if a.data.dtype == b.data.dtype == np.float32 and str(input_precision).rpartition(".")[2] == "TF32":
            a, b = TensorHandle(tf32(a.data), a.dtype), TensorHandle(tf32(b.data), b.dtype)
        return method(self, a, b, d, input_precision, *rest, **named)

    _wrap(BUILDER, "create_dot", cut)


def patch_loop_bounds() -> None:
    """Triton 3.6 turns a loop bound of one element into an integer in a way that NumPy rejects since 2.4."""
    if _version() >= (3, 7):
        return
    original = interpreter._patch_lang_tensor

    def patched(tensor, scope):
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.squeeze()))

    interpreter._patch_lang_tensor = patched


def patch_nested_errors() -> None:
    """Every function that an exception passes quotes the message so far, which doubles its backslashes.

    After a deep recursion the message alone would fill the memory. The patch quotes an error of the interpreter by
    its type only.
    """

    def brief(x):
        return "InterpreterError" if isinstance(x, interpreter.InterpreterError) else repr(x)

    interpreter.repr = brief  # found before the built-in one


PATCHES = (
    patch_bf16_arithmetic,
    patch_tf32_dot,  # outside the patch before it: both wrap create_dot
    patch_bf16_conversions,
    patch_bf16_reductions,
    patch_bf16_constants,
    patch_loop_bounds,
    patch_nested_errors,
)


@functools.cache
def patch() -> None:
    """Patch the interpreter of this process."""
    for apply in PATCHES:
        apply()
