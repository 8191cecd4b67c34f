"""Triton's interpreter as a backend: the kernel runs on the CPU in a child process and every address is seen.

This is the only module that touches Triton's private API. What it leans on, seen alike in Triton 3.6, 3.7 and 3.9:
`triton.runtime.interpreter` has a builder object `interpreter_builder` whose class has `create_masked_load(ptrs, mask,
other, …)`, `create_masked_store(ptrs, value, mask, …)`, `create_atomic_rmw(op, ptr, value, mask, …)` and
`create_atomic_cas(ptr, compare, value, …)`, `set_grid_dim` and `set_grid_idx`; and a class `GridExecutor` whose `__call__(*args, **kwargs)`
is one launch. `tests/labutils/test_interpreter.py` holds this module to that.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from ..access import Finding, Recorder
from ..inputs import Run, shared_bytes
from . import TIME_LIMIT, Outcome, Problem, child, errors, offline

TARGETS = (80, 90)
"""Compute capabilities that every check without a GPU compiles for."""


class Unavailable(RuntimeError):
    """Triton cannot be used here; the message says what to do."""


def prepare() -> None:
    """Switch Triton's interpreter on. To be called before triton is imported for the first time."""
    if "triton" not in sys.modules:
        os.environ.setdefault("TRITON_INTERPRET", "1")


def require() -> None:
    """Raise Unavailable, saying what to do, unless Triton is here with its interpreter on and working."""
    try:
        import triton  # noqa: F401
    except ImportError:
        raise Unavailable(
            f"Triton is not available for {sys.platform}: its wheels are for Linux only. Use Colab, a Linux machine, or "
            "WSL on Windows. Exercises in plain Python work here."
        ) from None
    import triton.language as tl
    from triton.runtime.interpreter import InterpretedFunction

    if not isinstance(tl.sum, InterpretedFunction):
        raise Unavailable(
            "triton was imported before labutils, so its interpreter is switched off. Restart the notebook's kernel "
            "(Kernel → Restart) and run `import labutils as lab` before `import triton`."
        )
    self_test()


@functools.cache
def self_test() -> None:
    """Older interpreters returned zeros without a word: try masks, `dot`, bf16 and atomics once. About 20 ms."""
    from . import selftest

    for name, yours, expected in selftest.results():
        if not torch.equal(yours, expected):
            import triton

            raise Unavailable(
                f"The interpreter of Triton {triton.__version__} gives wrong results here ({name}). "
                "Install the version that the course pins: pip install triton==3.7.1"
            )


class Interpreter:
    """The backend of a machine without a GPU."""

    name = "interpreter"
    device = "cpu"
    can = frozenset({"record"})

    def __init__(self):
        self._compiled: dict[str, Problem | None] = {}
        self._launches: list[dict] = []

    def describe(self) -> str:
        return "Triton's interpreter on the CPU; compiled for " + ", ".join(f"sm_{t}" for t in TARGETS)

    def allocate(self, count: int) -> torch.Tensor:
        return shared_bytes(count)

    def run(self, fn: Callable, runs: Sequence[Run], time_limit: float = TIME_LIMIT) -> Iterator[Outcome]:
        require()
        self._launches = []
        jobs = [functools.partial(_one, fn, run) for run in runs]
        for result in child.fork(jobs, time_limit):
            if isinstance(result, str):
                kind, _, why = result.partition(": ")
                text = f"the process that ran it died: {why}" if why else "the code did not come to an end"
                yield Outcome(Problem(kind, text), seconds=time_limit)
                return
            for spec in result.pop("compile"):
                if spec not in self._launches:
                    self._launches.append(spec)
            result["findings"] = [Finding(**{**f, "program": tuple(f["program"])}) for f in result["findings"]]
            if result["problem"]:
                result["problem"] = Problem(**result["problem"])
            yield Outcome(**result)

    def compile_problem(self, fn: Callable) -> Problem | None:
        """What the compiler says about every distinct launch of the last `run`, for each target."""
        specs, self._launches = self._launches, []
        return offline.first_problem(specs, TARGETS, self._compiled)


def _one(fn: Callable, run: Run) -> dict:
    """Runs in the child: one case, recorded."""
    recorder, printed = Recorder(), child.Printed()
    for b in run.buffers.values():
        recorder.track(b.name, b.storage.data_ptr(), b.storage.element_size(), b.inside().numpy(), b.start)
    problem, returned, specs = None, None, []
    begin = time.perf_counter()
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        np.errstate(all="ignore"),
        recording(recorder, on_launch=lambda *launch: _note(specs, *launch)),
    ):
        try:
            returned = fn(*run.arguments)
        except (Exception, errors.TimeLimit, SystemExit) as e:
            problem = errors.explain(e)
    return {
        "problem": vars(problem) if problem else None,
        "launches": recorder.counts.launches,
        "findings": [vars(f) for f in recorder.findings],
        "counts": recorder.counts.to_json(),
        "returned": "" if returned is None else type(returned).__name__,
        "printed": printed.getvalue(),
        "seconds": time.perf_counter() - begin,
        "compile": specs,
    }


def _note(specs: list[dict], kernel, args, kwargs) -> None:
    """Keep what is needed to compile this launch elsewhere, once per distinct signature."""
    with contextlib.suppress(offline.NotExtractable):
        spec = offline.launch_spec(kernel, args, kwargs)
        if spec not in specs:
            specs.append(spec)


@contextlib.contextmanager
def recording(recorder: Recorder, on_launch: Callable = lambda *launch: None):
    """Within this context, every launch of an interpreted kernel reports its accesses to the recorder.

    `on_launch(function, args, kwargs)` is called before each launch.
    """
    import triton.runtime.interpreter as interpreter

    builder, executor = type(interpreter.interpreter_builder), interpreter.GridExecutor
    load, store = builder.create_masked_load, builder.create_masked_store
    rmw, cas = builder.create_atomic_rmw, builder.create_atomic_cas
    call, set_idx, set_dim = executor.__call__, builder.set_grid_idx, builder.set_grid_dim
    handle, grid = interpreter.TensorHandle, [1, 1, 1]

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
        ok = recorder.atomic(ptr.data, array(mask), item(ptr), errors.calling_line)
        return rmw(self, op, ptr, value, allowed(mask, ok), *rest, **named)

    def new_cas(self, ptr, compare, value, *rest, **named):
        ok = recorder.atomic(ptr.data, np.ones(ptr.data.shape, bool), item(ptr), errors.calling_line)
        if not ok.all():
            raise IndexError("atomic_cas outside the array")
        return cas(self, ptr, compare, value, *rest, **named)

    def new_dim(self, *dims):
        grid[:] = dims
        return set_dim(self, *dims)

    def new_idx(self, x, y, z):
        recorder.program((x, y, z), (x * grid[1] + y) * grid[2] + z)
        return set_idx(self, x, y, z)

    def new_call(self, *args, **kwargs):
        on_launch(self.fn, args, kwargs)
        for name, tensor in _tensors(self.arg_names, args, kwargs):
            storage = tensor.untyped_storage()
            if storage.nbytes() and not recorder.knows(tensor.data_ptr()):  # the launcher's own scratch
                count = storage.nbytes() // tensor.element_size()
                recorder.track(name, storage.data_ptr(), tensor.element_size(), np.ones(count, bool))
        recorder.launch()
        return call(self, *args, **kwargs)

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
    executor.__call__ = new_call
    try:
        yield recorder
    finally:
        for name, function in old.items():
            setattr(builder, name, function)
        executor.__call__ = call


def _tensors(names, args, kwargs):
    for name, value in [*zip(names, args, strict=False), *kwargs.items()]:
        base = getattr(value, "base", value)  # a TensorDescriptor holds its tensor in .base
        if isinstance(base, torch.Tensor):
            yield name, base


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
    import ctypes

    return (ctypes.c_uint8 * count).from_address(address)
