"""In a sandbox of its own: plain exercises that hand the learner live objects, such as a simulated GPU.

What such a function does to an object cannot be told as data, so the whole check runs here, beside the learner's code,
with the exercises in sight. Reads a job like that of `launch`, writes one verdict for each task.
"""

from __future__ import annotations

import json
import os
import sys

import labutils.exercises  # noqa: F401
from labutils import exercise
from labutils.backends import child
from labutils.evaluate import evaluate

from .launch import define


def prepare() -> None:
    """This module's imports are all."""


def _verdict(task: dict, cells) -> dict:
    namespace, _ = define(cells)
    fn = namespace.get(task["entry"])
    verdict = evaluate(exercise.get(task["id"]), fn, seed=task["seed"], hidden=task["hidden"])
    return {"verdict": verdict.to_json()}


def main(memory: int | None = None) -> None:
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    job = json.load(sys.stdin)
    for task in job["tasks"]:
        result = next(child.fork([lambda t=task: _verdict(t, job["cells"])], job["time_limit"]), "died")
        line = result if isinstance(result, dict) else {"ended": result}
        answers.write(json.dumps({"task": task["id"], **line}).encode() + b"\n")
    answers.write(b'{"done": true}\n')


if __name__ == "__main__":
    prepare()
    main()
