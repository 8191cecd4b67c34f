"""Turning an exception from a learner's code into one `Problem`: the real cause and the learner's own line."""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
import traceback

from ..exercise import NOT_WRITTEN
from . import Problem

_OURS = tuple(
    os.path.realpath(p) + os.sep
    for p in {
        os.path.dirname(os.path.dirname(__file__)),
        sysconfig.get_paths()["stdlib"],
        sysconfig.get_paths()["purelib"],
        sysconfig.get_paths()["platlib"],
    }
)


class TimeLimit(BaseException):
    """Raised in the learner's code when its time is up; not an Exception, so that `except Exception` cannot eat it."""


def is_learners(filename: str) -> bool:
    """Is this the learner's code, rather than a library's or ours?"""
    if filename.startswith("<frozen"):
        return False
    return not os.path.realpath(filename).startswith(_OURS)


def learners_line(frames) -> tuple[int | None, str]:
    """Line number and text of the innermost frame, of (filename, lineno) from outer to inner, in learner's code."""
    for filename, lineno in reversed(list(frames)):
        if is_learners(filename):
            return lineno, linecache.getline(filename, lineno).strip()
    return None, ""


def calling_line() -> tuple[int | None, str]:
    """The learner's line that is being executed right now."""
    frames, frame = [], sys._getframe(1)
    while frame is not None:
        frames.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return learners_line(reversed(frames))


def root_cause(error: BaseException) -> BaseException:
    """The innermost exception: Triton wraps the learner's own in one or two of its own."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def is_unfilled(error: BaseException) -> bool:
    while error is not None:
        if NOT_WRITTEN in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def explain(error: BaseException) -> Problem:
    """The problem behind an exception, in one sentence."""
    if is_unfilled(error):
        text = next(t for e in (error, root_cause(error)) for t in str(e).splitlines() + [str(e)] if NOT_WRITTEN in t)
        name = re.search(r"(\w+) " + re.escape(NOT_WRITTEN), text)
        return Problem("unfilled", f"{name.group(1) if name else 'this exercise'} {NOT_WRITTEN}")
    cause = root_cause(error)
    frames = []
    for e in (error, cause):
        frames += [(f.filename, f.lineno) for f in traceback.extract_tb(e.__traceback__)]
    line, source = learners_line(frames)
    if isinstance(error, TimeLimit):
        return Problem("timeout", "the code did not come to an end", line, source)
    if type(error).__module__.startswith("triton.compiler"):
        return compile_problem(str(error))
    if isinstance(cause, MemoryError):
        return Problem("error", "the code asked for more memory than there is", line, source)
    text = " ".join(str(cause).split())[:300]
    return Problem("error", f"{type(cause).__name__}: {text}" if text else type(cause).__name__, line, source)


def compile_problem(text: str) -> Problem:
    """The sentence and the line of a Triton compiler message ("at 12:8:\\n source…\\n ^\\nreason")."""
    at = re.search(r"at (\d+):(\d+):\n", text)
    body = text[at.end() :] if at else text
    lines = [x for x in body.splitlines() if x.strip()]
    caret = max((i for i, x in enumerate(lines) if x.strip() == "^"), default=None)
    reason = " ".join(x.strip() for x in (lines[caret + 1 :] if caret is not None else lines[-1:]))
    source = lines[caret - 1].strip() if caret else ""
    return Problem("does-not-compile", reason[:400] or "the compiler refused it", None, source)
