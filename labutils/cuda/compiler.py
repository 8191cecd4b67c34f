"""NVRTC in a process of its own: a compiler may die of a text, and must not take the notebook with it.

Runs as a script and imports nothing of labutils, to start quickly. A job is a line of JSON on standard input, and its
answer a line on standard output; both are those of `compile_job`.
"""

from __future__ import annotations

import base64
import functools
import json
import os
import sys


@functools.cache
def bindings():
    """NVIDIA's Python bindings of NVRTC."""
    from cuda.bindings import nvrtc

    return nvrtc


def compile_job(job: dict) -> dict:
    """Compile {"source", "filename", "names", "arguments"}; gives {"cubin", "lowered", "log"}, with the machine code in
    base64, or {"error"} with the compiler's messages."""
    nvrtc = bindings()
    program = _ok(nvrtc.nvrtcCreateProgram(job["source"].encode(), job["filename"].encode(), 0, [], []))
    try:
        for name in job["names"]:
            _ok(nvrtc.nvrtcAddNameExpression(program, name.encode()))
        arguments = [a.encode() for a in job["arguments"]]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(arguments), arguments)
        log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        if int(status) != 0:
            return {"error": log}
        cubin = b" " * _ok(nvrtc.nvrtcGetCUBINSize(program))
        _ok(nvrtc.nvrtcGetCUBIN(program, cubin))
        lowered = {n: _ok(nvrtc.nvrtcGetLoweredName(program, n.encode())).decode() for n in job["names"]}
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return {"cubin": base64.b64encode(cubin).decode(), "lowered": lowered, "log": log}


def _ok(result):
    status, *values = result
    if int(status) != 0:
        raise RuntimeError(f"NVRTC failed: {status.name}")
    return values[0] if len(values) == 1 else None


def _text(size_of, get, program) -> str:
    data = b" " * _ok(size_of(program))
    _ok(get(program, data))
    return data.rstrip(b"\0 ").decode(errors="replace")


def main() -> None:
    del sys.path[0]  # this folder: its modules are no top-level ones
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    for line in sys.stdin:
        print(json.dumps(compile_job(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
