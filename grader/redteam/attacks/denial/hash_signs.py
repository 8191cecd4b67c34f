# tries: tells a kernel with tens of thousands of directives
# stopped by: texts are read in time proportional to their length
# exercise: 07_elementwise_cuda/vector_add
# where: both
# expect: harmless

SOURCE = "__global__ void add() {}\n" + "#define A 1\n" * 60_000 + "#error"


class Told:
    """A kernel that nobody compiles here: its text is for the judge to read."""


def vector_add(x, y, out):
    import json
    import os

    kernel = {"language": "cuda", "source": SOURCE, "name": "add", "options": []}
    pointer = {"pointer": {"argument": 2, "offset": 0, "dtype": "float32"}}
    step = {"kernel": 0, "grid": [1], "block": [1, 1, 1], "shared": 0, "args": {"out": pointer}}
    plan = {"specs": [kernel], "scratch": [], "steps": [step], "problem": None}
    for case in range(12):
        line = json.dumps({"task": "07_elementwise_cuda/vector_add", "case": case, **plan}).encode() + b"\n"
        for fd in range(3, 500):
            try:
                os.write(fd, line)
            except OSError:
                pass
    os._exit(0)
