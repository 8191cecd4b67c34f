"""Whatever is handed in ends as a notebook that nbgrader can grade, or set aside with a reason."""

import copy
import json

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from grader.course.sources import notebook_bytes
from grader.intake.collect import Unreadable, collect, lay_out, read_notebook
from grader.intake.repair import NotThisUnit, repair

UNIT = "06_unit"


def cell(kind, name, source, **grading):
    made = new_code_cell(source) if kind == "code" else new_markdown_cell(source)
    made.id = name
    if grading:
        defaults = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3}
        made.metadata.nbgrader = {**defaults, "grade_id": name, **grading}
    return made


@pytest.fixture
def release():
    stub = "# YOUR CODE HERE (about 2 lines)\n"
    return new_notebook(
        cells=[
            cell("markdown", "title", "# Scale a vector"),
            cell("code", "setup", "import labutils as lab", locked=True),
            cell(
                "code",
                "scale",
                f'def scale(x, a):\n    """a · x, element by element."""\n    n = len(x)\n    {stub}'
                '    raise NotImplementedError("scale is not written yet")',
                solution=True,
            ),
            cell("code", "launcher", "def launch(x):\n    return scale(x, 2)", locked=True),
            cell("code", "check-scale", f'lab.check("{UNIT}/scale")', grade=True, locked=True, points=2.0),
            cell("code", "shift", f"def shift(x):\n    {stub}    raise NotImplementedError('…')", solution=True),
            cell("code", "check-shift", f'lab.check("{UNIT}/shift")', grade=True, locked=True, points=1.0),
        ]
    )


@pytest.fixture
def submitted(release):
    notebook = copy.deepcopy(release)
    by_id(
        notebook, "scale"
    ).source = 'def scale(x, a):\n    """a · x, element by element."""\n    n = len(x)\n    return [a * v for v in x]'
    return notebook


def by_id(notebook, name):
    return next(c for c in notebook.cells if c.id == name)


def order(notebook):
    return [c.id for c in notebook.cells]


def test_a_sound_notebook_is_left_alone(submitted, release):
    before = copy.deepcopy(submitted)
    assert repair(submitted, release) == []
    assert submitted == before


def test_a_copied_cell_becomes_ordinary_and_stays(submitted, release):
    twin = copy.deepcopy(by_id(submitted, "scale"))
    twin.id, twin.source = "new", "def scale(x, a):\n    return x"
    submitted.cells.insert(3, twin)
    (message,) = repair(submitted, release)
    assert "copy of the answer cell 'scale'" in message
    assert "nbgrader" not in by_id(submitted, "new").metadata and order(submitted)[3] == "new"


def test_of_two_copies_the_one_with_the_released_id_is_the_original(submitted, release):
    twin = copy.deepcopy(by_id(submitted, "check-scale"))
    twin.id = "pasted-above"
    submitted.cells.insert(0, twin)
    repair(submitted, release)
    assert "nbgrader" not in submitted.cells[0].metadata
    assert by_id(submitted, "check-scale").metadata.nbgrader.points == 2.0


@pytest.mark.parametrize("name", ["check-scale", "launcher", "setup", "check-shift"])
def test_a_deleted_cell_comes_back_where_it_was(submitted, release, name):
    submitted.cells.remove(by_id(submitted, name))
    (message,) = repair(submitted, release)
    assert f"{name!r} had been deleted and was put back" in message
    assert order(submitted) == order(release)


def test_a_deleted_answer_comes_back_without_an_answer(submitted, release):
    submitted.cells.remove(by_id(submitted, "shift"))
    (message,) = repair(submitted, release)
    assert message.endswith("put back without an answer.")
    assert order(submitted) == order(release)


def test_an_answer_that_was_merged_into_another_cell_is_not_overwritten_by_a_stub(submitted, release):
    submitted.cells.remove(by_id(submitted, "shift"))
    by_id(submitted, "scale").source += "\n\ndef shift(x):\n    return x[1:]"
    (message,) = repair(submitted, release)
    assert "another cell defines shift" in message and "shift" not in order(submitted)


def test_lost_metadata_is_found_by_cell_id(submitted, release):
    for c in submitted.cells:
        c.metadata = {}
    (message,) = repair(submitted, release)
    assert message.startswith("The grading information of 6 cells was lost and is restored: ")
    assert message.endswith("and 2 more.")
    assert [c.metadata for c in submitted.cells] == [c.metadata for c in release.cells]


def test_lost_metadata_and_ids_are_found_by_exercise_and_text(submitted, release):
    for number, c in enumerate(submitted.cells):
        c.metadata, c.id = {}, f"colab-{number}"
    repair(submitted, release)
    assert order(submitted)[1:] == order(release)[1:]
    assert "a * v" in by_id(submitted, "scale").source


def test_an_edited_check_runs_as_it_was_released(submitted, release):
    by_id(submitted, "check-scale").source = "2.0"
    by_id(submitted, "check-scale").metadata.nbgrader.points = 50.0
    message = repair(submitted, release)
    assert any("had been edited" in s for s in message) and any("was changed and is restored" in s for s in message)
    assert by_id(submitted, "check-scale") == by_id(release, "check-scale")


def test_a_check_that_became_text_is_code_again(submitted, release):
    turned = cell("markdown", "check-scale", by_id(release, "check-scale").source)
    turned.metadata = by_id(release, "check-scale").metadata
    submitted.cells[4] = turned
    assert any("had become markdown" in s for s in repair(submitted, release))
    assert by_id(submitted, "check-scale").outputs == []


def test_a_cell_that_claims_marks_of_its_own_is_not_graded(submitted, release):
    submitted.cells.append(cell("code", "mine", "100.0", grade=True, locked=True, points=100.0))
    (message,) = repair(submitted, release)
    assert "'mine'" in message and "nbgrader" not in by_id(submitted, "mine").metadata


def test_an_ordinary_cell_cannot_keep_the_id_of_a_graded_one(submitted, release):
    submitted.cells.insert(0, cell("code", "check-scale", "1"))
    repair(submitted, release)
    assert len(set(order(submitted))) == len(submitted.cells)
    assert by_id(submitted, "check-scale").metadata.nbgrader.grade


def test_the_notebook_of_another_unit_is_refused(release):
    other = new_notebook(
        cells=[new_markdown_cell("# Sum a row"), cell("code", "setup", "import labutils", locked=True)]
    )
    with pytest.raises(NotThisUnit, match="it begins with 'Sum a row'"):
        repair(other, release)


# --- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty"),
        (b"{", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a notebook"),
        (b'{"cells": [{}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', "not a notebook"),
        (b'{"cells": [{"cell_type": "code"}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', "not a notebook"),
    ],
)
def test_a_file_that_is_no_notebook_says_why(tmp_path, content, why):
    path = tmp_path / "x.ipynb"
    path.write_bytes(content)
    with pytest.raises(Unreadable, match=why):
        read_notebook(path)


def test_half_a_surrogate_pair_is_refused_before_it_stops_everyone(tmp_path, submitted):
    text = notebook_bytes(submitted).decode().replace("Scale a vector", "\\ud800")
    (tmp_path / "x.ipynb").write_text(text)
    with pytest.raises(Unreadable, match="not a notebook"):
        read_notebook(tmp_path / "x.ipynb")


def test_old_formats_are_read(tmp_path, submitted):
    data = json.loads(notebook_bytes(submitted))
    data["nbformat_minor"] = 2
    for c in data["cells"]:
        del c["id"]
    (tmp_path / "x.ipynb").write_text(json.dumps(data))
    notebook = read_notebook(tmp_path / "x.ipynb")
    assert notebook.nbformat_minor == 5 and all(c.id for c in notebook.cells)


def test_every_submission_is_collected_or_set_aside(tmp_path, submitted, release):
    good = notebook_bytes(submitted)
    files = {
        f"ana/{UNIT}.ipynb": good,
        "ben/Untitled (3).ipynb": good,
        "cem.ipynb": good,
        f"dora/{UNIT}/{UNIT}.ipynb": good,
        "dora/notes.ipynb": b"{}",
        "eva/x.ipynb": good[: len(good) // 2],
        "finn/readme.txt": b"",
        f"g*h/{UNIT}.ipynb": good,
        "ana/.ipynb_checkpoints/old.ipynb": b"{}",
        "Übel/y.ipynb": notebook_bytes(new_notebook(cells=[new_markdown_cell("# Cooking")])),
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    found = {s.student: s for s in collect(tmp_path, UNIT, release)}
    assert list(found) == ["ana", "ben", "cem", "dora", "eva", "finn", "g_h", "Übel"]
    assert found["ana"].repairs == found["cem"].repairs == []
    assert found["ben"].repairs == ["The file was called 'Untitled (3).ipynb'."]
    graded, aside = found["dora"].repairs
    assert graded == f"Of 2 notebooks, '{UNIT}.ipynb' was graded."
    assert aside.startswith("'notes.ipynb' cannot be graded: the file is JSON, but not a notebook")
    assert "'g*h' cannot be a folder name" in found["g_h"].repairs[0]
    assert "not JSON" in found["eva"].problem and "contains no notebook" in found["finn"].problem
    assert "begins with 'Cooking'" in found["Übel"].problem
    lay_out(list(found.values()), tmp_path / "course", UNIT)
    laid_out = sorted(p.parts[-3] for p in (tmp_path / "course").rglob(f"{UNIT}.ipynb"))
    assert laid_out == ["ana", "ben", "cem", "dora", "g_h"]
