"""Planted leaks: no answer, hidden test, mark scheme or marker gets into a release."""

import nbformat
import pytest

from grader.course import build as build_module
from grader.course.build import build, release_notebook
from grader.course.nbgrader_config import ClearSolutions, GenerateAssignment
from grader.course.regions import BuildError
from grader.course.release_check import check_release, size_warnings
from grader.course.sources import source_notebook
from tests.grader.sample import POINTS, SAMPLE, UNIT, run, write_unit

ANSWER = ["product = a * x", "total = product + y", "return float(total)"]
LAUNCHER = "    return saxpy(1, 2, 3)\n"
PROSE = "# The launcher is given.\n"
MANUAL = "# Why is it slow?\n"
# Each of these is put into the place of the text before it.
LEAKS = [
    # The answer once more: in a given cell, in prose, in the answer's own cell, wrapped or spaced differently.
    (LAUNCHER, LAUNCHER + "    " + "\n    ".join(ANSWER) + "\n", "gives away the SOLUTION of saxpy"),
    (LAUNCHER, LAUNCHER + "# bytes_moved = 3 * n * 4\n", "launcher gives away the SOLUTION of bytes_moved"),
    (PROSE, PROSE + "# Hint: `bytes_moved = 3*n*4`\n", "gives away the SOLUTION of bytes_moved"),
    (PROSE, PROSE + "# <details>\n# " + "\n# ".join(ANSWER) + "\n# </details>\n", "the SOLUTION of saxpy"),
    ("n = 1024\n", "n = 1024  # bytes_moved = 3 * n * 4\n", "cell bytes_moved gives away"),
    (PROSE, PROSE + "# Because memory\n# is the bottleneck.\n", "gives away the SOLUTION of explain"),
    (PROSE, PROSE + "# `x[threadIdx.x] *= a;`\n", "gives away the SOLUTION of scale_kernel"),
    # Hidden tests and mark schemes.
    (LAUNCHER, LAUNCHER + "# assert saxpy(7, 11, 13) == 90\n", "gives away the HIDDEN TESTS of check-saxpy"),
    (MANUAL, MANUAL + "# One point for each of the roofs.\n", "gives away the MARK SCHEME of plot"),
    ("import types\n", "### BEGIN HIDDEN TESTS\nx = 1\n### END HIDDEN TESTS\n", "cannot contain a HIDDEN TESTS"),
    (LAUNCHER, "    ### BEGIN HIDDEN TESTS\n    x = 1\n    ### END HIDDEN TESTS\n", "a given cell cannot contain"),
    (PROSE, "# ### BEGIN MARK SCHEME\n# full\n# ### END MARK SCHEME\n", "a given cell cannot contain"),
    (LAUNCHER, "    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION\n", "a given cell cannot contain"),
    # Regions that are open, nested or misspelt.
    ("### END SOLUTION\n", "", "has no END"),
    ("### BEGIN SOLUTION\n", "", "END SOLUTION on line 3 has no BEGIN"),
    ("### END HIDDEN TESTS\n", "", "has no END"),
    ("    product", "    ### BEGIN SOLUTION\n    product", "stands inside the region"),
    ("    ### BEGIN SOLUTION\n", "    #BEGIN SOLUTION\n", "looks like a marker"),
    ("    ### BEGIN SOLUTION\n", "    ### Begin Solution\n", "looks like a marker"),
    ("    ### BEGIN SOLUTION\n", "    ###  BEGIN  SOLUTION\n", "looks like a marker"),
    ("### BEGIN HIDDEN TESTS\n", "### BEGIN HIDDENTESTS\n", "looks like a marker"),
    # Code that would not run.
    ("def launch():", "def launch(:", "the cell does not compile"),
    ("### BEGIN SOLUTION\nbytes_moved =", "bytes_moved = (\n### BEGIN SOLUTION\n", "does not compile"),
]


@pytest.mark.parametrize(("old", "new", "sentence"), LEAKS)
def test_planted_leaks_fail_the_build(tmp_path, old, new, sentence):
    assert old in SAMPLE
    root = write_unit(tmp_path, SAMPLE.replace(old, new, 1))
    (problem,) = run(root)
    assert problem.startswith("06_unit.py") and sentence in problem and "\n" not in problem
    assert not (root / "notebooks").exists()


def test_a_line_shared_with_a_given_cell_is_no_leak(tmp_path):
    neighbour = "\ndef scaled(a, x):\n    product = a * x\n    return product\n"
    assert run(write_unit(tmp_path, SAMPLE.replace(LAUNCHER, LAUNCHER + neighbour))) == []


class KeepsAnswers(ClearSolutions):
    """A broken step: takes the markers away and leaves the answers."""

    def _replace_solution_region(self, cell, language):
        before = cell.source
        cell.source = "\n".join(line for line in before.split("\n") if "SOLUTION" not in line)
        return cell.source != before


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        ([KeepsAnswers], "the SOLUTION of bytes_moved is in the release: 'bytes_moved = 3 * n * 4'"),
        ([], "released cell bytes_moved: a marker is left: '### BEGIN SOLUTION'"),
    ],
)
def test_a_step_that_fails_to_clear_is_noticed(tmp_path, monkeypatch, steps, sentence):
    others = [
        step for step in GenerateAssignment.class_traits()["preprocessors"].default() if step is not ClearSolutions
    ]
    monkeypatch.setattr(build_module, "release_preprocessors", lambda: steps + others)
    (problem,) = run(write_unit(tmp_path))
    assert sentence in problem


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda cell: cell.outputs.append({"output_type": "stream"}), "outputs or an execution count"),
        (lambda cell: cell.update(execution_count=3), "outputs or an execution count"),
        (
            lambda cell: cell.metadata.update(note="bytes_moved = 3*n*4"),
            "SOLUTION of bytes_moved is in the release",
        ),
        (lambda cell: cell.update(source="x = '### END SOLUTION'"), "a marker is left"),
    ],
)
def test_what_the_release_check_refuses(tmp_path, change, sentence):
    unit = write_unit(tmp_path) / "solutions" / UNIT
    source, release = source_notebook(unit, POINTS), release_notebook(unit, POINTS)
    check_release(release, source)
    change(release.cells[1])
    with pytest.raises(BuildError, match=sentence):
        check_release(release, source)


def test_a_long_unit_is_a_warning(tmp_path):
    message = []
    root = write_unit(tmp_path, SAMPLE + "\n# %%\n" + "x = 1\n" * 300)
    assert build(root, points_of=POINTS, say=message.append) == []
    assert message[0].startswith("06_unit: warning:") and message[0].endswith("lines are more than 300")
    many = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell() for _ in range(25)])
    assert size_warnings(many) == ["25 cells are more than 24"]
