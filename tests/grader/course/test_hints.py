"""The notebooks' hints as data: each group belongs to its exercise, and the stored file is that of the notebooks."""

import pytest

from grader.course.hints import hints_of, plain, released
from grader.course.sources import ROOT
from labutils.study import hints


def text(*numbers: str) -> dict:
    source = "".join(f"<details><summary>Hint{n}</summary>text{n}</details>\n" for n in numbers)
    return {"cell_type": "markdown", "source": [source]}


def check(name: str) -> dict:
    return {"cell_type": "code", "source": f'lab.check("01_u/{name}")'}


def test_a_group_belongs_to_the_next_check():
    cells = [check("a"), text(" 1", " 2"), check("b"), text(""), check("c")]
    assert hints_of(cells) == {"01_u/b": ["text 1", "text 2"], "01_u/c": ["text"]}


def test_of_two_groups_before_a_check_the_first_belongs_to_the_check_before():
    cells = [check("a"), text(" 1", " 2"), text(" 1"), check("b")]
    assert hints_of(cells) == {"01_u/a": ["text 1", "text 2"], "01_u/b": ["text 1"]}


def test_a_hint_may_name_the_exercises_that_it_is_for():
    cells = [text(" 1 for b", " 2 for b and c", " for a"), check("a"), check("b"), text(" 1"), check("c")]
    assert hints_of(cells) == {
        "01_u/a": ["text for a"],
        "01_u/b": ["text 1 for b", "text 2 for b and c"],
        "01_u/c": ["text 1", "text 2 for b and c"],
    }
    with pytest.raises(ValueError, match="hints for d, which no cell checks; there are a"):
        hints_of([text(" 1 for d"), check("a")])


def test_a_group_after_the_last_check_replaces_none():
    assert hints_of([text(" 1"), check("a"), text(" 1", " 2")]) == {"01_u/a": ["text 1"]}
    assert hints_of([text(" 1")]) == {}


def test_html_becomes_text():
    assert plain("Use <code>a &lt; b</code>\n and <b>not</b> c.") == "Use `a < b` and not c."


def test_the_stored_hints_are_those_of_the_notebooks():
    assert released(ROOT / "notebooks") == hints.PATH.read_text(encoding="utf-8")
    assert [name for name, texts in hints.stored().items() if not all(texts)] == []
