"""The judge's side of the GPU: a runner process for each submission."""

from __future__ import annotations

import base64
import contextlib
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
from grader.judge.sandbox import Memory, end_of
from labutils.cuda import nvrtc
from labutils.gpu import device

ROOT = Path(__file__).resolve().parents[2]
START_LIMIT, ANSWER_LIMIT = 60.0, 60.0


class RunnerLost(RuntimeError):
    """The runner's context is gone: `kind` is "timeout" or "died"."""

    def __init__(self, kind: str, why: str):
        self.kind, self.why = kind, why
        super().__init__(why)


@functools.cache
def _helpers() -> str:
    source = Path(__file__).with_name("runner").joinpath("helpers.cu").read_text()
    return base64.b64encode(nvrtc.compile_source(source, ("digest",), device.current().sm).cubin).decode()


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

    def begin(self) -> None:
        """Tell it to make its context and to map its memory, unless that was requested before, and do not wait.
        Raises RunnerLost."""
        if not self._ready:
            self._line(START_LIMIT)
            self._tell({"helpers": _helpers(), "size": self.memory.size})
            self._ready = True

    def run(self, job: dict) -> Iterator[dict]:
        """The answers to a job of cases, in order. Raises RunnerLost."""
        self.begin()
        self._tell({"kind": "run", "size": self.memory.size, **job})
        while not (answer := self._line(ANSWER_LIMIT)).get("done"):
            yield answer

    def race(self, job: dict, enough) -> dict:
        """Time two competitors until `enough(a, b)` says so; what the runner tells at the end, with all samples."""
        self.begin()
        self._tell({"kind": "race", "size": self.memory.size, **job})
        seconds = {"a": [], "b": []}
        while "seconds" in (answer := self._line(ANSWER_LIMIT)):
            for side in "ab":
                seconds[side] += answer["seconds"][side]
            self._tell("stop" if enough(seconds["a"], seconds["b"]) else "more", raw=True)
        return answer | {"seconds": seconds}

    def _tell(self, payload, raw: bool = False) -> None:
        try:
            self._process.stdin.write((payload if raw else json.dumps(payload)).encode() + b"\n")
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
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise RunnerLost("died", f"the runner printed what is no answer: {line[:100]!r}")
        if "lost" in answer:
            raise RunnerLost(answer["lost"], answer["why"])
        return answer

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        return end_of(self._errors, 400).strip()

    def close(self) -> None:
        """End the process. More than once does no harm."""
        if self._errors.closed:
            return
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):  # what it never read is flushed once more
            self._process.stdin.close()
        self._process.stdout.close()
        self._errors.close()
        self.memory.close()


def for_runner(launch_plan: plan.Plan, places: dict[int, int]) -> dict:
    """A plan as the runner reads it: kernels by their places in the job's list, which `places` gives for each spec."""
    steps = launch_plan.to_json()["steps"]
    for k, step in enumerate(steps):
        if "choices" in step:
            steps[k] = {"choices": [c | {"kernel": places[c["kernel"]]} for c in step["choices"]]}
        elif "kernel" in step:
            steps[k] = step | {"kernel": places[step["kernel"]]}
    return {"steps": steps, "scratch": launch_plan.scratch}
