"""In the sandbox: run a submission's Python without any data, and tell what it would launch.

Reads one job as JSON, writes one line of JSON for each case of each task. The learner's launchers get tensors on
PyTorch's meta device, which have a shape, strides and an address but no values; every launch is recorded in place of
being run. What comes out is untrusted: the judge checks it against `grader.judge.plan`.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import linecache
import sys
import types

import torch
import triton  # noqa: F401  (before labutils, which would switch to the interpreter)
from torch.overrides import TorchFunctionMode

from labutils import cuda
from labutils.backends import Problem, child, extract, offline
from labutils.backends.errors import explain
from labutils.check.evaluate import signature_problem
from labutils.cuda.signature import convert
from labutils.cuda.tensor_map import TensorMap
from labutils.gpu import device, roofline  # noqa: F401  (the last one is imported where answers are told)
from labutils.gpu.dispatch import DispatchMode
from labutils.spec.serialize import decode, encode

from . import cage, read
from .job import caged, job, tell_cases

MODULE = "submission"

MOST_STEPS = 1000
"""Steps of a plan that are sent to the judge, which reads fewer. A launcher ends at the next one."""

FILLS = {"zero_", "fill_", "zeros", "zeros_like", "new_zeros", "full", "full_like", "new_full", "ones", "ones_like",
         "new_ones"}  # fmt: skip
"""PyTorch functions that set every element to one value: a launcher may prepare scratch memory with them."""

ALLOCATIONS = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "set_", "resize_"}

COPIES = {"clone", "copy_", "_to_copy", "contiguous"}

SILENT = {"sym_size", "sym_stride", "sym_numel", "sym_storage_offset", "is_contiguous", "stride", "size", "detach"}


class Computed(RuntimeError):
    """The launcher let PyTorch do work that is the kernel's."""


class _Steps(list):
    """The steps of a plan, as far as anybody would read them."""

    def append(self, step: dict) -> None:
        if len(self) > MOST_STEPS:
            raise RuntimeError("too many launches and copies")
        super().append(step)


class Plan:
    """What one call of a launcher did, in order: the steps of a launch plan, and the memory they name."""

    def __init__(self, case: list[dict]):
        self.steps: list[dict] = _Steps()
        self.specs: list[dict] = []
        self.scratch: list[int] = []
        self._known: dict[int, dict] = {}
        self._kept: list[torch.Tensor] = []  # a freed storage's identity could come back as another's
        self.arguments = [self._argument(k, a) for k, a in enumerate(case)]

    def _argument(self, number: int, payload: dict):
        if "number" in payload:
            return payload["number"]
        storage = torch.empty(payload["length"], dtype=getattr(torch, payload["dtype"]), device="meta")
        self._kept.append(storage)
        self._known[storage.untyped_storage()._cdata] = {"argument": number}
        return storage.as_strided(payload["shape"], payload["strides"], payload["start"])

    def pointer(self, tensor: torch.Tensor) -> dict:
        """Where a tensor begins: an argument or scratch memory, and the offset in elements."""
        storage = tensor.untyped_storage()
        home = self._known.get(storage._cdata)
        if home is None:
            home = self._known[storage._cdata] = {"scratch": len(self.scratch)}
            self.scratch.append(storage.nbytes())
            self._kept.append(tensor)
        return {**home, "offset": tensor.storage_offset(), "dtype": str(tensor.dtype).removeprefix("torch.")}

    def fill(self, tensor: torch.Tensor, value: float) -> None:
        if tensor.numel():
            if not tensor.is_contiguous():
                raise Computed("fills a part of an array that is not contiguous")
            self.steps.append({"fill": self.pointer(tensor), "count": tensor.numel(), "value": value})

    def copy(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """A launcher may move data, to align them or to lay them out anew, as long as PyTorch computes nothing."""
        if source.dtype != target.dtype:
            raise Computed("converts an array with PyTorch")
        if target.numel():
            source = source.expand_as(target)
            self.steps.append({"copy": self._view(source), "to": self._view(target)})

    def _view(self, tensor: torch.Tensor) -> dict:
        return {**self.pointer(tensor), "shape": list(tensor.shape), "strides": list(tensor.stride())}

    def spec(self, spec: dict) -> int:
        if spec not in self.specs:
            self.specs.append(spec)
        return self.specs.index(spec)

    def value(self, value):
        """An argument of a launch, as JSON."""
        if isinstance(value, torch.Tensor):
            return {"pointer": self.pointer(value)}
        if isinstance(value, TensorMap):
            return {
                "descriptor": {
                    **self.pointer(value.tensor),
                    "shape": list(value.tensor.shape),
                    "strides": list(value.tensor.stride()),
                    "block_shape": list(value.box),
                    "padding": "zero",
                    "tf32": False,
                    "swizzle": value.swizzle,
                }
            }
        if hasattr(value, "block_shape"):
            return {
                "descriptor": {
                    **self.pointer(value.base),
                    "shape": [int(n) for n in value.shape],
                    "strides": [int(n) for n in value.strides],
                    "block_shape": [int(n) for n in value.block_shape],
                    "padding": str(getattr(value, "padding", "zero")),
                    "tf32": bool(getattr(value, "round_f32_to_tf32", False)),
                }
            }
        if value is None or isinstance(value, (bool, int, float)):
            return {"number": value}
        raise offline.NotExtractable(f"a {type(value).__name__} is passed to the kernel")

    def triton(self, kernel, args, kwargs, grid) -> dict:
        """One launch of a Triton kernel."""
        spec = offline.launch_spec(kernel, args, kwargs)
        values = offline.bound(kernel, args, kwargs)
        sizes = grid(values | kwargs) if callable(grid) else grid
        if not isinstance(sizes, (tuple, list)):  # Triton asks for its length
            raise TypeError(f"a launch grid is a tuple, such as ({sizes},), not a {type(sizes).__name__}")
        values = extract.flat(values)
        run_time = {n: self.value(values[n]) for n, kind in spec["signature"].items() if kind != "constexpr"}
        return {"kernel": self.spec({"language": "triton", **spec}), "grid": [int(n) for n in sizes], "args": run_time}

    def cuda(self, kernel, grid, block, shared, arguments) -> None:
        """One launch of a CUDA C++ kernel."""
        convert(kernel.signature, arguments, "meta")
        spec = {"language": "cuda", "source": kernel.module.source, "name": kernel.name,
                "options": list(kernel.module.options)}  # fmt: skip
        args = {p.name: self.value(a) for p, a in zip(kernel.signature.parameters, arguments, strict=True)}
        self.steps.append(
            {"kernel": self.spec(spec), "grid": list(grid), "block": list(block), "shared": shared,
             "cluster": kernel.cluster, "args": args}
        )  # fmt: skip

    def to_json(self) -> dict:
        return {"steps": self.steps, "specs": self.specs, "scratch": self.scratch}


class _OnMeta(TorchFunctionMode):
    """New tensors are made where the arguments are, whatever device the launcher names."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if kwargs.get("device") is not None:
            kwargs["device"] = "meta"
        name = getattr(func, "__name__", "")
        if name in ("cuda", "cpu", "pin_memory"):
            return args[0]
        return func(*args, **kwargs)


class _NoWork(DispatchMode):
    """Allocations, views and fills are a launcher's business; anything else is the kernel's."""

    def __init__(self, plan: Plan):
        super().__init__()
        self.plan = plan

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if name in FILLS:
            result = func(*args, **kwargs)
            value = 0.0 if "zero" in name else 1.0 if "ones" in name else args[-1] if len(args) > 1 else None
            if name.startswith(("full", "new_full")):
                value = kwargs.get("fill_value", args[-1])
            if not isinstance(value, (bool, int, float)):
                raise Computed("fills an array with a value from another array")
            self.plan.fill(result, float(value))
            return result
        if name in COPIES:
            result = func(*args, **kwargs)
            self.plan.copy(args[1], args[0]) if name == "copy_" else self.plan.copy(args[0], result)
            return result
        if name in ALLOCATIONS or name in SILENT or func.is_view:
            return func(*args, **kwargs)
        if name == "_local_scalar_dense":
            raise Computed("reads an array's values on the host")
        raise Computed(f"computes with PyTorch ({name})")


@contextlib.contextmanager
def recording(plan: Plan):
    """Within this context launches of Triton and CUDA C++ kernels go into the plan."""
    patches = []
    with contextlib.ExitStack() as stack:
        try:
            from triton.runtime.autotuner import Autotuner
            from triton.runtime.jit import JITFunction

            patches = [(JITFunction, "run", JITFunction.run), (Autotuner, "run", Autotuner.run)]
            choosing: list[list] = []

            def run(self, *args, grid=None, warmup=False, **kwargs):
                step = plan.triton(self, args, kwargs, grid)
                (choosing[-1] if choosing else plan.steps).append(step)

            def tune(self, *args, **kwargs):
                """Every configuration that could be chosen; the judge times them."""
                self.nargs = dict(zip(self.arg_names, args, strict=False))
                choosing.append([])
                try:
                    for config in self.prune_configs(kwargs):
                        if config.pre_hook is not None:
                            config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
                        self.fn.run(*args, **kwargs, **config.all_kwargs())
                finally:
                    self.nargs, choices = None, choosing.pop()
                plan.steps.append({"choices": choices} if len(choices) > 1 else choices[0])

            JITFunction.run, Autotuner.run = run, tune
        except ImportError:  # CUDA C++ and plain Python do without Triton
            pass
        stack.enter_context(cuda.redirected(plan.cuda))
        stack.enter_context(_OnMeta())
        stack.enter_context(_NoWork(plan))
        try:
            yield plan
        finally:
            for owner, name, old in patches:
                setattr(owner, name, old)


class Refused:
    """Stands for a kernel whose cell failed: what failed shows when it is launched."""

    def __init__(self, error: BaseException):
        self._error = error

    def __getitem__(self, configuration):
        raise self._error


def define(cells: list[list[str]]) -> tuple[dict, list[dict]]:
    """Run the cells in one namespace, statement by statement: what goes wrong costs that statement alone. Returns the
    namespace and the problems."""
    module = sys.modules[MODULE] = types.ModuleType(MODULE)
    problems = []
    for number, (name, text) in enumerate(cells):
        file = f"<{name}, piece {number}>"  # a cell may come in several pieces, and each is read again by its file
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        try:
            statements = ast.parse(text, file).body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
            problems.append({"cell": name, **vars(explain(e))})
            continue
        for statement in statements:
            try:
                exec(compile(ast.Module([statement], []), file, "exec"), module.__dict__)
            except (Exception, SystemExit) as e:
                problems.append({"cell": name, **vars(explain(e))})
                for kernel in _kernels(statement):
                    module.__dict__.setdefault(kernel, Refused(e))
    return module.__dict__, problems


def _kernels(statement: ast.stmt) -> list[str]:
    """Names of the CUDA C++ kernels that a statement would have bound."""
    if not isinstance(statement, ast.Assign) or "cuda.compile(" not in ast.unparse(statement.value)[:40]:
        return []
    return [t.id for t in statement.targets if isinstance(t, ast.Name)]


def plan_of(task: dict, cells, case: list[dict]) -> dict:
    """In a child of its own: the plan of one case, or the problem."""
    plan = Plan(case)
    with recording(plan):
        attempt = child.attempt(_defined, (task, cells))
        if attempt.problem is None and isinstance(attempt.returned, dict):
            return attempt.returned
        if attempt.problem is None:
            attempt = child.attempt(attempt.returned, plan.arguments)
    if len(plan.steps) > MOST_STEPS:
        message = f"your launcher makes more than {MOST_STEPS} launches and copies in one call; far fewer are judged"
        attempt.problem, plan = Problem("error", message), Plan(case)
    return {
        **plan.to_json(),
        "problem": vars(attempt.problem) if attempt.problem else None,
        "returned": "" if attempt.returned is None else type(attempt.returned).__name__,
        "printed": attempt.printed,
    }


_namespaces: dict[str, tuple[dict, list[dict]]] = {}


def _defined(task: dict, cells):
    """The learner's function, or what keeps it from being called."""
    if task["id"] not in _namespaces:
        _namespaces[task["id"]] = define(cells)
    namespace, problems = _namespaces[task["id"]]
    fn = namespace.get(task["entry"])
    if fn is None:
        return {"missing": True, "cells": problems}
    if hasattr(fn, "fn") and task["kind"] == "kernel":
        return {"signature": f"{task['entry']} is a kernel; the check needs the launcher that launches it"}
    if why := signature_problem(fn, tuple(task["parameters"])):
        return {"signature": f"{getattr(fn, '__name__', task['entry'])}: {why}"}
    return fn


def answer_of(task: dict, cells, arguments: list) -> dict:
    """In a child of its own: what a plain function returns, as JSON."""
    with cuda.redirected(_not_here):
        attempt = child.attempt(_defined, (task, cells))
        if attempt.problem is None and isinstance(attempt.returned, dict):
            return attempt.returned
        if attempt.problem is None:
            attempt = child.attempt(attempt.returned, [decode(a) for a in arguments])
    answer = {}
    if attempt.problem is None:
        try:
            answer = {"value": encode(attempt.returned)}
        except Exception:
            answer = {"type": type(attempt.returned).__name__}
    return {
        "answer": answer,
        "problem": vars(attempt.problem) if attempt.problem else None,
        "printed": attempt.printed,
    }


def _not_here(*launch) -> None:
    """A launch where none is asked for: no compiler runs beside a submission's Python."""
    raise RuntimeError("a kernel is launched where only a function's answer is asked for; no kernel runs here")


def prepare() -> None:
    """What is worth having done before a job is known: this module's imports, the catalogue of GPUs, and what PyTorch
    imports of itself with the first `empty_like` on the meta device."""
    device.catalogue()
    importlib.import_module("grader.judge.reading").prepare()
    with recording(Plan([])):
        torch.empty_like(torch.empty(1, device="cuda"))


def main(memory: int | None = None) -> None:
    with job() as (payload, answer):
        if "reader" in payload:  # nothing of a submission has run in this process
            read.reply(payload, answer, memory)
            return
        cage.lock("parent")
        for task in payload["tasks"]:
            one = answer_of if task["kind"] == "plain" else plan_of
            cases = [functools.partial(one, task, payload["cells"], case) for case in task["cases"]]
            tell_cases(task["id"], child.fork(caged("python", cases), payload["time_limit"]), answer)


if __name__ == "__main__":
    main()
