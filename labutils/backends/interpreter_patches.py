"""Patches for the bugs of Triton's interpreter, one function a bug.

Seen in Triton 3.6, 3.7 and 3.9, where a function names no version. `patch()` applies all of them, once a process. This
module imports Triton, so import it only where Triton is installed and the interpreter is on.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import textwrap
from collections.abc import Callable

import numpy as np
import triton
import triton.language as tl
import triton.runtime.interpreter as interpreter
from triton.language.semantic import TritonSemantic
from triton.runtime.interpreter import TensorHandle

from . import libdevice, promises
from .errors import NeedsGpu

BUILDER = type(interpreter.interpreter_builder)

ARITHMETIC = ("binary_op", "unary_op", "ternary_op", "create_dot", "create_fma", "create_rsqrt", "create_erf")
"""Methods of the interpreter's builder that all arithmetic goes through."""

CONVERSIONS = ("cast_impl", "create_fp_to_fp")
"""Methods of the interpreter's builder that all conversions of floating-point numbers go through."""

BINARY = tuple(
    f"__{name}__"
    for name in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift"),
        *("lt", "le", "gt", "ge", "eq", "ne"),
    )
)
"""Operators with two sides that constexpr and tensor both have."""

BRANCHES = (ast.If, ast.IfExp, ast.While, ast.For, ast.BoolOp, ast.Not, ast.Assert)
"""What in a combine function needs scalars."""


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


def patch_constexpr_operators() -> None:
    """`K * x` with a global `K = tl.constexpr(2.0)` is a constexpr that holds a tensor: what uses it fails.

    The patch leaves an operation with a tensor to the tensor, as Triton's compiler does: `K * x` is `x.__rmul__(K)`,
    and `K < x` is `x > K`.
    """

    def left_to_the_tensor(method, self, other):
        return NotImplemented if isinstance(other, tl.tensor) else method(self, other)

    for name in BINARY:
        if name in vars(tl.constexpr):
            _wrap(tl.constexpr, name, left_to_the_tensor)


def patch_repeated_patching() -> None:
    """Each launch, and each call of a helper in it, goes through all names of Triton's language to replace some.

    This takes milliseconds, and helpers such as `tl.sum` and `tl.flip` call others. The patch looks whether there is
    anything to replace, and remembers what an earlier launch replaced by what.
    """
    original, known = interpreter._patch_lang, {}

    def patched(function):
        languages = tuple(v for v in function.__globals__.values() if v is tl or v is tl.core)
        if languages and not any(tl.core.is_builtin(language.load) for language in languages):
            return interpreter._LangPatchScope()
        if languages not in known or any(getattr(o, n, missing) is not was for o, n, was, _ in known[languages]):
            scope = original(function)
            before = {(o, n): was for o, n, was in reversed(scope._changes)}  # some are replaced twice
            known[languages] = [(o, n, was, getattr(o, n)) for (o, n), was in before.items()]
            return scope
        scope = interpreter._LangPatchScope()
        for owner, name, _, value in known[languages]:
            scope.set_attr(owner, name, value)
        return scope

    if hasattr(interpreter, "_LangPatchScope"):  # Triton 3.6 has another way to restore what it replaced
        missing = interpreter._MISSING
        interpreter._patch_lang = patched


def patch_unread_overflow_checks() -> None:
    """Sums and products of integers are computed once more in 64 bits, for an assertion that only `debug` would make.

    Offsets are such sums: this is a third of what a small kernel costs. The patch leaves the assertion's operands out.
    """
    options = interpreter.interpreter_builder.options
    if not options.debug:
        interpreter.interpreter_builder.options = dataclasses.replace(options, sanitize_overflow=False)


class _Fold:
    """A combine function of the kernel's own, applied to many pairs of lanes at once.

    `ops` is the interpreter's reduction or scan. A function that branches gets one pair at a time.
    """

    def __init__(self, ops, dtypes: list):
        function = ops.combine_fn.fn
        self.ops, self.dtypes, self.branches = ops, dtypes, _branches(function)
        interpreter._patch_lang(function)
        self.function = ops.combine_fn.rewrite()

    def __call__(self, left: list[np.ndarray], right: list[np.ndarray]) -> list[np.ndarray]:
        """Arrays of one shape for each input, combined lane by lane; of the inputs' types."""
        if not self.branches:
            return self._combined(left, right)
        found = [np.empty_like(a) for a in left]
        for at in np.ndindex(left[0].shape):
            pair = self._combined([a[at] for a in left], [a[at] for a in right])
            for to, value in zip(found, pair, strict=True):
                to[at] = value.item()
        return found

    def _combined(self, left: list, right: list) -> list[np.ndarray]:
        pairs = zip([*left, *right], 2 * self.dtypes, strict=True)
        results = self.function(*(self.ops.to_tensor(a, dtype) for a, dtype in pairs))
        results = results if isinstance(results, (tuple, tl.tuple)) else (results,)
        values = [r.handle.data if isinstance(r, tl.tensor) else np.asarray(r) for r in results]
        kinds = [np.asarray(a) for a in left]
        return [
            np.broadcast_to(v, a.shape if a.ndim else v.shape).astype(a.dtype)
            for v, a in zip(values, kinds, strict=True)
        ]


@functools.cache
def _branches(function: Callable) -> bool:
    """Does a function hold anything that needs scalars?"""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return any(isinstance(node, BRANCHES) for node in ast.walk(tree))


def patch_reductions() -> None:
    """`tl.reduce` with a function of the kernel's own folds one lane after the other, in Python.

    A sum of thousands of lanes loses more digits that way than on a GPU, which folds as a tree; and it takes minutes.
    The patch folds neighbors in pairs, all pairs at once.
    """

    def reduced(method, self, inputs):
        axis, inputs, sides = self.axis, list(inputs), len(inputs[0].shape)
        if axis is None:
            axis, inputs = 0, [self.to_tensor(x.handle.data.flatten(), x.dtype) for x in inputs]
        fold = _Fold(self, [x.dtype for x in inputs])
        lanes = [np.moveaxis(x.handle.data, axis, 0) for x in inputs]
        while len(lanes[0]) > 1:
            even = len(lanes[0]) // 2 * 2
            pairs = fold([a[:even:2] for a in lanes], [a[1:even:2] for a in lanes])
            lanes = [np.concatenate([p, a[even:]]) for p, a in zip(pairs, lanes, strict=True)]
        found = [a[0] for a in lanes]
        if self.keep_dims:
            found = [
                a.reshape((1,) * sides) if self.axis is None else np.expand_dims(a, self.axis % sides) for a in found
            ]
        return [self.to_tensor(a if a.shape else a.item(), x.dtype) for a, x in zip(found, inputs, strict=True)]

    _wrap(interpreter.ReduceOps, "generic_reduce", reduced)


def patch_scans() -> None:
    """`tl.associative_scan` and `tl.cumsum` add one lane after the other, too. The patch scans as a tree.

    Pairs of neighbors are combined and scanned; then each even lane is combined with what stands before it.
    """

    def scanned(fold: Callable, lanes: list[np.ndarray]) -> list[np.ndarray]:
        count = len(lanes[0])
        if count == 1:
            return lanes
        even = count // 2 * 2
        odd = scanned(fold, fold([a[:even:2] for a in lanes], [a[1:even:2] for a in lanes]))
        found = [np.empty_like(a) for a in lanes]
        rest = [a[::2] for a in lanes]
        before = [np.concatenate([o[:1], o])[: len(r)] for o, r in zip(odd, rest, strict=True)]
        for to, o, own, first in zip(found, odd, fold(before, rest), rest, strict=True):
            to[1::2], to[::2] = o, own
            to[0] = first[0]
        return found

    def generic(method, self, inputs):
        lanes = [np.moveaxis(x.handle.data, self.axis, 0) for x in inputs]
        found = scanned(_Fold(self, [x.dtype for x in inputs]), lanes)
        return [self.to_tensor(np.moveaxis(a, 0, self.axis), x.dtype) for a, x in zip(found, inputs, strict=True)]

    def known(operation: Callable) -> Callable:
        def computed(method, self, x):
            if x.handle.data.dtype.kind != "f":
                return method(self, x)
            lanes = [np.moveaxis(x.handle.data, self.axis, 0)]
            (found,) = scanned(lambda left, right: [operation(left[0], right[0])], lanes)
            return [self.to_tensor(np.moveaxis(found, 0, self.axis), x.dtype)]

        return computed

    _wrap(interpreter.ScanOps, "generic_scan", generic)
    _wrap(interpreter.ScanOps, "cumsum", known(np.add))
    _wrap(interpreter.ScanOps, "cumprod", known(np.multiply))


def patch_float_exchange() -> None:
    """`tl.atomic_xchg` takes no floating-point numbers. The patch exchanges their bits, as a GPU does."""

    def exchanged(method, self, op, ptr, value, mask, *rest):
        data = value.data
        if "XCHG" not in str(op) or data.dtype.kind != "f":
            return method(self, op, ptr, value, mask, *rest)
        whole = {4: tl.int32, 8: tl.int64}.get(data.dtype.itemsize)
        if whole is None:
            return method(self, op, ptr, value, mask, *rest)
        bits = TensorHandle(np.ascontiguousarray(data).view(f"i{data.dtype.itemsize}"), whole)
        old = method(self, op, ptr, bits, mask, *rest)
        return TensorHandle(old.data.view(data.dtype), value.dtype.scalar)

    _wrap(BUILDER, "create_atomic_rmw", exchanged)


def patch_libdevice() -> None:
    """Functions of `triton.language.extra.libdevice` return None, and those of its CUDA module raise an error.

    Triton's compiler puts the CUDA module in the place of the other one. The patch does the same, and computes what
    libdevice's symbols stand for in NumPy.
    """

    def computed(method, self, library, path, symbol, operands, kind, pure):
        compute = libdevice.function(symbol)
        if compute is None:
            raise NeedsGpu(f"libdevice's {symbol} runs on an NVIDIA GPU only")
        values = np.asarray(compute(*(x.data for x in operands)))
        return TensorHandle(values.astype(interpreter._get_np_dtype(kind.scalar)), kind.scalar)

    _wrap(BUILDER, "create_extern_elementwise", computed)
    stubs, cuda = (importlib.import_module(f"triton.language.extra.{m}") for m in ("libdevice", "cuda.libdevice"))
    for name, function in list(vars(cuda).items()):
        if tl.core.is_builtin(function):
            setattr(cuda, name, _in_interpreter(function))
            setattr(stubs, name, vars(cuda)[name])


def patch_imported_names() -> None:
    """`from triton.language.math import rsqrt` gives a function that only works where a compiler calls it.

    The interpreter replaces what is called through the module `tl`. The patch replaces such names, too.
    """

    def bound(method, self, *args):
        scope = self.fn.__globals__
        for name, value in list(scope.items()):
            if not inspect.isfunction(value):
                continue
            if tl.core.is_builtin(value):
                scope[name] = _in_interpreter(value)
            elif value.__module__ == "triton.language.extra.libdevice":  # it was imported before the patch
                scope[name] = getattr(importlib.import_module(value.__module__), value.__name__, value)
        return method(self, *args)

    _wrap(interpreter.FunctionRewriter, "_compile_and_exec", bound)


def _in_interpreter(function: Callable) -> Callable:
    """One of Triton's own functions, as a kernel in the interpreter can call it."""

    @functools.wraps(function)
    def called(*args, **kwargs):
        return function(*args, **{**kwargs, "_semantic": interpreter.interpreter_semantic})

    vars(called).pop(tl.core.TRITON_BUILTIN, None)
    return called


def patch_inline_asm() -> None:
    """Inline PTX cannot run on a CPU. The patch says so in a way that reports can tell from a mistake."""

    def refused(method, self, *_):
        raise NeedsGpu("inline PTX (tl.inline_asm_elementwise) runs on an NVIDIA GPU only")

    _wrap(BUILDER, "create_inline_asm", refused)


def patch_dot_scaled() -> None:
    """The interpreter has no `tl.dot_scaled`, and stumbles over its formats. The patch says so."""

    def refused(method, self, *_, **__):
        raise NeedsGpu("tl.dot_scaled runs on an NVIDIA GPU only")

    _wrap(TritonSemantic, "dot_scaled", refused)


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


def patch_max_and_min() -> None:
    """A compiler takes Python's `max` and `min` of tensors element by element. In the interpreter every block counts as
    true, so that they gave one of the blocks."""

    def of_tensors(ordinary: Callable, own: Callable) -> Callable:
        @functools.wraps(ordinary)
        def called(*args, **kwargs):
            if len(args) > 1 and not kwargs and any(isinstance(a, tl.tensor) for a in args):
                return functools.reduce(functools.partial(own, _semantic=interpreter.interpreter_semantic), args)
            return ordinary(*args, **kwargs)

        return called

    # kernels see the interpreter's own globals before Python's
    interpreter.max = of_tensors(max, tl.core.maximum)
    interpreter.min = of_tensors(min, tl.core.minimum)


def patch_promises() -> None:
    """The interpreter believes `tl.multiple_of` and its relatives, also where they are false and a GPU would read
    elsewhere. The patch looks at the values."""
    original = interpreter._patch_lang_core

    def checked(name: str, believed: Callable) -> Callable:
        def promised(input, values):
            result = believed(input, values)
            handle = getattr(input, "handle", None)
            data = handle.data if isinstance(handle, TensorHandle) else getattr(input, "value", input)
            given = values if isinstance(values, (list, tuple, tl.tuple)) else [values]
            pointer = isinstance(handle, TensorHandle) and handle.dtype.scalar.is_ptr()
            itemsize = max(1, handle.get_element_ty().primitive_bitwidth // 8) if pointer else 0
            promises.check(name, data, [getattr(v, "value", v) for v in given], itemsize)
            return result

        return promised

    def patched(lang, *rest):
        original(lang, *rest)
        for name in promises.HINTS:
            setattr(lang, name, checked(name, getattr(lang, name)))

    interpreter._patch_lang_core = patched


PATCHES = (
    patch_bf16_arithmetic,
    patch_tf32_dot,  # outside the patch before it: both wrap create_dot
    patch_bf16_conversions,
    patch_bf16_reductions,
    patch_bf16_constants,
    patch_constexpr_operators,
    patch_repeated_patching,
    patch_unread_overflow_checks,
    patch_reductions,
    patch_scans,
    patch_float_exchange,
    patch_libdevice,
    patch_imported_names,
    patch_inline_asm,
    patch_dot_scaled,
    patch_loop_bounds,
    patch_nested_errors,
    patch_max_and_min,
    patch_promises,
)


@functools.cache
def patch() -> None:
    """Patch the interpreter of this process."""
    for apply in PATCHES:
        apply()
