"""Hooks into Triton's interpreter, so that a recorder sees every launch and every address.

This module and interpreter_patches.py are the only ones that touch Triton's private API. What they lean on,
seen alike in Triton 3.6, 3.7 and 3.9: `triton.runtime.interpreter` has an object `interpreter_builder` whose class has
`create_masked_load(ptrs, mask, other, …)`, `create_masked_store(ptrs, value, mask, …)`,
`create_atomic_rmw(op, ptr, value, mask, …)`, `create_atomic_cas(ptr, compare, value, …)`, `set_grid_dim` and
`set_grid_idx`; classes `InterpretedFunction` and `GridExecutor`, of which the latter's `__call__(*args, **kwargs)` is
one launch; and `Autotuner` has `_bench`, `cache` and `configs`. `tests/labutils/backends/test_interpreter.py` holds
them to that.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable

import numpy as np
import torch

from . import errors
from .access import Recorder


def interpreting() -> bool:
    """Was the interpreter on when triton was imported?"""
    import triton.language as tl
    from triton.runtime.interpreter import InterpretedFunction

    return isinstance(tl.sum, InterpretedFunction)  # one of Triton's own functions, decorated at that time


@contextlib.contextmanager
def recording(recorder: Recorder, on_launch: Callable = lambda *launch: None):
    """Within this context, every launch of an interpreted kernel reports its accesses to the recorder.

    `on_launch(function, args, kwargs)` is called before each launch.
    """
    import triton.runtime.interpreter as interpreter
    from triton.runtime.autotuner import Autotuner

    hooks = _Hooks(recorder, on_launch)
    builder = type(interpreter.interpreter_builder)
    table = [
        (builder, "create_masked_load", hooks.load),
        (builder, "create_masked_store", hooks.store),
        (builder, "create_atomic_rmw", hooks.atomic_rmw),
        (builder, "create_atomic_cas", hooks.atomic_cas),
        (builder, "set_grid_dim", hooks.grid_dim),
        (builder, "set_grid_idx", hooks.grid_idx),
        (interpreter.GridExecutor, "__call__", hooks.launch),
        (Autotuner, "_bench", hooks.bench),
    ]
    with _patched(table):
        yield recorder


@contextlib.contextmanager
def _patched(table: list[tuple[type, str, Callable]]):
    """Within this context, each named method of a class runs as `hook(method, self, *args, **kwargs)`."""
    methods = [(owner, name, owner.__dict__[name]) for owner, name, _ in table]
    try:
        for (owner, name, method), (*_, hook) in zip(methods, table, strict=True):
            setattr(owner, name, _hooked(method, hook))
        yield
    finally:
        for owner, name, method in methods:
            setattr(owner, name, method)


def _hooked(method: Callable, hook: Callable) -> Callable:
    return lambda self, *args, **kwargs: hook(method, self, *args, **kwargs)


class _Hooks:
    """What runs in place of the interpreter's methods: each gets the method first, and then its arguments."""

    def __init__(self, recorder: Recorder, on_launch: Callable):
        self.recorder, self.on_launch = recorder, on_launch
        self.grid = (1, 1, 1)

    def load(self, method, builder, ptrs, mask, other, *rest, **named):
        ok = self.recorder.load(ptrs.data, _array(mask), _itemsize(ptrs), errors.calling_line)
        return method(builder, ptrs, _allowed(mask, ok), other, *rest, **named)

    def store(self, method, builder, ptrs, value, mask, *rest, **named):
        changes = _changes(ptrs.data, value.data, _array(mask), self.recorder)
        ok = self.recorder.store(ptrs.data, _array(mask), _itemsize(ptrs), errors.calling_line, changes)
        return method(builder, ptrs, value, _allowed(mask, ok), *rest, **named)

    def atomic_rmw(self, method, builder, op, ptr, value, mask, *rest, **named):
        import triton.language as tl

        if value.dtype.scalar == tl.bfloat16:
            raise NotImplementedError("the interpreter has no atomics on bfloat16: use float32 for the sum")
        ok = self.recorder.atomic(ptr.data, _array(mask), _itemsize(ptr), errors.calling_line)
        return method(builder, op, ptr, value, _allowed(mask, ok), *rest, **named)

    def atomic_cas(self, method, builder, ptr, compare, value, *rest, **named):
        ok = self.recorder.atomic(ptr.data, np.ones(ptr.data.shape, bool), _itemsize(ptr), errors.calling_line)
        if not ok.all():
            raise IndexError("atomic_cas outside the array")
        return method(builder, ptr, compare, value, *rest, **named)

    def grid_dim(self, method, builder, *dims):
        self.grid = dims
        self.recorder.grid = dims[0] * dims[1] * dims[2]
        return method(builder, *dims)

    def grid_idx(self, method, builder, x, y, z):
        self.recorder.program((x, y, z), (x * self.grid[1] + y) * self.grid[2] + z)
        return method(builder, x, y, z)

    def launch(self, method, executor, *args, **kwargs):
        self.on_launch(executor.fn, args, kwargs)
        self.recorder.launch()
        for name, tensor in _tensors([*zip(executor.arg_names, args, strict=False), *kwargs.items()]):
            storage = tensor.untyped_storage()
            if storage.nbytes() and not self.recorder.knows(tensor.data_ptr()):
                count = storage.nbytes() // tensor.element_size()
                inside = np.ones(count, bool)
                self.recorder.track(name, storage.data_ptr(), tensor.element_size(), inside, scratch=True)
        return method(executor, *args, **kwargs)

    def bench(self, method, autotuner, *args, config, **meta):
        """There is nothing to time here: each new key takes the next configuration, so that all get their turn."""
        turn = autotuner.configs[len(autotuner.cache) % len(autotuner.configs)]
        return [0.0 if config is turn else 1.0] * 3


def _array(mask) -> np.ndarray:
    return mask if isinstance(mask, np.ndarray) else mask.data


def _allowed(mask, ok: np.ndarray):
    """The lanes that may go on, in the type of the mask."""
    return ok if isinstance(mask, np.ndarray) else type(mask)(ok, mask.dtype)


def _itemsize(ptrs) -> int:
    return max(1, ptrs.get_element_ty().primitive_bitwidth // 8)


def _tensors(arguments):
    """(name, tensor) of each array among the arguments of a launch."""
    for name, value in arguments:
        value = getattr(value, "base", value)  # a TensorDescriptor holds its tensor in .base
        if isinstance(value, tuple):
            yield from _tensors((f"{name}[{i}]", v) for i, v in enumerate(value))
        elif isinstance(value, torch.Tensor):
            yield name, value


def _changes(addresses, values, mask, recorder: Recorder) -> np.ndarray | None:
    """Lanes whose store would change memory. Read only where the recorder knows the memory; None when unsure."""
    addresses, values = np.broadcast_arrays(addresses, values)
    mask = np.broadcast_to(mask, addresses.shape)
    changes = np.ones(addresses.shape, bool)
    for t in recorder.arrays:
        if values.dtype.itemsize != t.itemsize:
            continue
        here = mask & (addresses >= t.base) & (addresses + t.itemsize <= t.end)
        if here.any():
            memory = np.ctypeslib.as_array(_bytes_at(t.base, t.end - t.base)).view(f"u{t.itemsize}")
            at = ((addresses[here] - np.uint64(t.base)) // np.uint64(t.itemsize)).astype(np.int64)
            changes[here] = memory[at] != np.ascontiguousarray(values)[here].view(f"u{t.itemsize}")
    return changes


def _bytes_at(address: int, count: int):
    return (ctypes.c_uint8 * count).from_address(address)
