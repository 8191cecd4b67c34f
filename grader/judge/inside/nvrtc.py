"""In a sandbox of its own: compile CUDA C++ whose text was read before, for the GPU that will run it.

Reads {"specs", "capability"} as JSON, writes one line of JSON for each: machine code and the kernel's symbol, or what
the compiler printed.
"""

import base64
import sys
import types
from pathlib import Path

# PyTorch, which labutils would import, takes seconds and gigabytes that a compiler does not need
for _name in ("labutils", "labutils.cuda", "labutils.backends", "labutils.backends.simt"):
    _package = sys.modules[_name] = types.ModuleType(_name)
    _package.__path__ = [str(Path(__file__).parents[1].joinpath(*_name.split(".")))]

from labutils.backends.simt import errors, expansion  # noqa: E402
from labutils.cuda import nvrtc  # noqa: E402

from . import cage  # noqa: E402
from .job import job  # noqa: E402


def prepare() -> None:
    """NVRTC itself, loaded on first use, and its headers."""
    nvrtc.version()
    nvrtc.include_folders()


def main(memory: int | None = None) -> None:
    with job() as (payload, answer):
        cage.lock("python")
        for spec in payload["specs"]:
            try:
                options = tuple(spec["options"])
                source = expansion.expand(spec["source"])  # what the emulator compiles, too
                done = nvrtc.compile_source(source, (spec["name"],), payload["capability"], options)
                answer({"cubin": base64.b64encode(done.cubin).decode(), "symbol": done.lowered[spec["name"]]})
            except nvrtc.CompileError as e:
                answer({"error": e.text})
            except (errors.CompileError, errors.NoCompiler) as e:
                answer({"error": str(e)})


if __name__ == "__main__":
    prepare()
    main()
