"""Recording one launch in full: every access of every program, for pictures and for counting by hand.

Arrays are copied into guarded memory first, so that masked lanes beyond an end can be drawn and a wild store cannot do
harm. Recording needs Triton's interpreter: without a GPU a forked child does it, with one a second process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ..gpu import device
from ..spec.inputs import shared_bytes
from . import child, interpreter
from .access import Recorder
from .extract import module_text

PAD = 1 << 16
"""Elements of room on each side of an array, for masked lanes to point into: more than a block has, so that none points
into another array. Memory that nobody touches costs nothing."""

TIME_LIMIT = 20.0
"""Seconds; a picture is of a small case."""


@dataclass(frozen=True)
class Event:
    """One load, store or atomic of one program, or the lanes of it that the mask switched off ("masked load" …)."""

    access: str
    array: str
    program: int
    elements: tuple[int, ...]
    itemsize: int


@dataclass(frozen=True)
class Trace:
    """All accesses of the launches of one call.

    `inside` gives the arrays in the order of the arguments: for each element from the first to the last of its memory,
    whether the array has it. A slice has gaps. Elements of events are places in that memory, too. `unit` is what a
    program is called: a CUDA C++ launch has blocks.
    """

    events: tuple[Event, ...]
    inside: dict[str, tuple[bool, ...]]
    counts: dict[str, int]
    findings: tuple[str, ...]
    unit: str = "program"


class TraceFailed(RuntimeError):
    """The launcher raised, hung or died while it was recorded; the message says what happened."""


def trace(fn: Callable, *arguments) -> Trace:
    """Call `fn(*arguments)` on copies of the tensors and record every access of its launches.

    Raises TraceFailed when the learner's code fails, `backends.interpreter.Unavailable` where Triton cannot run.
    """
    copies = [_on_cpu(a) if isinstance(a, torch.Tensor) else a for a in arguments]
    names = names_of(fn, len(arguments))
    if device.has_gpu():
        result = elsewhere(__name__, fn, names, copies)
    else:
        interpreter.require()
        result = next(child.fork([lambda: record(fn, names, copies)], TIME_LIMIT))
    if isinstance(result, str) or "failed" in result:
        raise TraceFailed(result if isinstance(result, str) else result["failed"])
    events = tuple(Event(a, n, p, tuple(e), i) for a, n, p, e, i in result["events"])
    inside = {n: inside_of(c) for n, c in zip(names, copies, strict=True) if isinstance(c, torch.Tensor)}
    return Trace(events, inside, result["counts"], tuple(result["findings"]))


def span(tensor: torch.Tensor) -> int:
    """Elements of memory from the first to the last of a tensor; more than it has if it is a slice."""
    if not tensor.numel():
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))


def inside_of(tensor: torch.Tensor) -> tuple[bool, ...]:
    """Which elements of its span a tensor has."""
    marks = torch.zeros(span(tensor), dtype=torch.bool)
    places = torch.zeros(tensor.shape, dtype=torch.int64)
    for axis, (n, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        places += (torch.arange(n) * stride).reshape([-1 if k == axis else 1 for k in range(tensor.dim())])
    marks[places.flatten()] = True
    return tuple(marks.tolist())


def _memory(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a tensor from its first to its last element, with what stands in the gaps of a slice."""
    return tensor.detach().as_strided((span(tensor),), (1,), tensor.storage_offset())


def _on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor on the CPU with the strides that it has."""
    return _memory(tensor).cpu().as_strided(tensor.shape, tensor.stride(), 0)


def names_of(fn: Callable, count: int) -> list[str]:
    code = getattr(fn, "__code__", None)
    names = list(code.co_varnames[: code.co_argcount]) if code else []
    return (names + [f"argument {i + 1}" for i in range(len(names), count)])[:count]


def record(fn: Callable, names: list[str], arguments: list) -> dict:
    """In a process that interprets: run once with a recorder, give plain JSON."""
    from . import errors

    recorder = Recorder(keep_events=True)
    guarded = guard(recorder, names, arguments)
    try:
        with interpreter.recording(recorder, follow_pointers=True), np.errstate(all="ignore"):
            fn(*guarded)
    except (Exception, errors.TimeLimit) as e:
        problem = errors.explain(e)
        return {"failed": problem.message}
    events = [(a, n, int(p), e.tolist(), i) for a, n, p, e, i in recorder.events]
    return {
        "events": events,
        "counts": recorder.counts.to_json(),
        "findings": [f.sentence() for f in recorder.findings],
    }


def guard(recorder: Recorder, names: list[str], arguments: list) -> list:
    """The arguments with copies of the tensors, which the recorder knows, with room on both sides."""
    guarded = []
    for name, a in zip(names, arguments, strict=True):
        if not isinstance(a, torch.Tensor):
            guarded.append(a)
            continue
        length = span(a)
        storage = shared_bytes((length + 2 * PAD) * a.element_size()).view(a.dtype)
        storage[PAD : PAD + length].copy_(_memory(a))
        inside = np.zeros(storage.numel(), bool)
        inside[PAD : PAD + length] = True  # a slice has gaps, which are memory that a kernel may read
        recorder.track(name, storage.data_ptr(), a.element_size(), inside, PAD)
        view = storage.as_strided(a.shape, a.stride(), PAD)
        guarded.append(view)
    return guarded


def elsewhere(module: str, fn: Callable, names: list[str], arguments: list) -> dict:
    """Record in a second process without a GPU, by `module`, which calls `serve`: the function travels as text, the
    tensors as a file."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "learner.py").write_text(module_text(fn))
        torch.save({"names": names, "arguments": arguments, "entry": fn.__name__}, Path(folder, "job.pt"))
        try:
            done = subprocess.run(
                [sys.executable, "-m", module, folder],
                capture_output=True,
                text=True,
                env=interpreter.environment(),
                timeout=TIME_LIMIT + 30,
            )
        except subprocess.TimeoutExpired:
            return {"failed": "the code did not come to an end"}
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        return {"failed": f"the recording process failed: {done.stderr.strip().splitlines()[-1:]}"}


def serve(record: Callable[[Callable, list[str], list], dict]) -> None:
    """In the second process."""
    folder = Path(sys.argv[1])
    job = torch.load(folder / "job.pt", weights_only=True)
    path = folder / "learner.py"
    scope: dict = {"__name__": "learner", "__file__": str(path)}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    print("\n" + json.dumps(record(scope[job["entry"]], job["names"], job["arguments"])))  # the last line counts


if __name__ == "__main__":
    serve(record)
