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
from .job import MOST_MESSAGE, job  # noqa: E402


def prepare() -> None:
    """NVRTC itself, loaded on first use, and its headers. This process is the one that may die of a text."""
    nvrtc.stay_in_process()
    nvrtc.version()
    nvrtc.include_folders()


def main(memory: int | None = None) -> None:
    with job() as (payload, answer):
        cage.lock("build")  # the preprocessor is a program
        texts = [_expanded(spec["source"]) for spec in payload["specs"]]
        cage.lock("python")
        for spec, text in zip(payload["specs"], texts, strict=True):
            try:
                if isinstance(text, Exception):
                    raise text
                done = nvrtc.compile_source(text, (spec["name"],), payload["capability"], tuple(spec["options"]))
                answer({"cubin": base64.b64encode(done.cubin).decode(), "symbol": done.lowered[spec["name"]]})
            except nvrtc.CompileError as e:
                answer({"error": e.text[:MOST_MESSAGE]})
            except (errors.CompileError, errors.NoCompiler) as e:
                answer({"error": str(e)[:MOST_MESSAGE]})


def _expanded(source: str) -> str | Exception:
    """What the emulator compiles, too, so that no condition can tell the two compilers apart. A text that only a GPU
    can run stays as it is: nothing is counted of it."""
    try:
        return expansion.expand(source)
    except errors.NeedsGpu:
        return source
    except (errors.CompileError, errors.NoCompiler) as e:
        return e


if __name__ == "__main__":
    prepare()
    main()
