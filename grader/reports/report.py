"""All reports of a graded class: the class report, a page for each student, repair reports, tables.

    python -m grader report OUT

rebuilds the pages from `OUT/grades.json` alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from grader.gradebook import by_hand
from grader.gradebook.by_hand import ByHand
from grader.marks.results import ClassResults, Graded
from grader.reports import feedback, findings, leaderboard, next_steps, overview, pages, stamp

IN_FULL = 60
"""Students up to which the report holds every verdict in full. A larger class's is on the students' own pages."""


CSV_ENCODING = "utf-8-sig"
"""Excel takes it for UTF-8."""

PART = 100
"""Students on one page. Those of a larger class are on pages of their own."""


def html(results: ClassResults, links: bool = False, hands: Mapping[str, ByHand] | None = None) -> str:
    """The report as one page that needs nothing else; with `links` to the students' pages beside it. `hands`: what
    people gave in the formgrader, by student."""
    seen = overview.of(results)
    return pages.render(
        "report.html.j2",
        r=results,
        seen=seen,
        titles={c.cell: c.title for c in results.checks},
        timed_by="Time" if seen.is_timed else "Traffic",
        failed=next_steps.most_failed(results),
        help=next_steps.need_help(results),
        absent=next_steps.absent(results),
        not_graded=next_steps.not_graded(results),
        waiting=sum(hand.waiting for hand in (hands or {}).values()),
        parts=_ends(results, "students") if links else [],
        in_full=len(results.students) <= IN_FULL,
        links=links,
    )


def _parts(results: ClassResults) -> list[slice]:
    """Where the students of each page are."""
    count = len(results.students)
    return [slice(at, min(at + PART, count)) for at in range(0, count, PART)]


def _ends(results: ClassResults, name: str) -> list[tuple[str, str, str]]:
    """The first and last student of each page, and its file; nothing if one page has them all."""
    parts = _parts(results)
    if len(parts) < 2:
        return []
    people = results.students
    return [
        (people[part.start].student, people[part.stop - 1].student, _part_file(name, number))
        for number, part in enumerate(parts)
    ]


def _part_file(name: str, number: int) -> str:
    return "repairs.html" if name == "repairs" and number == 0 else f"{name}-{number + 1}.html"


def _write_parts(results: ClassResults, out: Path) -> None:
    """The pages of a large class: students, and repairs, by hundreds."""
    for old in [*out.glob("students-*.html"), *out.glob("repairs-*.html")]:
        old.unlink()
    parts = _parts(results)
    titles, aside = {c.cell: c.title for c in results.checks}, (results.findings or {}).get("set_aside", [])
    ends = _ends(results, "repairs")
    for number, part in enumerate(parts or [slice(0, 0)]):
        first = part.start
        if len(parts) > 1:
            values = {
                "r": results,
                "people": results.students[part],
                "number": first + 1,
                "titles": titles,
                "in_full": False,
            }
            _write(out / _part_file("students", number), pages.render("students.html.j2", links=True, **values))
        reports = [repair_report(student) for student in results.students[part]]
        values = {"r": results, "reports": reports, "aside": None if number else aside}
        text = pages.render("repairs.html.j2", parts=ends, **values)
        _write(out / _part_file("repairs", number), text)
    with (out / "repairs.json").open("w", encoding="utf-8", errors="replace") as file:
        file.writelines(_repair_lines(results, aside))


def _repair_lines(results: ClassResults, aside: list) -> Iterator[str]:
    """The text of `repairs.json`, a line for each student."""
    yield '{"submissions": ['
    for number, student in enumerate(results.students):
        yield "," * bool(number) + "\n" + json.dumps(repair_report(student), ensure_ascii=False)
    yield f'\n],\n"set_aside": {json.dumps(aside, indent=1, ensure_ascii=False)}}}\n'


def repair_report(student: Graded) -> dict:
    """What was done to a submission before it was graded."""
    origin = student.origin
    entry = {"file": "", "handed_in": "", "clock": "", "from": ""}
    if origin:
        entry = {"file": origin.file, "handed_in": origin.handed_in, "clock": origin.clock, "from": origin.system}
    return {"student": student.student, **entry, "repairs": student.repairs, "problem": student.problem}


def write(results: ClassResults, out: Path) -> dict[str, Path]:
    """Write all reports into `out`, as far as they were not looked at before with what `out` shows; where each is."""
    out.mkdir(parents=True, exist_ok=True)
    if results.findings is None:
        results.findings = findings.look(results, out)
    files = places(out)
    with files["json"].open("w", encoding="utf-8", errors="replace") as file:
        file.writelines(results.json_lines())
    _write(files["csv"], results.as_csv(), CSV_ENCODING)
    write_pages(results, out)
    return files


def places(out: Path) -> dict[str, Path]:
    """Where the reports are."""
    files = {"report": out / "report.html", "pages": out / "feedback", "csv": out / "grades.csv"}
    return files | {"json": out / "grades.json", "repairs": out / "repairs.html"}


def write_pages(results: ClassResults, out: Path) -> None:
    """The pages, from the results and from what people gave in nbgrader's formgrader, and last a stamp by which a page
    that is not whole is found."""
    hands = by_hand.read(out / "course", results.unit)
    _write(out / "report.html", html(results, links=True, hands=hands))
    feedback.write(results, out / "feedback", hands)
    _write_parts(results, out)
    stamp.write(out)


def _write(path: Path, text: str, encoding: str = "utf-8") -> None:
    path.write_text(text, encoding=encoding, errors="replace")


def read(out: Path) -> ClassResults:
    """The results in a folder. Raises NoResults."""
    try:
        with (out / "grades.json").open(encoding="utf-8", newline="\n") as file:
            return ClassResults.from_lines(file)
    except OSError:
        raise NoResults(f"There is no grades.json in {out}: grade a class into it first.") from None
    except (ValueError, KeyError, TypeError) as problem:
        raise NoResults(f"{out / 'grades.json'} holds no results ({type(problem).__name__}: {problem}).") from None


class NoResults(Exception):
    """A folder in which no class was graded; the message is a sentence."""


def add_arguments(parser) -> None:
    parser.add_argument("out", type=Path, metavar="OUT", help="a folder with a graded class")
    parser.add_argument(
        "--leaderboard", type=Path, metavar="FILE", help="pseudonyms of students who want to be listed (TOML)"
    )
    parser.add_argument("--names", action="store_true", help="show the real names of everyone who solved something")


def main(args) -> int:
    try:
        results = read(args.out)
        write_pages(results, args.out)
        made = ["report.html", "repairs.html", "feedback/"]
        if args.leaderboard or args.names:
            who = leaderboard.pseudonyms(args.leaderboard) if args.leaderboard else {}
            _write(args.out / "leaderboard.html", leaderboard.html(results, who, args.names))
            made.append("leaderboard.html")
    except (NoResults, leaderboard.NoLeaderboard) as problem:
        print(problem)
        return 1
    print(f"Rebuilt in {args.out}: {', '.join(made)}.")
    return 0
