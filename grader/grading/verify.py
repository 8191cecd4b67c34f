"""`python -m grader verify OUT`: is every submission of a run graded exactly once, and does the gradebook agree?"""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

from grader.gradebook.gradebook import Course
from grader.gradebook.journal import Journal, JournalError, when


def problems(out: Path) -> list[str]:
    """What is wrong with the run in `out`: sentences, none if it is sound. Raises JournalError."""
    with contextlib.closing(Journal(out / "journal")) as journal:
        if journal.header is None:
            raise JournalError(f"There is no run in {out}.")
        found = [] if journal.header["finished"] else [f"The run of {when(journal.header)} is not finished."]
        found += [f"The journal's file {name} is incomplete." for name in journal.torn()]
        unit, expected = journal.header["unit"], {}
        for student in journal.students():
            entry = journal.get(student)
            expected[student] = {} if entry["problem"] else entry["marks"]
    course = Course(out / "course", unit)
    submitted = {path.parts[-3] for path in course.folder.glob(f"submitted/*/{unit}/{unit}.ipynb")}
    found += [f"{s} submitted, but is not in the journal." for s in sorted(submitted - expected.keys())]
    return found + course.problems(expected)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder with the graded class, such as out/UNIT")


def main(args) -> int:
    if not (args.out / "journal").is_dir():
        print(f"There is no run in {args.out}.")
        return 2
    try:
        found = problems(args.out)
    except JournalError as problem:
        print(problem)
        return 2
    for problem in found:
        print(problem)
    print("Found problems; see above." if found else "Every submission is graded exactly once.")
    return 1 if found else 0
