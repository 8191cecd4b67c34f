"""In a sandbox of its own: compile CUDA C++ whose text was read before, for the GPU that will run it.

Reads {"specs", "capability"} as JSON, writes one line of JSON for each: machine code and the kernel's symbol, or what
the compiler said.
"""

import base64
import json
import os
import sys

from labutils import nvrtc


def prepare() -> None:
    """NVRTC itself, loaded on first use."""
    nvrtc.version()


def main(memory: int | None = None) -> None:
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    job = json.load(sys.stdin)
    for spec in job["specs"]:
        try:
            options = tuple(spec["options"])
            done = nvrtc.compile_source(spec["source"], (spec["name"],), job["capability"], options)
            told = {"cubin": base64.b64encode(done.cubin).decode(), "symbol": done.lowered[spec["name"]]}
        except nvrtc.CompileError as e:
            told = {"error": e.text}
        answers.write(json.dumps(told).encode() + b"\n")
    answers.write(b'{"done": true}\n')


if __name__ == "__main__":
    prepare()
    main()
