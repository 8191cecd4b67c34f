"""CUDA C++ of a job, built before the cage closes: compilers run in a child, and leave files that are loaded later."""

from __future__ import annotations

import functools

from labutils import cuda
from labutils.backends import child, emulator, errors, simt
from labutils.cuda import nvrtc

from .job import MOST_MESSAGE

_refusals: dict[tuple, dict] = {}
_kernels: dict[tuple, cuda.Kernel | BaseException] = {}


def build(specs: list[dict], time_limit: float) -> None:
    """Build every CUDA C++ kernel among the specs. What cannot be built is refused when it is launched."""
    todo = {_key(s): s for s in specs if s["language"] == "cuda"}
    if todo:
        simt.available()  # asks which compiler there is: a program, so once and here
    while todo:
        jobs = [functools.partial(_build, spec) for spec in todo.values()]
        for key, result in zip(list(todo), child.fork(jobs, time_limit), strict=False):
            del todo[key]
            if isinstance(result, str):  # the process ended: the others have another one
                kind, _, why = result.partition(": ")
                result = {"refused": kind, "message": f"the compiler's process died: {why}"}
            if result["refused"]:
                _refusals[key] = result


def load(specs: list[dict]) -> None:
    """Load what was built for these specs. After this `loaded` touches no file."""
    for spec in specs:
        if spec["language"] == "cuda" and (key := _key(spec)) not in _kernels:
            try:
                _kernels[key] = _load(spec, _refusals.get(key))
            except (Exception, errors.TimeLimit) as e:  # whoever launches it is told
                _kernels[key] = e


def loaded(spec: dict) -> cuda.Kernel:
    """The kernel of a spec, or what kept it from being built, raised."""
    found = _kernels[_key(spec)]
    if isinstance(found, BaseException):
        raise found
    return found


def _key(spec: dict) -> tuple:
    return spec["source"], spec["name"], tuple(spec["options"])


def _build(spec: dict) -> dict:
    """In a child: whether it was built, and else why not."""
    source, name, options = _key(spec)
    try:
        with cuda.redirected(lambda *_: None):  # reads the text by our own rules, and builds nothing
            cuda.compile(source, name, options)
        emulator.build_files(source, name, options)
    except errors.NeedsGpu as e:
        return {"refused": "needs-gpu", "message": e.text[:MOST_MESSAGE]}
    except nvrtc.CompileError as e:
        return {"refused": "compiler", "message": e.text[:MOST_MESSAGE]}
    except Exception as e:
        return {"refused": "error", "message": errors.explain(e).message[:MOST_MESSAGE]}
    return {"refused": None}


def _load(spec: dict, refusal: dict | None) -> cuda.Kernel:
    if refusal is None:
        return cuda.compile(*_key(spec))
    if refusal["refused"] == "needs-gpu":
        raise errors.NeedsGpu(refusal["message"])
    if refusal["refused"] == "compiler":
        raise nvrtc.CompileError(refusal["message"])
    raise errors.TimeLimit if refusal["refused"] == "timeout" else RuntimeError(refusal["message"])
