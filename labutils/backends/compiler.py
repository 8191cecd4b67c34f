"""The compiler process: reads launch specs as JSON, compiles each for each target without a GPU, prints JSON.

Runs as a script of its own and imports nothing of labutils but extract.py, to start quickly: Triton is imported
while the parent still interprets. Its one argument is the folder that holds the parent's Triton. A job is a line on
standard input, and its answer a line on standard output: {"results", "noise"}. Each is done in forks, because a
compiler may die of a kernel.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import importlib.util
import itertools
import json
import linecache
import os
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path


def describe(error: BaseException) -> dict:
    """What a compiler's exception says: `message`, and the learner's `line` and `source` where it says them."""
    chain = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    message = getattr(chain[-1], "error_message", None) or str(chain[-1]) or required(chain[-1])
    message = message or type(chain[-1]).__name__
    for e in reversed(chain):  # the innermost function that is not one of Triton's own
        if place := _place(getattr(e, "src", None), getattr(e, "node", None)):
            return {"message": message, "line": place[0], "source": place[1]}
    return {"message": message, "line": None, "source": ""}


def required(error: BaseException) -> str:
    """What an assertion of Triton without a message requires, and the two values that it compares; "" for others."""
    if not isinstance(error, AssertionError) or error.__traceback__ is None:
        return ""
    *_, (frame, number) = traceback.walk_tb(error.__traceback__)
    if "/triton/" not in frame.f_code.co_filename.replace("\\", "/"):
        return ""
    try:
        test = ast.parse(linecache.getline(frame.f_code.co_filename, number).strip()).body[0].test
        sides = [test.left, *test.comparators] if isinstance(test, ast.Compare) else []
        values = [f"{ast.unparse(side)} = {_value(side, frame)}" for side in sides]
    except (SyntaxError, AttributeError, IndexError, LookupError, TypeError):
        return ""
    return ": ".join([f"Triton requires {ast.unparse(test)}", *([", ".join(values)] if values else [])])


def _value(node: ast.expr, frame) -> str:
    """The value of a name, or of an attribute of one, in a frame; a shape as a tuple."""
    if isinstance(node, ast.Name):
        value = {**frame.f_globals, **frame.f_locals}[node.id]
    else:
        value = getattr({**frame.f_globals, **frame.f_locals}[node.value.id], node.attr)
    if hasattr(value, "__iter__") and not isinstance(value, str):
        return f"({', '.join(str(getattr(v, 'value', v)) for v in value)})"
    return str(getattr(value, "value", value))


def _place(text, node) -> tuple[int, str] | None:
    """Line number and text of a syntax node in the file that holds the function `text`."""
    if not text or not hasattr(node, "lineno"):
        return None
    for file, entry in list(linecache.cache.items()):
        if len(entry) == 4 and "/triton/" not in file.replace("\\", "/"):
            before, found, _ = "".join(entry[2]).partition(text.strip())
            # the node of a call may be the caller's, and its line none of the function that is called
            if found and node.lineno <= len(lines := text.splitlines()):
                return before.count("\n") + node.lineno, lines[node.lineno - 1].strip()
    return None


def compile_one(spec: dict, namespace: dict, target: int, grouped: Callable[[dict], dict]) -> dict:
    """Compile one launch for one target; where the spec says `keep`, with the machine code and what a launch needs, and
    with `listings` also with the texts on the way there.

    `grouped` is that of extract.py.
    """
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = grouped(spec["signature"])
    names = list(signature)

    def place(name: str) -> tuple[int, ...]:
        """Where an argument stands: its number, and in a tuple that of the element."""
        own, *elements = name.split(".")
        return (names.index(own), *map(int, elements))

    def constant(value):
        if isinstance(value, dict):
            return tl.dtype(value["dtype"]) if "dtype" in value else namespace[value["function"]]
        return value

    source = ASTSource(
        fn=namespace[spec["kernel"]],
        signature=signature,
        constexprs={place(k): constant(v) for k, v in spec["constants"].items()},
        attrs={place(k): [["tt.divisibility", 16]] for k in spec["aligned"]},
    )
    done = triton.compile(source, target=GPUTarget("cuda", target, 32), options=spec["options"])
    made = {"shared": done.metadata.shared, "num_warps": done.metadata.num_warps}
    if spec.get("keep"):
        made["cubin"] = base64.b64encode(done.asm["cubin"]).decode()
        made["metadata"] = {k: v for k, v in done.metadata._asdict().items() if k in KEPT}
    if spec.get("listings"):
        made["listings"] = {name: done.asm[name] for name in LISTINGS}
    return made


LISTINGS = ("ttir", "ttgir", "ptx")
"""Texts on the way from Python to machine code, which `asm` of a compiled kernel holds."""

KEPT = ("name", "shared", "num_warps", "num_ctas", "cluster_dims", "global_scratch_size", "global_scratch_align",
        "profile_scratch_size", "tensordesc_meta", "launch_cooperative_grid")  # fmt: skip
"""What of a compiled kernel's metadata a launch through the driver needs."""


def compile_all(job: dict) -> Iterator[dict]:
    """The result of each launch in the job, {"specs": …, "targets": …}, in order."""
    found = importlib.util.spec_from_file_location("extract", Path(__file__).with_name("extract.py"))
    extract = importlib.util.module_from_spec(found)
    found.loader.exec_module(extract)
    for spec in job["specs"]:
        result = {"kernel": spec["kernel"], "targets": {}}
        try:
            namespace = extract.load(spec["module"])
            for target in job["targets"]:
                result["target"] = target
                result["targets"][target] = compile_one(spec, namespace, target, extract.grouped)
        except (OSError, NameError, ImportError) as e:
            result["failed"] = f"{type(e).__name__}: {e}"
        except Exception as e:  # any refusal is a result; the parent turns it into a sentence
            result["error"] = described(e, namespace[spec["kernel"]])
        yield result


def described(error: BaseException, kernel) -> dict:
    """What a compiler's exception says. Of a kernel that returns a value Triton's compiler names neither line nor
    reason."""
    found = describe(error)
    node = None if found["line"] else _returned(kernel.src)
    if node is not None and (place := _place(kernel.src, node)):
        return {
            "message": "a kernel stores its results, and this one returns a value",
            "line": place[0],
            "source": place[1],
        }
    return found


def _returned(text: str) -> ast.Return | None:
    """The first `return` of a value in a function's own body."""
    open_ = list(ast.parse(textwrap.dedent(text)).body[0].body)
    while open_:
        node = open_.pop(0)
        if isinstance(node, ast.Return) and node.value is not None and getattr(node.value, "value", ...) is not None:
            return node
        if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
            open_ += ast.iter_child_nodes(node)
    return None


def answer(job: dict) -> dict:
    """The results of a job, which children of this process compile, and what they wrote to stderr beside them: both in
    the order of the specs."""
    outputs = [worker.output() for worker in [Worker(share) for share in shares(job)]]
    results = [found for found, _ in outputs]
    return {
        "results": None if None in results else [result for found in results for result in found],
        "noise": "".join(noise for _, noise in outputs),
    }


WORKERS = 4
"""Processes that compile at the same time, at most: a launcher rarely has more kernels."""


def shares(job: dict) -> list[dict]:
    """The job in parts, each of specs that follow one another: for every core one, as far as there are specs."""
    specs = job["specs"]
    count = max(1, min(len(specs), WORKERS, len(os.sched_getaffinity(0))))
    ends = [len(specs) * k // count for k in range(count + 1)]
    return [{**job, "specs": specs[begin:end]} for begin, end in itertools.pairwise(ends)]


class Worker:
    """A child that compiles a job."""

    def __init__(self, job: dict):
        self._files = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 (`output` closes them)
        self._child = os.fork()
        if self._child == 0:
            results, noise = self._files
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)
            os.dup2(noise.fileno(), 2)
            try:
                results.write(json.dumps(list(compile_all(job))).encode())
                results.flush()
            except BaseException:
                traceback.print_exc()
            os._exit(0)

    def output(self) -> tuple[list[dict] | None, str]:
        """Its results when it has ended, None if it died; and its stderr."""
        os.waitpid(self._child, 0)
        results, noise = (os.pread(f.fileno(), os.fstat(f.fileno()).st_size, 0) for f in self._files)
        for f in self._files:
            f.close()
        return json.loads(results) if results else None, noise.decode(errors="replace")


TARGETS = (80, 90)
"""Compute capabilities that every check without a GPU compiles for."""


def prepare() -> None:
    """What each compiling child would do by itself, done once before the forks: import Triton's compiler, digest
    Triton's files for the key of its cache, which takes longer than a small kernel does, and ask NVIDIA's assembler for
    its version."""
    import triton.compiler.code_generator  # noqa: F401

    with contextlib.suppress(Exception):  # another Triton has this elsewhere, and its children do it themselves
        from triton.runtime.cache import triton_key

        triton_key()
        from triton.backends.nvidia import compiler as nvidia

        for target in TARGETS:
            nvidia.get_ptxas(target).version  # noqa: B018 (it remembers)
            nvidia.get_ptxas_version(target)


def main() -> None:
    sys.path[0] = sys.argv[1]
    prepare()

    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
