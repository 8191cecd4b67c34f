"""In a sandbox of its own: compile kernels whose text was read before. Imports no labutils, to start quickly.

Reads {"specs", "targets"} as JSON, writes one line of JSON for each launch: what `labutils.backends.compiler`
says of it, with machine code where a spec says `keep`.
"""

import importlib.util
import json
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

from . import cage
from .job import job

SECONDS, SECONDS_LATER = 60, 10
"""CPU time for one kernel, and for each kernel after one that took longer; one of the course takes a second or two."""


def prepare():
    """The compiler, with what its first kernel would wait for."""
    global _compiler
    path = Path(__file__).parents[1] / "labutils" / "backends" / "compiler.py"
    found = importlib.util.spec_from_file_location("compiler", path)
    _compiler = importlib.util.module_from_spec(found)
    found.loader.exec_module(_compiler)
    _compiler.prepare()


def main(memory: int | None = None) -> None:
    with job() as (payload, answer):
        cage.lock("build")  # NVIDIA's assembler is a program
        compile_each(payload, answer)


def compile_each(payload: dict, answer: Callable[[dict], object]) -> None:
    """Answer for each kernel, in order."""
    seconds = SECONDS
    for number, spec in enumerate(payload["specs"]):
        one = {"specs": [spec], "targets": payload["targets"]}
        result = within(seconds, lambda one=one: next(_compiler.compile_all(one)))
        if isinstance(result, str):
            if result == TOO_LONG:
                result, seconds = f"it took more than {seconds} s", SECONDS_LATER
            error = {"message": f"the compiler came to no end: {result}", "line": None, "source": ""}
            result = {"kernel": spec["kernel"], "target": payload["targets"][0], "targets": {}, "error": error}
        answer({**result, "spec": number})


TOO_LONG = "too long"


def within(seconds: int, work: Callable[[], dict]) -> dict | str:
    """What `work()` returns, done by a child that may take so much CPU time, and each of its own children too; else how
    it ended."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
            most = seconds if hard < 0 else min(seconds, hard)
            resource.setrlimit(resource.RLIMIT_CPU, (most, most))
            with os.fdopen(write, "wb") as pipe:
                pipe.write(json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        content = pipe.read()
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        ended = os.WTERMSIG(status)
        return TOO_LONG if ended in (signal.SIGXCPU, signal.SIGKILL) else f"it died of signal {ended}"
    return json.loads(content) if content else "it died"


if __name__ == "__main__":
    prepare()
    main()
