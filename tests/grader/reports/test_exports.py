"""Marks go back by the numbers that the platforms gave, with what a person added and without what lateness costs."""

import csv
import io
import json
from types import SimpleNamespace

import pytest

from grader.marks.results import Check, ClassResults, Graded, Lateness, Origin, Outcome
from grader.reports import exports, report
from labutils.spec.verdict import Verdict


@pytest.fixture
def results():
    def outcome(marks, kind=""):
        verdict = Verdict("u/e", "", timing={"ratio": 1.234}, marks=marks, points=4.0)
        verdict.results = [SimpleNamespace(passed=True, hidden=False, case="x", diagnosis=None)] if not kind else []
        return Outcome("e", "check-e", marks, 4.0, kind, "said", verdict)

    students = [
        Graded("Ana", [outcome(4.0)], origin=Origin("moodle", "10001", "Duarte Ana")),
        Graded("=ben", [outcome(1.0, "race")], origin=Origin("canvas", "501", "=ben"), late=Lateness(50, "Late.")),
        Graded("cem", [outcome(0.0, "died")], origin=Origin("gradescope", "77", "Cem", "cem@example.org")),
    ]
    return ClassResults("u", "Unit", [Check("e", "Exercise", "check-e", 4.0)], students, "", 5, "today", manual=2.0)


@pytest.fixture
def final(results, tmp_path):
    return exports.finals(results, tmp_path)


def rows(text):
    return list(csv.reader(io.StringIO(text)))


def test_without_a_grade_book_marks_are_those_of_the_results(final):
    assert {s: (f.earned, f.score, f.points) for s, f in final.items()} == {
        "Ana": (4, 4, 6), "=ben": (1, 0.5, 6), "cem": (0, 0, 6),
    }  # fmt: skip


def test_tables(results, final):
    moodle, canvas = exports.moodle(results, final), exports.canvas(results, final)
    assert moodle[1][:5] == ["Participant 10001", "Duarte Ana", "", "4", "6"] and moodle[2][0] == ""
    assert canvas[0][:5] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    assert canvas[1][-1] == "6" and [r[1] for r in canvas[2:]] == ["", "501", ""] and canvas[3][-1] == "0.5"
    everything = exports.table(results, final)
    assert everything[2][everything[0].index("penalty")] == "0.5"


def test_a_worksheet_from_the_platform_is_filled_in(results, final):
    sheet = "Kennung,Name,Grade,Notes\nTeilnehmer/in10001,A,,x\nTeilnehmer/in2,B,3,\n"
    text, missing = exports.fill(sheet, results, final)
    assert rows(text)[1:] == [["Teilnehmer/in10001", "A", "4", "x"], ["Teilnehmer/in2", "B", "3", ""]]
    assert missing == ["=ben", "cem"], "also who came by another way"
    sheet = "Student,ID,SIS User ID,SIS Login ID,Section,Unit (99),Other\nPoints,,,,,6,1\n=ben,501,,,,,\n"
    text, _ = exports.fill(sheet, results, final)
    assert rows(text)[2][5] == "0.5" and rows(text)[2][6] == ""
    with pytest.raises(exports.NoExport, match="--column"):
        exports.fill("Identifier,Bewertung\nParticipant 10001,\n", results, final)
    text, missing = exports.fill("Identifier\tBewertung\tx\ty\nParticipant 3\t\t\t\n", results, final, "Bewertung")
    assert missing == ["=ben", "Ana", "cem"]


def grades(text, column):
    head, *body = rows(text)
    return [row[head.index(column)] for row in body]


def test_points_are_scaled_to_the_columns_maximum(results, final):
    sheet = "Identifier,Full name,Email address,Grade,Maximum grade\nParticipant 10001,A,,,100\n"
    assert grades(exports.fill(sheet, results, final)[0], "Grade") == ["66.67"], "4 of 6 points"
    assert grades(exports.fill(sheet.replace("100\n", "\n"), results, final, maximum=30.0)[0], "Grade") == ["20"]
    sheet = 'ID,Vollständiger Name,E-Mail-Adresse,Bewertung,Bestwertung\nTeilnehmer/in10001,A,,,"20,00"\n'
    assert grades(exports.fill(sheet, results, final)[0], "Bewertung") == ["13.33"], "a German site's own names"
    sheet = "Student;ID;SIS Login ID;Section;Unit (99)\n;;;;Manual Posting\n"
    sheet += "    Points Possible;;;;60,00\n=ben;501;;;\n"
    filled = list(csv.reader(io.StringIO(exports.fill(sheet, results, final)[0]), delimiter=";"))
    assert filled[3][4] == "5" and filled[2][4] == "60,00", "0.5 of 6 points"
    assert exports.moodle(results, final, 100)[1][3:6] == ["66.67", "100", "-"]
    assert [row[-1] for row in exports.canvas(results, final, 12)[1:]] == ["12", "8", "1", "0"]


def test_what_moodle_asks_for_is_in_the_worksheet(results, final):
    """`importgradeslib.php` rejects a file without the identifier, the grade and the time of the last grade."""
    assert {"Identifier", "Grade", "Last modified (grade)"} <= set(exports.moodle(results, final)[0])


def test_points_go_by_mail_or_name_where_there_is_no_number(results, final):
    sheet = (
        "Identifier,Full name,Email address,Grade\nParticipant 5,Someone,CEM@example.org,\nParticipant 6,Duarte Ana,,\n"
    )
    text, missing = exports.fill(sheet, results, final)
    assert grades(text, "Grade") == ["0", "4"] and missing == ["=ben"]
    twice = sheet + "Participant 7,Duarte Ana,,\n"
    assert grades(exports.fill(twice, results, final)[0], "Grade") == ["0", "", ""], "nobody's, where two have the name"


def test_the_verb_writes_each_format(tmp_path, capsys, monkeypatch):
    students = [Graded("=ben", [Outcome("e", "c", 1, 4, "race", "said")], origin=Origin("gradescope", "77", "=ben"))]
    results = ClassResults("u", "Unit", [Check("e", "Exercise", "c", 4.0)], students, "", 5, "today")
    report.write(results, tmp_path)
    for kind in exports.FORMATS:
        args = SimpleNamespace(out=tmp_path, format=kind, to=None, into=None, column="", out_of=None)
        assert exports.main(args) == 0
    made = {p.relative_to(tmp_path / "exports").as_posix() for p in (tmp_path / "exports").rglob("*") if p.is_file()}
    assert made == {"marks.csv", "moodle.csv", "canvas.csv", "gradescope/submission_77/results.json"}
    assert "'=ben" in (tmp_path / "exports" / "marks.csv").read_text(), "a spreadsheet would run it"
    payload = json.loads((tmp_path / "exports/gradescope/submission_77/results.json").read_text())
    assert payload["score"] == 1 and payload["tests"][0]["max_score"] == 4 and payload["tests"][0]["status"] == "failed"
    args.out = tmp_path / "nowhere"
    assert exports.main(args) == 1 and "no grades.json" in capsys.readouterr().out


def test_gradescopes_file_has_a_leaderboard(results, final):
    payload = exports.gradescope(results, results.students[0], final["Ana"])
    assert payload["leaderboard"] == [{"name": "e, × the reference's time", "value": 1.23, "order": "asc"}]
    assert "5" not in str(payload["output"]) and payload["stdout_visibility"] == "hidden"
