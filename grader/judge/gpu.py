"""The judge's side of the GPU: machine code from the sandboxed compilers, a runner process for each submission."""

from __future__ import annotations

import base64
import contextlib
import ctypes
import functools
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from grader.judge import plan
from grader.judge.sandbox import Died, Memory, Sandbox
from labutils import device, nvrtc
from labutils.backends import Problem, offline
from labutils.signature import NUMBERS, signatures

ROOT = Path(__file__).resolve().parents[2]
START_LIMIT, ANSWER_LIMIT = 60.0, 60.0


class RunnerLost(RuntimeError):
    """The runner's context is gone: `kind` is "timeout" or "died"."""

    def __init__(self, kind: str, why: str):
        self.kind, self.why = kind, why
        super().__init__(why)


def capability() -> int:
    major, minor = device.current().capability
    return 10 * major + minor


@functools.cache
def _helpers() -> str:
    source = Path(__file__).with_name("runner").joinpath("helpers.cu").read_text()
    return base64.b64encode(nvrtc.compile_source(source, ("digest",), capability()).cubin).decode()


# --- machine code ----------------------------------------------------------------------------------------------------


def compiled_triton(box: Sandbox, specs: list[dict], target: int) -> list[dict | Problem | str]:
    """For each launch the kernel as the runner wants it, a refusal, or a sentence on why there is neither."""
    job = {"specs": [s | {"keep": True} for s in specs], "targets": [target]}
    results, why = [], "the compiler said nothing"
    try:
        results += [json.loads(line) for line in box.answers(json.dumps(job).encode())]
    except Died as e:
        why = Problem("does-not-compile", f"the compiler came to no end with this kernel: {str(e)[:300]}")
    made: list[dict | Problem | str] = []
    for number, spec in enumerate(specs):
        try:
            problem = offline.problem_of(results[number], box.noise()) if number < len(results) else why
            made.append(problem or _triton_kernel(spec, results[number]["targets"][str(target)]))
        except offline.CompilerFailed as e:
            made.append(str(e))
    return made


def _triton_kernel(spec: dict, made: dict) -> dict:
    meta = made["metadata"]
    kinds = [(n, _kind(t)) for n, t in spec["signature"].items() if t != "constexpr"]
    cluster = meta.get("cluster_dims") or (1, 1, 1)
    if (ctas := meta.get("num_ctas") or 1) > 1:
        cluster = (ctas, 1, 1)
    return {
        "cubin": made["cubin"],
        "symbol": meta["name"],
        "warps": meta["num_warps"],
        "shared": meta["shared"],
        "abi": kinds,
        "scratch_bytes": meta.get("global_scratch_size") or 0,
        "cluster": list(cluster),
        "cooperative": bool(meta.get("launch_cooperative_grid")),
        "descriptors": meta.get("tensordesc_meta"),
    }


def _kind(type_name: str) -> str:
    if type_name.startswith("*"):
        return "pointer"
    if type_name.startswith("tensordesc"):
        return "descriptor"
    return "float" if type_name.startswith(("fp", "bf")) else "int"


def compiled_cuda(box: Sandbox, specs: list[dict], target: int) -> list[dict | Problem | str]:
    """Likewise for CUDA C++."""
    results, why = [], "the compiler said nothing"
    try:
        job = json.dumps({"specs": specs, "capability": target}).encode()
        results += [json.loads(line) for line in box.answers(job)]
    except Died as e:
        why = Problem("does-not-compile", f"the compiler came to no end with this kernel: {str(e)[:300]}")
    made: list[dict | Problem | str] = []
    for number, spec in enumerate(specs):
        result = results[number] if number < len(results) else None
        if result is None:
            made.append(why)
        elif "error" in result:
            made.append(Problem("does-not-compile", f"the kernel does not compile: {result['error']}"))
        else:
            made.append(_cuda_kernel(spec, result))
    return made


def _cuda_kernel(spec: dict, result: dict) -> dict:
    parameters = signatures(spec["source"])[spec["name"].split("<")[0].strip()].parameters

    def kind(p) -> str:
        if p.is_pointer:
            return "pointer"
        known = NUMBERS.get(p.kind)
        return "float" if known in (ctypes.c_float, ctypes.c_double) else "as it is"

    grid_wide = "grid.sync" in spec["source"] or "this_grid" in spec["source"]
    abi = [(p.name, kind(p)) for p in parameters]
    return {"cubin": result["cubin"], "symbol": result["symbol"], "shared": None, "abi": abi, "cooperative": grid_wide}


# --- the runner process ----------------------------------------------------------------------------------------------


class Runner:
    """A runner on one GPU, with a fresh context; `memory` holds the arrays of the jobs."""

    def __init__(self, number: int = 0):
        self.memory = Memory()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the runner)
        environment = os.environ | {"CUDA_MODULE_LOADING": "EAGER", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "grader.judge.runner", str(number), str(self.memory.fd)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=ROOT,
            env=environment,
            pass_fds=[self.memory.fd],
        )
        self._pending = b""
        self._ready = False

    def _begin(self) -> None:
        if not self._ready:
            self.l2_bytes = self._line(START_LIMIT)["l2_bytes"]
            self._tell({"helpers": _helpers()})
            self._ready = True

    def run(self, job: dict) -> Iterator[dict]:
        """The answers to a job of cases, in order. Raises RunnerLost."""
        self._begin()
        self._tell({"kind": "run", "size": self.memory.size, **job})
        while not (answer := self._line(ANSWER_LIMIT)).get("done"):
            yield answer

    def race(self, job: dict, enough) -> dict:
        """Time two competitors until `enough(a, b)` says so; what the runner tells at the end, with all samples."""
        self._begin()
        self._tell({"kind": "race", "size": self.memory.size, **job})
        seconds = {"a": [], "b": []}
        while "seconds" in (answer := self._line(ANSWER_LIMIT)):
            for side in "ab":
                seconds[side] += answer["seconds"][side]
            self._tell("stop" if enough(seconds["a"], seconds["b"]) else "more", raw=True)
        return answer | {"seconds": seconds}

    def _tell(self, told, raw: bool = False) -> None:
        try:
            self._process.stdin.write((told if raw else json.dumps(told)).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise RunnerLost("died", f"the runner ended: {self._last_words()}") from None

    def _line(self, seconds: float) -> dict:
        end, fd = time.monotonic() + seconds, self._process.stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(fd, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                if not selector.select(max(0.0, end - time.monotonic())):
                    raise RunnerLost("timeout", f"the GPU gave no answer within {seconds:.0f} s")
                chunk = os.read(fd, 1 << 20)
                if not chunk:
                    raise RunnerLost("died", f"the runner ended: {self._last_words()}")
                self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        answer = json.loads(line)
        if "lost" in answer:
            raise RunnerLost(answer["lost"], answer["why"])
        return answer

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        size = os.fstat(self._errors.fileno()).st_size
        return os.pread(self._errors.fileno(), 400, max(0, size - 400)).decode(errors="replace").strip()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._errors.close()
        self.memory.close()


def for_runner(told: plan.Plan, places: dict[int, int]) -> dict:
    """A plan as the runner reads it: kernels by their places in the job's list, which `places` gives for each spec."""
    steps = told.to_json()["steps"]
    for k, step in enumerate(steps):
        if "choices" in step:
            steps[k] = {"choices": [c | {"kernel": places[c["kernel"]]} for c in step["choices"]]}
        elif "kernel" in step:
            steps[k] = step | {"kernel": places[step["kernel"]]}
    return {"steps": steps, "scratch": told.scratch}
