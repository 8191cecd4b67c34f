"""Matches the cells of a submission with those of the release.

In order of trust, a cell is identified by the grade id in nbgrader's metadata; its own id, which Colab keeps in the
metadata; a line that only this cell has, `lab.check("unit/exercise")` in a check and `def kernel(` or
`__global__ void kernel(` in an answer; similarity of the text.
"""

from __future__ import annotations

import ast
import re
from difflib import SequenceMatcher
from functools import lru_cache

from nbformat import NotebookNode

from grader.course.cells import exercise_of, is_cuda, python_text

SIMILAR = 0.6
"""Share of a released cell's lines that a submitted cell must hold, in order, to be taken for it."""

MOST_TEXT = 30_000
"""Letters of a cell that are looked at; an answer has a few thousand."""

NOT_WRITTEN = "is not written yet"
"""labutils.spec.exercise.NOT_WRITTEN, without importing labutils."""

_DEFINITION = re.compile(
    r"^(?:async\s+)?(?:def|class)\s+(\w+)"
    r"|__global__[\w\s]{0,80}?(?:__launch_bounds__\s{0,9}\([^)]{0,200}\)\s{0,80})?"
    r"void\s{1,80}(?:__launch_bounds__\s{0,9}\([^)]{0,200}\)\s{0,80})?(\w{1,200})\s{0,80}\(",
    re.MULTILINE,
)


def grading_of(cell: NotebookNode) -> dict:
    """nbgrader's metadata of a cell; empty where there is none, or what is there is no table."""
    found = cell.metadata.get("nbgrader")
    return found if isinstance(found, dict) else {}


def is_answer(cell: NotebookNode) -> bool:
    return bool(grading_of(cell).get("solution"))


def functions(cell: NotebookNode) -> frozenset[str]:
    """Functions, classes and kernels that a cell defines, also where its text is no valid code."""
    return _functions_in(cell.source[:MOST_TEXT])


@lru_cache(maxsize=1000)  # each cell is compared with each of the release
def _functions_in(text: str) -> frozenset[str]:
    return frozenset(a or b for a, b in _DEFINITION.findall(text))


def defines(cell: NotebookNode) -> set[str]:
    """All names that a code cell defines at its top level, variables included; no more than is certain."""
    if cell.cell_type != "code" or is_cuda(cell.source):
        return set(functions(cell)) if cell.cell_type == "code" else set()
    try:
        body = ast.parse(python_text(cell.source[:MOST_TEXT]) or "").body
    except Exception:  # the parser's and IPython's, for what is no Python
        return set()
    names = {n.name for n in body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    targets = [t for n in body if isinstance(n, ast.Assign) for t in n.targets]
    return names | {t.id for t in targets if isinstance(t, ast.Name)}


def by_grade_id(released: NotebookNode, free: list[NotebookNode]) -> NotebookNode | None:
    same = [c for c in free if grading_of(c).get("grade_id") == released.metadata.nbgrader.grade_id]
    # Of several copies the one with the released cell's own id is the original.
    return next((c for c in same if c.get("id") == released.id), same[0] if same else None)


def by_cell_id(released: NotebookNode, free: list[NotebookNode]) -> NotebookNode | None:
    plain = [c for c in free if not grading_of(c)]
    return next((c for c in plain if released.id in (c.get("id"), c.metadata.get("id"))), None)


def by_marker(released: NotebookNode, free: list[NotebookNode]) -> NotebookNode | None:
    """By the exercise that a check names, or by what a cell defines: all of it if it is locked, some for an answer."""
    plain = [c for c in free if not grading_of(c)]
    if released.cell_type == "code" and (exercise := exercise_of(released.source)):
        return next((c for c in plain if c.cell_type == "code" and _checks(c) == exercise), None)
    wanted = functions(released)
    if not wanted:
        return None
    if not is_answer(released):
        return next((c for c in plain if functions(c) == wanted), None)
    # Of several the last: in a notebook it is the one that counts.
    return max(
        (c for c in plain if functions(c) & wanted),
        key=lambda c: (len(functions(c) & wanted), plain.index(c)),
        default=None,
    )


def _checks(cell: NotebookNode) -> str | None:
    """The exercise that a submitted cell checks. Its text may be anything."""
    try:
        return exercise_of(cell.source) if len(cell.source) <= MOST_TEXT else None
    except Exception:  # the parser's and IPython's, for what is no Python
        return None


def by_text(released: NotebookNode, free: list[NotebookNode]) -> NotebookNode | None:
    plain = [c for c in free if c.cell_type == released.cell_type and not grading_of(c)]
    score, best = max(((_likeness(released, c), -i) for i, c in enumerate(plain)), default=(0.0, 0))
    return plain[-best] if score >= SIMILAR else None


def _likeness(released: NotebookNode, cell: NotebookNode) -> float:
    """Share of the released cell's lines, but for the stub's, that are in the other cell in the same order."""
    lines = [line.strip() for line in released.source.split("\n") if line.strip()]
    given = [line for line in lines if "YOUR CODE HERE" not in line and NOT_WRITTEN not in line]
    theirs = [line.strip() for line in cell.source.split("\n") if line.strip()]
    if not given or len(cell.source) > MOST_TEXT:
        return 0.0
    same = SequenceMatcher(None, given, theirs, autojunk=False).get_matching_blocks()
    return sum(block.size for block in same) / len(given)
