"""Files that may be handed in, and what is read of them."""

import json
import time

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from grader.judge.submission import NotJudged, Submission, read


def written(tmp_path, notebook):
    path = tmp_path / "handed_in.ipynb"
    path.write_text(nbformat.writes(notebook))
    return path


def test_a_notebook_is_read(tmp_path):
    notebook = new_notebook(cells=[new_markdown_cell("# π"), new_code_cell("def f():\n    return 1")])
    submission = read(written(tmp_path, notebook))
    assert any("def f" in text for _, text in submission.cells)
    assert submission.hash == Submission(submission.cells).hash


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\x00\x01\x02" * 1000, b"\xff\xfe\x00", b"[]", b"5", b"null", b'"text"', b"{}", b'{"cells": 5}',
        b'{"cells": [5], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}',
        b'{"cells": [{"cell_type": "code"}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}',
        b'{"cells": [{"cell_type": "code", "source": 5, "metadata": {}}], "metadata": {}, "nbformat": 4}',
        b"[" * 200_000 + b"]" * 200_000, b'{"nbformat": 99}', b'{"nbformat": "4", "cells": []}', b"PK\x03\x04zip",
    ],
)  # fmt: skip
def test_what_is_no_notebook_is_said_in_a_sentence(tmp_path, content):
    path = tmp_path / "handed_in.ipynb"
    path.write_bytes(content)
    with pytest.raises(NotJudged) as refused:
        read(path)
    assert str(refused.value).startswith("handed_in.ipynb is no notebook")


def test_what_is_no_file_or_too_large_is_not_read(tmp_path):
    with pytest.raises(NotJudged, match="is no file"):
        read(tmp_path / "missing.ipynb")
    with pytest.raises(NotJudged, match="is no file"):
        read(tmp_path)
    path = tmp_path / "large.ipynb"
    with path.open("wb") as f:
        f.truncate(200 << 20)
    with pytest.raises(NotJudged, match="has 200 MB; a submission has at most 100"):
        read(path)


def test_a_cell_that_is_too_long_costs_itself(tmp_path):
    cells = [
        new_code_cell("def f():\n    return 1\n" + "# " + "x" * (50 << 20)),
        new_code_cell("def g():\n    return 2"),
    ]
    notebook = new_notebook(cells=[new_markdown_cell("# unit"), *cells])
    for cell, name in zip(cells, "fg", strict=True):
        cell.id, cell.metadata.nbgrader = name, {"solution": True, "grade": False, "grade_id": name}
    (_, f), (_, g) = read(written(tmp_path, notebook)).cells[1:]
    assert f == "raise ValueError('cell f cannot be read: it holds 51200 kB, and at most 64 kB of a cell are read')"
    assert g.startswith("def g()")


def test_too_many_cells_are_said_in_a_sentence(tmp_path):
    notebook = new_notebook(cells=[new_code_cell("x") for _ in range(1200)])
    with pytest.raises(NotJudged, match="handed_in.ipynb holds 1200 cells, and at most 1000 are read"):
        read(written(tmp_path, notebook))


HARD = {
    "deep": "x = " + "-" * 30_000 + "1",
    "brackets": "x = " + "(" * 30_000,
    "sum": "x = " + "+".join("1" * 30_000),
    "attributes": "x" + ".a" * 30_000,
    "elif": "if x: pass\n" + "elif x: pass\n" * 5000,
    "shell": "!ls\n" * 10_000,
    "number": "x = " + "1" * 60_000,
    "nul": "x = 1\0",
    "questions": "?\n" * 10_000,
    "surrogate": "x = '\ud800'",
    "blanks": "%%cuda\n__global__" + " " * 60_000,
    "cuda": "%%cuda\n" + "__global__ void " * 4000,
}


@pytest.mark.parametrize("name", HARD)
def test_a_cell_that_no_parser_reads_costs_itself(name, tmp_path):
    """And neither time nor memory of this process."""
    cells = [new_code_cell(HARD[name], id="hard"), new_code_cell("def g():\n    return 2", id="g")]
    for cell in cells:
        cell.metadata.nbgrader = {"solution": True, "grade": False, "grade_id": cell.id}
    path = tmp_path / "handed_in.ipynb"
    path.write_text(json.dumps(new_notebook(cells=cells)))
    begin = time.process_time()
    found = read(path).cells
    assert time.process_time() - begin < 0.5
    assert found[-1] == ("g", "def g():\n    return 2\n") and len(found) <= 3


def test_the_parser_that_dies_is_not_this_process(tmp_path):
    path = written(tmp_path, new_notebook(cells=[new_code_cell("x = 1")]))
    (tmp_path / "deep.ipynb").write_text("[" * 4_000_000)
    with pytest.raises(NotJudged, match=r"deep.ipynb is no notebook"):
        read(tmp_path / "deep.ipynb")
    assert read(path).cells


def test_strange_text_is_text(tmp_path):
    odd = [
        "\ufeffdef f(): return 1",
        "def g(): return '\x00'",
        "x = " + "(" * 300,
        "%%html\n<b>",
        "!ls",
        "?",
        "\x0c",
        "",
    ]
    notebook = new_notebook(cells=[new_code_cell(text) for text in odd])
    for cell in notebook.cells:
        cell.metadata.nbgrader = {"solution": True, "grade": False, "grade_id": cell.id}
    assert Submission.of(notebook).hash


def test_half_a_surrogate_pair_does_not_stop_the_hash(tmp_path):
    path = tmp_path / "handed_in.ipynb"
    cell = {"cell_type": "code", "source": "x = '\ud800'", "metadata": {}, "outputs": [], "execution_count": None}
    path.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}))
    assert read(path).hash
