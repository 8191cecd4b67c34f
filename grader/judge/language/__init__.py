"""What a kernel's text may hold: Triton's language, or CUDA C++, and nothing else.

A kernel meets the judge's data in an interpreter or an emulator on the CPU too, and both could run far more than a GPU
can: Python from NumPy to ctypes, C++ with the system's own functions. So the text is read first. Whatever passes here
can compute, and touch the memory that it is given; what it computes decides.
"""

from __future__ import annotations

from labutils.backends import Problem

from . import cuda, triton
from .refusal import NotAKernel

READERS = {"triton": triton.check, "cuda": cuda.check}


def problem(spec: dict) -> Problem | None:
    """Why the kernel of one launch is refused, or None."""
    try:
        READERS[spec["language"]](spec)
    except NotAKernel as e:
        if spec["language"] == "cuda":
            e.quote(spec["source"], 0)
        return Problem("does-not-compile", str(e), e.line if e.source else None, e.source)
    except (SyntaxError, ValueError, LookupError, TypeError, RecursionError, MemoryError) as e:
        return Problem("does-not-compile", f"the kernel's text cannot be read: {type(e).__name__}")
    return None
