"""How a program in the sandbox gets its job and gives its answers: JSON in, a line of JSON for each answer out.

Imports nothing of labutils: a compiler's sandbox starts without it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator

from . import cage

FINAL = ("timeout", "died", "unfilled")
"""After these the other cases would only repeat it, slowly."""

MOST_MESSAGE = 20_000
"""Characters of a compiler's messages that are reported. They name C++ types in full, and a type's name can double with
each template around it."""

Answer = Callable[[dict], object]


@contextlib.contextmanager
def job() -> Iterator[tuple[dict, Answer]]:
    """The job, and a function that gives one answer. What the code of a submission prints goes nowhere else."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)

    def answer(reply: dict) -> None:
        answers.write(json.dumps(reply).encode() + b"\n")

    yield json.load(sys.stdin), answer
    answer({"done": True})


def caged(profile: str, jobs: list[Callable[[], dict]], before: Callable[[], None] | None = None) -> list:
    """The jobs of one forked child, which locks itself in before the first, once `before` is done."""
    if not jobs:
        return []

    def first() -> dict:
        if before:
            before()
        cage.lock(profile)
        return jobs[0]()

    return [first, *jobs[1:]]


def tell_cases(task: str, results: Iterable[dict | str], answer: Answer) -> None:
    """Give a task's results, a case each, until one is final. A result is JSON, or a text on how its process ended."""
    try:
        for number, result in enumerate(results):
            line = result if isinstance(result, dict) else {"ended": result}
            answer({"task": task, "case": number, **line})
            if (line.get("problem") or {}).get("kind") in FINAL:
                break
    except Exception as e:  # whatever the process wrote in place of a result
        answer({"task": task, "case": 0, "ended": f"died: {type(e).__name__}: {e}"[:400]})
