"""Judge one submission inside a platform's container, and write the result as the platform reads it.

    python -m grader.commands.one_submission FOLDER --for gradescope --to results.json
    python -m grader.commands.one_submission FOLDER --for autolab          the points in the last line that is printed

It grades as `python -m grader grade` does, with a class of one: points are the same for the same seed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from grader.commands.autograder import SETTINGS
from grader.course.sources import ROOT
from grader.grading.grade import exit_status, grade
from grader.grading.options import GradeOptions
from grader.marks.results import ClassResults
from grader.reports import exports, pages

STUDENT = "submission"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m grader.commands.one_submission", description=__doc__)
    parser.add_argument("folder", type=Path, help="the files of one student")
    parser.add_argument("--for", dest="platform", choices=("gradescope", "autolab"), required=True)
    parser.add_argument("--to", type=Path, metavar="FILE", help="gradescope: its results.json")
    args = parser.parse_args(arguments)
    settings = json.loads((ROOT / SETTINGS).read_text(encoding="utf-8"))
    return exit_status(lambda: _judge(args, **settings))


def _judge(args, unit: str, seed: int) -> None:
    options = GradeOptions(seed=seed, workers=1, student=STUDENT)
    with tempfile.TemporaryDirectory(prefix="one-submission-") as scratch:
        results = grade(ROOT / "solutions" / unit, args.folder, Path(scratch), options)
    if not results.students:
        raise SystemExit(f"There is no file in {args.folder}.")
    (student,) = results.students
    if args.platform == "gradescope":
        final = exports.Final(student.marks, 0.0, results.points)
        args.to.write_text(json.dumps(exports.gradescope(results, student, final)), encoding="utf-8", errors="replace")
        return
    print(_told(results))
    print(json.dumps({"scores": {o.name: o.marks for o in student.outcomes}, "scoreboard": [student.marks]}))


def _told(results: ClassResults) -> str:
    """What Autolab shows the student: why the points are what they are."""
    (student,) = results.students
    verdicts = [o.verdict.text() if o.verdict else f"{o.name}: {o.sentence}" for o in student.outcomes]
    return pages.clean("\n\n".join([student.what_happened(), *verdicts]), 100_000)


if __name__ == "__main__":
    sys.exit(main())
