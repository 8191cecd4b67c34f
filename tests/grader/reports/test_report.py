"""The class report as a page and as tables: complete, and harmless whatever students write."""

import io
import json
from html.parser import HTMLParser

import pytest
from rich.console import Console

from grader.commands.progress import print_table
from grader.marks.results import Check, ClassResults, Graded, Outcome
from grader.reports import overview
from grader.reports.report import html, write
from labutils.spec.verdict import CaseResult, Diagnosis, Verdict

EVIL = "<script>alert(1)</script>"


@pytest.fixture
def results():
    message = Diagnosis("tail-unmasked", f"{EVIL} wrote out[5]", "Mask the store.", "5: 1.0 2.0")
    verdict = Verdict(
        "06_unit/scale", "a GPU", [CaseResult("one", None), CaseResult("two", message)], message, points=2.0
    )
    checks = [Check("scale", "Scale a vector", "check-scale", 2.0), Check("shift", "Shift", "check-shift", 1.0)]
    right = [
        Outcome("scale", "check-scale", 2.0, 2.0, "", "2 of 2 points."),
        Outcome("shift", "check-shift", 1, 1, "", ""),
    ]
    wrong = [
        Outcome("scale", "check-scale", 0.0, 2.0, "tail-unmasked", f"{EVIL} wrote out[5]. Mask the store.", verdict),
        Outcome("shift", "check-shift", 0.0, 1.0, "unfilled", "shift is not written yet"),
    ]
    none = [Outcome(c.name, c.cell, 0.0, c.points, "not graded", "") for c in checks]
    return ClassResults(
        unit="06_unit",
        title="A [unit]",
        checks=checks,
        students=[
            Graded("ana", right, repairs=["The file was called 'x.ipynb'."]),
            Graded(f"=ben {EVIL}", wrong, events=["Cell 3 killed the kernel."]),
            Graded("cem", none, problem="Not graded, 0 points: the file is empty."),
        ],
        device="a GPU",
        seed=3,
        when="today",
        manual=1.0,
    )


class Page(HTMLParser):
    """What a page holds: its tags, what it loads, its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.loads, self.text, self.open = [], [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.loads += [value for name, value in attributes if name in ("src", "href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_page_is_well_formed_and_needs_nothing_else(results):
    page = Page(html(results))
    assert page.open == [] and page.loads == [] and "script" not in page.tags
    assert "@import" not in html(results) and "url(" not in html(results)


def test_the_page_says_what_happened_to_everyone(results):
    text = " ".join(Page(html(results)).text.split())
    assert "3 submissions" in text and "average 1.0 of 3 points" in text and "1 / 3" in text
    assert "tail-unmasked" in text and "Mask the store." in text and EVIL in text
    assert "The file was called 'x.ipynb'." in text and "the file is empty. Scored 0." in text
    assert "Written answers are worth 1 more" in text


def test_what_happened_puts_the_gravest_first(results):
    ana, ben, cem = results.students
    assert ana.what_happened() == "The file was called 'x.ipynb'."
    assert ben.what_happened() == (
        f"Cell 3 killed the kernel. scale: {EVIL} wrote out[5]. 1 of 2 exercises not written yet."
    )
    assert cem.what_happened() == "Not graded, 0 points: the file is empty."
    assert Graded("dora", ana.outcomes).what_happened() == "All checks passed."


def test_the_tables_hold_everyone(results, tmp_path):
    files = write(results, tmp_path)
    data = json.loads(files["json"].read_text())
    assert [s["marks"] for s in data["students"]] == [3, 0, 0]
    assert data["students"][1]["outcomes"][0]["verdict"]["headline"]["kind"] == "tail-unmasked"
    lines = files["csv"].read_text(encoding="utf-8-sig").splitlines()
    assert lines[0] == "student,scale,shift,marks,points,open,penalty,score,what happened"
    assert lines[2].startswith("'=ben"), "a spreadsheet would run it"


def test_open_points_are_listed_and_called_neither_right_nor_wrong(results, tmp_path):
    needs = Diagnosis("needs-gpu", "inline PTX runs on an NVIDIA GPU only", "Check it where there is one.")
    verdict = Verdict("06_unit/scale", "x", [CaseResult("one", needs)], needs, points=2.0, open=2.0)
    sentence = "Inline PTX runs on an NVIDIA GPU only. Check it."
    ana = results.students[0]
    ana.outcomes[0] = Outcome("scale", "check-scale", 0.0, 2.0, "needs-gpu", sentence, verdict)
    assert (ana.marks, ana.open) == (1, 2) and [(o.student, o.name) for o in overview.of(results).open] == [
        ("ana", "scale")
    ]
    text = Page(html(results)).text
    assert "Open: needs a GPU" in text and "2 of 2 points open" in text and "✗ needs-gpu" not in text
    files = write(results, tmp_path)
    head, row, *_ = files["csv"].read_text(encoding="utf-8-sig").splitlines()
    assert head == "student,scale,shift,marks,points,open,penalty,score,what happened", "of every class the same"
    assert row.startswith("ana,0,1,1,3,2,0,1,")
    page = Page(next(p for p in files["pages"].glob("*.html") if "ana" in p.read_text()).read_text()).text
    assert "Not judged yet" in page and "What is wrong" not in page
    assert "open" in shown(results), "a terminal says so, too"
    assert overview.of(ClassResults.from_json(files["json"].read_text())).open


def test_text_that_no_file_can_hold_does_not_stop_the_report(results, tmp_path):
    results.students[0].repairs.append("\ud800")
    assert all(path.stat().st_size for path in write(results, tmp_path).values())


def shown(results, width=None):
    """What a terminal of this width shows; without a width, what a file gets."""
    console = Console(width=width, force_terminal=width is not None, color_system=None, file=io.StringIO())
    print_table(results, console)
    return console.file.getvalue()


def test_a_terminal_shows_a_line_for_each_student_and_no_line_is_too_long(results):
    text = shown(results, 100)
    assert all(len(line) <= 100 for line in text.splitlines())
    (ben,) = (line for line in text.splitlines() if "=ben" in line)
    assert "A [unit]" in text and "✗" in ben and "3/3" in text and "Cell 3" in ben and "…" in ben


def test_a_file_gets_the_whole_sentence_on_one_line(results):
    (ben,) = (line for line in shown(results).splitlines() if "=ben" in line)
    assert "✗ tail-unmasked" in ben and results.students[1].what_happened() in ben


def test_an_empty_class_has_a_report(results):
    results.students = []
    assert "0 submissions" in html(results)
