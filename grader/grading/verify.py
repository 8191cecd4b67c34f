"""`python -m grader verify OUT`: is every submission of a run graded exactly once, and does everything that the class
shows agree with the journal? `--repair` makes it agree."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
from pathlib import Path

from grader.gradebook.gradebook import Course, GradebookError
from grader.gradebook.journal import DiskFull, Journal, JournalError, when
from grader.grading.bookkeeper import read_record
from grader.grading.derive import heal, results_of
from grader.marks.results import ClassResults, parts_of
from grader.reports import report, stamp


def problems(out: Path) -> list[str]:
    """What is wrong with the run in `out`: sentences, none if it is sound. Raises JournalError."""
    with contextlib.closing(Journal(out / "journal")) as journal:
        header = journal.the_run()
        found = [] if header["finished"] else [f"The run of {when(header)} is not finished."]
        found += [f"The journal's file {name} is incomplete." for name in journal.torn()]
        course, expected, stale = Course(out / "course", header["unit"]), {}, []
        for entry in journal.entries():
            student = entry["student"]
            expected[student] = entry["marks"]
            if "notebook" in entry["result"] and not entry["graded"]["problem"]:
                if not journal.is_recorded(student):
                    stale.append(f"{student}: the gradebook was not brought up to date with the journal.")
                if read_record(out, student) != (entry["result"]["record"] or None):
                    stale.append(f"{student}: the verdict record is missing, or not the journal's.")
        results = results_of(journal)
    found += [f"{s} submitted, but is not in the journal." for s in sorted(course.laid_out() - expected.keys())]
    found += course.problems(expected) + stale
    found += [f"{s}: nbgrader's feedback is missing or not whole." for s in course.without_feedback()]
    return found + _tables(results, out) + stamp.problems(out)


def _tables(results: ClassResults, out: Path) -> list[str]:
    """Where `grades.json` and `grades.csv` differ from the journal's results."""
    files, found = report.places(out), []
    try:
        with files["json"].open(encoding="utf-8", newline="\n") as file:
            head, students = parts_of(file)
            theirs = {s["student"]: (_digest(s), s["marks"]) for s in students}
    except (OSError, ValueError, KeyError, TypeError):
        return ["grades.json is missing or not whole."]
    expected = (json.loads(_as_in_a_file(json.dumps(s.to_json(), ensure_ascii=False))) for s in results.students)
    ours = {s["student"]: (_digest(s), s["marks"]) for s in expected}
    for student in sorted(theirs.keys() | ours.keys()):
        if theirs.get(student) != ours.get(student):
            marks = [s[student][1] if student in s else "nothing" for s in (theirs, ours)]
            found.append(f"{student}: {marks[0]} in grades.json, {marks[1]} in the journal.")
    expected_head = json.loads(_as_in_a_file(json.dumps(results.head(), ensure_ascii=False)))
    apart = [k for k in expected_head if k != "findings" and head.get(k) != expected_head[k]]
    found += [f"grades.json has another {key} than the journal." for key in apart]
    try:
        table = files["csv"].read_text(encoding=report.CSV_ENCODING)
    except (OSError, UnicodeDecodeError):
        table = ""
    return found + ["grades.csv does not hold the journal's points."] * (table != _as_in_a_file(results.as_csv()))


def _digest(data: dict) -> bytes:
    """What tells data from other data: a large class's results would fill the memory twice."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).digest()


def _as_in_a_file(text: str) -> str:
    """What a file holds of a text: half a surrogate pair is replaced."""
    return text.encode("utf-8", "replace").decode()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder with the graded class, such as out/UNIT")
    parser.add_argument(
        "--repair", action="store_true", help="make gradebook, tables and pages from the journal again, then check"
    )


def main(args) -> int:
    if not (args.out / "journal").is_dir():
        print(f"There is no run in {args.out}.")
        return 2
    try:
        if args.repair:
            heal(args.out)
        found = problems(args.out)
    except (JournalError, GradebookError) as problem:
        print(problem)
        return 2
    except DiskFull as where:
        print(f"The disk is full: {where}.")
        return 1
    for problem in found:
        print(problem)
    more = "" if args.repair else " `verify --repair` makes gradebook, tables and pages from the journal again."
    print(f"Found problems; see above.{more}" if found else "Every submission is graded exactly once.")
    return 1 if found else 0
