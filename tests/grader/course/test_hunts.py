"""Hunts: what is released has the bug and not the fix, and labutils knows the answers only as hashes."""

import json

import nbformat
import pytest

from grader.course import hunts
from grader.course.mutants import mutants
from grader.course.regions import BuildError
from grader.course.release_check import check_release
from grader.course.sources import ROOT, source_notebook
from labutils import exercises
from labutils.exercises.hunts import ANSWERS, UNITS, examine

SOURCE = """\
%%cuda
__global__ void k(float* x) {
    // ### BEGIN SOLUTION
    int i = threadIdx.x;
    x[i] = 1;
    __syncthreads();
    x[i + 1] = 2;
    // ### END SOLUTION
}"""


def source(unit):
    return source_notebook(ROOT / "solutions" / unit)


def released(unit):
    return nbformat.read(ROOT / "notebooks" / unit / f"{unit}.ipynb", as_version=4)


def test_a_changed_line_may_be_named_by_its_number_in_the_released_cell():
    assert hunts.lines_of(SOURCE, {"edit": ["i + 1", "i + 2"]}) == [6]
    assert hunts.lines_of(SOURCE, {"edits": [["i + 1", "i + 2"], ["x[i] =", "x[0] ="]]}) == [4, 6]


def test_where_a_line_is_missing_its_neighbors_may_be_named():
    assert hunts.lines_of(SOURCE, {"edit": ["    __syncthreads();\n", ""]}) == [4, 5]


def test_other_lines_may_be_named_if_the_table_says_so():
    assert hunts.lines_of(SOURCE, {"edit": ["i + 1", "i + 2"], "also": ["int i"]}) == [3, 6]
    with pytest.raises(BuildError, match="is part of 2 lines"):
        hunts.lines_of(SOURCE, {"edit": ["i + 1", "i + 2"], "also": ["x[i"]})


def test_a_bug_must_fit_into_its_cell():
    with pytest.raises(BuildError, match="0 times, not once"):
        hunts.planted_text(SOURCE, {"edit": ["no such text", ""]})


def test_a_hunt_without_a_planted_bug_is_refused(tmp_path):
    with pytest.raises(BuildError, match="has no table"):
        hunts.read_planted(tmp_path, "10_hunt/sum")
    (tmp_path / "mutants").mkdir()
    (tmp_path / "mutants" / "sum.toml").write_text("[planted]\nedit = ['a', 'b']\n")
    with pytest.raises(BuildError, match="needs a cause"):
        hunts.read_planted(tmp_path, "10_hunt/sum")


@pytest.mark.parametrize("unit", UNITS)
def test_the_released_cells_hold_the_planted_bugs(unit):
    cells = {cell.id: cell for cell in released(unit).cells}
    found = [cell for cell in source(unit).cells if cell.metadata.get("hunt")]
    assert [cell.metadata.hunt for cell in found] == [f"{unit}/{name}" for name in UNITS[unit].hunts]
    for cell in found:
        shown, fixed = cells[cell.id], hunts.without_markers(cell.source + "\n").rstrip("\n")
        assert shown.source == cell.metadata.planted != fixed
        assert not {"hunt", "planted"} & set(shown.metadata)
        (planted,) = [m.text for m in mutants(cell.metadata.hunt) if m.name == hunts.PLANTED]
        assert shown.source.removeprefix(shown.source.split("\n")[0]).strip() in planted


@pytest.mark.parametrize("unit", UNITS)
def test_answers_are_right_differ_in_cause_and_are_offered(unit):
    answers = hunts.answers(source(unit), ROOT / "solutions" / unit)
    causes = UNITS[unit].causes
    assert len({cause for _, cause in answers.values()}) == len(answers) and len(set(causes)) == len(causes) >= 6
    text = "\n".join(cell.source for cell in released(unit).cells)
    assert all(f"- {cause}\n" in text for cause in causes)
    for name, (lines, cause) in answers.items():
        hunt = name.split("/")[1]
        assert lines and all(examine(unit, hunt, {"line": line, "cause": cause}) is None for line in lines)
        others = [n for n in range(1, 120) if n not in lines]
        assert all(examine(unit, hunt, {"line": n, "cause": cause}) for n in others)
        assert all(examine(unit, hunt, {"line": lines[0], "cause": other}) for other in causes if other != cause)


def test_the_stored_hashes_are_those_of_the_sources():
    found = {}
    for unit in UNITS:
        found |= hunts.hashes(source(unit), ROOT / "solutions" / unit)
    assert hunts.released(found) == ANSWERS.read_text(encoding="utf-8")
    assert set(json.loads(ANSWERS.read_text(encoding="utf-8"))) == {i for i in exercises.all_exercises() if _hunt(i)}


def _hunt(exercise_id):
    unit, name = exercise_id.split("/")
    return unit in UNITS and name != "bug"


@pytest.mark.parametrize("place", [0, -1])
def test_a_fix_in_the_release_is_a_leak(place):
    unit = "16_hunt"
    notebook, release = source(unit), released(unit)
    check_release(release, notebook)
    release.cells[place].source += "\nTry `put(1 - now);` there."
    with pytest.raises(BuildError, match="the SOLUTION of double_kernel is in the release"):
        check_release(release, notebook)
