"""Grade the sample class: thirteen students, most of whom did something that breaks an ordinary grader.

The class is data (`class.toml`) with the expected points of each student; the demo fails if grading gives others.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from grader.course.sources import ROOT


def add_arguments(parser) -> None:
    from grader.commands.grade import add_common_arguments

    parser.add_argument("--out", type=Path, default=ROOT / "out" / "demo", metavar="DIR", help="default: out/demo")
    add_common_arguments(parser)
    parser.set_defaults(resume=False, fresh=True, accept_changes=False, late=None)


def main(args) -> int:
    """Create the class, grade it, compare. Returns 1 if any points differ from the expected ones."""
    from grader.commands import progress
    from grader.demo.sample import differences, read_class, write_submissions

    sample = read_class()
    unit = ROOT / "solutions" / sample.unit
    for made in ("course", "journal", "submissions"):
        shutil.rmtree(args.out / made, ignore_errors=True)
    write_submissions(sample, unit, args.out / "submissions")
    results = progress.grade_and_report(
        unit, args.out / "submissions", args.out, progress.options_of(args), args.verbose
    )
    problems = differences(sample, results)
    for problem in problems:
        print(problem)
    print("Points differ from class.toml." if problems else "All points are as class.toml expects.")
    return 1 if problems else 0
