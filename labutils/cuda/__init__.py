"""CUDA C++ as text and as binary: kernels to launch, signatures, NVRTC, cubins. Notebooks know it as `lab.cuda`."""

from .kernel import (
    ArgumentError,
    CompileError,
    Kernel,
    LaunchError,
    Module,
    Unfilled,
    compile,
    launch_hooks,
    redirected,
    register_magic,
)

__all__ = [
    "ArgumentError", "CompileError", "Kernel", "LaunchError", "Module", "Unfilled", "compile", "launch_hooks",
    "redirected", "register_magic",
]  # fmt: skip
