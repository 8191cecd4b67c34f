"""The map of the course: each unit is a link, and each path says its time and puts prerequisites first."""

import json
import re
from pathlib import Path

import pytest

from grader.course.index import index_notebook, path_units, released_course
from grader.course.sources import ROOT, unit_names
from labutils import exercises
from labutils.study import progress

README = (ROOT / "README.md").read_text(encoding="utf-8")
PATHS = path_units(README)


def source(unit: str) -> str:
    return (ROOT / "solutions" / unit / f"{unit}.py").read_text(encoding="utf-8")


def minutes(units) -> int:
    return sum(int(re.search(r"[Aa]bout (\d+) minutes", source(unit))[1]) for unit in units)


def test_every_unit_is_a_link_that_works_from_the_notebooks():
    text = "\n".join(cell.source for cell in index_notebook(README).cells)
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert {Path(link).stem for link in links} == set(unit_names(ROOT))
    assert all((ROOT / "notebooks" / link).is_file() for link in links)


@pytest.mark.parametrize("name", PATHS)
def test_a_path_says_how_long_it_takes(name):
    hours = int(re.search(rf"\*\*{name}\*\*.*?\| (\d+) hours", README)[1])
    assert hours == pytest.approx(minutes(PATHS[name] or unit_names(ROOT)) / 60, abs=1)


@pytest.mark.parametrize("name", PATHS)
def test_prerequisites_come_first(name):
    done = set()
    for unit in PATHS[name]:
        needs = re.search(r"\*\*You need\*\*(.*?)(?:\.\s|About)", source(unit).replace("\n# ", " "), re.DOTALL)[1]
        assert set(re.findall(r"`(\d\d_\w+)`", needs)) <= done, unit
        done.add(unit)


def test_a_readme_without_the_sections_is_refused():
    with pytest.raises(ValueError, match="Paths"):
        index_notebook("# Title\n\n## Units\n\n`00_start`\n")


def test_the_stored_order_is_that_of_the_notebooks_and_complete():
    course = released_course(README, ROOT / "notebooks")
    assert course == progress.COURSE.read_text(encoding="utf-8")
    assert set(json.loads(course)["order"]) == set(exercises.all_exercises())
