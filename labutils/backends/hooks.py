"""Hooks into Triton's interpreter, so that a recorder sees every launch and every address.

This module and interpreter_patches.py are the only ones that touch Triton's private API. What they lean on,
seen alike in Triton 3.6, 3.7 and 3.9: `triton.runtime.interpreter` has an object `interpreter_builder` whose class has
`create_masked_load(ptrs, mask, other, …)`, `create_masked_store(ptrs, value, mask, …)`,
`create_atomic_rmw(op, ptr, value, mask, …)`, `create_atomic_cas(ptr, compare, value, …)`, `create_barrier`,
`create_dot`, `create_shl`, `create_lshr` and `create_ashr(value, distance)`, `set_grid_dim` and `set_grid_idx`; classes
`ReduceOps` and `ScanOps` with `apply_impl`; `InterpretedFunction` and `GridExecutor`, of which the latter's
`__call__(*args, **kwargs)` is one launch; and `Autotuner` has `_bench`, `cache` and `configs`.
`tests/labutils/backends/test_interpreter.py` holds them to that.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import inspect
from collections.abc import Callable

import numpy as np
import torch
from numpy.random import default_rng  # here: a caged process imports nothing any more

from . import atomics, errors, poison
from .access import Guard, Recorder
from .pointers import Storage, live_storages
from .turns import Programs


def interpreting() -> bool:
    """Was the interpreter on when triton was imported?"""
    import triton.language as tl
    from triton.runtime.interpreter import InterpretedFunction

    return isinstance(tl.sum, InterpretedFunction)  # one of Triton's own functions, decorated at that time


@contextlib.contextmanager
def recording(
    recorder: Recorder, on_launch: Callable = lambda *launch: None, order: int = 0, follow_pointers: bool = False
):
    """Within this context, every launch of an interpreted kernel reports its accesses to the recorder.

    `on_launch(function, args, kwargs)` is called before each launch. `order` seeds the order in which programs run and
    what masked lanes of a load hold; 0: by number, and always the same. `follow_pointers`: a number that becomes a
    pointer leads to the tensor of this process that lies there, if one does.
    """
    import triton.runtime.interpreter as interpreter
    from triton.runtime.autotuner import Autotuner

    builder = type(interpreter.interpreter_builder)
    hooks = _Hooks(recorder, on_launch, order, builder.set_grid_idx)
    table = [
        (builder, "create_masked_load", hooks.load),
        (builder, "create_masked_store", hooks.store),
        (builder, "create_atomic_rmw", hooks.atomic_rmw),
        (builder, "create_atomic_cas", hooks.atomic_cas),
        *((builder, name, hooks.shift) for name in ("create_shl", "create_lshr", "create_ashr")),
        (builder, "create_barrier", hooks.meet),
        (builder, "create_dot", hooks.meet),
        (interpreter.ReduceOps, "apply_impl", hooks.meet),
        (interpreter.ScanOps, "apply_impl", hooks.meet),
        (builder, "set_grid_dim", hooks.grid_dim),
        (builder, "set_grid_idx", hooks.grid_idx),
        (interpreter.GridExecutor, "__call__", hooks.launch),
        (Autotuner, "_bench", bench),
        (interpreter, "_implicit_cvt", hooks.argument),
    ]
    if follow_pointers:
        table.append((builder, "create_int_to_ptr", hooks.int_to_ptr))
    with _patched(table):
        yield recorder


@contextlib.contextmanager
def planning(on_launch: Callable):
    """Within this context no interpreted kernel runs: `on_launch(function, args, kwargs, grid)` takes its place. An
    autotuner takes its first configuration, and afterwards knows nothing of it: the first launch that runs has it, too.
    """
    import triton.runtime.interpreter as interpreter
    from triton.runtime.autotuner import Autotuner

    asked: dict[int, Autotuner] = {}

    def first(method, autotuner, *args, config, **meta):
        asked[id(autotuner)] = autotuner
        return [0.0 if config is autotuner.configs[0] else 1.0] * 3

    def launch(method, executor, *args, **kwargs):
        names = inspect.getfullargspec(executor.fn).args
        named = {k: v for k, v in kwargs.items() if k in names}
        values = inspect.getcallargs(executor.fn, *args, **named)
        grid = executor.grid(values) if callable(executor.grid) else executor.grid
        on_launch(executor.fn, args, kwargs, tuple(int(n) for n in grid))

    with _patched([(interpreter.GridExecutor, "__call__", launch), (Autotuner, "_bench", first)]):
        yield
    for autotuner in asked.values():
        autotuner.cache.clear()


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

    def __init__(self, recorder: Recorder, on_launch: Callable, order: int, move_to: Callable):
        self.recorder, self.on_launch, self.order, self.move_to = recorder, on_launch, order, move_to
        self.random = default_rng(order)
        self.programs: Programs | None = None
        self.polled_at = None
        self.storages: list[Storage] | None = None

    def load(self, method, builder, ptrs, mask, other, *rest, **named):
        ptrs = self._in_memory(ptrs)
        volatile = bool(rest[2] if len(rest) > 2 else named.get("is_volatile"))  # behind two modifiers of caches
        ok = self.recorder.load(ptrs.data, _array(mask), _itemsize(ptrs), errors.calling_line, volatile)
        if ptrs.data.size == 1:  # a flag may be polled by a plain load
            again, self.polled_at = self.polled_at == ptrs.data.item(), ptrs.data.item()
            if again and self.programs:
                self.programs.polled(for_good=False)
        if other is None and self.recorder.poisons and not ok.all():
            other = poison.masked_lanes(ptrs, self.random)
        return method(builder, ptrs, _allowed(mask, ok), other, *rest, **named)

    def store(self, method, builder, ptrs, value, mask, *rest, **named):
        ptrs, changes = self._in_memory(ptrs), None
        if self.recorder.thorough:
            changes = _changes(ptrs.data, value.data, _array(mask), self.recorder)
        ok = self.recorder.store(ptrs.data, _array(mask), _itemsize(ptrs), errors.calling_line, changes)
        if self.recorder.thorough:
            self.recorder.disagree(ptrs.data, ok, value.data, errors.calling_line)
        self._moved()
        return method(builder, ptrs, value, _allowed(mask, ok), *rest, **named)

    def atomic_rmw(self, method, builder, op, ptr, value, mask, sem, *rest, **named):
        import triton.language as tl

        if value.dtype.scalar == tl.bfloat16:
            raise NotImplementedError("the interpreter has no atomics on bfloat16: use float32 for the sum")
        ptr = self._in_memory(ptr)
        mask_now = np.broadcast_to(_array(mask), ptr.data.shape)
        quiet = mask_now & atomics.leaves_all(str(op), np.broadcast_to(value.data, ptr.data.shape))
        run = lambda ok: method(builder, op, ptr, value, _allowed(mask, ok), sem, *rest, **named)  # noqa: E731
        return self._atomic(ptr, mask_now, quiet, sem, run, again=atomics.repeated(str(op), value.data))

    def atomic_cas(self, method, builder, ptr, compare, value, sem, *rest, **named):
        def run(ok):
            if not ok.all():
                raise IndexError("atomic_cas outside the array")
            return method(builder, ptr, compare, value, sem, *rest, **named)

        ptr = self._in_memory(ptr)
        everywhere = np.ones(ptr.data.shape, bool)
        same = np.broadcast_to(compare.data == value.data, ptr.data.shape)
        return self._atomic(ptr, everywhere, same, sem, run, expected=np.broadcast_to(compare.data, ptr.data.shape))

    def _atomic(self, ptr, mask, quiet, sem, run: Callable, expected=None, again=None):
        """An atomic by `run(lanes)`. What changes nothing may see what was there before; what changes something may
        come before what was changed (`again` does its own change once more)."""
        recorder, size = self.recorder, _itemsize(ptr)
        old = atomics.old_values(recorder, ptr.data, mask, quiet, size, expected)
        semantics = atomics.SEMANTICS[str(sem).rpartition(".")[2]]
        dropped = errors.result_is_dropped()
        if (mask & ~quiet).any() and dropped:
            semantics = atomics.WITHOUT_RESULT.get(semantics, semantics)
        epoch, later = (
            recorder.now,
            None if old or dropped else atomics.overtaken(recorder, ptr.data, mask, quiet, size),
        )
        unseen = {ptr.data.item()} if later else old.keys()
        ok = recorder.atomic(ptr.data, mask, size, errors.calling_line, semantics, unseen)
        if later:
            result, changed = atomics.overtake(later, ptr.data.item(), size, lambda: run(ok))
        else:
            result = run(ok)
            again = again if dropped else None
            changed = atomics.note_changes(recorder, ptr.data, ok, result.data, size, epoch, again)
        if changed:
            recorder.updated(ptr.data[ok], epoch)
            self._moved()
        elif self.programs:
            self.programs.polled()
        if not dropped:
            recorder.meet()  # the result goes to all threads
        return type(result)(atomics.replaced(result.data, ptr.data, old), result.dtype) if old else result

    def shift(self, method, builder, value, distance):
        """On a GPU, the result of a shift by the width of the type or more is undefined, so it is poison here."""
        result = method(builder, value, distance)
        bits = 8 * result.data.dtype.itemsize
        beyond = (distance.data < 0) | (distance.data >= bits)
        if self.recorder.poisons and beyond.any():
            result.data = np.where(beyond, poison.bits(result.data.shape, result.data.dtype, self.random), result.data)
        return result

    def meet(self, method, owner, *args, **kwargs):
        """At a barrier, and in what threads compute together through shared memory, they meet."""
        self.recorder.meet()
        return method(owner, *args, **kwargs)

    def _moved(self) -> None:
        if self.programs:
            self.programs.moved()

    def grid_dim(self, method, builder, *dims):
        self.recorder.grid = dims[0] * dims[1] * dims[2]
        self.programs.begin(dims, functools.partial(self.move_to, builder))
        return method(builder, *dims)

    def grid_idx(self, method, builder, *place):
        """`Programs` says which program runs; the interpreter's own loop only calls it so often."""

    def launch(self, method, executor, *args, **kwargs):
        self.on_launch(executor.fn, args, kwargs)
        self.recorder.launch()
        self.storages = None
        for name, tensor in tensors([*zip(executor.arg_names, args, strict=False), *kwargs.items()]):
            storage = tensor.untyped_storage()
            if storage.nbytes() and not self.recorder.knows(tensor.data_ptr()):
                count = storage.nbytes() // tensor.element_size()
                inside = np.ones(count, bool)
                self.recorder.track(name, storage.data_ptr(), tensor.element_size(), inside, scratch=True)
        self._follow([a.data_ptr() for a in (*args, *kwargs.values()) if _points(a)])
        function, outer = executor.fn, self.programs
        executor.fn = self.programs = Programs(function, self.recorder, self.order)
        try:
            with np.errstate(all="ignore"):  # what masked lanes hold overflows, and nobody uses it
                return method(executor, *args, **kwargs)
        finally:
            executor.fn, self.programs = function, outer

    def argument(self, method, argument):
        """An argument as the kernel gets it: strides and addresses of far arrays differ from the launcher's."""
        if not self.recorder.far:
            return method(argument)
        if type(argument) is int:
            return method(self.recorder.stretched(argument))
        result = method(argument)
        if hasattr(argument, "data_ptr"):
            result.handle.data = np.array([self.recorder.seen(argument.data_ptr())], np.uint64)
        return result

    def _in_memory(self, ptrs):
        """Pointers of the kernel as pointers of this process."""
        return type(ptrs)(self.recorder.in_memory(ptrs.data), ptrs.dtype) if self.recorder.far else ptrs

    def int_to_ptr(self, method, builder, value, *rest):
        self._follow(a for a in np.unique(value.data).tolist() if a)
        return method(builder, value, *rest)

    def _follow(self, addresses) -> None:
        """Watch the tensors of this process that lie at these addresses."""
        addresses = [a for a in addresses if not self.recorder.knows(a)]
        if addresses and self.storages is None:
            self.storages = live_storages()
        for address in addresses:
            for s in self.storages:
                if s.base <= address < s.end and not self.recorder.knows(address):
                    inside = np.ones((s.end - s.base) // s.itemsize, bool)
                    self.recorder.track(s.name, s.base, s.itemsize, inside, scratch=True)


def _points(argument) -> bool:
    """Is it no tensor, and stands for one?"""
    return hasattr(argument, "data_ptr") and not isinstance(argument, torch.Tensor)


def bench(method, autotuner, *args, config, **meta):
    """In place of the autotuner's timing. There is nothing to time here: each new key takes the next configuration, so
    that all get their turn."""
    turn = autotuner.configs[len(autotuner.cache) % len(autotuner.configs)]
    return [0.0 if config is turn else 1.0] * 3


def _array(mask) -> np.ndarray:
    return mask if isinstance(mask, np.ndarray) else mask.data


def _allowed(mask, ok: np.ndarray):
    """The lanes that may go on, in the type of the mask."""
    return ok if isinstance(mask, np.ndarray) else type(mask)(ok, mask.dtype)


def _itemsize(ptrs) -> int:
    return max(1, ptrs.get_element_ty().primitive_bitwidth // 8)


def tensors(arguments):
    """(name, tensor) of each array among the arguments of a launch."""
    for name, value in arguments:
        value = getattr(value, "base", value)  # a TensorDescriptor holds its tensor in .base
        if isinstance(value, tuple):
            yield from tensors((f"{name}[{i}]", v) for i, v in enumerate(value))
        elif isinstance(value, torch.Tensor):
            yield name, value


def _changes(addresses, values, mask, recorder: Recorder) -> np.ndarray | None:
    """Lanes whose store would change memory. Read only where the recorder knows the memory; None when unsure."""
    addresses, values = np.broadcast_arrays(addresses, values)
    mask = np.broadcast_to(np.asarray(mask, bool), addresses.shape)
    changes = np.ones(addresses.shape, bool)
    for t in recorder.between(addresses[mask]):
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


def guard_plain_launches(report: Callable[[list[str]], None]) -> None:
    """From now on, launches outside of `recording` are watched too: an access outside of the arrays does not happen,
    and `report` gets a sentence for each. Otherwise the interpreter's process, a notebook's kernel, may die of it."""
    import triton.runtime.interpreter as interpreter
    from triton.runtime.autotuner import Autotuner

    executor = interpreter.GridExecutor
    plain = executor.__dict__["__call__"]
    if getattr(plain, "guards", False):
        return

    def guarded(self, *args, **kwargs):
        if executor.__dict__["__call__"] is not guarded:  # somebody records, and calls this in between
            return plain(self, *args, **kwargs)
        recorder = Guard()
        try:
            with recording(recorder, follow_pointers=True), np.errstate(all="ignore"):
                executor.__dict__["__call__"](self, *args, **kwargs)
        finally:
            outside = [f for f in recorder.findings if f.kind == "out-of-bounds"]
            if outside:
                report([f.sentence() for f in outside])

    guarded.guards = True
    executor.__call__ = guarded
    Autotuner._bench = _hooked(Autotuner._bench, bench)  # it chooses before it launches
