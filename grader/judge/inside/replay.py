"""In a sandbox of its own: run kernels, and nothing but kernels, on the judge's data with every access recorded.

Reads one job as JSON: plans whose kernels' text was read before (`grader.judge.language`), and where their arrays lie
in the shared memory. Triton kernels run in the interpreter, CUDA C++ in the emulator, each case in a forked child.
Writes one line of JSON for each case: findings, counts, problems. Outputs stay in the shared memory.

The cage closes in three steps (`cage`). CUDA C++ is compiled first, by programs of ours in a child (`builds`); then no
process of the job can start a program any more. The child of a task loads what was built, and before any kernel runs it
gives up files, code that is new, signals and all else but memory, clocks and children.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import importlib
import linecache
import mmap
import sys
from dataclasses import dataclass

import numpy as np
import torch

import labutils  # noqa: F401  (switches the interpreter on)
from labutils.backends import child, emulator, errors, interpreter
from labutils.backends.extract import grouped, keep_lines, load
from labutils.backends.simt import counting
from labutils.cuda import nvrtc, tensor_map
from labutils.gpu import device
from labutils.spec.inputs import shared_bytes

from . import builds, cage
from .job import caged, job, tell_cases


@dataclass
class SharedArray:
    """One array of a case, as the backends want to see it: labutils.spec.inputs.Buffer without what the judge keeps."""

    name: str
    storage: torch.Tensor
    view: torch.Tensor
    start: int
    apart: int

    def inside(self) -> torch.Tensor:
        mask = torch.zeros(self.storage.numel(), dtype=torch.bool)
        mask.as_strided(self.view.shape, self.view.stride(), self.start).fill_(True)
        return mask


@dataclass
class Case:
    buffers: dict[str, SharedArray]
    arguments: list


def arrays(payload: dict, memory: memoryview) -> Case:
    """The arrays of a case, where they lie in the shared memory."""
    buffers, arguments = {}, []
    for a in payload["arguments"]:
        if "number" in a:
            arguments.append(a["number"])
            continue
        dtype = getattr(torch, a["dtype"])
        storage = torch.frombuffer(memory, dtype=dtype, count=a["length"], offset=a["at"])
        view = storage.as_strided(a["shape"], a["strides"], a["start"])
        buffers[a["name"]] = SharedArray(a["name"], storage, view, a["start"], a["apart"])
        arguments.append(storage)
    return Case(buffers, arguments)


def launcher(plan: dict, turn: int):
    """A function of the case's storages that does what the plan says; `turn` tells which configuration of an autotuned
    kernel it launches."""
    kernels = [None] * len(plan["specs"])

    def kernel(index: int):
        if kernels[index] is None:
            spec = plan["specs"][index]
            if spec["language"] == "cuda":
                kernels[index] = builds.loaded(spec)
            else:
                kernels[index] = _module(tuple(tuple(p) for p in spec["module"]), f"kernel_{index}")
        return kernels[index]

    def call(*storages):
        scratch = [shared_bytes(n).random_() for n in plan["scratch"]]

        def pointer(p: dict) -> torch.Tensor:
            base = storages[p["argument"]] if "argument" in p else scratch[p["scratch"]]
            dtype = getattr(torch, p["dtype"])
            flat = base if base.dtype == dtype else base.view(torch.uint8).view(dtype)
            return flat[p["offset"] :]

        def view(v: dict) -> torch.Tensor:
            base = pointer(v)
            return base.as_strided(v["shape"], v["strides"], base.storage_offset())

        def value(a: dict):
            if "pointer" in a:
                return pointer(a["pointer"])
            if "descriptor" in a:
                d = a["descriptor"]
                if "swizzle" in d:
                    return tensor_map.tensor_map(view(d), d["block_shape"], d["swizzle"])
                from triton.tools.tensor_descriptor import TensorDescriptor

                return TensorDescriptor(view(d), d["shape"], d["strides"], d["block_shape"], d["padding"])
            return a["number"]

        for step in plan["steps"]:
            if "fill" in step:
                pointer(step["fill"])[: step["count"]].fill_(step["value"])
                continue
            if "copy" in step:
                view(step["to"]).copy_(view(step["copy"]))
                continue
            if "choices" in step:
                step = step["choices"][turn % len(step["choices"])]
            spec, args = plan["specs"][step["kernel"]], {k: value(a) for k, a in step["args"].items()}
            if spec["language"] == "cuda":
                grid, block = tuple(step["grid"]), tuple(step["block"])
                kernel(step["kernel"]).clustered(step["cluster"])[grid, block, step["shared"]](*args.values())
                continue
            namespace = kernel(step["kernel"])
            for name, c in spec["constants"].items():
                args[name] = _constant(c, namespace)
            args = grouped({name: args[name] for name in spec["signature"]})
            namespace[spec["kernel"]][tuple(step["grid"])](**args)

    return call


_modules: dict[tuple, dict] = {}


def _module(parts: tuple, name: str) -> dict:
    """The namespace of a Triton kernel's module. Most cases of a task launch the same text: it is run once."""
    if (name, parts) in _modules:
        keep_lines(parts)  # another kernel of the same cell may have taken their place
    else:
        _modules[name, parts] = load(parts, name)
    return _modules[name, parts]


def _constant(payload, namespace):
    if isinstance(payload, dict):
        if "function" in payload:
            return namespace[payload["function"]]
        import triton.language as tl

        return tl.dtype(payload["dtype"])
    return payload


def run_case(task: dict, number: int, memory: memoryview, time_limit: float) -> dict:
    """In a child: one case."""
    payload = task["cases"][number]
    case, launch = arrays(payload, memory), launcher(payload["plan"], payload["turn"])
    if task["language"] == "triton":
        interpreter.require()
        result = interpreter.one_case(launch, case, compiled=False)
        result.pop("compile")
    else:
        result = emulator.one_case(launch, case, time_limit)
    return result


def prepare() -> None:
    """What is worth having done before a job is known: both machines' imports, the catalogue of GPUs, NVRTC loaded.
    And what Python would only look for on the disk when it is needed: in a cage it is there or nowhere."""
    interpreter.require()
    np.ctypeslib, np.ma  # noqa: B018 (imports them)
    errors.is_learners("")
    _keep_sources("core", "math", "random", "standard")
    device.catalogue()
    nvrtc.stay_in_process()
    if nvrtc.available():
        nvrtc.version()


def _keep_sources(*names: str) -> None:
    """Lines of modules of Triton's language, whose functions the interpreter reads again as text when they are used."""
    for name in names:
        path = importlib.import_module(f"triton.language.{name}").__file__
        lines = linecache.getlines(path)
        linecache.cache[path] = (0, None, lines, path)  # without a time: it is not looked for on the disk again


def shared(file: int | None, size: int) -> memoryview:
    """The memory that the judge shares: of a size that nobody changes from here on, so that no kernel can take pages
    away from under the judge."""
    if not size:
        return memoryview(bytearray(1))
    with contextlib.suppress(OSError):  # a file that cannot be sealed, on a system without memfd_create
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return memoryview(mmap.mmap(file, size))


def main(memory_file: int | None) -> None:
    with job() as (payload, answer):
        memory = shared(memory_file, payload["size"])
        limit = payload["time_limit"]
        cage.lock("build")
        builds.build([s for t in payload["tasks"] for c in t["cases"] for s in c["plan"]["specs"]], limit)
        if any(t["language"] == "cuda" for t in payload["tasks"]):
            counting.library()  # a compiler may have to build it
        cage.lock("parent")
        for task in payload["tasks"]:
            cases = [functools.partial(run_case, task, n, memory, limit) for n in range(len(task["cases"]))]
            specs = [s for c in task["cases"] for s in c["plan"]["specs"]]
            locked = caged("kernels", cases, before=functools.partial(builds.load, specs))
            fork = emulator.counted if task["language"] == "cuda" else child.fork
            tell_cases(task["id"], fork(locked, limit), answer)


if __name__ == "__main__":
    prepare()
    main(int(sys.argv[1]))
