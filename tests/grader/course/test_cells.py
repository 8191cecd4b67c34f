"""Short headers become nbgrader's metadata; a wrong header is named with its file and cell."""

import jupytext
import pytest

from grader.course.cells import compile_cell, expand, python_text
from grader.course.regions import BuildError
from grader.course.settings import CourseSettings

POINTS = {"06_unit/add": 3.0}.__getitem__
REGION = "### BEGIN SOLUTION\nx = 12\n### END SOLUTION\n"
CHECK = '# %% cell="check" exercise="06_unit/add"\n'


def cells(body: str):
    """Cells of a unit with this text below its title."""
    notebook = jupytext.reads(f"# %% [markdown]\n# # Title\n\n{body}", fmt="py:percent")
    expand(notebook, "06_unit", POINTS, CourseSettings())
    return notebook.cells


def flags(cell):
    data = cell.metadata.nbgrader
    return [name for name in ("grade", "solution", "locked", "task") if data[name]]


@pytest.mark.parametrize(
    ("body", "cell_id", "expected", "points"),
    [
        ('# %% cell="setup"\n', "setup", ["locked"], None),
        ('# %% cell="given" id="launch"\nx = 1\n', "launch", ["locked"], None),
        ('# %% cell="solution" id="kernel"\n' + REGION, "kernel", ["solution"], None),
        (CHECK + 'lab.check("06_unit/add", f)\n', "check-add", ["grade", "locked"], 3.0),
        (
            '# %% [markdown] cell="manual" id="why" points=1\n# ### BEGIN SOLUTION\n# So.\n# ### END SOLUTION\n',
            "why",
            ["grade", "solution"],
            1.0,
        ),
        ('# %% [markdown] cell="task" id="plot" points=2.5\n# Draw.\n', "plot", ["locked", "task"], 2.5),
    ],
)
def test_each_kind_of_cell(body, cell_id, expected, points):
    cell = cells(body)[1]
    assert cell.id == cell.metadata.nbgrader.grade_id == cell_id
    assert flags(cell) == expected
    assert cell.metadata.nbgrader.get("points") == points
    assert cell.metadata.nbgrader.schema_version == 3
    assert list(cell.metadata) == ["nbgrader"]


def test_a_plain_cell_has_no_metadata():
    plain = cells("# %%\nx = 1\n\n\n# %%\ny = 2\n")
    assert [dict(cell.metadata) for cell in plain] == [{}, {}, {}]


def test_derived_ids_do_not_depend_on_other_cells():
    given = '# %% cell="given"\nx = 1\n\n'
    alone = cells(given)[1].id
    assert alone.startswith("given-")
    _, _, twin, again = cells("# %%\nimport math\n\n" + given + given)
    assert (twin.id, again.id) == (alone, f"{alone}-2")


def test_the_title_gets_a_colab_link_and_the_set_up_cell_its_code():
    title, setup = cells('# %% cell="setup"\nimport labutils as lab\n')
    assert title.source.startswith("# Title\n\n[![Open in Colab]")
    assert "/notebooks/06_unit/06_unit.ipynb" in title.source
    assert "[Glossary](https://github.com/" in title.source and "/docs/glossary.md)" in title.source
    assert setup.source.endswith("lab.setup()") and "%pip install" in setup.source
    compile_cell(setup.source)


def test_cuda_text_loses_its_comment_marks():
    cell = cells("# %%\n# %%cuda\n# #include <a>\n#\n# void f() {\n#     g();\n# }\n")[1]
    assert cell.source == "%%cuda\n#include <a>\n\nvoid f() {\n    g();\n}"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ('# %% cell="givn"\nx = 1\n', "06_unit.py, cell 2: unknown kind of cell: 'givn'"),
        ('# %% cell="solution"\n' + REGION, "cell 2: a solution cell needs id="),
        ('# %% cell="check"\nx\n', "a check cell needs exercise="),
        ('# %% [markdown] cell="manual" id="why"\n# x\n', "cell 2 .why.: a manual cell needs points="),
        ('# %% cell="manual" id="why" points=1\n' + REGION, "a manual cell must be markdown, not code"),
        ('# %% [markdown] cell="solution" id="a"\n# x\n', "a solution cell must be code, not markdown"),
        ('# %% [markdown] cell="task" id="a" points=0\n# x\n', "points=0 must be a number above 0"),
        ('# %% cell="given" points=2\nx = 1\n', "a given cell takes no points="),
        ("# %% tittle\nx = 1\n", "a cell without cell= takes no title="),
        ('# %% cell="given" id="a b"\nx = 1\n', "letters, digits"),
        (
            '# %% cell="given" id="a"\nx = 1\n\n# %% id="a"\ny = 2\n',
            "cell 3 .a.: another cell has the id 'a'",
        ),
        ('# %% cell="solution" id="a"\nx = 1\n', "cell 2 .a.: a solution cell needs a region"),
        (
            '# %% cell="solution" id="a"\n### BEGIN SOLUTION\n\n### END SOLUTION\n',
            "region on line 1 is empty",
        ),
        ('# %% cell="solution" id="a"\n### BEGIN SOLUTION\n# why\n### END SOLUTION\n', "line 1 is empty"),
        ('# %% cell="given"\n' + REGION, "a given cell cannot contain a SOLUTION region"),
        ("# %%\n" + REGION, "a cell without cell= cannot contain a SOLUTION region"),
        (
            "# %%\n### BEGIN HIDDEN TESTS\nassert f(2)\n### END HIDDEN TESTS\n",
            "a cell without cell= cannot contain a HIDDEN TESTS region",
        ),
        (CHECK + "x\n", r'must call lab.check\("06_unit/add", …\)'),
        (CHECK + '# lab.check("06_unit/add", f)\nx\n', "must call lab.check"),
        (CHECK + 'lab.check("06_unit/sub", f)\n', "must call lab.check"),
        (CHECK + 'lab.check("06_unit/add", f);\n', "must end in the expression"),
        (CHECK + 'points = lab.check("06_unit/add", f)\n', "must end in the expression"),
        (CHECK + 'lab.check("06_unit/add", f\n', "does not compile"),
        ('# %% cell="check" exercise="06_unit/mul"\nlab.check("06_unit/mul", f)\n', "06_unit/mul"),
        ("# %%\n# %%cuda\nint x = 1;\n", "CUDA C.. is written as comments"),
    ],
)
def test_a_wrong_cell_is_refused_in_one_sentence(body, sentence):
    with pytest.raises(BuildError, match=sentence) as caught:
        cells(body)
    assert "\n" not in str(caught.value)


def test_a_unit_begins_with_its_title():
    notebook = jupytext.reads("# %%\nx = 1\n", fmt="py:percent")
    with pytest.raises(BuildError, match="begins with a markdown cell"):
        expand(notebook, "06_unit", POINTS, CourseSettings())


def test_python_text_knows_magics():
    assert "run_line_magic" in python_text("%pip install x")
    assert python_text("%%time\nx = 1") == "x = 1\n"
    assert python_text("%%bash\nls") is None


@pytest.mark.parametrize("source", ["def f(:", 'x = "\\d"', "x is 1"])
def test_code_that_fails_or_warns_does_not_compile(source):
    with pytest.raises(BuildError, match="does not compile"):
        compile_cell(source)
