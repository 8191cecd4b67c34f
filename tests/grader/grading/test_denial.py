"""One notebook cannot stop or stall a class: bench/denial.py measures it, here a small class meets the same members."""

import time

import pytest
from nbformat import reads

from bench import denial
from grader.course.sources import notebook_bytes
from grader.grading.grade import grade
from grader.grading.options import GradeOptions
from tests.grader.small import UNIT, right, write_unit

READ_ONLY = ("many_launches", "giant_scratch")
"""They mean a launcher, which the smallest unit has none of."""


@pytest.fixture(scope="module")
def unit(tmp_path_factory):
    return write_unit(tmp_path_factory.mktemp("solutions"))


def _class(folder, unit, hostile: bool):
    folder.mkdir()
    text = right(unit)
    for name in ("ana", "ben"):
        (folder / f"{name}.ipynb").write_bytes(text)
    (folder / "cem.ipynb").write_bytes(text.replace(b"3 * n", b"4 * n"))
    if hostile:
        found = denial.members(UNIT, reads(text.decode(), as_version=4), {f"{UNIT}/add_bytes": "add_bytes"})
        for kind, content in found.items():
            if kind not in READ_ONLY:
                (folder / f"{kind}.ipynb").write_bytes(content)
        (folder / "link.ipynb").symlink_to(folder / "ana.ipynb")


def _marks(unit, folder, out):
    begin = time.process_time()
    results = grade(unit, folder, out, GradeOptions(seed=3, workers=2))
    students = {s.student: s for s in results.students}
    return {n: [o.marks for o in s.outcomes] for n, s in students.items()}, students, time.process_time() - begin


def test_the_others_get_their_marks(unit, tmp_path):
    _class(tmp_path / "without", unit, hostile=False)
    _class(tmp_path / "with", unit, hostile=True)
    before, _, alone = _marks(unit, tmp_path / "without", tmp_path / "out")
    after, students, together = _marks(unit, tmp_path / "with", tmp_path / "out-with")
    assert {name: after[name] for name in before} == before and len(after) > 25
    # The time of this process, in which nothing of them is parsed: bookkeeping takes up to 0.7 s each on a slow one,
    # a single one of the worst that is parsed here takes minutes.
    assert together < alone + 2 * len(after)
    assert all(not s.problem or s.problem.startswith("Not graded, 0 points: ") for s in students.values())
    assert "at most 1000 are read" in students["cells"].problem
    assert "it is a link" in students["link"].problem
    assert "larger than 50 MB" in students["too_large"].problem
    assert "more than 900 levels" in students["deep_json"].problem
    assert any("at most 64 kB of a cell are read" in r for r in students["long_line"].repairs)
    assert any("levels of it are read" in r for r in students["deep_metadata"].repairs)
    for kind in ("large_outputs", "deep_metadata", "cuda_comments", "large_metadata"):  # harmless beside a right answer
        assert after[kind] == before["ana"], kind


def test_a_member_is_what_it_says(unit):
    text = notebook_bytes(reads(right(unit).decode(), as_version=4))
    found = denial.members(UNIT, reads(text.decode(), as_version=4), {f"{UNIT}/add_bytes": "add_bytes"})
    assert len(found) >= 25 and all(content != text for content in found.values())
