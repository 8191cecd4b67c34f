"""In a sandbox of its own: compile kernels whose text was read before. Imports no labutils, to start quickly.

Reads {"specs", "targets"} as JSON, writes one line of JSON for each launch: what `labutils.backends.compiler`
says of it, with machine code where a spec says `keep`.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path


def prepare():
    """The compiler, which takes about a second to import."""
    path = Path(__file__).parents[1] / "labutils" / "backends" / "compiler.py"
    found = importlib.util.spec_from_file_location("compiler", path)
    compiler = importlib.util.module_from_spec(found)
    found.loader.exec_module(compiler)
    import triton.compiler  # noqa: F401

    global _compiler
    _compiler = compiler


def main(memory: int | None = None) -> None:
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    for result in _compiler.compile_all(json.load(sys.stdin)):
        answers.write(json.dumps(result).encode() + b"\n")
    answers.write(b'{"done": true}\n')


if __name__ == "__main__":
    prepare()
    main()
