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
import torch
import triton
import triton.language as tl
import triton.runtime.interpreter as interpreter
from triton.language.semantic import TritonSemantic
from triton.runtime.autotuner import Autotuner
from triton.runtime.interpreter import TensorHandle

from ..gpu import device
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


def patch_fp8_conversions() -> None:
    """A number that is rounded up to a power of two becomes half of it, or less, as an 8-bit float.

    The patch rounds as PyTorch does, to nearest even. What is too large becomes the largest number, as on a GPU.
    """
    types = {tl.float8e4nv: torch.float8_e4m3fn, tl.float8e5: torch.float8_e5m2}

    def rounded(method, self, src, dst_type, *rest):
        to = types.get(dst_type.scalar)
        if to is None or src.data.dtype.kind != "f" or "RTZ" in str(rest[0] if rest else None):
            return method(self, src, dst_type, *rest)
        largest = torch.finfo(to).max
        values = torch.from_numpy(np.ascontiguousarray(src.data, np.float32)).clamp(-largest, largest)
        return TensorHandle(values.to(to).view(torch.uint8).numpy(), dst_type.scalar)

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
        languages = tuple(v for v in function.__globals__.values() if v is tl or v is tl.core) or (tl,)
        if not any(tl.core.is_builtin(language.load) for language in languages):
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


def patch_plain_arguments() -> None:
    """A float that a kernel is launched with stays a number of Python: it has no `.to`, 64 bits, and takes on the type
    of what it is multiplied by. A bool is refused. The patch makes them a float32 and an int1, as a GPU gets them."""
    original = interpreter._implicit_cvt
    types = {float: (np.float32, tl.float32), bool: (np.bool_, tl.int1)}

    def converted(argument):
        if type(argument) not in types:
            return original(argument)
        in_numpy, in_triton = types[type(argument)]
        return tl.tensor(TensorHandle(np.array([argument], in_numpy), in_triton), in_triton)

    interpreter._implicit_cvt = converted


class LoopIndex(int):
    """What a loop counts with: a number that has a tensor's `to`, as its sums and products have."""

    def to(self, *args, **kwargs):
        return interpreter.interpreter_semantic.to_tensor(int(self)).to(*args, **kwargs)


def _closed(name: str) -> Callable:
    operation = getattr(int, name)

    def computed(self, other):
        result = operation(self, other)
        return LoopIndex(result) if type(result) is int else result

    return computed


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    for _side in ("__", "__r"):
        setattr(LoopIndex, f"{_side}{_name}__", _closed(f"{_side}{_name}__"))


def patch_loop_indices() -> None:
    """The index of a loop over `range` is a number of Python, which has no `.to`. The patch gives it that method."""

    def visit_for(self, node):
        self.generic_visit(node)
        name = ast.Name("_loop_indices", ast.Load())
        node.iter = ast.copy_location(ast.Call(name, [node.iter], []), node.iter)
        return node

    interpreter.ASTTransformer.visit_For = visit_for
    interpreter._loop_indices = lambda values: map(LoopIndex, values) if isinstance(values, range) else values


def _is_block(value) -> bool:
    return isinstance(value, tl.tensor) and value.type.is_block()


def _truth(value):
    """A tensor as booleans."""
    return value if value.dtype == tl.int1 else value != 0


def _joined(conjunction: bool, value, *later: Callable):
    """`value and later[0]() and …`, or the same with `or`. What decides and is no tensor ends it."""
    for operand in later:
        if not isinstance(value, tl.tensor):
            if bool(value) != conjunction:
                return value
            value = operand()
        elif isinstance(other := operand(), tl.tensor):
            value = _truth(value) & _truth(other) if conjunction else _truth(value) | _truth(other)
        elif bool(other) != conjunction:
            return other
    return value


def patch_boolean_operators() -> None:
    """`a and b` of two blocks is b, `a or b` is a, and `not a` is False: Python asks blocks for one truth.

    A compiled kernel computes them lane by lane, so masks written that way let lanes through here that a GPU stops. It
    also evaluates what stands behind a scalar that decides, loads too. The patch does both.
    """

    def call(name: str, arguments: list, node):
        return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), arguments, []), node)

    def visit_bool(self, node):
        self.generic_visit(node)
        nothing = ast.arguments([], [], None, [], [], None, [])
        first, *later = node.values
        later = [ast.copy_location(ast.Lambda(nothing, value), value) for value in later]
        return call("_joined", [ast.Constant(isinstance(node.op, ast.And)), first, *later], node)

    def visit_unary(self, node):
        self.generic_visit(node)
        return call("_negated", [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_assign(method, self, node):
        node.value = self.visit(node.value)  # the method goes through the targets only
        return method(self, node)

    _wrap(interpreter.ASTTransformer, "visit_Assign", visit_assign)
    interpreter.ASTTransformer.visit_BoolOp = visit_bool
    interpreter.ASTTransformer.visit_UnaryOp = visit_unary
    interpreter._joined = _joined
    interpreter._negated = lambda value: value == 0 if _is_block(value) else not value


def patch_unsigned_inversion() -> None:
    """`~x` of unsigned integers fails: the interpreter asks NumPy for -1 in an unsigned type."""

    def all_ones(self, dtype):
        bits = np.full(1, -1, np.int64).astype(interpreter._get_np_dtype(dtype))
        return TensorHandle(bits, dtype.scalar)

    BUILDER.get_all_ones_value = all_ones


def patch_type_arguments() -> None:
    """A type that a helper is called with is a constexpr for the compiler, and helpers take its `.value`."""
    tl.dtype.value = property(lambda self: self)


def patch_grids() -> None:
    """The interpreter refuses a grid of more than three numbers, and a grid function gets tensors in place of numbers.

    Triton's launcher ignores what stands behind the third number. The patch does so, and makes them integers.
    """

    def whole(method, self, function, names, grid, *rest, **named):
        def three(meta):
            return tuple(int(n) for n in (grid(meta) if callable(grid) else grid)[:3])

        return method(self, function, names, three, *rest, **named)

    _wrap(interpreter.GridExecutor, "__init__", whole)


class StaticAssertion(AssertionError):
    """A `tl.static_assert` does not hold."""


def patch_autotuned_assertions() -> None:
    """A configuration whose `tl.static_assert` does not hold is one that an autotuner passes over, since it does not
    compile. The interpreter stops there. The patch takes the next one, as long as there is another."""
    original = interpreter._patch_lang_core

    def asserted(holds, message=""):
        if not holds:
            raise StaticAssertion(message)

    def patched(lang, *rest):
        original(lang, *rest)
        lang.static_assert = asserted

    def passed_over(method, self, *args, **kwargs):
        try:
            return method(self, *args, **kwargs)
        except interpreter.InterpreterError as error:
            cause = error
            while cause.__cause__ is not None:
                cause = cause.__cause__
            if not isinstance(cause, StaticAssertion) or len(self.configs) < 2:
                raise
            self.configs = [c for c in self.configs if c is not self.best_config]
            self.cache = {key: c for key, c in self.cache.items() if c is not self.best_config}
            return passed_over(method, self, *args, **kwargs)

    interpreter._patch_lang_core = patched
    _wrap(Autotuner, "run", passed_over)


def patch_copies_of_arguments() -> None:
    """A launch wraps each array as if it had to be copied from a GPU, and takes nothing but tensors: a compiled kernel
    takes whatever has a type and a `data_ptr`. Without a GPU there is nothing to copy, and the patch leaves them."""
    if device.has_gpu():
        return
    interpreter.GridExecutor._init_args_hst = lambda self, args, kwargs: (list(args), dict(kwargs))
    interpreter.GridExecutor._restore_args_dev = lambda self, *_: None


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
    patch_fp8_conversions,
    patch_bf16_conversions,  # outside the patch before it: bfloat16 becomes float32 on the way
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
    patch_plain_arguments,
    patch_loop_indices,
    patch_boolean_operators,
    patch_unsigned_inversion,
    patch_type_arguments,
    patch_grids,
    patch_copies_of_arguments,
    patch_autotuned_assertions,
    patch_nested_errors,
    patch_max_and_min,
    patch_promises,
)


@functools.cache
def patch() -> None:
    """Patch the interpreter of this process."""
    for apply in PATCHES:
        apply()
