"""What Triton's interpreter gets wrong, mended.

bfloat16: the interpreter keeps it as 16-bit integers. In Triton 3.6, 3.7 and 3.9 it then adds, multiplies and compares
the integers (also in `tl.dot`), truncates where a GPU rounds to nearest, and before 3.9 has no constants of that type:
an honest bfloat16 kernel gets garbage. Here such operands go to float32 and results come back rounded to nearest even,
which is what a GPU's conversions do.

TF32: on a GPU `tl.dot` of fp32 operands cuts these to TF32 (10 bits of mantissa) unless `input_precision` says
otherwise; the interpreter keeps all 23 bits, so that a kernel that is too coarse would pass here. Here they are cut.

Nested errors: each function that an exception passes quotes the message so far, which doubles its backslashes: after a
deep recursion the message alone would fill the memory.

Loop bounds: Triton 3.6 turns a scalar into an integer in a way that NumPy refuses since 2.4.
"""

from __future__ import annotations

import functools

import numpy as np

ARITHMETIC = ("binary_op", "unary_op", "ternary_op", "create_dot", "create_fma", "create_rsqrt", "create_erf")
"""Methods of the interpreter's builder that all arithmetic goes through."""


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


@functools.cache
def mend() -> None:
    """Mend the interpreter of this process."""
    import triton.language as tl
    import triton.runtime.interpreter as interpreter

    builder, handle = type(interpreter.interpreter_builder), interpreter.TensorHandle

    def is_bf16(x) -> bool:
        return isinstance(x, handle) and not x.dtype.is_ptr() and x.dtype.scalar == tl.bfloat16

    def arithmetic(method):
        @functools.wraps(method)
        def mended(self, *operands):
            if not any(map(is_bf16, operands)):
                return method(self, *operands)
            result = method(self, *(handle(widen(x.data), tl.float32) if is_bf16(x) else x for x in operands))
            if result.dtype.scalar != tl.float32 or method.__name__ == "create_dot":
                return result
            if result.data.dtype == bool:  # a comparison
                return handle(result.data, tl.bfloat16)
            return handle(narrow(result.data), tl.bfloat16)

        return mended

    def dot(method):
        @functools.wraps(method)
        def mended(self, a, b, d, input_precision, *rest, **named):
            if a.data.dtype == b.data.dtype == np.float32 and str(input_precision).rpartition(".")[2] == "TF32":
                a, b = handle(tf32(a.data), a.dtype), handle(tf32(b.data), b.dtype)
            return method(self, a, b, d, input_precision, *rest, **named)

        return mended

    def conversion(method):
        @functools.wraps(method)
        def mended(self, src, dst_type, *rest):
            to, rounding = dst_type.scalar, rest[0] if rest else None
            if is_bf16(src) and to != tl.bfloat16:
                src = handle(widen(src.data), tl.float32)
                return src if to == tl.float32 else method(self, src, dst_type, *rest)
            if to == tl.bfloat16 and not is_bf16(src) and "RTZ" not in str(rounding):
                return handle(narrow(src.data), tl.bfloat16)
            return method(self, src, dst_type, *rest)

        return mended

    def reduction(method):
        @functools.wraps(method)
        def mended(self, input):
            wide = [retyped(x, widen(x.handle.data), tl.float32) if is_bf16(x.handle) else x for x in input]
            results = method(self, tuple(wide))
            was = [is_bf16(x.handle) for x in input]
            if not any(was):
                return results
            results = results if isinstance(results, (list, tuple)) else [results]
            back = zip(results, was, strict=False)
            return [retyped(x, narrow(x.handle.data), tl.bfloat16) if b else x for x, b in back]

        return mended

    def retyped(x, data, dtype):
        return tl.tensor(handle(data, dtype), tl.block_type(dtype, x.shape) if x.type.is_block() else dtype)

    for name in ARITHMETIC:
        setattr(builder, name, arithmetic(getattr(builder, name)))
    builder.create_dot = dot(builder.create_dot)
    for name in ("cast_impl", "create_fp_to_fp"):
        setattr(builder, name, conversion(getattr(builder, name)))
    for ops in (interpreter.ReduceOps, interpreter.ScanOps):
        ops.apply_impl = reduction(ops.apply_impl)
    patch_tensor = interpreter._patch_lang_tensor

    def mended_patch(tensor, scope):
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.squeeze()))

    interpreter._patch_lang_tensor = mended_patch

    def brief(x):
        return "InterpreterError" if isinstance(x, interpreter.InterpreterError) else repr(x)

    interpreter.repr = brief  # found before the built-in one
    builder.get_bf16 = lambda self, value: handle(narrow(np.array([value], np.float32)), tl.bfloat16)
