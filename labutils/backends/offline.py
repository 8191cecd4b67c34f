"""Compiling Triton kernels for GPUs that are not here.

The interpreter runs Python and accepts much that a GPU's compiler refuses. So each launch is described (`launch_spec`)
and compiled by a second process, in which the interpreter is off: `compiler.py`.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from . import Problem
from .errors import refusal
from .extract import LITERALS, NotExtractable, flat, module_parts, plain_function

TIME_LIMIT = 60.0
"""Seconds for one compiler process; a course kernel takes about one."""

TYPES = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "fp8e4nv",
    torch.float8_e5m2: "fp8e5",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "i1",
}
"""Triton's names of element types."""

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")

SHARED_LIMIT = 227 * 1024
"""Bytes of shared memory that one block can have on any GPU so far: compute capability 9.0 and 10.0 (CUDA C++
Programming Guide, table of technical specifications)."""

__all__ = ["Binary", "Compiler", "CompilerFailed", "NotExtractable", "launch_spec"]


class CompilerFailed(RuntimeError):
    """The compiler process could not do its work; this says nothing about the kernel."""


@dataclass(frozen=True)
class Binary:
    """Machine code of one launch, its dynamic shared memory in bytes, and the threads of a block."""

    cubin: bytes
    shared: int
    threads: int


def launch_spec(kernel, args: tuple, kwargs: dict) -> dict:
    """What a compiler needs to know about one launch, as JSON: text, types, constants, alignment, options.

    Arguments that are tuples stand there element by element, as `extract.flat` names them.
    """
    function = plain_function(kernel)
    names, values = parameters(function), bound(kernel, args, kwargs)
    signature, constants, aligned = {}, {}, []
    parts = module_parts(function, kernel=True)
    for name in names:
        if name not in values or values[name] == ():
            raise NotExtractable(f"{function.__name__} was launched without {name}")
        constant = "constexpr" in str(function.__annotations__.get(name, ""))
        for own, value in flat({name: values[name]}).items():
            kind = _type(value)
            if kind is None or constant:
                signature[own], constants[own] = "constexpr", _constant(own, value)
                if hasattr(value, "fn"):
                    parts += [p for p in module_parts(value) if p not in parts]
            else:
                signature[own] = kind
                if _divisible(value):
                    aligned.append(own)
    return {
        "module": parts,
        "kernel": function.__name__,
        "signature": signature,
        "constants": constants,
        "aligned": aligned,
        "options": {k: kwargs[k] for k in OPTIONS if kwargs.get(k) is not None},
    }


def but_for_alignment(spec: dict) -> str:
    """What launches have in common that differ in alignment only."""
    return json.dumps({**spec, "aligned": None}, sort_keys=True)


def best_aligned(specs: Iterable[dict]) -> list[dict]:
    """Of launches that differ in alignment only the best aligned: where a compiler takes that, it takes the others."""
    best: dict[str, dict] = {}
    for spec in specs:
        key = but_for_alignment(spec)
        if key not in best or len(spec["aligned"]) > len(best[key]["aligned"]):
            best[key] = spec
    return list(best.values())


def parameters(function) -> list[str]:
    return list(function.__code__.co_varnames[: function.__code__.co_argcount])


def bound(kernel, args: tuple, kwargs: dict) -> dict:
    """The arguments of one launch by name, defaults included; options such as num_warps are no arguments."""
    function = plain_function(kernel)
    names, defaults = parameters(function), function.__defaults__ or ()
    values = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    return values | dict(zip(names, args, strict=False)) | {k: v for k, v in kwargs.items() if k in names}


def _type(value) -> str | None:
    """The type of a run-time argument; None for one that the launch makes a constant."""
    if isinstance(value, torch.Tensor):
        return "*" + TYPES[value.dtype]
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, int):
        return None if value == 1 else ("i32" if -(2**31) <= value < 2**31 else "i64")
    if isinstance(value, float):
        return "fp32"
    if hasattr(value, "block_shape"):
        block = ", ".join(str(n) for n in value.block_shape)
        return f"tensordesc<{TYPES[value.base.dtype]}[{block}]>"
    return None


def _constant(name, value):
    value = getattr(value, "value", value)
    if isinstance(value, LITERALS):
        return value
    if type(value).__name__ == "dtype":
        return {"dtype": getattr(value, "name", str(value).removeprefix("torch."))}
    if hasattr(value, "fn"):
        return {"function": plain_function(value).__name__}
    raise NotExtractable(f"its argument {name} is a {type(value).__name__}")


def _divisible(value) -> bool:
    if isinstance(value, torch.Tensor):
        return value.data_ptr() % 16 == 0
    return isinstance(value, int) and not isinstance(value, bool) and value % 16 == 0


class Compiler:
    """A compiler process: starts at once, so that it is ready when the launches are known.

    It imports Triton, which takes a second; so when it is closed it waits for the next one who needs it.
    """

    def __init__(self, targets):
        self._targets = list(targets)
        self._process = _waiting() or _started()

    def problems(self, specs: list[dict]) -> list[Problem | None]:
        """For each launch why a GPU's compiler refuses it, or None. Closes the compiler."""
        results, noise = self._answers(specs)
        return [problem_of(r, noise) for r in results]

    def cubins(self, specs: list[dict]) -> list[dict[int, tuple[bytes, int]]]:
        """For each launch and target the machine code and its dynamic shared memory in bytes. Closes the compiler.

        Raises CompilerFailed with the compiler's words where it refuses one.
        """
        return [
            {int(t): (base64.b64decode(done["cubin"]), done["shared"]) for t, done in r["targets"].items()}
            for r in self._kept(specs)
        ]

    def binaries(self, specs: list[dict]) -> list[Binary]:
        """The machine code of each launch for the first target. Closes the compiler.

        Raises CompilerFailed with the compiler's words where it refuses one.
        """
        first = str(self._targets[0])
        made = [result["targets"][first] for result in self._kept(specs)]
        return [Binary(base64.b64decode(m["cubin"]), m["shared"], 32 * m["num_warps"]) for m in made]

    def listings(self, spec: dict) -> tuple[dict[str, str], bytes]:
        """Texts "ttir", "ttgir" and "ptx" of a launch, and its machine code, for the first target. Closes the compiler.

        Raises CompilerFailed with the compiler's words where it refuses it.
        """
        (result,) = self._kept([spec | {"listings": True}])
        done = result["targets"][str(self._targets[0])]
        return done["listings"], base64.b64decode(done["cubin"])

    def _kept(self, specs: list[dict]) -> list[dict]:
        results, noise = self._answers([spec | {"keep": True} for spec in specs])
        for problem in filter(None, (problem_of(r, noise) for r in results)):
            raise CompilerFailed(problem.message)
        return results

    def _answers(self, specs: list[dict]) -> tuple[list[dict], str]:
        process = self._process
        slow = threading.Timer(TIME_LIMIT, _kill, [process])
        slow.start()
        try:
            process.stdin.write(json.dumps({"specs": specs, "targets": self._targets}) + "\n")
            process.stdin.flush()
            reply = json.loads(process.stdout.readline())
        except (OSError, ValueError):
            late = not slow.is_alive()
            _kill(process)
            noise = process.communicate()[1].strip().splitlines()
            self._process = None
            why = f"the compiler took more than {TIME_LIMIT:.0f} s" if late else (noise or ["the compiler died"])[-1]
            raise CompilerFailed(why) from None
        finally:
            slow.cancel()
        self.close()
        if reply["results"] is None:
            raise CompilerFailed((reply["noise"].strip().splitlines() or ["the compiler died"])[-1])
        return reply["results"], reply["noise"]

    def close(self) -> None:
        """Leave the process to the next compiler."""
        if self._process is not None:
            _idle.append((os.getpid(), self._process))
            self._process = None


_idle: list[tuple[int, subprocess.Popen]] = []
"""Compiler processes that wait for work, each with the process that may give it some: not one that was forked since."""


def _waiting() -> subprocess.Popen | None:
    with contextlib.suppress(IndexError):
        while True:
            owner, process = _idle.pop()
            if owner == os.getpid() and process.poll() is None:
                return process
    return None


def _kill(process: subprocess.Popen) -> None:
    """End it, with what it has forked."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@atexit.register
def _end() -> None:
    while process := _waiting():
        _kill(process)
        process.communicate()


def _started() -> subprocess.Popen:
    import triton

    environment = {k: v for k, v in os.environ.items() if k not in ("TRITON_INTERPRET", "PYTHONPATH")}
    # numerics as on a GPU's default, and no start-up warning from Triton 3.9
    environment |= {"CUDA_VISIBLE_DEVICES": "", "TRITON_DEFAULT_FP_FUSION": "1"}
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("compiler.py")), str(Path(triton.__file__).parents[1])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )


REASON = re.compile(r"^\S*?:(\d+):\d+: error: (?!Failures have been detected)(.*)\n\s*(.*)$", re.MULTILINE)
"""Of what the compiler writes to stderr: line, reason and source."""


def _with_reason(error: dict, noise: str) -> dict:
    """An error whose reason is in what the compiler wrote beside it, with that."""
    if "PassManager" not in error["message"] and "error encountered during parsing" not in error["message"]:
        return error
    if found := REASON.search(noise):
        return {"message": found[2], "line": int(found[1]), "source": found[3].strip()}
    reasons = [x.partition("error: ")[2] for x in noise.splitlines() if "error: " in x]
    return {**error, "message": (reasons or [error["message"]])[-1]}


def problem_of(result: dict, noise: str) -> Problem | None:
    """What the compiler process says about one launch; raises CompilerFailed where it could not do its work."""
    kernel = result["kernel"]
    if "failed" in result:
        raise CompilerFailed(f"{kernel}: {result['failed']}")
    if "error" in result:
        return refusal(_with_reason(result["error"], noise), f"{kernel} does not compile for sm_{result['target']}")
    least = min(r["shared"] for r in result["targets"].values())
    if least > SHARED_LIMIT:
        message = f"{kernel} needs {least // 1024} KB of shared memory, and a GPU has at most {SHARED_LIMIT // 1024} KB"
        return Problem("does-not-compile", f"{message} for a block: make the tiles or num_stages smaller")
    return None
