"""The sample class: what is in it, and one run of the whole demo."""

import copy
import json

import pytest

from grader.__main__ import main
from grader.course.build import release_notebook
from grader.course.sources import ROOT, source_notebook
from grader.demo.sample import SampleClass, Student, differences, read_class, solved, write_submissions
from grader.marks.results import Check, ClassResults, Graded, Outcome
from labutils import exercises

SAMPLE = read_class()
UNIT = ROOT / "solutions" / SAMPLE.unit


def test_the_class_fits_its_unit():
    release = release_notebook(UNIT)
    cells = {c.id for c in release.cells}
    assert set(SAMPLE.cells.values()) <= cells
    points = [exercises.get(f"{SAMPLE.unit}/{name}").points.total for name in SAMPLE.cells]
    assert len({s.name for s in SAMPLE.students}) == len(SAMPLE.students) >= 12
    for student in SAMPLE.students:
        assert all(m in (0, p) for m, p in zip(student.marks, points, strict=True)), student.name
        assert student.solved == "all" or set(student.solved) <= set(SAMPLE.cells)


def test_a_solved_notebook_is_the_release_with_answers_and_no_markers():
    release, source = release_notebook(UNIT), source_notebook(UNIT)
    notebook = solved(release, source)
    assert [c.id for c in notebook.cells] == [c.id for c in release.cells]
    text = "\n".join(c.source for c in notebook.cells)
    assert "SOLUTION" not in text and "YOUR CODE" not in text and "is not written yet" not in text


def test_every_kind_of_damage_changes_the_notebook(tmp_path):
    damages = [
        {"rename": "x.ipynb"},
        {"truncate": 100},
        {"delete": "check-gelu"},
        {"copy": "gelu_kernel"},
        {"insert": "warning.py", "after": "setup"},
    ]
    students = [Student(str(n), "", [], damage=[d]) for n, d in enumerate(damages)]
    write_submissions(SampleClass(SAMPLE.unit, SAMPLE.cells, students), UNIT, tmp_path)
    assert (tmp_path / "0" / "x.ipynb").exists()
    assert (tmp_path / "1" / f"{SAMPLE.unit}.ipynb").stat().st_size == 100
    whole = len(json.loads((tmp_path / "0" / "x.ipynb").read_text())["cells"])
    counts = [len(json.loads((tmp_path / n / f"{SAMPLE.unit}.ipynb").read_text())["cells"]) - whole for n in "234"]
    assert counts == [-1, 1, 1]
    bad = SampleClass(SAMPLE.unit, SAMPLE.cells, [Student("x", "", [], damage=[{"burn": "it"}])])
    with pytest.raises(ValueError, match="unknown damage"):
        write_submissions(bad, UNIT, tmp_path)


def test_marks_that_differ_are_told():
    sample = SampleClass("06_unit", {"a": "a"}, [Student("ana", "right", [1]), Student("ben", "gone", [0])])
    results = ClassResults("06_unit", "", [Check("a", "", "check-a", 1.0)], [], "", 0, "")
    results.students = [Graded("ana", [Outcome("a", "check-a", 1.0, 1.0, "", "")])]
    assert differences(sample, results) == ["ben (gone) is missing from the results."]
    worse = copy.deepcopy(results)
    worse.students = [Graded("ana", [Outcome("a", "check-a", 0.0, 1.0, "timeout", "")]), Graded("ben", [])]
    assert differences(sample, worse)[0] == "ana (right) got 0.0 for a, not 1."


@pytest.mark.timeout(900)
def test_the_demo_gives_the_expected_marks(tmp_path, capsys):
    """The product's main job on this machine, whatever it has. About a minute on two idle cores."""
    assert main(["demo", "--out", str(tmp_path)]) == 0, capsys.readouterr().out
    printed = capsys.readouterr().out
    assert "All points are as class.toml expects." in printed
    data = json.loads((tmp_path / "grades.json").read_text())
    message = {s["student"]: s["what_happened"] for s in data["students"]}
    kinds = {s["student"]: {o["name"]: o["kind"] for o in s["outcomes"]} for s in data["students"]}
    assert kinds["Aaliyah Haddad"]["vector_add"] == "timeout"
    assert kinds["Dmitri Volkov"]["vector_add"] == "tail-unmasked"
    assert kinds["Elif Kaya"]["gelu"] == "precision"
    assert kinds["Farid Rahimi"]["gelu_backward"] == "out-of-bounds"
    assert "killed the kernel (signal SIGSEGV)" in message["Kwame Boateng"]
    assert "'homework (2) final.ipynb'" in message["Grace Wanjiru"]
    assert "A copy of the answer cell 'gelu_kernel'" in message["Hana Sato"]
    assert "'check-gelu_backward' had been deleted and was put back" in message["Íñigo Vega"]
    assert "stderr" in message["Joana Pires"] and "does not affect the points" in message["Joana Pires"]
    assert message["Ana Duarte"] == "All checks passed."
    assert message["Lars Nygaard"].startswith("Not graded, 0 points: ")
    assert (tmp_path / "report.html").exists() and (tmp_path / "course" / "gradebook.db").exists()
