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
from pathlib import Path

from ..source import load, module_parts
from ..verdict import Verdict

TIME_LIMIT = 120.0
"""Seconds until a sidecar's silence is taken for an answer of its own."""


def environment() -> dict[str, str]:
    """For a process that records: no GPU, the interpreter on, and this labutils to import."""
    paths = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "TRITON_INTERPRET": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": os.pathsep.join(p for p in paths if p),
    }


class Sidecar:
    """A job: sent at once, asked for later. `NotExtractable` is raised when the function cannot travel as text."""

    def __init__(self, exercise_id: str, fn, seed: int, hidden: int, time_limit: float):
        job = {
            "exercise": exercise_id,
            "entry": fn.__name__,
            "module": module_parts(fn),
            "seed": seed,
            "hidden": hidden,
            "time_limit": time_limit,
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


class _Server:
    """The process beside this one; jobs and answers are lines of JSON."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "labutils.backends.sidecar"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )
        atexit.register(self.close)
        self._sent, self._received, self._pending = 0, {}, b""

    def send(self, job: dict) -> int:
        self._sent += 1
        try:
            self._process.stdin.write(json.dumps({"ticket": self._sent, **job}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:  # it is gone: `answer` will say so
            pass
        return self._sent

    def answer(self, ticket: int) -> dict | str:
        """The answer to that job, or a sentence; after a sentence the server is of no more use."""
        end = time.monotonic() + TIME_LIMIT
        while ticket not in self._received:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, end - time.monotonic()))
            chunk = os.read(self._process.stdout.fileno(), 1 << 16) if ready else b""
            if not chunk:
                self.close()
                return "the recording process ended" if ready else "the recording process took too long"
            *lines, self._pending = (self._pending + chunk).split(b"\n")
            for line in lines:
                answer = json.loads(line)
                self._received[answer.pop("ticket")] = answer
        return self._received.pop(ticket)

    def close(self) -> None:
        atexit.unregister(self.close)
        self._process.kill()
        self._process.wait()


@functools.cache
def _server() -> _Server:
    return _Server()


def main() -> None:
    """The server's loop: a forked child evaluates each job, so that no job can spoil the next."""
    answers = os.dup(1)  # learners' code prints to 1
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    from .. import evaluate  # noqa: F401  (imported before the fork, once for all jobs)

    for line in sys.stdin:
        job = json.loads(line)
        receive, send = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(receive)
            try:
                os.write(send, json.dumps(_evaluate(job)).encode())
            finally:
                os._exit(0)
        os.close(send)
        with os.fdopen(receive, "rb") as pipe:
            text = pipe.read()
        os.waitpid(pid, 0)
        answer = json.loads(text) if text else {"failed": "the recording process failed"}
        os.write(answers, json.dumps({"ticket": job["ticket"], **answer}).encode() + b"\n")


def _evaluate(job: dict) -> dict:
    import torch

    from .. import exercise
    from ..evaluate import evaluate
    from . import pick
    from .interpreter import Interpreter

    torch.set_num_threads(1)  # OpenMP's worker threads did not survive the fork
    try:
        fn = load(job["module"])[job["entry"]]
    except Exception as e:  # whatever the learner's text does when it is run
        return {"failed": f"the text of the function could not be run by itself: {type(e).__name__}: {e}"}
    options = {k: job[k] for k in ("seed", "hidden", "time_limit")}
    task = exercise.get(job["exercise"])
    # the GPU's own compiler has its say in the other process
    backend = Interpreter(targets=()) if task.language == "triton" else pick(task.language, task.only)
    return evaluate(task, fn, backend=backend, **options).to_json()


if __name__ == "__main__":
    main()
