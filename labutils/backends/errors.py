"""Turning an exception from a learner's code into one `Problem`: the real cause and the learner's own line."""

from __future__ import annotations

import bisect
import dis
import functools
import importlib.util
import linecache
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator

from ..cuda.nvrtc import CompileError, NeedsGpu
from ..spec.exercise import NOT_WRITTEN
from . import Problem
from .compiler import describe, required

LIBRARIES = ("labutils", "triton", "torch", "numpy", "IPython", "ipykernel", "gpulab_inside")
"""Packages whose lines are never the learner's, wherever they are installed; the last is what the judge runs in its
sandbox."""


class TimeLimit(BaseException):
    """Raised in the learner's code when its time is up; not an Exception, so that `except Exception` cannot eat it."""


class Deadlock(RuntimeError):
    """A kernel's program waits for something that will never happen."""


@functools.cache
def _library_folders() -> tuple[str, ...]:
    paths = {sysconfig.get_paths()[k] for k in ("stdlib", "purelib", "platlib")}
    for name in LIBRARIES:
        if (spec := importlib.util.find_spec(name)) and spec.origin:
            paths.add(os.path.dirname(spec.origin))
    # under both names: what a caged process may not look up keeps the one it was imported by
    return tuple({name + os.sep for p in paths for name in (os.path.abspath(p), os.path.realpath(p))})


@functools.cache
def is_learners(filename: str) -> bool:
    """Is this the learner's code, rather than a library's or ours?"""
    if filename.startswith("<frozen") or filename.startswith(_library_folders()):
        return False
    if filename.startswith("<"):  # a cell or a kernel's piece: no path, which a caged process could not look up
        return True
    return not os.path.realpath(filename).startswith(_library_folders())


def learners_line(frames) -> tuple[int | None, str]:
    """Line number and text of the first frame, of (filename, lineno) from inner to outer, in learner's code."""
    for filename, lineno in frames:
        if is_learners(filename) and (text := linecache.getline(filename, lineno).strip()):  # else it is generated
            return lineno, text
    return None, ""


def calling_line() -> tuple[int | None, str]:
    """The learner's line that is being executed right now."""
    return learners_line(_frames(sys._getframe(1)))


def _frames(frame) -> Iterator[tuple[str, int]]:
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


def result_is_dropped() -> bool:
    """Does the learner's statement that is being executed throw away what its call returns?"""
    frame = sys._getframe(1)
    while frame is not None and not is_learners(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return False
    offsets, dropped = _instructions(frame.f_code)
    return dropped[bisect.bisect_right(offsets, frame.f_lasti) - 1]


@functools.cache
def _instructions(code) -> tuple[list[int], list[bool]]:
    """The offset of each instruction, and whether the next one drops its result."""
    instructions = list(dis.get_instructions(code))
    following = [*instructions[1:], None]
    dropped = [after is not None and after.opname == "POP_TOP" for after in following]
    return [i.offset for i in instructions], dropped


def root_cause(error: BaseException) -> BaseException:
    """The innermost exception: Triton wraps the learner's own in one or two of its own."""
    return _causes(error)[-1]


def _causes(error: BaseException) -> list[BaseException]:
    """The exception, and what caused it, to the innermost."""
    found = [error]
    while found[-1].__cause__ is not None:
        found.append(found[-1].__cause__)
    return found


def is_unfilled(error: BaseException) -> bool:
    while error is not None:
        if NOT_WRITTEN in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _unfilled(text: str) -> Problem:
    name = re.search(r"\b(\w+) " + re.escape(NOT_WRITTEN), text)
    return Problem("unfilled", f"{name.group(1) if name else 'this exercise'} {NOT_WRITTEN}")


def explain(error: BaseException) -> Problem:
    """The problem behind an exception, in one sentence."""
    if is_unfilled(error):
        return _unfilled(f"{error} {root_cause(error)}")
    cause = root_cause(error)
    frames = []
    for e in _causes(error):
        frames += [(f.filename, f.lineno) for f in traceback.extract_tb(e.__traceback__)]
    line, source = learners_line(reversed(frames))
    if isinstance(error, TimeLimit):
        return Problem("timeout", "the code did not come to an end", line, source)
    if isinstance(cause, Deadlock):
        return Problem("timeout", str(cause), line, source)
    if isinstance(cause, NeedsGpu):
        return Problem("needs-gpu", str(cause), line, source)
    if isinstance(cause, CompileError):
        return Problem("does-not-compile", f"the kernel does not compile: {cause.text}")
    if type(error).__module__.startswith("triton.compiler"):
        return refusal(describe(error), "the kernel does not compile")
    return Problem("error", _sentence(cause), line, source)


NO_GPU = (
    "not compiled with CUDA",
    "Found no NVIDIA driver",
    "No CUDA GPUs are available",
    "Cannot re-initialize CUDA in forked subprocess",  # after the notebook itself has asked for a GPU
)
"""What PyTorch says where a launcher asks for a GPU that its process does not have."""


def _sentence(cause: BaseException) -> str:
    text = " ".join(str(cause).split()) or required(cause)
    if isinstance(cause, SystemExit):
        return "the code called sys.exit(); leave that out"
    if isinstance(cause, RecursionError):
        return "RecursionError: a function calls itself without end"
    if isinstance(cause, MemoryError) or "can't allocate memory" in text or "not enough memory" in text:
        return "the code asked for more memory than there is"
    if any(x in text for x in NO_GPU):
        return (
            "the code asks for a GPU, and there is none here: leave out .cuda() and device='cuda', and make new "
            "tensors where the given ones are (torch.empty_like(x), or device=x.device)"
        )
    return f"{type(cause).__name__}: {text[:300]}" if text else type(cause).__name__


def refusal(payload: dict, what: str) -> Problem:
    """The problem behind a compiler's refusal, as `compiler.describe` tells it."""
    message = " ".join(payload["message"].split())
    if NOT_WRITTEN in message:
        return _unfilled(message)
    if itself := re.search(r"KeyError\('\w+\.(\w+?)__", message):
        message = f"{itself.group(1)} calls itself, and Triton's functions cannot"
    return Problem("does-not-compile", f"{what}: {message[:400]}", payload["line"], payload["source"])
