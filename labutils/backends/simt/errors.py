"""What can go wrong before a kernel runs: it does not compile, or it breaks a rule of CUDA."""

from __future__ import annotations


class CompileError(Exception):
    """The source does not compile. `line` is the learner's line of the first error, where there is one."""

    def __init__(self, message: str, line: int | None = None):
        super().__init__(message)
        self.line = line


class NeedsGpu(CompileError):
    """The source may be right, and only a GPU can run it: inline PTX, instructions of one generation of GPUs."""


class LaunchError(Exception):
    """The launch breaks a limit of CUDA, or its arguments do not fit the kernel."""


class NoCompiler(Exception):
    """This machine has no C++ compiler that can build kernels."""
