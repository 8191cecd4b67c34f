"""What is judged of a submission: the text of its cells, and nothing that ever ran."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from grader.course.solutions import code_cells
from grader.judge import reader

MOST_BYTES = 5 << 20
"""Bytes of a notebook's code; a unit of the course has less than a hundredth of that."""

MOST_FILE = 100 << 20


class NotJudged(ValueError):
    """This file cannot be judged; the message says why in one sentence."""


@dataclass(frozen=True)
class Submission:
    """The code of a submission as (cell id, Python) in order, and the exercises that its check cells name."""

    cells: tuple[tuple[str, str], ...]
    checks: tuple[str, ...] = ()

    @property
    def hash(self) -> str:
        return hashlib.sha256(json.dumps(self.cells).encode()).hexdigest()

    @staticmethod
    def of(notebook: NotebookNode) -> Submission:
        """The submission in a notebook of the course itself, which is read here. A learner's is read by `read`."""
        return Submission(tuple(code_cells(notebook)))

    @staticmethod
    def read(notebook: bytes) -> Submission:
        """The submission in a notebook's bytes, which a limited child reads. Raises NotJudged."""
        with reader.in_memory(notebook) as content:
            return _read(content, "it")


def read(path: Path) -> Submission:
    """The submission in a file that may be anything. Raises NotJudged."""
    try:
        content = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        raise NotJudged(f"{path} is no file") from None
    try:
        if not path.is_file():
            raise NotJudged(f"{path} is no file")
        if (size := os.fstat(content).st_size) > MOST_FILE:
            raise NotJudged(f"{path.name} has {size >> 20} MB; a submission has at most {MOST_FILE >> 20}")
        return _read(content, path.name)
    finally:
        os.close(content)


def _read(content: int, name: str) -> Submission:
    """The submission in an open file; `name` begins the sentence that says why it is none."""
    try:
        answer = next(reader.read("grader.judge.reading", {"what": "cells"}, content))
    except (reader.Unread, StopIteration) as why:
        raise NotJudged(f"{name} is no notebook that can be read: {why}") from None
    if "failed" in answer:
        raise NotJudged(answer["failed"].replace("it", name, 1))
    cells = tuple((str(cell_id), str(text)) for cell_id, text in answer["cells"])
    if sum(len(text) for _, text in cells) > MOST_BYTES:
        raise NotJudged(f"{name} holds more than {MOST_BYTES >> 20} MB of code")
    return Submission(cells, tuple(map(str, answer["checks"])))
