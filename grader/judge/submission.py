"""What is judged of a submission: the text of its cells, and nothing that ever ran."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from grader.course.solutions import code_cells

MOST_BYTES = 5 << 20
"""Bytes of a notebook without its outputs; a unit of the course has less than a hundredth of that."""

MOST_FILE = 100 << 20


class NotJudged(ValueError):
    """This file cannot be judged; the message says why in one sentence."""


@dataclass(frozen=True)
class Submission:
    """The code of a submission as (cell id, Python) in order."""

    cells: tuple[tuple[str, str], ...]

    @property
    def hash(self) -> str:
        return hashlib.sha256(json.dumps(self.cells).encode()).hexdigest()

    @staticmethod
    def of(notebook: NotebookNode) -> Submission:
        """The submission in a notebook that nbgrader has sanitized. Raises NotJudged."""
        cells = tuple(code_cells(notebook))
        if sum(len(text) for _, text in cells) > MOST_BYTES:
            raise NotJudged(f"it holds more than {MOST_BYTES >> 20} MB of code")
        return Submission(cells)


def read(path: Path) -> NotebookNode:
    """The notebook in a file. Raises NotJudged."""
    if not path.is_file():
        raise NotJudged(f"{path} is no file")
    if path.stat().st_size > MOST_FILE:
        raise NotJudged(f"{path.name} has {path.stat().st_size >> 20} MB; a submission has at most {MOST_FILE >> 20}")
    try:
        notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
        for cell in notebook.cells:
            cell.setdefault("id", "")
            _ = cell.source.strip(), cell.cell_type, cell.metadata  # what is no cell raises here
    except Exception:  # nbformat raises many kinds for what is no notebook
        raise NotJudged(f"{path.name} is no notebook") from None
    return notebook
