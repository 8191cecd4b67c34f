"""The interpreter beside a GPU: a second process checks the same kernel with every address recorded.

On a machine with a GPU the notebook's process cannot interpret kernels. So the text of the learner's function goes to a
process without a GPU, which evaluates the exercise as a laptop would and sends its verdict back. That process is
started once, since importing PyTorch takes seconds, and forks for each job.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import subprocess
import sys
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..backends import interpreter
from ..backends.extract import module_parts
from ..spec.verdict import Verdict

if TYPE_CHECKING:
    from ..spec.exercise import KernelExercise
    from .figures import Figures

TIME_LIMIT = 120.0
"""Seconds until a sidecar's silence is taken for an answer of its own."""


class Sidecar:
    """A job: sent at once, asked for later. `NotExtractable` is raised when the function cannot travel as text."""

    def __init__(self, exercise_id: str, fn, seed: int, hidden: int, time_limit: float, explain: bool = False):
        job = {
            "task": "verdict",
            "exercise": exercise_id,
            "entry": fn.__name__,
            "module": module_parts(fn),
            "seed": seed,
            "hidden": hidden,
            "time_limit": time_limit,
            "explain": explain,
        }
        self._server = _server()
        self._ticket = self._server.send(job)

    def verdict(self) -> Verdict | str:
        """The verdict with recorded accesses, or a sentence on why there is none."""
        answer = self._server.answer(self._ticket)
        if isinstance(answer, str):
            _server.cache_clear()
            return answer
        return answer.get("failed") or Verdict.from_json(answer)


def figures(exercise: KernelExercise, fn, seed: int) -> Figures:
    """`figures.figures`: recorded in the process beside this one. Raises NoFigures, and NotExtractable."""
    from . import figures as here  # not above: a check does without, and so does the judge

    job = {"task": "figures", "exercise": exercise.id, "entry": fn.__name__, "module": module_parts(fn), "seed": seed}
    with here.CodeReader(exercise.language) as reader:  # its compiler's process waits here for the next card
        return here.read(_records(job), reader)


def _records(job: dict) -> Iterator[dict]:
    """The answers to a job, up to the one with figures. Raises NoFigures."""
    from .figures import NoFigures

    server = _server()
    ticket, record = server.send(job), {}
    while "figures" not in record:
        record = server.answer(ticket)
        if isinstance(record, str):
            _server.cache_clear()
            raise NoFigures(record)
        if "failed" in record:
            raise NoFigures(record["failed"])
        yield record


class _Server:
    """The process beside this one; jobs and answers are lines of JSON."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "labutils.check.sidecar_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=interpreter.environment(),
        )
        atexit.register(self.close)
        self._sent, self._received, self._pending = 0, defaultdict(deque), b""

    def send(self, job: dict) -> int:
        self._sent += 1
        try:
            self._process.stdin.write(json.dumps({"ticket": self._sent, **job}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:  # it is gone: `answer` will say so
            pass
        return self._sent

    def answer(self, ticket: int) -> dict | str:
        """The next answer to that job, or a sentence; after a sentence the server is of no more use."""
        end = time.monotonic() + TIME_LIMIT
        while not self._received[ticket]:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, end - time.monotonic()))
            chunk = os.read(self._process.stdout.fileno(), 1 << 16) if ready else b""
            if not chunk:
                self.close()
                return "the recording process ended" if ready else "the recording process took too long"
            *lines, self._pending = (self._pending + chunk).split(b"\n")
            for line in lines:
                answer = json.loads(line)
                self._received[answer.pop("ticket")].append(answer)
        return self._received[ticket].popleft()

    def close(self) -> None:
        atexit.unregister(self.close)
        self._process.kill()
        self._process.wait()


@functools.cache
def _server() -> _Server:
    return _Server()
