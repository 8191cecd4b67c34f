"""What people gave in nbgrader's formgrader: points for written answers, changed points, comments."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

from grader.course.locales.markdown import first_line


@dataclass(frozen=True)
class WrittenAnswer:
    """A written answer or a task; `waiting`: nobody has graded it yet."""

    cell: str
    question: str
    marks: float
    points: float
    comment: str = ""
    waiting: bool = False


@dataclass
class ByHand:
    """Of one student: written answers, the points that a person gave for a check (cell id), comments on other cells."""

    answers: list[WrittenAnswer] = field(default_factory=list)
    changed: dict[str, float] = field(default_factory=dict)
    comments: list[tuple[str, str]] = field(default_factory=list)

    @property
    def waiting(self) -> int:
        return sum(answer.waiting for answer in self.answers)


def read(course: Path, unit: str) -> dict[str, ByHand]:
    """What people gave each student of a unit, from the gradebook in nbgrader's course folder; {} if there is none."""
    if not (course / "gradebook.db").exists():
        return {}
    questions = _questions(course / "release" / unit / f"{unit}.ipynb")
    found: dict[str, ByHand] = {}
    with contextlib.closing(
        sqlite3.connect(f"{(course / 'gradebook.db').resolve().as_uri()}?mode=ro", uri=True)
    ) as book:
        comments = {(student, cell): text for student, cell, text in book.execute(_COMMENTS, (unit,))}
        for student, cell, written, points, manual, automatic, extra, needed in book.execute(_GRADES, (unit,)):
            mine = found.setdefault(student, ByHand())
            marks = (automatic or 0.0 if manual is None else manual) + (extra or 0.0)
            if written:
                comment = comments.pop((student, cell), "")
                waiting = bool(needed) and manual is None
                question = questions.get(cell, cell)
                mine.answers.append(WrittenAnswer(cell, question, marks, points, comment, waiting))
            elif manual is not None or extra:
                mine.changed[cell] = marks
    for (student, cell), text in comments.items():
        if student in found and text != _NO_RESPONSE:
            found[student].comments.append((cell, text))
    order = {cell: number for number, cell in enumerate(questions)}
    for mine in found.values():
        mine.answers.sort(key=lambda answer: order.get(answer.cell, 0))
        mine.comments.sort(key=lambda comment: order.get(comment[0], 0))
    return found


_NO_RESPONSE = "No response."
"""What nbgrader itself writes for a cell that was left as it was."""

_OF_UNIT = """
JOIN submitted_notebook sn ON sn.id = one.notebook_id JOIN submitted_assignment sa ON sa.id = sn.assignment_id
JOIN assignment ON assignment.id = sa.assignment_id AND assignment.name = ? JOIN base_cell cell ON cell.id = one.cell_id
"""

_GRADES = f"""
SELECT sa.student_id, cell.name,
  cell.type = 'TaskCell' OR EXISTS (SELECT 1 FROM base_cell answer WHERE answer.notebook_id = cell.notebook_id
    AND answer.name = cell.name AND answer.type = 'SolutionCell'),
  coalesce(checked.max_score, task.max_score, 0), one.manual_score, one.auto_score, one.extra_credit,
  one.needs_manual_grade
FROM grade one {_OF_UNIT}
LEFT JOIN grade_cells checked ON checked.id = cell.id LEFT JOIN task_cells task ON task.id = cell.id
"""

_COMMENTS = f"""
SELECT sa.student_id, cell.name, coalesce(one.manual_comment, one.auto_comment) FROM comment one {_OF_UNIT}
WHERE coalesce(one.manual_comment, one.auto_comment, '') <> ''
"""


def _questions(release: Path) -> dict[str, str]:
    """The first line of text of each of the unit's cells, in their order, without markdown."""
    try:
        cells = json.loads(release.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError):
        return {}
    return {cell["id"]: first_line("".join(cell["source"])) or cell["id"] for cell in cells}
