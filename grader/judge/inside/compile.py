"""In a sandbox of its own: compile kernels whose text was read before. Imports no labutils, to start quickly.

Reads {"specs", "targets"} as JSON, writes one line of JSON for each launch: what `labutils.backends.compiler`
says of it, with machine code where a spec says `keep`.
"""

import importlib.util
from pathlib import Path

from .job import job


def prepare():
    """The compiler, which takes about a second to import, and Triton's digest of itself, which takes half of one."""
    path = Path(__file__).parents[1] / "labutils" / "backends" / "compiler.py"
    found = importlib.util.spec_from_file_location("compiler", path)
    compiler = importlib.util.module_from_spec(found)
    found.loader.exec_module(compiler)
    import triton.compiler  # noqa: F401
    from triton.runtime.cache import triton_key

    triton_key()

    global _compiler
    _compiler = compiler


def main(memory: int | None = None) -> None:
    with job() as (told, answer):
        for result in _compiler.compile_all(told):
            answer(result)


if __name__ == "__main__":
    prepare()
    main()
