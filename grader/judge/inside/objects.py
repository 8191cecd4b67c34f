"""In a sandbox of its own: plain exercises that hand the learner live objects, such as a simulated GPU.

What such a function does to an object cannot be sent as data, so the whole check runs here, beside the learner's code,
with the exercises in sight. Reads a job like that of `launch`, writes one verdict for each task.
"""

from __future__ import annotations

from labutils import exercises
from labutils.backends import child
from labutils.check.evaluate import evaluate

from . import cage
from .job import caged, job, tell_cases
from .launch import define


def prepare() -> None:
    """This module's imports are all."""


def _verdict(task: dict, cells) -> dict:
    namespace, _ = define(cells)
    fn = namespace.get(task["entry"])
    verdict = evaluate(exercises.get(task["id"]), fn, seed=task["seed"], hidden=task["hidden"])
    return {"verdict": verdict.to_json()}


def main(memory: int | None = None) -> None:
    with job() as (payload, answer):
        cage.lock("parent")
        for task in payload["tasks"]:
            whole = caged("python", [lambda t=task: _verdict(t, payload["cells"])])
            tell_cases(task["id"], child.fork(whole, payload["time_limit"]), answer)


if __name__ == "__main__":
    prepare()
    main()
