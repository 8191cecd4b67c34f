"""Pages that people get: escaped, small, without secrets; a class's report with what is seen side by side."""

import json
import random
from types import SimpleNamespace

import pytest

from grader.marks.results import Check, ClassResults, Graded, Lateness, Origin, Outcome
from grader.reports import charts, feedback, leaderboard, pages, report
from labutils.spec.verdict import CaseResult, Diagnosis, Verdict
from tests.grader.reports.test_report import Page

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e"
EXERCISE = "06_elementwise_triton/gelu"
SEED = 918273645


def timing(ratio):
    return {
        "ratio": ratio, "low": ratio * 0.99, "high": ratio * 1.01, "fairest": ratio, "yours_s": 6e-5 * ratio,
        "reference_s": 6e-5, "of_floor": 0.9 / ratio, "floor_why": "", "sizes": {"n": 1 << 24}, "copy_gbs": 4000.0,
        "samples": {"yours": [1e-5] * 500},
    }  # fmt: skip


def fast(ratio):
    verdict = Verdict(EXERCISE, "H200", [CaseResult("one")], timing=timing(ratio), marks=3.0, points=3.0)
    return Outcome("gelu", "check-gelu", 3.0, 3.0, "", "3 of 3 points.", verdict)


def wrong(size=1):
    message = Diagnosis("tail-unmasked", f"{EVIL} wrote out[5]", "Mask the store.", f"5: 1.0 {EVIL}\n" * size)
    cases = [CaseResult("one"), CaseResult(f"two {EVIL}", message, hidden=True)]
    verdict = Verdict(EXERCISE, "H200", cases, message, notes=[EVIL] * size, printed=EVIL * size, points=3.0)
    return Outcome("gelu", "check-gelu", 0.0, 3.0, "tail-unmasked", f"{EVIL}. Mask the store.", verdict)


@pytest.fixture
def results():
    late = Lateness(
        20, "Submitted on 2026-11-21 03:00 CET, 3 h late (the zip's time): 20 % of the points are deducted."
    )
    students = [
        Graded("ana", [fast(1.01)], late=late, origin=Origin("moodle", "7", "Ana Duarte", file="x.ipynb")),
        Graded("ben", [wrong()], repairs=[f"The file was called {EVIL}."], events=[EVIL]),
        Graded("cem", [Outcome("gelu", "check-gelu", 0, 3, "not graded", "")], problem=f"Not graded: {EVIL}."),
        Graded("dora", [fast(2.5)]),
    ]
    checks = [Check("gelu", "GeLU", "check-gelu", 3.0)]
    return ClassResults("06_elementwise_triton", "Title", checks, students, "H200", SEED, "today", manual=1.0)


def check_page(html):
    page = Page(html)
    assert page.open == [] and "script" not in page.tags and "img" not in page.tags
    assert "onerror" not in [n for n in page.loads] and "\x1b" not in html and "\u202e" not in html
    assert "default-src &#39;none&#39;" in html or "default-src 'none'" in html
    assert 'lang="en"' in html and "viewport" in html
    return page


@pytest.mark.parametrize("index", range(4))
def test_a_students_page_is_harmless_and_small(results, index):
    html = feedback.page(results, results.students[index])
    page = check_page(html)
    assert len(html.encode()) <= feedback.MOST_BYTES and page.loads == []
    assert str(SEED) not in html and "assert" not in html


def test_a_students_page_says_all_that_a_student_needs(results):
    ana, ben, cem, _ = (" ".join(Page(feedback.page(results, s)).text.split()) for s in results.students)
    assert "2.4 of 3 points" in ana and "That is 0.6 of the 3 points" in ana and "1.01 × the reference" in ana
    assert "89 % of what this GPU can do" in ana
    assert "What is wrong" in ben and "Mask the store." in ben and "1 of 2 cases failed" in ben and "notes" in ben
    assert "Not graded" in cem and "Submit the notebook" in cem


def test_endless_output_is_cut(results):
    results.students[1].outcomes = [wrong(3000)] * 7
    html = feedback.page(results, results.students[1])
    check_page(html)
    assert len(html.encode()) <= feedback.MOST_BYTES and "Mask the store." in html


def test_the_report_shows_times_roofs_suspects_and_similar_answers(results):
    results.findings = {
        "flags": [{"student": f"ben {EVIL}", "evidence": [f"cell 'x' reaches below Python: {EVIL}"]}],
        "similar": [
            {"cell": "gelu_kernel", "students": ["ana", "dora"], "likeness": 1.0, "evidence": ["the same text"]}
        ],
        "set_aside": [],
    }
    page = check_page(report.html(results))
    text = " ".join(page.text.split())
    assert page.tags.count("svg") == 3 and "2 timed kernels" in text and "2 kernels, from 1.01 to 2.50" in text
    assert "reaches below Python" in text and "similarity 1.00: ana, dora — the same text." in text


def test_all_pages_are_made_again_from_the_json_alone(results, tmp_path, capsys):
    report.write(results, tmp_path / "out")
    before = {p.name: p.read_text() for p in (tmp_path / "out").rglob("*.html")}
    assert set(before) == {"report.html", "repairs.html", "ana.html", "ben.html", "cem.html", "dora.html"}
    other = tmp_path / "other"
    other.mkdir()
    (other / "grades.json").write_bytes((tmp_path / "out" / "grades.json").read_bytes())
    who = tmp_path / "who.toml"
    who.write_text('ana = "warp wizard"\n')
    args = SimpleNamespace(out=other, leaderboard=who, names=False)
    assert report.main(args) == 0
    after = {p.name: p.read_text() for p in other.rglob("*.html")}
    board = after.pop("leaderboard.html")
    assert after == before and "warp wizard" in board and "ana" not in Page(board).text
    reports = json.loads((other / "repairs.json").read_text())["submissions"]
    assert reports[0]["from"] == "moodle" and reports[2]["problem"]
    args.out = tmp_path
    assert report.main(args) == 1 and "no grades.json" in capsys.readouterr().out


def test_the_leaderboard_shows_nobody_who_did_not_ask(results, tmp_path):
    ((title, what, places),) = leaderboard.boards(results, {"dora": "second", "ben": "wrong"})
    assert (title, what) == ("GeLU", "time") and [(p.rank, p.name, p.ratio) for p in places] == [(1, "second", 2.5)]
    ((_, _, named),) = leaderboard.boards(results, {}, names=True)
    assert [p.name for p in named] == ["ana", "dora"]
    assert "No one is listed yet" in leaderboard.html(results, {})
    check_page(leaderboard.html(results, {"ana": EVIL}))
    for text in ('a = "x"\nb = "x"', "a = 1", "a"):
        (tmp_path / "who.toml").write_text(text)
        with pytest.raises(leaderboard.NoLeaderboard):
            leaderboard.pseudonyms(tmp_path / "who.toml")


def test_pictures_say_in_words_what_they_show():
    assert charts.times([]) == "" and charts.roofline([]) == "" and charts.times([float("nan"), -1]) == ""
    assert "3 kernels, from 0.10 to 500.00" in charts.times([0.1, 1, 500])
    assert "100 to" not in charts.marks([1.0, 0.0, -0.1, 1.2])
    assert "nan" not in charts.time_beside(float("nan"), 0, 0)
    points = [charts.Point(EVIL, random.uniform(0.01, 99), 1e12, 2e12) for _ in range(50)]
    assert "<script>" not in charts.roofline(points)


def test_text_is_cleaned():
    assert pages.clean("a\x1b[31mb\x00c\u202ed\ud800e\n") == "abcde\n"
    assert pages.clean("x" * 10, 4) == "xxxx …"
