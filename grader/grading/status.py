"""`python -m grader status OUT`: what a folder holds, and what can be done with it. Changes nothing and waits for
nobody: it can be asked while a run grades."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from grader.gradebook import provenance
from grader.gradebook.gradebook import Course, GradebookError
from grader.gradebook.journal import Journal, JournalError, when
from grader.grading.derive import rules_in
from grader.grading.regrade import short
from grader.marks.results import Graded


def lines(out: Path) -> Iterator[str]:
    """What the folder holds, in sentences. Raises JournalError."""
    journal = Journal(out / "journal", hold=False)
    header, unit = journal.the_run(), journal.header["unit"]
    yield f"{unit}: {header['title']}"
    yield f"Run of {when(header)}, " + _state(journal)
    students = [Graded.from_json(e["graded"]) for e in journal.entries()]
    problems = [s for s in students if s.problem]
    points = sum(check["points"] for check in header["checks"])
    average = sum(s.marks for s in students) / max(1, len(students))
    yield f"{len(students)} students, on average {average:.3g} of {points:g} points before late penalties."
    if problems:
        yield f"{len(problems)} without a graded notebook: {provenance.named(s.student for s in problems)}."
    if waiting := [name for name in journal.pending() if journal.get(name) is None]:
        yield f"{len(waiting)} still to be graded: {provenance.named(waiting)}."
    if still := [s.student for s in students if s.open]:
        yield f"{len(still)} with points that need a GPU: {provenance.named(still)}."
    yield from _by_hand(Course(out / "course", unit), header["manual"])
    if rules := rules_in(journal):
        yield f"Due {rules.due:%Y-%m-%d %H:%M %Z}."
    changed = journal.changes()
    if changed:
        yield (
            f"Changed since: {provenance.named(changed)}. `grade --accept-changes` goes on all the same, `regrade` "
            "judges everyone again."
        )
    else:
        yield "The course's code and its packages are as they were."
    yield from (f"Note: {note}" for note in header["notes"])


def _state(journal: Journal) -> str:
    if journal.header["finished"]:
        return "finished; `grade` adds what is new or changed."
    if again := journal.header.get("regrade"):
        names = provenance.named(map(short, again["exercises"]))
        return f"judging {names} again is not finished; the same `regrade` command goes on."
    return "not finished; `grade --resume` goes on."


def _by_hand(course: Course, manual: float) -> Iterator[str]:
    """How many answers a person must look at."""
    if not manual:
        return
    try:
        waiting = course.waiting()
    except GradebookError as problem:
        yield str(problem)
        return
    yield f"{waiting} students have answers that a person must grade." if waiting else "All written answers are graded."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder with the graded class, such as out/UNIT")


def main(args) -> int:
    if not (args.out / "journal").is_dir():
        print(f"There is no run in {args.out}.")
        return 2
    try:
        for line in lines(args.out):
            print(line)
    except JournalError as problem:
        print(problem)
        return 2
    return 0
