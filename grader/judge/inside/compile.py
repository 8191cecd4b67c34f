"""In a sandbox of its own: compile kernels whose text was read before. Imports no labutils, to start quickly.

Reads {"specs", "targets"} as JSON, writes one line of JSON for each launch: what `labutils.backends.compiler`
says of it, with machine code where a spec says `keep`.
"""

import contextlib
import importlib.util
from pathlib import Path

from . import cage
from .job import job

TARGETS = (80, 90)
"""labutils.backends.interpreter.TARGETS, without what importing labutils takes."""


def prepare():
    """The compiler, which takes about a second to import, Triton's digest of itself, which takes half of one, and what
    Triton imports and asks of NVIDIA's assembler when it first compiles: a third of what a small kernel costs."""
    path = Path(__file__).parents[1] / "labutils" / "backends" / "compiler.py"
    found = importlib.util.spec_from_file_location("compiler", path)
    compiler = importlib.util.module_from_spec(found)
    found.loader.exec_module(compiler)
    import triton.compiler.code_generator  # noqa: F401
    from triton.runtime.cache import triton_key

    triton_key()
    with contextlib.suppress(Exception):  # another Triton asks at its first kernel
        from triton.backends.nvidia import compiler as nvidia

        for target in TARGETS:
            nvidia.get_ptxas(target).version  # noqa: B018 (it remembers)
            nvidia.get_ptxas_version(target)

    global _compiler
    _compiler = compiler


def main(memory: int | None = None) -> None:
    with job() as (payload, answer):
        cage.lock("build")  # NVIDIA's assembler is a program
        for result in _compiler.compile_all(payload):
            answer(result)


if __name__ == "__main__":
    prepare()
    main()
