"""CUDA C++ on a CPU: kernels are compiled by the machine's C++ compiler and run thread by thread.

`compile(source)` gives a `Module`; `module.kernels["name"].launch(…)` runs a kernel and says what it did wrong and what
it cost. Importing this starts no compiler.
"""

from . import build, ptx, selftest
from .arrays import MemoryRange
from .build import built_before, not_written
from .compiling import build_files, compile
from .counters import Access, Counters, Report
from .errors import CompileError, LaunchError, NeedsGpu, NoCompiler
from .expansion import expand
from .findings import Finding
from .launch import HostKernel, LaunchOptions, LaunchResult
from .module import Module, Parameter

__all__ = [
    "Access", "CompileError", "Counters", "Finding", "HostKernel", "LaunchError", "LaunchOptions", "LaunchResult",
    "MemoryRange", "Module", "NeedsGpu", "NoCompiler", "Parameter", "Report", "available", "build_files",
    "built_before", "compile", "expand", "not_written", "ptx",
]  # fmt: skip

build.use_self_test(selftest.works)


def available() -> str | None:
    """Why kernels cannot be built on this machine, or None. The first call may take some seconds."""
    try:
        build.compiler()
    except NoCompiler as e:
        return str(e)
    return None
