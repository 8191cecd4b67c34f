"""A term of 60 students and three units, with what happens in one. In the end everything is as if each unit had been
graded once, from the last submissions, with the last rules and the mended test."""

import contextlib
import csv
import io
import json
import random
import sqlite3
import subprocess
import sys
import zipfile
from argparse import Namespace
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from grader.commands import course as course_command
from grader.gradebook.gradebook import Course
from grader.grading import status, verify
from grader.grading.grade import grade
from grader.grading.options import GradeOptions
from grader.grading.regrade import regrade
from grader.intake.roster import NOTHING, read_roster
from grader.marks.late import Rules
from grader.reports import exports, report
from tests.grader.engines import pretend
from tests.grader.grading.co_instructor import COMMENT
from tests.grader.grading.pretended import Here, quick_feedback
from tests.grader.small import right, write_unit

ROOT = Path(__file__).resolve().parents[3]
EXERCISES = ["00_start/number_of_programs", "06_elementwise_triton/add_bytes", "13_fusion/chain_speedup"]
UNITS = [exercise.split("/")[0] for exercise in EXERCISES]
COUNT, FIRST_NUMBER = 60, 20001
ODD = {0: "O'Brien Seán", 1: "Ana/Luísa Duarte", 2: 'Bo "Ace" Berg', 3: "Kaya Cem", 4: "Kaya Cem"}
"""Names that no folder can have, and two people of one name."""

RULES = "due = 2026-11-20T18:00:00\nper_day = 10\nmost = 50\n"
RESIT = RULES + "[extensions]\n{} = 2026-12-10T18:00:00\n"
ON_TIME, LATE, AT_RESIT = (2026, 11, 20, 12, 0, 0), (2026, 11, 22, 9, 0, 0), (2026, 12, 10, 12, 0, 0)
WAYS = {"right": b"3 * n", "also right": b"n * 3", "wrong": b"2 * n"}
SEED = 11


@dataclass(frozen=True)
class Submitted:
    """What one student submitted, when, and with which of the WAYS to answer."""

    way: str
    when: tuple


@dataclass
class Unit:
    """One unit of the term: its last submission of each student, by number, and what a person gave."""

    folder: Path
    good: bytes
    last: dict[int, Submitted] = field(default_factory=dict)
    by_hand: dict[int, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.folder.name

    def zip(self, path: Path, submissions: dict[int, Submitted]) -> Path:
        """Moodle's zip of these submissions, which from now on are their students' last ones."""
        self.last |= submissions
        with zipfile.ZipFile(path, "w") as archive:
            for number, submitted in submissions.items():
                # Moodle itself leaves a quote and takes out a slash
                name = f"{name_of(number).replace('/', '')}_{FIRST_NUMBER + number}_assignsubmission_file_"
                text = self.good.replace(b"3 * n", WAYS[submitted.way]).replace(b"Why three?", f"By {number}".encode())
                archive.writestr(zipfile.ZipInfo(f"{name}/{self.name}.ipynb", submitted.when), text)
        return path


def name_of(number: int) -> str:
    return ODD.get(number, f"Student {number:02}")


class Judges(Here):
    """Judges in this process, without running anything. The broken test does not know that `n * 3` is right, too."""

    def __init__(self, broken=False, between=lambda: None):
        super().__init__()
        self.broken, self.between = broken, between

    def run(self, jobs):
        for job in jobs:
            self.asked.append(job["key"])
            self.between()
            result = pretend.do(job)
            if not self.broken:
                result["verdicts"] = pretend.do(job | {"notebook": job["notebook"].replace("n * 3", "3 * n")})[
                    "verdicts"
                ]
            if not job.get("run", True):
                result = {"verdicts": result["verdicts"], "record": result["record"]}
            yield job["key"], result


@contextlib.contextmanager
def co_instructor(out, unit, points):
    """Someone else grades written answers at the same time. Gives a function that waits until one more is graded."""
    command = [sys.executable, "-m", "tests.grader.grading.co_instructor", str(out / "course" / "gradebook.db"), unit]
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    with subprocess.Popen(command, cwd=ROOT, **pipes) as process:
        process.stdin.write("".join(f"{student}\t{given:g}\n" for student, given in points.items()))
        process.stdin.close()
        graded = []
        yield lambda: graded.append(process.stdout.readline().strip())
        graded += process.stdout.read().split("\n")
        assert process.wait(timeout=60) == 0
        assert {name for name in graded if name} == points.keys()


def students_by_number(out):
    """The name under which each number is graded."""
    return {int(s.origin.id) - FIRST_NUMBER: s.student for s in report.read(out).students}


def roster(path):
    rows = [["Identifier", "Full name", "Email address", "Status", "Grade", "Maximum grade", "Last modified (grade)"]]
    for n in range(COUNT):
        rows.append([f"Participant {FIRST_NUMBER + n}", name_of(n), f"s{n}@uni.org", "", "", "100.00", "-"])
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    path.write_text(text.getvalue())
    return path


def sound(out):
    assert verify.problems(out) == []
    return report.read(out)


def play(unit, out, draw, worksheet, tmp):
    """A unit of the term, from the first zip to the export."""
    everyone, entries = list(range(COUNT)), tuple(read_roster(worksheet))
    draw.shuffle(everyone)
    absent, late, on_time = everyone[:4], everyone[4:10], everyone[10:]
    first = {n: Submitted(draw.choice(["right", "right", "also right", "wrong"]), ON_TIME) for n in on_time}
    options = GradeOptions(seed=SEED, rules=Rules.parse(RULES), roster=entries)
    with_hole = grade(unit.folder, unit.zip(tmp / "1.zip", first), out, options, engine=Judges(broken=True))
    assert len(with_hole.students) == COUNT
    assert sum(s.problem == NOTHING for s in sound(out).students) == len(absent) + len(late)

    # Late ones come, and one of them hands in twice, while a second instructor grades the others' written answers.
    names = students_by_number(out)
    unit.by_hand |= {n: draw.choice([0.0, 0.5, 1.0, 2.0]) for n in on_time}
    with co_instructor(out, unit.name, {names[n]: unit.by_hand[n] for n in on_time}) as graded_one:
        second = {n: Submitted(draw.choice(["right", "also right"]), LATE) for n in late}
        zipped = unit.zip(tmp / "2.zip", second | {on_time[0]: Submitted("wrong", LATE)})
        engine = Judges(broken=True, between=graded_one)
        grade(unit.folder, zipped, out, GradeOptions(roster=entries), engine=engine)
    assert len(engine.asked) == len(late) + 1  # all others' points stay
    assert sum(s.problem == NOTHING for s in sound(out).students) == len(absent)

    # The test was wrong.
    before = {s.student: s.marks for s in report.read(out).students}
    _, changes = regrade(out, solutions=unit.folder.parent, engine=Judges())
    names = students_by_number(out)
    assert changes == {names[n]: (0, 1) for n, s in unit.last.items() if s.way == "also right"}
    assert all(
        s.marks == (changes[s.student][1] if s.student in changes else before[s.student]) for s in sound(out).students
    )

    # A resit for those who failed and for one who was absent, who have until the tenth of December.
    failed = [n for n, s in unit.last.items() if s.way == "wrong"][:5] + absent[:1]
    rules = RESIT.format(" = 2026-12-10T18:00:00\n".join(f'"{FIRST_NUMBER + n}"' for n in failed))
    resit = unit.zip(tmp / "3.zip", {n: Submitted("right", AT_RESIT) for n in failed})
    grade(unit.folder, resit, out, GradeOptions(rules=Rules.parse(rules), roster=entries), engine=Judges())
    sound(out)
    names = students_by_number(out)
    rest = {n: 1.5 for n in [*late, *failed]}  # of whom a person looks at what is new, or new again
    unit.by_hand |= rest
    with co_instructor(out, unit.name, {names[n]: points for n, points in rest.items()}):
        pass
    assert "All written answers are graded." in "\n".join(status.lines(out))
    return Rules.parse(rules)


def from_scratch(unit, out, rules, worksheet, tmp):
    """The same unit, graded once."""
    zipped = unit.zip(tmp / "all.zip", dict(unit.last))
    options = GradeOptions(seed=SEED, rules=rules, roster=tuple(read_roster(worksheet)))
    grade(unit.folder, zipped, out, options, engine=Judges())
    names = students_by_number(out)
    with co_instructor(out, unit.name, {names[n]: points for n, points in unit.by_hand.items()}):
        pass
    sound(out)


def finish(out, worksheet):
    """What an instructor does last: pages with the written answers, points to the platform. Returns all that shows."""
    assert report.main(Namespace(out=out, leaderboard=None, names=False)) == 0
    to = out / "moodle.csv"
    assert exports.main(Namespace(out=out, format="moodle", to=to, into=worksheet, column="", out_of=None)) == 0
    assert verify.problems(out) == []
    results = json.loads((out / "grades.json").read_text())
    pages = {p.name: p.read_text().replace(results["when"], "now") for p in (out / "feedback").iterdir()}
    return {
        "students": {s["student"]: s for s in results["students"]},
        "table": (out / "grades.csv").read_text(),
        "pages": pages,
        "gradebook": gradebook(out),
        "moodle": list(csv.reader(io.StringIO(to.read_text(encoding="utf-8-sig")))),
    }


def gradebook(out):
    """Every grade and comment, by student and cell, and each student's late penalty."""
    with contextlib.closing(sqlite3.connect(out / "course" / "gradebook.db")) as book:
        return {
            "grades": sorted(book.execute(GRADES), key=str),
            "comments": sorted(book.execute(COMMENTS), key=str),
            "penalties": sorted(book.execute(PENALTIES), key=str),
        }


_OF = """
JOIN submitted_notebook sn ON sn.id = one.notebook_id JOIN submitted_assignment sa ON sa.id = sn.assignment_id
JOIN base_cell cell ON cell.id = one.cell_id
"""
GRADES = f"""
SELECT sa.student_id, cell.name, one.auto_score, one.manual_score, one.extra_credit, one.needs_manual_grade
FROM grade one {_OF}
"""
COMMENTS = f"SELECT sa.student_id, cell.name, one.auto_comment, one.manual_comment FROM comment one {_OF}"
PENALTIES = """
SELECT sa.student_id, sn.late_submission_penalty, sa.timestamp, sa.extension
FROM submitted_notebook sn JOIN submitted_assignment sa ON sa.id = sn.assignment_id
"""


def expected_percent(unit, number):
    """What a student deserves in a unit, computed from what happened and nothing else."""
    if number not in unit.last:
        return 0.0
    submitted = unit.last[number]
    earned = (submitted.way != "wrong") + unit.by_hand[number]
    return 100 * earned * (0.8 if submitted.when == LATE else 1.0) / 3


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_term_ends_as_if_everything_had_been_graded_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Course, "feedback", quick_feedback)
    draw, worksheet = random.Random(3), roster(tmp_path / "worksheet.csv")
    units = []
    for exercise in EXERCISES:
        folder = write_unit(tmp_path / "solutions", exercise)
        units.append(Unit(folder, right(folder)))
    outs = {kind: [tmp_path / kind / unit.name for unit in units] for kind in ("term", "scratch")}
    for unit, term, scratch in zip(units, outs["term"], outs["scratch"], strict=True):
        tmp = tmp_path / f"zips {unit.name}"
        tmp.mkdir()
        rules = play(unit, term, draw, worksheet, tmp)
        from_scratch(unit, scratch, rules, worksheet, tmp)
        ours, theirs = finish(term, worksheet), finish(scratch, worksheet)
        for what in ours:
            assert ours[what] == theirs[what], what
        number = next(n for n, points in unit.by_hand.items() if points == 1.5)
        assert COMMENT.format(points="1.5") in ours["pages"][f"{students_by_number(term)[number]}.html"]
        grade_at = ours["moodle"][0].index("Grade")
        for number, row in enumerate(ours["moodle"][1:]):
            assert float(row[grade_at]) == pytest.approx(expected_percent(unit, number), abs=0.011), row

    settings = 'roster = "worksheet.csv"\n[weights]\n"06_elementwise_triton" = 2\n'
    (tmp_path / "course.toml").write_text(settings)
    tables = {}
    for kind, folders in outs.items():
        to = tmp_path / f"{kind}.csv"
        assert course_command.results(Namespace(root=tmp_path, outs=folders, to=to)) == 0
        tables[kind] = to.read_text(encoding="utf-8-sig")
    assert tables["term"] == tables["scratch"]
    rows = {int(r["id"]) - FIRST_NUMBER: r for r in csv.DictReader(io.StringIO(tables["term"]))}
    assert len(rows) == COUNT
    for number, row in rows.items():
        percent = [expected_percent(unit, number) for unit in units]
        assert float(row["percent"]) == pytest.approx((percent[0] + 2 * percent[1] + percent[2]) / 4, abs=0.06)
