"""The process beside a notebook's: it evaluates exercises without a GPU, with every address recorded."""

from __future__ import annotations

import json
import os
import sys

import torch

from .. import exercises
from ..backends import pick
from ..backends.extract import load
from ..backends.interpreter import Interpreter, Unavailable
from .evaluate import evaluate
from .figures import NoFigures, recorded


def main() -> None:
    """The server's loop: a forked child evaluates each job, so that no job can spoil the next."""
    answers = os.dup(1)  # learners' code prints to 1
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    for line in sys.stdin:
        job = json.loads(line)
        receive, send = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(receive)
            try:
                os.write(send, json.dumps(_done(job)).encode())
            finally:
                os._exit(0)
        os.close(send)
        with os.fdopen(receive, "rb") as pipe:
            text = pipe.read()
        os.waitpid(pid, 0)
        answer = json.loads(text) if text else {"failed": "the recording process failed"}
        os.write(answers, json.dumps({"ticket": job["ticket"], **answer}).encode() + b"\n")


def _done(job: dict) -> dict:
    torch.set_num_threads(1)  # OpenMP's worker threads did not survive the fork
    try:
        fn = load(job["module"])[job["entry"]]
    except Exception as e:  # whatever the learner's text does when it is run
        return {"failed": f"the text of the function could not be run by itself: {type(e).__name__}: {e}"}
    if job["task"] == "figures":
        try:
            return recorded(exercises.get(job["exercise"]), fn, job["seed"])
        except (NoFigures, Unavailable) as e:
            return {"failed": str(e)}
    options = {k: job[k] for k in ("seed", "hidden", "time_limit", "explain")}
    task = exercises.get(job["exercise"])
    # the GPU's own compiler has its say in the other process
    backend = Interpreter(targets=()) if task.language == "triton" else pick(task.language, task.only)
    return evaluate(task, fn, backend=backend, **options).to_json()


if __name__ == "__main__":
    main()
