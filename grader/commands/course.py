"""`python -m grader course`: what is a course's own, and the results of all its units together.

python -m grader course init           asks, and writes course.toml and nbgrader_config.py
python -m grader course results OUT…   a table of the graded units with weights and grades
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from grader.course import settings as course_settings
from grader.course.regions import BuildError
from grader.course.settings import CourseSettings, checked, nbgrader_config, read_settings
from grader.course.sources import ROOT, unit_names
from grader.intake.files import Unreadable
from grader.intake.roster import read_roster
from grader.reports import exports, report
from grader.reports.course_results import GradedUnit, table
from grader.reports.report import NoResults

QUESTIONS = {
    "course_id": "nbgrader's name of the course",
    "repository": "Repository that Colab's first cell installs labutils from",
    "wheel": "Address of a labutils wheel to install instead (empty: the repository)",
    "exchange": "Folder of nbgrader's exchange (empty: nbgrader's default)",
    "roster": "Roster, a CSV file (empty: none)",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    init = verbs.add_parser("init", help="write course.toml and nbgrader_config.py, from flags or questions")
    init.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the course; default: this repository")
    for name, question in QUESTIONS.items():
        init.add_argument(f"--{name.replace('_', '-')}", metavar="TEXT", help=question)
    init.add_argument("--branch", metavar="NAME", help="the repository's branch, if it is not the default one")
    for name, what in (("weight", "UNIT=NUMBER"), ("scale", "GRADE=PERCENT")):
        init.add_argument(f"--{name}", action="append", default=[], metavar=what, help=f"one line of the {name}s")
    init.add_argument("--yes", action="store_true", help="ask nothing: keep what is there for what no flag gives")
    results = verbs.add_parser("results", help="a table of all graded units, with weights and grades")
    results.add_argument("outs", type=Path, nargs="+", metavar="OUT", help="folders with graded units")
    results.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the course; default: this repository")
    results.add_argument("--to", type=Path, metavar="FILE", help="where to write; default: out/course.csv")


def main(args) -> int:
    try:
        return init(args) if args.action == "init" else results(args)
    except (BuildError, Unreadable, NoResults, ValueError) as problem:
        print(problem, file=sys.stderr)
        return 2


def results(args) -> int:
    """Write the table of all units."""
    settings, units = read_settings(args.root), []
    for out in args.outs:
        unit = report.read(out)
        units.append(GradedUnit(unit, exports.finals(unit, out)))
    roster = read_roster(args.root / settings.roster) if settings.roster else []
    rows, target = table(units, settings, roster), args.to or args.root / "out" / "course.csv"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(exports.csv_text(rows), encoding="utf-8-sig", errors="replace")
    waiting = sum(f.waiting for unit in units for f in unit.final.values())
    message = f" {waiting} submissions have ungraded written answers." if waiting else ""
    print(f"{len(rows) - 1} students, {len(units)} units in {target}.{message}")
    return 0


def init(args) -> int:
    """Write the course's two files. What was set before stays unless a flag or an answer changes it."""
    before = read_settings(args.root)
    table = {f: getattr(before, f) for f in ("branch", "weights", "scale", "walkthroughs", *QUESTIONS)}
    for name in ("branch", *QUESTIONS):
        given = getattr(args, name)
        if given is None and name in QUESTIONS and not args.yes and sys.stdin.isatty():
            given = input(f"{QUESTIONS[name]} [{table[name]}]: ").strip() or None
        if given is not None:
            table[name] = given
    for name, given in (("weights", args.weight), ("scale", args.scale)):
        table[name] = {**table[name], **dict(map(_line, given))}
    if unknown := sorted(table["weights"].keys() - unit_names(args.root)):
        raise ValueError(f"There is no unit {', '.join(unknown)}.")
    settings = checked(table)
    if settings.roster and not (args.root / settings.roster).is_file():
        raise ValueError(f"There is no roster {settings.roster}.")
    _write(args.root, settings)
    return 0


def _line(text: str) -> tuple[str, float]:
    name, equals, number = text.rpartition("=")
    try:
        return name.strip(), float(number)
    except ValueError:
        raise ValueError(f"{text!r} is not NAME=NUMBER") from None


def _write(root: Path, settings: CourseSettings) -> None:
    # The build writes releases to notebooks/, in the layout of nbgrader's own release folder.
    texts = {course_settings.FILE: settings.as_toml(), "nbgrader_config.py": nbgrader_config(settings, "notebooks")}
    for name, text in texts.items():
        (root / name).write_text(text, encoding="utf-8")
        print(f"Written: {root / name}")
    print("Next: `python -m grader build`, which puts the repository's address into the notebooks.")
