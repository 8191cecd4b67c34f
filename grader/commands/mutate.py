"""Try the check on every solution with one small mistake in it, made by rules (`grader/course/mutations`).

Each mutation must be refused, or earn fewer points, or be listed as equivalent with a person's reason. Whatever else is
accepted is an open hole: the check lets a mistake pass that nobody has thought of.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from grader.commands.audit import ACCEPTED, REFUSED, Attempt, Trial, run_trials, select
from grader.course.mutations import Mutation, equivalents, mutations
from grader.course.solutions import solution_text
from labutils import exercises
from labutils.spec.exercise import KernelExercise

SAMPLE = 12
"""Mutations of an exercise that `--sample` tries: spread evenly over its text."""


@dataclass
class Score:
    """What came of one exercise's mutations."""

    tried: int = 0
    equivalent: int = 0
    refused: int = 0
    holes: list[Mutation] = field(default_factory=list)

    def add(self, mutation: Mutation, kind: str, known: bool) -> None:
        self.tried += 1
        self.equivalent += known
        if kind != ACCEPTED:
            self.refused += not known
        elif not known:
            self.holes.append(mutation)

    @property
    def rate(self) -> float:
        """Refused over not equivalent."""
        return self.refused / (self.tried - self.equivalent) if self.tried > self.equivalent else 1.0


def kernels(names: Iterable[str]) -> list[str]:
    """Ids of the kernel exercises that are named by unit or id; all without names. Raises KeyError as `select` does."""
    return [i for i in select(names) if isinstance(exercises.get(i), KernelExercise)]


def mutate(
    exercise_ids: Iterable[str],
    jobs: int | None = None,
    sample: int | None = None,
    seen: Callable[[Mutation, Attempt], None] = lambda mutation, attempt: None,
) -> dict[str, Score]:
    """Scores by exercise; `seen` is told of each attempt. `sample`: of every exercise only so many mutations."""
    chosen, texts = [], {}
    for exercise_id in exercise_ids:
        unit = exercise_id.split("/")[0]
        texts.setdefault(unit, solution_text(unit))
        found = mutations(exercise_id)
        if sample and len(found) > sample:
            found = found[:: -(-len(found) // sample)]
        chosen += found
    trials = [Trial(m.exercise, m.name, REFUSED, "", m.text, m.language, None, texts[m.exercise.split("/")[0]])
              for m in chosen]  # fmt: skip
    known = {key for unit in texts for key in equivalents(unit)}
    scores: dict[str, Score] = {}
    for mutation, attempt in zip(chosen, run_trials(trials, True, jobs), strict=True):
        seen(mutation, attempt)
        is_known = (mutation.exercise, mutation.line, mutation.becomes) in known
        scores.setdefault(mutation.exercise, Score()).add(mutation, attempt.kind, is_known)
    return scores


def report(scores: dict[str, Score], seconds: float) -> None:
    """Print the table by exercise, the score of all, and every hole."""
    from rich.console import Console
    from rich.table import Table

    table = Table("exercise", "mutations", "equivalent", "refused", "score")
    for exercise_id, s in scores.items():
        table.add_row(exercise_id, str(s.tried), str(s.equivalent), str(s.refused), f"{s.rate:.1%}")
    Console().print(table)
    for s in scores.values():
        for hole in s.holes:
            print(f"hole: {hole.exercise}, {hole.operator}\n    {hole.line}\n    {hole.becomes}")
    tried, equivalent = sum(s.tried for s in scores.values()), sum(s.equivalent for s in scores.values())
    refused = sum(s.refused for s in scores.values())
    of = tried - equivalent
    print(f"{tried} mutations, {equivalent} equivalent, {refused} of {of} refused ({refused / max(of, 1):.2%}), "
          f"{seconds:.0f} s")  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `python -m grader mutate` takes."""
    parser.add_argument("exercises", nargs="*", metavar="UNIT or UNIT/EXERCISE", help="which; without any, all")
    parser.add_argument("--jobs", type=int, help="processes at a time")
    parser.add_argument("--sample", type=int, nargs="?", const=SAMPLE, help=f"of each exercise only so many ({SAMPLE})")
    parser.add_argument("--json", type=Path, help="write every attempt to this file, a line each")


def main(options: argparse.Namespace) -> int:
    """Try the mutations and report; the exit code is 1 while a hole is open."""
    begin = time.perf_counter()
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(options.json.open("w", encoding="utf-8")) if options.json else None

        def seen(mutation: Mutation, attempt: Attempt) -> None:
            if out:
                row = {f: getattr(mutation, f) for f in ("exercise", "operator", "line", "becomes")}
                row |= {"kind": attempt.kind, "message": attempt.message, "seconds": round(attempt.seconds, 2)}
                out.write(json.dumps(row) + "\n")
                out.flush()

        scores = mutate(kernels(options.exercises), options.jobs, options.sample, seen)
    report(scores, time.perf_counter() - begin)
    return int(any(s.holes for s in scores.values()))
