"""What a kernel's text may hold: Triton's language, or CUDA C++, and nothing else.

A kernel meets the judge's data in an interpreter or an emulator on the CPU too, and both could run far more than a GPU
can: Python from NumPy to ctypes, C++ with the system's own functions. So the text is read first. Whatever passes here
can compute, and touch the memory that it is given; what it computes decides.
"""

from __future__ import annotations

import re

from labutils.backends import Problem

from . import cuda, triton
from .refusal import NotAKernel

READERS = {"triton": triton.check, "cuda": cuda.check}
ATOMICS = {"triton": triton.calls_atomics, "cuda": cuda.calls_atomics}

GPU_ONLY = re.compile(r"\binline_asm_elementwise\b|\blibdevice\b")
"""What the interpreter cannot run, or not all of it."""


def needs_gpu(spec: dict) -> bool:
    """May the kernel of one launch be one that only a GPU can run? The recorded run knows; this is read from the text,
    so that nothing that runs beside the submission can claim it of any other."""
    if spec["language"] == "cuda":
        try:
            cuda.check(spec)
        except NotAKernel as e:
            return e.kind == "needs-gpu"
        return False
    return any(GPU_ONLY.search(text) for text, *_ in spec["module"])


def calls_atomics(spec: dict) -> bool:
    """Does the code of one launch's kernel call an atomic operation, in its language or in PTX? A comment, a text or
    another name does not count. Two runs may then differ in their last bits."""
    try:
        return ATOMICS[spec["language"]](spec)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def problem(spec: dict) -> Problem | None:
    """Why the kernel of one launch is refused, or None."""
    try:
        READERS[spec["language"]](spec)
    except NotAKernel as e:
        if e.kind == "needs-gpu":  # no mistake: the emulator says so when it is to run it, and a GPU runs it
            return None
        if spec["language"] == "cuda":
            e.quote(spec["source"], 1)
        return Problem(e.kind, str(e), e.line if e.source else None, e.source)
    except (SyntaxError, ValueError, LookupError, TypeError, RecursionError, MemoryError) as e:
        return Problem("does-not-compile", f"the kernel's text cannot be read: {type(e).__name__}")
    return None
