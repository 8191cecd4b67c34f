"""What is seen only with all submissions side by side, for the class report: kept in `grades.json`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from grader.intake.matching import is_answer
from grader.marks.results import ClassResults, Graded
from grader.reports import flags, similarity


def look(results: ClassResults, out: Path) -> dict[str, Any]:
    """What the submissions in the course folder of `out` show beside the results.

    `similar` groups of answers, `flags` with evidence, files that were `set_aside` with reasons. What is not there
    is not looked at.
    """
    course = out / "course"
    release = _cells(course / "release" / results.unit / f"{results.unit}.ipynb")
    source = _cells(course / "source" / results.unit / f"{results.unit}.ipynb")
    given = {i: text for i, (text, _) in release.items()}
    answers: dict[str, dict[str, str]] = {i: {} for i, (_, answer) in release.items() if answer}

    def written() -> Iterator[tuple[Graded, dict[str, str]]]:
        """Each student with what is not as it was given. Only the answers are kept: all texts of a large class would
        fill the memory."""
        for student in results.students:
            path = course / "submitted" / student.student / results.unit / f"{results.unit}.ipynb"
            cells = {} if student.problem else _cells(path)
            texts = {i: text for i, (text, _) in cells.items() if text != given.get(i)}
            for cell in answers.keys() & texts.keys():
                answers[cell][student.student] = texts[cell]
            yield student, texts

    flagged = flags.flagged(written(), given)
    published = {i: _without_markers(text) for i, (text, answer) in source.items() if answer}
    return {
        "similar": [asdict(g) for g in similarity.groups(answers, given, published)],
        "flags": flagged,
        "set_aside": _json(out / "set_aside" / "reasons.json") or [],
    }


def _cells(path: Path) -> dict[str, tuple[str, bool]]:
    """Text of each code cell of a notebook file, and whether it is an answer; empty if there is no such file."""
    notebook = _json(path) or {}
    found = {}
    for cell in notebook.get("cells", []):
        if cell["cell_type"] == "code":
            source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
            found[cell["id"]] = (source, is_answer(_Cell(cell)))
    return found


class _Cell:
    """A cell of a notebook's JSON, as much of it as `grader.intake.matching` looks at."""

    def __init__(self, cell: dict):
        self.metadata = cell["metadata"]


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _without_markers(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if "### BEGIN SOLUTION" not in line and "### END" not in line)
