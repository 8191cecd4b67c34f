"""Judge exercises of a graded class again after a test was fixed.

python -m grader regrade OUT --only EXERCISE
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from grader.commands.grade import add_engine_arguments
from grader.commands.progress import Progress, engine_options
from grader.grading.grade import exit_status
from grader.grading.options import GradeOptions
from grader.grading.regrade import regrade
from grader.grading.run import Clock


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=Path, metavar="OUT", help="a folder with a graded class")
    parser.add_argument(
        "--only", action="append", default=[], metavar="EXERCISE", help="the exercise to judge again; default: all"
    )
    add_engine_arguments(parser)


def main(args) -> int:
    if not (args.out / "journal").is_dir():
        print(f"There is no run in {args.out}.")
        return 1
    return exit_status(lambda: _regrade(args), "the same command does the rest")


def _regrade(args) -> None:
    with Progress(Console(), False, Clock()) as progress:
        results, changes = regrade(args.out, args.only, GradeOptions(**engine_options(args)), watcher=progress)
    for student, (before, after) in changes.items():
        print(f"{student}: {before:g} → {after:g}")
    for note in results.notes[-1:]:
        print(note)
