"""Exports points to the platform that the submissions came from.

    python -m grader export OUT --format moodle        a grading worksheet that Moodle uploads
    python -m grader export OUT --format canvas        a table for Canvas's gradebook
    python -m grader export OUT --format gradescope    a results.json for each submission
    python -m grader export OUT --format csv           everything, for a spreadsheet

Learners are matched by the platform's own numbers in the submitted files. `--into FILE` instead fills in a worksheet
downloaded from Moodle or Canvas, whatever its language and further columns, and scales to the maximum that it gives.
Points are those of the gradebook: they include what a person gave or changed in the formgrader, and the late penalty
applies to all of them.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from grader.intake.platforms import CANVAS_POINTS, is_canvas, moodle_languages, number, read_table
from grader.intake.roster import Entry, entry_reader, match
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

    def out_of(self, maximum: float | None) -> float:
        """The score as it is where all points are worth `maximum`; None: as they are."""
        return self.score if maximum is None or not self.points else round(self.score / self.points * maximum, 2)


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


def moodle(results: ClassResults, final: dict[str, Final], maximum: float | None = None) -> list[list[str]]:
    """Moodle's offline grading worksheet. Moodle rejects one without the time of the last grade."""
    head = ["Identifier", "Full name", "Email address", "Grade", "Maximum grade"]
    rows = [[*head, "Last modified (grade)", "Feedback comments"]]
    for s, f in _with_final(results, final):
        number = s.origin.id if s.origin and s.origin.system == "moodle" else ""
        identifier = f"Participant {number}" if number else ""
        name, email = (s.origin.name, s.origin.email) if s.origin else (s.student, "")
        # Moodle takes comments for HTML.
        message = escape(pages.clean(s.what_happened(), 2000))
        grade, most = f.out_of(maximum), f.points if maximum is None else maximum
        rows.append([identifier, name, email, _number(grade), _number(most), "-", message])
    return rows


def canvas(results: ClassResults, final: dict[str, Final], maximum: float | None = None) -> list[list[str]]:
    """A table that Canvas's gradebook imports; a column that it does not know becomes a new assignment."""
    points = next(iter(final.values())).points if final else results.points + results.manual
    rows = [["Student", "ID", "SIS User ID", "SIS Login ID", "Section", results.title]]
    rows.append(["    Points Possible", "", "", "", "", _number(points if maximum is None else maximum)])
    for s, f in _with_final(results, final):
        number = s.origin.id if s.origin and s.origin.system == "canvas" else ""
        name = s.origin.name if s.origin else s.student
        rows.append([name, number, "", "", "", _number(f.out_of(maximum))])
    return rows


def fill(
    worksheet: str,
    results: ClassResults,
    final: dict[str, Final],
    column: str = "",
    maximum: float | None = None,
) -> tuple[str, list[str]]:
    """A worksheet downloaded from Moodle or Canvas with the grades filled in, scaled to its own maximum, or else to
    `maximum`; and who is not in it. Raises NoExport if it is neither, or has no such column."""
    rows, separator = read_table(worksheet)
    if not rows:
        raise NoExport("The worksheet is empty.")
    head = [cell.strip() for cell in rows[0]]
    grade, most = _canvas_places(rows, head, results, column) if is_canvas(head) else _moodle_places(rows, head, column)
    entries = {entry: row for row in rows[1:] if len(row) > grade and (entry := _entry(head, row))}
    owners = match(entries, [(s.student, s.origin) for s in results.students])
    for entry, student in owners.items():
        entries[entry][grade] = _number(final[student].out_of(most(entries[entry]) or maximum))
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows(rows)
    return text.getvalue(), sorted({s.student for s in results.students} - set(owners.values()))


MaximumOf = Callable[[list[str]], float | None]
"""The most that a row's grade can be, by its worksheet."""


def _canvas_places(rows: list[list[str]], head: list[str], results: ClassResults, column: str) -> tuple[int, MaximumOf]:
    """The column of the grade in Canvas's gradebook, and its points possible, which are in a row of their own."""
    ours = (results.title, results.unit)
    grade = _one([i for i, h in enumerate(head) if h == column or not column and h.startswith(ours)], head)
    points = (row for row in rows[1:4] if row and row[0].strip().casefold() == CANVAS_POINTS and len(row) > grade)
    most = next((number(row[grade]) for row in points), None)
    return grade, lambda row: most


def _moodle_places(rows: list[list[str]], head: list[str], column: str) -> tuple[int, MaximumOf]:
    """The column of the grade in Moodle's worksheet, whatever its language, and the one of each row's maximum."""
    languages = moodle_languages(head)
    names = {column} if column else {c.grade for c in languages} or {"Grade"}
    grade = _one([i for i, h in enumerate(head) if h in names], head)
    most = next((i for i, h in enumerate(head) if h in {c.maximum for c in languages}), None)
    return grade, lambda row: None if most is None or len(row) <= most else number(row[most])


def _one(places: list[int], head: list[str]) -> int:
    if len(places) != 1:
        raise NoExport(f"Choose the column of the grade with --column: {', '.join(repr(h) for h in head)}.")
    return places[0]


def _entry(head: list[str], row: list[str]) -> Entry | None:
    """Whose row of a worksheet it is. The first column of Moodle's ends in the participant's number in any language."""
    known = is_canvas(head) or moodle_languages(head)
    if known and (reader := entry_reader(head)):
        return reader([*map(str.strip, row), *[""] * (len(head) - len(row))])
    participant = re.search(r"(\d+)$", row[0])
    return Entry("", participant[1], "", "moodle") if participant else None


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


_TABLES = {"moodle": moodle, "canvas": canvas}


def _with_final(results: ClassResults, final: dict[str, Final]) -> Iterable[tuple[Graded, Final]]:
    return ((s, final[s.student]) for s in results.students)


def _number(value: float) -> str:
    return f"{round(value, 2):g}"


def csv_text(rows: list[list[str]]) -> str:
    """A table as CSV. Text that a spreadsheet would run as a formula is quoted with an apostrophe."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([[harmless(cell) for cell in row] for row in rows])
    return text.getvalue()


def add_arguments(parser) -> None:
    parser.add_argument("out", type=Path, metavar="OUT", help="a folder with a graded class")
    parser.add_argument("--format", choices=FORMATS, default="csv", help="format; default: csv, a table of everything")
    parser.add_argument("--to", type=Path, metavar="PATH", help="where to write; default: OUT/exports/")
    parser.add_argument("--into", type=Path, metavar="FILE", help="fill in this worksheet of Moodle's or Canvas's")
    parser.add_argument("--column", default="", metavar="NAME", help="the worksheet's column for the grade")
    parser.add_argument(
        "--out-of",
        type=float,
        metavar="POINTS",
        help="what all points are worth there, such as 100; default: as they are",
    )


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
        text, missing = fill(worksheet, results, final, args.column, args.out_of)
        if missing:
            print(f"Not in the worksheet: {', '.join(missing)}.", file=sys.stderr)
    else:
        made = table(results, final) if args.format == "csv" else _TABLES[args.format](results, final, args.out_of)
        text = csv_text(made)
        strangers = [s.student for s in results.students if not (s.origin and s.origin.system == args.format)]
        if args.format != "csv" and strangers:
            message = f"{len(strangers)} students did not submit through {args.format.capitalize()}"
            more = " …" if len(strangers) > 5 else "."
            print(f"{message}, so their rows have no number: {', '.join(strangers[:5])}{more}", file=sys.stderr)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8" if args.format == "canvas" else "utf-8-sig", errors="replace")
    return target
