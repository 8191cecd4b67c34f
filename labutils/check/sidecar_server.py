"""The process beside a notebook's: it evaluates exercises without a GPU, with every address recorded."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator

import torch

from .. import exercises
from ..backends import pick
from ..backends.extract import load
from ..backends.interpreter import Interpreter, Unavailable, require
from .evaluate import evaluate
from .figures import NoFigures, recorded


def main() -> None:
    """The server's loop: a forked child evaluates each job, so that no job can spoil the next."""
    answers = os.dup(1)  # learners' code prints to 1
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    with contextlib.suppress(Unavailable):  # each job for Triton says so again
        require()  # here, so that not every child imports and patches the interpreter
    for line in sys.stdin:
        job = json.loads(line)
        receive, send = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(receive)
            _work(job, send)
        os.close(send)
        text = b""
        with os.fdopen(receive, "rb") as pipe:
            for text in pipe:
                _send(answers, job, text)
        if os.waitpid(pid, 0)[1] or not text:
            _send(answers, job, json.dumps({"failed": "the recording process failed"}).encode())


def _send(answers: int, job: dict, text: bytes) -> None:
    os.write(answers, json.dumps({"ticket": job["ticket"], **json.loads(text)}).encode() + b"\n")


def _work(job: dict, send: int) -> None:
    """In the child."""
    status = 1
    try:
        for answer in _answers(job):
            os.write(send, json.dumps(answer).encode() + b"\n")
        status = 0
    finally:
        os._exit(status)


def _answers(job: dict) -> Iterator[dict]:
    torch.set_num_threads(1)  # OpenMP's worker threads did not survive the fork
    try:
        fn = load(job["module"])[job["entry"]]
    except Exception as e:  # whatever the learner's text does when it is run
        yield {"failed": f"the text of the function could not be run by itself: {type(e).__name__}: {e}"}
        return
    if job["task"] == "figures":
        try:
            yield from recorded(exercises.get(job["exercise"]), fn, job["seed"])
        except (NoFigures, Unavailable) as e:
            yield {"failed": str(e)}
        return
    options = {k: job[k] for k in ("seed", "hidden", "time_limit", "explain")}
    task = exercises.get(job["exercise"])
    # the GPU's own compiler has its say in the other process
    backend = Interpreter(targets=()) if task.language == "triton" else pick(task.language, task.only)
    yield evaluate(task, fn, backend=backend, **options).to_json()


if __name__ == "__main__":
    main()
