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
    import triton.language as tl
    import triton.runtime.interpreter as interpreter
    from triton.runtime.autotuner import Autotuner

    builder, executor = type(interpreter.interpreter_builder), interpreter.GridExecutor
    load, store = builder.create_masked_load, builder.create_masked_store
    rmw, cas = builder.create_atomic_rmw, builder.create_atomic_cas
    call, set_idx, set_dim = executor.__call__, builder.set_grid_idx, builder.set_grid_dim
    bench, handle, grid = Autotuner._bench, interpreter.TensorHandle, [1, 1, 1]

    def array(mask):
        return mask if isinstance(mask, np.ndarray) else mask.data

    def item(ptrs):
        return max(1, ptrs.get_element_ty().primitive_bitwidth // 8)

    def allowed(mask, ok):
        return ok if isinstance(mask, np.ndarray) else handle(ok, mask.dtype)

    def new_load(self, ptrs, mask, other, *rest, **named):
        ok = recorder.load(ptrs.data, array(mask), item(ptrs), errors.calling_line)
        return load(self, ptrs, allowed(mask, ok), other, *rest, **named)

    def new_store(self, ptrs, value, mask, *rest, **named):
        changes = _changes(ptrs.data, value.data, array(mask), recorder)
        ok = recorder.store(ptrs.data, array(mask), item(ptrs), errors.calling_line, changes)
        return store(self, ptrs, value, allowed(mask, ok), *rest, **named)

    def new_rmw(self, op, ptr, value, mask, *rest, **named):
        if value.dtype.scalar == tl.bfloat16:
            raise NotImplementedError("the interpreter has no atomics on bfloat16: use float32 for the sum")
        ok = recorder.atomic(ptr.data, array(mask), item(ptr), errors.calling_line)
        return rmw(self, op, ptr, value, allowed(mask, ok), *rest, **named)

    def new_cas(self, ptr, compare, value, *rest, **named):
        ok = recorder.atomic(ptr.data, np.ones(ptr.data.shape, bool), item(ptr), errors.calling_line)
        if not ok.all():
            raise IndexError("atomic_cas outside the array")
        return cas(self, ptr, compare, value, *rest, **named)

    def new_dim(self, *dims):
        grid[:] = dims
        recorder.grid = dims[0] * dims[1] * dims[2]
        return set_dim(self, *dims)

    def new_idx(self, x, y, z):
        recorder.program((x, y, z), (x * grid[1] + y) * grid[2] + z)
        return set_idx(self, x, y, z)

    def new_call(self, *args, **kwargs):
        on_launch(self.fn, args, kwargs)
        recorder.launch()
        for name, tensor in _tensors([*zip(self.arg_names, args, strict=False), *kwargs.items()]):
            storage = tensor.untyped_storage()
            if storage.nbytes() and not recorder.knows(tensor.data_ptr()):
                count = storage.nbytes() // tensor.element_size()
                inside = np.ones(count, bool)
                recorder.track(name, storage.data_ptr(), tensor.element_size(), inside, scratch=True)
        return call(self, *args, **kwargs)

    def new_bench(self, *args, config, **meta):
        """There is nothing to time here: each new key takes the next configuration, so that all get their turn."""
        turn = self.configs[len(self.cache) % len(self.configs)]
        return [0.0 if config is turn else 1.0] * 3

    new = dict(
        create_masked_load=new_load,
        create_masked_store=new_store,
        create_atomic_rmw=new_rmw,
        create_atomic_cas=new_cas,
        set_grid_idx=new_idx,
        set_grid_dim=new_dim,
    )
    old = {name: builder.__dict__[name] for name in new}
    for name, function in new.items():
        setattr(builder, name, function)
    executor.__call__, Autotuner._bench = new_call, new_bench
    try:
        yield recorder
    finally:
        for name, function in old.items():
            setattr(builder, name, function)
        executor.__call__, Autotuner._bench = call, bench


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
