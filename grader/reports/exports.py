"""Exports points to the platform that the submissions came from.

    python -m grader export OUT --format moodle        a grading worksheet that Moodle uploads
    python -m grader export OUT --format canvas        a table for Canvas's gradebook
    python -m grader export OUT --format gradescope    a results.json for each submission
    python -m grader export OUT --format csv           everything, for a spreadsheet

Learners are matched by the platform's own numbers in the submitted files. `--into FILE` instead fills in a worksheet
downloaded from Moodle or Canvas, whatever its language and further columns. Points are those of the gradebook: they
include what a person gave or changed in the formgrader, and the late penalty applies to all of them.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from grader.marks.results import ClassResults, Graded, harmless
from grader.reports import pages, report

FORMATS = ("csv", "moodle", "canvas", "gradescope")


class NoExport(Exception):
    """What cannot be exported, in a sentence."""


@dataclass(frozen=True)
class Final:
    """A student's final points. `earned`: before the late penalty, with written answers; `waiting`: some ungraded."""

    earned: float
    penalty: float
    points: float
    waiting: bool = False

    @property
    def score(self) -> float:
        return round(max(0.0, self.earned - self.penalty), 2)


def finals(results: ClassResults, out: Path) -> dict[str, Final]:
    """Every student's final points: from the gradebook, or from the results for students who are not in it."""
    from_results = {s.student: Final(s.marks, s.penalty, results.points + results.manual) for s in results.students}
    if not (out / "course" / "gradebook.db").exists():
        return from_results
    from grader.gradebook.gradebook import Course
    from grader.marks import late

    course = Course(out / "course", results.unit)
    late.enter(course, results.students)
    with course.api.gradebook as book:
        rows = book.submission_dicts(results.unit)
        taken_off = {s.student_id: s.late_submission_penalty or 0.0 for s in book.assignment_submissions(results.unit)}
    found = {
        r["student"]: Final(
            float(r["score"] or 0),
            float(taken_off.get(r["student"], 0)),
            float(r["max_score"]),
            r["needs_manual_grade"],
        )
        for r in rows
    }
    return from_results | {s: f for s, f in found.items() if s in from_results}


def table(results: ClassResults, final: dict[str, Final]) -> list[list[str]]:
    """Everything, a row for each student."""
    head = ["student", "name", "id", "email", *(c.name for c in results.checks)]
    rows = [[*head, "earned", "penalty", "score", "points", "ungraded answers", "what happened"]]
    for s, f in _with_final(results, final):
        marks = {o.cell: o.marks for o in s.outcomes}
        who = [s.student, *((s.origin.name, s.origin.id, s.origin.email) if s.origin else ("", "", ""))]
        numbers = [marks.get(c.cell, 0.0) for c in results.checks] + [f.earned, f.penalty, f.score, f.points]
        rows.append([*who, *map(_number, numbers), "yes" if f.waiting else "", s.what_happened()])
    return rows


def moodle(results: ClassResults, final: dict[str, Final]) -> list[list[str]]:
    """Moodle's offline grading worksheet."""
    rows = [["Identifier", "Full name", "Email address", "Grade", "Maximum grade", "Feedback comments"]]
    for s, f in _with_final(results, final):
        number = s.origin.id if s.origin and s.origin.system == "moodle" else ""
        identifier = f"Participant {number}" if number else ""
        name, email = (s.origin.name, s.origin.email) if s.origin else (s.student, "")
        # Moodle takes comments for HTML.
        message = escape(pages.clean(s.what_happened(), 2000))
        rows.append([identifier, name, email, _number(f.score), _number(f.points), message])
    return rows


def canvas(results: ClassResults, final: dict[str, Final]) -> list[list[str]]:
    """A table that Canvas's gradebook imports; a column that it does not know becomes a new assignment."""
    points = _number(next(iter(final.values())).points if final else results.points + results.manual)
    rows = [["Student", "ID", "SIS User ID", "SIS Login ID", "Section", results.title]]
    rows.append(["    Points Possible", "", "", "", "", points])
    for s, f in _with_final(results, final):
        number = s.origin.id if s.origin and s.origin.system == "canvas" else ""
        rows.append([s.origin.name if s.origin else s.student, number, "", "", "", _number(f.score)])
    return rows


def fill(worksheet: str, results: ClassResults, final: dict[str, Final], column: str = "") -> tuple[str, list[str]]:
    """A worksheet downloaded from Moodle or Canvas with the grades filled in; and who is not in it.

    Raises NoExport if it is neither, or has no such column.
    """
    dialect = "\t" if worksheet.split("\n", 1)[0].count("\t") > 2 else ","
    rows = list(csv.reader(io.StringIO(worksheet), delimiter=dialect))
    if not rows:
        raise NoExport("The worksheet is empty.")
    head, unit = rows[0], results.unit
    if "SIS User ID" in head or "SIS Login ID" in head:
        system, by = "canvas", head.index("ID")
        places = [i for i, h in enumerate(head) if h == column or not column and h.startswith((results.title, unit))]
    else:
        # Moodle's first column is the participant, in the site's language; "Grade" too.
        system, by = "moodle", 0
        places = [i for i, h in enumerate(head) if h == (column or "Grade")]
    if len(places) != 1:
        raise NoExport(f"Choose the column of the grade with --column: {', '.join(repr(h) for h in head)}.")
    ours = {s.origin.id: (s, f) for s, f in _with_final(results, final) if s.origin and s.origin.system == system}
    for row in rows[1:]:
        number = m[1] if len(row) > max(by, places[0]) and (m := re.search(r"(\d+)$", row[by])) else ""
        if number in ours:
            row[places[0]] = _number(ours.pop(number)[1].score)
    text = io.StringIO()
    csv.writer(text, delimiter=dialect, lineterminator="\n").writerows(rows)
    return text.getvalue(), sorted(s.student for s, _ in ours.values())


def gradescope(results: ClassResults, student: Graded, final: Final) -> dict:
    """Gradescope's results.json of one submission."""
    titles = {c.cell: c.title for c in results.checks}
    tests, board = [], []
    for o in student.outcomes:
        test = {"name": titles.get(o.cell, o.name), "score": o.marks, "max_score": o.points, "visibility": "visible"}
        test |= {"output_format": "text"} | ({} if o.open else {"status": "passed" if o.passed else "failed"})
        tests.append(test | {"output": pages.clean(o.verdict.text() if o.verdict else o.sentence, 8000)})
        if o.verdict and o.verdict.passed and o.verdict.timing:
            ratio = round(o.verdict.timing["ratio"], 2)
            board.append({"name": f"{o.name}, × the reference's time", "value": ratio, "order": "asc"})
    return {
        "score": final.score,
        "output": pages.clean(student.what_happened(), 4000),
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": tests,
        "leaderboard": board,
    }


def _with_final(results: ClassResults, final: dict[str, Final]) -> Iterable[tuple[Graded, Final]]:
    return ((s, final[s.student]) for s in results.students)


def _number(value: float) -> str:
    return f"{round(value, 2):g}"


def _text(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([[harmless(cell) for cell in row] for row in rows])
    return text.getvalue()


def add_arguments(parser) -> None:
    parser.add_argument("out", type=Path, metavar="OUT", help="a folder with a graded class")
    parser.add_argument("--format", choices=FORMATS, default="csv", help="format; default: csv, a table of everything")
    parser.add_argument("--to", type=Path, metavar="PATH", help="where to write; default: OUT/exports/")
    parser.add_argument("--into", type=Path, metavar="FILE", help="fill in this worksheet of Moodle's or Canvas's")
    parser.add_argument("--column", default="", metavar="NAME", help="the worksheet's column for the grade")


def main(args) -> int:
    try:
        results = report.read(args.out)
        final = finals(results, args.out)
        target = _export(args, results, final)
    except (report.NoResults, NoExport) as problem:
        print(problem)
        return 1
    waiting = sum(f.waiting for f in final.values())
    message = f" {waiting} of {len(final)} have ungraded written answers." if waiting else ""
    print(f"{len(final)} students in {target}.{message}")
    return 0


def _export(args, results: ClassResults, final: dict[str, Final]) -> Path:
    target = args.to or args.out / "exports" / {"gradescope": "gradescope", "csv": "marks.csv"}.get(
        args.format, f"{args.format}.csv"
    )
    if args.format == "gradescope":
        for s, f in _with_final(results, final):
            number = s.origin.id if s.origin and s.origin.system == "gradescope" else ""
            folder = target / (f"submission_{number}" if number else pages.file_name(s.student).removesuffix(".html"))
            folder.mkdir(parents=True, exist_ok=True)
            text = json.dumps(gradescope(results, s, f), indent=1, ensure_ascii=False)
            (folder / "results.json").write_text(text, encoding="utf-8", errors="replace")
        return target
    if args.into:
        try:
            worksheet = args.into.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as problem:
            raise NoExport(f"{args.into} cannot be read: {problem}.") from None
        text, missing = fill(worksheet, results, final, args.column)
        if missing:
            print(f"Not in the worksheet: {', '.join(missing)}.", file=sys.stderr)
    else:
        text = _text({"csv": table, "moodle": moodle, "canvas": canvas}[args.format](results, final))
        strangers = [s.student for s in results.students if not (s.origin and s.origin.system == args.format)]
        if args.format != "csv" and strangers:
            message = f"{len(strangers)} students did not submit through {args.format.capitalize()}"
            more = " …" if len(strangers) > 5 else "."
            print(f"{message}, so their rows have no number: {', '.join(strangers[:5])}{more}", file=sys.stderr)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8" if args.format == "canvas" else "utf-8-sig", errors="replace")
    return target
