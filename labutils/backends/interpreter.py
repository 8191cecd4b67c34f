"""Triton's interpreter as a backend: the kernel runs on the CPU in a child process and every address is seen.

This module and mends.py are the only ones that touch Triton's private API. What they lean on, seen alike in Triton
3.6, 3.7 and 3.9: `triton.runtime.interpreter` has an object `interpreter_builder` whose class has
`create_masked_load(ptrs, mask, other, …)`, `create_masked_store(ptrs, value, mask, …)`,
`create_atomic_rmw(op, ptr, value, mask, …)`, `create_atomic_cas(ptr, compare, value, …)`, `set_grid_dim` and
`set_grid_idx`; a class `GridExecutor` whose `__call__(*args, **kwargs)` is one launch; and `Autotuner` has `_bench`,
`cache` and `configs`. `tests/labutils/backends/test_interpreter.py` holds them to that.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import sys
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
        os.environ["TRITON_INTERPRET"] = "1"


def ready() -> bool:
    """Is Triton here, with its interpreter on?"""
    try:
        require()
    except Unavailable:
        return False
    return True


def require() -> None:
    """Raise Unavailable, saying what to do, unless Triton is here with its interpreter on and working."""
    try:
        import triton  # noqa: F401
    except ImportError:
        raise Unavailable(
            "Triton is not installed here. On Linux: pip install triton==3.7.1. There are wheels for Linux only: "
            "elsewhere use Colab, a Linux machine, or WSL on Windows. Exercises in plain Python work without it."
        ) from None
    import triton.language as tl
    from triton.runtime.interpreter import InterpretedFunction

    if not isinstance(tl.sum, InterpretedFunction):  # one of Triton's own, defined when it was imported
        raise Unavailable(
            "triton was imported before labutils, so its interpreter is switched off. Restart the notebook's kernel "
            "(Kernel → Restart) and run `import labutils as lab` before `import triton`."
        )
    self_test()


@functools.cache
def self_test() -> None:
    """Older interpreters returned zeros without a word: try masks, `dot`, bf16 and atomics once. About 20 ms."""
    from . import mends, selftest

    mends.mend()
    mend_loops()
    for name, yours, expected in selftest.results():
        if not torch.equal(yours, expected):
            import triton

            raise Unavailable(
                f"The interpreter of Triton {triton.__version__} gives wrong results here ({name}). "
                "Install the version that the course pins: pip install triton==3.7.1"
            )


def mend_loops() -> None:
    """Let `range(tl.program_id(0), n)` run: Triton 3.6 makes an int of an array of one element, NumPy 2.5 refuses."""
    import triton.runtime.interpreter as interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor, *rest):
        patch(tensor, *rest)
        tensor.__index__ = lambda self: int(self.handle.data.item())

    interpreter._patch_lang_tensor = patched


class Interpreter:
    """The backend of a machine without a GPU. What is launched is compiled for each of `targets` too."""

    name = "interpreter"
    device = "cpu"
    can = frozenset({"record"})

    def __init__(self, targets: Sequence[int] = TARGETS):
        self._targets = tuple(targets)
        self._compiled: dict[str, Problem | None] = {}
        self._launches: dict[str, dict] = {}
        self._not_told: list[str] = []
        self._compiler: offline.Compiler | None = None

    def describe(self) -> str:
        return "Triton's interpreter on the CPU; compiled for " + ", ".join(f"sm_{t}" for t in self._targets)

    def allocate(self, count: int) -> torch.Tensor:
        return shared_bytes(count)

    def run(self, fn: Callable, runs: Sequence[Run], time_limit: float = TIME_LIMIT) -> Iterator[Outcome]:
        require()
        self._launches, self._not_told = {}, []
        jobs = [functools.partial(_one, fn, run) for run in runs]
        for result in child.fork(jobs, time_limit):
            if isinstance(result, str):
                yield Outcome(child.end(result), seconds=time_limit)
                return
            for spec in result.pop("compile"):
                self._keep(spec)
            result["findings"] = [Finding(**{**f, "program": tuple(f["program"])}) for f in result["findings"]]
            if result["problem"]:
                result["problem"] = Problem(**result["problem"])
            yield Outcome(**result)

    def _keep(self, spec: dict | str) -> None:
        """Remember a launch for the compiler: one of those that differ in alignment only, the best aligned."""
        if not self._targets:
            return
        if isinstance(spec, str):
            self._not_told.append(spec)
            return
        key = json.dumps({**spec, "aligned": None}, sort_keys=True)
        if key not in self._launches or len(spec["aligned"]) > len(self._launches[key]["aligned"]):
            self._launches[key] = spec
        if key not in self._compiled and self._compiler is None:
            self._compiler = offline.Compiler(self._targets)  # it starts while the other cases run

    def compile_problem(self, fn: Callable) -> Problem | None:
        """What the compiler says about every distinct launch of the last `run`, for each target."""
        compiler, self._compiler = self._compiler, None
        try:
            new = [k for k in self._launches if k not in self._compiled]
            if new:
                found = compiler.problems([self._launches[k] for k in new])
                self._compiled.update(zip(new, found, strict=True))
        finally:
            if compiler is not None:
                compiler.close()
        if self._not_told:
            raise offline.CompilerFailed(self._not_told[0])
        return next((self._compiled[k] for k in self._launches if self._compiled[k]), None)


def _one(fn: Callable, run: Run) -> dict:
    """Runs in the child: one case, recorded."""
    recorder, specs = Recorder(), []
    for b in run.buffers.values():
        recorder.track(b.name, b.storage.data_ptr(), b.storage.element_size(), b.inside().numpy(), b.start)
    with np.errstate(all="ignore"), recording(recorder, on_launch=lambda *launch: _note(specs, *launch)):
        attempt = child.attempt(fn, run.arguments)
    problem, returned, done = attempt.problem, attempt.returned, recorder.counts.programs
    if problem and problem.kind == "timeout" and recorder.grid > 1:
        problem.message += f"; {done} of {recorder.grid} programs were begun"
    return {
        "problem": vars(problem) if problem else None,
        "launches": recorder.counts.launches,
        "findings": [vars(f) for f in recorder.findings],
        "counts": recorder.counts.to_json(),
        "returned": "" if returned is None else type(returned).__name__,
        "printed": attempt.printed,
        "seconds": attempt.seconds,
        "compile": specs,
    }


def _note(specs: list[dict | str], kernel, args, kwargs) -> None:
    """Keep what is needed to compile this launch elsewhere, once per distinct signature; or why it cannot be."""
    try:
        spec = offline.launch_spec(kernel, args, kwargs)
    except offline.NotExtractable as e:
        spec = str(e)
    if spec not in specs:
        specs.append(spec)


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
