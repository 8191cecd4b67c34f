"""Compiling a cell of CUDA C++."""

from __future__ import annotations

import re
from collections.abc import Sequence

from . import build, expansion, lines, ptx, rules, source
from .errors import CompileError
from .launch import HostKernel
from .module import Module, described


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
    module = _module(text, names, filename)
    modes = [True, False] if checked == "both" else [bool(checked)]
    module.prepare(*modes)
    library = module.built(modes[0]).library
    for i, name in enumerate(module.names):
        parameters, bound = described(library, module.source, i, name)
        module.kernels[name] = HostKernel(module, name, i, parameters, bound)
    return module


def build_files(text: str, name: str, *, filename: str = "cell") -> None:
    """Build the checked build of a kernel and its table of lines into the cache, and load nothing. Compiling the
    same text afterwards starts no program. Raises CompileError, NoCompiler."""
    module = _module(text, [name], filename)
    (path,) = build.kernels(module.compiler, module.text, module.names, [True], module.filename)
    lines.Lines(str(path), module.filename).of_calls()


def _module(text: str, names: Sequence[str] | None, filename: str) -> Module:
    """A cell that is read and not built yet."""
    text = expansion.expand(text)
    rules.check(text)
    prepared = source.prepare(ptx.translated(text))
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
    return Module(prepared, list(names), safe, build.compiler())
