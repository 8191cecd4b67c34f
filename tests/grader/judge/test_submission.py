"""Files that may be handed in, and what is read of them."""

import json

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
    submission = Submission.of(read(written(tmp_path, notebook)))
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
    assert str(refused.value) == "handed_in.ipynb is no notebook"


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


def test_fifty_megabytes_of_code_are_too_many(tmp_path):
    notebook = new_notebook(cells=[new_code_cell("def f():\n    return 1\n" + "# " + "x" * (50 << 20))])
    notebook.cells[0].metadata.nbgrader = {"solution": True, "grade": False, "grade_id": "f"}
    with pytest.raises(NotJudged, match="more than 5 MB of code"):
        Submission.of(notebook)


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
    assert Submission.of(read(path)).hash
