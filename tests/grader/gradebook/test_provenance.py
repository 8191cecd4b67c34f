"""A run is tied to what it used: shared code and its own unit's exercises, and nothing else."""

import shutil

import pytest

from grader.course.sources import ROOT, unit_names
from grader.gradebook import provenance

UNIT = "06_elementwise_triton"


@pytest.fixture(scope="module")
def used():
    return provenance.code(UNIT)


def test_shared_code_and_the_units_exercises_count(used):
    for name in ("spec/precision.py", "check/compare.py", "exercises/elementwise_triton.py", "exercises/_cases.py"):
        assert f"labutils/{name}" in used
    assert {"grader/judge/judge.py", "grader/marks/marks.py"} <= used.keys()


@pytest.mark.parametrize(
    "name",
    [
        "labutils/exercises/softmax.py",  # another unit's
        "labutils/lessons/attention.py",
        "labutils/exercises/reports_h200.json",
        f"solutions/{UNIT}/mutants/vector_add.toml",
        "grader/reports/report.py",
    ],
)
def test_what_decides_about_no_points_of_the_unit_does_not(used, name):
    assert (ROOT / name).exists() and name not in used


def test_what_notebooks_show_counts_where_the_points_come_from_them(used):
    shown = provenance.code(UNIT, shown=True)
    assert "labutils/lessons/attention.py" in shown and used.keys() < shown.keys()


def test_what_an_exercise_takes_from_another_module_counts():
    assert "labutils/exercises/elementwise_triton.py" in provenance.code("07_elementwise_cuda")
    assert "labutils/exercises/reports_h200.json" in provenance.code("25_profile")


def test_a_hunt_depends_on_the_units_of_its_kernels_and_not_the_other_way_round():
    hunt = provenance.code("08_hunt")
    assert {f"labutils/exercises/{name}" for name in ("hunts.py", "hunt_answers.json", "coalescing.py")} <= hunt.keys()
    assert "labutils/exercises/hunts.py" not in provenance.code("08_coalescing")


def test_every_unit_with_checks_has_a_module():
    units = [u for u in unit_names(ROOT) if "lab.check(" in (ROOT / "solutions" / u / f"{u}.py").read_text()]
    assert len(units) > 20
    for unit in units:
        own = [name for name in provenance.code(unit) if name.startswith("labutils/exercises/")]
        assert len(own) > 1, unit


def test_an_edit_is_named(tmp_path, used):
    for name in used:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    assert provenance.changes(used, provenance.code(UNIT, root=tmp_path)) == []
    with (tmp_path / "labutils/check/compare.py").open("a") as file:
        file.write("# a line")
    (tmp_path / "labutils/exercises/softmax.py").write_text(f"from . import x  # another unit than {UNIT}")
    assert provenance.changes(used, provenance.code(UNIT, root=tmp_path)) == ["labutils/check/compare.py"]


def test_many_names_are_counted():
    assert provenance.named(["a"]) == "a" and provenance.named("abc") == "a, b and c"
    assert provenance.named("abcdefgh") == "a, b, c, d, e and 3 more"
