"""Compiling a cell of CUDA C++."""

from __future__ import annotations

import re
from collections.abc import Sequence

from . import build, source
from .errors import CompileError
from .launch import HostKernel
from .module import Module, parameters_of


def compile(
    text: str,
    names: Sequence[str] | None = None,
    *,
    checked: bool | str = True,
    filename: str = "cell",
) -> Module:
    """Compile CUDA C++. `names` are the kernels wanted, instances of templates as "k<256>" (None: every kernel that is
    no template). `checked`: which build to make now, True, False or "both"; the other is made when it is needed.
    Raises CompileError, NoCompiler."""
    prepared = source.prepare(text)
    if names is None:
        names = [k for k in prepared.kernels if k not in prepared.templates]
        if not names:
            templates = ", ".join(f"{t}<…>" for t in sorted(prepared.templates))
            raise CompileError(
                f"name an instance of {templates}" if templates else "the cell has no __global__ function"
            )
    for name in names:
        plain = name.split("<")[0].split("::")[-1].strip()
        if plain not in prepared.kernels:
            known = ", ".join(prepared.kernels) or "none"
            raise CompileError(f"the cell has no kernel {name}; its kernels are: {known}")
        if plain in prepared.templates and "<" not in name:
            raise CompileError(f"{name} is a template: name an instance of it, such as {name}<256>")
    safe = re.sub(r"[^\w.-]", "_", filename) or "cell"
    module = Module(prepared, list(names), safe, build.compiler())
    modes = [True, False] if checked == "both" else [bool(checked)]
    module.prepare(*modes)
    library = module.built(modes[0]).library
    for i, name in enumerate(names):
        module.kernels[name] = HostKernel(module, name, i, parameters_of(library, prepared, i, name))
    return module
