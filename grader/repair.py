"""Mend a submitted notebook, so that stock nbgrader can grade it, and say in sentences what was mended.

Front ends lose nbgrader's metadata, and learners copy, delete and merge cells. Each graded cell of the release is
looked for by its grade id, then by its cell id, then by the exercise that it checks, then by its text.
"""

from __future__ import annotations

import ast
import copy
from difflib import SequenceMatcher

from nbformat import NotebookNode

from grader.cells import python_text
from grader.marks import exercise_of
from labutils.exercise import NOT_WRITTEN

SIMILAR = 0.6
"""Share of a released cell's lines that a submitted cell must hold, in order, to be taken for it."""


class NotThisUnit(Exception):
    """A notebook that holds no exercise of the unit; the message says what it seems to be."""


def repair(submitted: NotebookNode, release: NotebookNode) -> list[str]:
    """Mend `submitted` in place against the unit's release; returns what was done, a sentence for each repair.

    Raises NotThisUnit if none of the unit's exercises is in it.
    """
    mender = _Mender(submitted, release)
    mender.find()
    mender.require_exercises()
    mender.plain_copies()
    mender.settle()
    mender.restore_missing()
    mender.unique_ids()
    return mender.said


def _metadata(cell: NotebookNode) -> dict:
    found = cell.metadata.get("nbgrader")
    return found if isinstance(found, dict) else {}


def _name(cell: NotebookNode) -> str:
    """What a released cell is called in sentences."""
    grading = _metadata(cell)
    if grading.get("grade") and not grading.get("solution"):
        return f"the check {cell.id!r}"
    if grading.get("solution"):
        return f"the answer cell {cell.id!r}"
    return f"the given cell {cell.id!r}"


class _Mender:
    def __init__(self, submitted: NotebookNode, release: NotebookNode):
        self.notebook, self.release = submitted, release
        self.wanted = [c for c in release.cells if _metadata(c)]
        self.found: dict[str, NotebookNode] = {}  # by the released cell's id
        self.said: list[str] = []

    def find(self) -> None:
        """Assign to each graded cell of the release at most one submitted cell."""
        for match in (self._by_grade_id, self._by_cell_id, self._by_exercise, self._by_text):
            for cell in self.wanted:
                if cell.id not in self.found and (mine := match(cell, self._free())) is not None:
                    self.found[cell.id] = mine
                    if match != self._by_grade_id:
                        self.said.append(f"The grading information of {_name(cell)} was lost and is restored.")

    def _free(self) -> list[NotebookNode]:
        taken = {id(c) for c in self.found.values()}
        return [c for c in self.notebook.cells if id(c) not in taken]

    def _by_grade_id(self, cell, free):
        same = [c for c in free if _metadata(c).get("grade_id") == cell.metadata.nbgrader.grade_id]
        # Of several copies the one with the released cell's own id is the original.
        return next((c for c in same if c.get("id") == cell.id), same[0] if same else None)

    def _by_cell_id(self, cell, free):
        return next((c for c in free if c.get("id") == cell.id and not _metadata(c)), None)

    def _by_exercise(self, cell, free):
        exercise = exercise_of(cell.source) if cell.cell_type == "code" and _metadata(cell).get("grade") else None
        plain = (c for c in free if c.cell_type == "code" and not _metadata(c))
        return next((c for c in plain if exercise and exercise_of(c.source) == exercise), None)

    def _by_text(self, cell, free):
        plain = [c for c in free if c.cell_type == cell.cell_type and not _metadata(c)]
        score, best = max(((_likeness(cell, c), i) for i, c in enumerate(plain)), default=(0.0, 0))
        return plain[best] if score >= SIMILAR else None

    def require_exercises(self) -> None:
        exercises = [c for c in self.wanted if _metadata(c).get("solution") or _metadata(c).get("grade")]
        if not any(c.id in self.found for c in exercises):
            title = next((c.source.split("\n", 1)[0].lstrip("# ") for c in self.notebook.cells if c.source.strip()), "")
            raise NotThisUnit(f"no exercise of this unit is in it; it begins with {title[:60]!r}")

    def plain_copies(self) -> None:
        """Other cells lose nbgrader's metadata: each still runs, and none is graded."""
        known = {c.metadata.nbgrader.grade_id: c for c in self.wanted}
        for cell in self._free():
            grading = cell.metadata.pop("nbgrader", None)
            original = known.get(grading.get("grade_id")) if isinstance(grading, dict) else None
            if original is not None:
                self.said.append(f"A copy of {_name(original)} was made an ordinary cell; it runs, and is not graded.")
            elif grading:
                self.said.append(
                    f"A cell that claimed to be graded but is none of this unit's ({cell.get('id')!r}) is not."
                )

    def settle(self) -> None:
        """Give every found cell the metadata and the type that it was released with, and locked cells their text."""
        for released in self.wanted:
            cell = self.found.get(released.id)
            if cell is None:
                continue
            grading = _metadata(cell)
            if grading and any(grading.get(k) != v for k, v in released.metadata.nbgrader.items() if k != "checksum"):
                self.said.append(f"The grading information of {_name(released)} was changed and is restored.")
            cell.metadata.nbgrader = copy.deepcopy(released.metadata.nbgrader)
            if cell.cell_type != released.cell_type:
                self.said.append(
                    f"{_capital(_name(released))} had become {cell.cell_type} and is {released.cell_type} again."
                )
                _retype(cell, released.cell_type)
            locked = not _metadata(released).get("solution")
            if locked and cell.source.strip() != released.source.strip():
                self.said.append(f"{_capital(_name(released))} had been edited; it runs as it was released.")
            if locked:
                cell.source = released.source

    def restore_missing(self) -> None:
        """Put deleted cells back behind the cell that precedes them in the release."""
        for position, released in enumerate(self.release.cells):
            if released.id in self.found or not _metadata(released):
                continue
            if _metadata(released).get("solution") and (names := self._defined_elsewhere(released)):
                self.said.append(
                    f"{_capital(_name(released))} is gone, but another cell defines {names}; nothing was put back."
                )
                continue
            cell = copy.deepcopy(released)
            self.notebook.cells.insert(self._place(position), cell)
            self.found[released.id] = cell
            state = " without an answer" if _metadata(released).get("solution") else ""
            self.said.append(f"{_capital(_name(released))} had been deleted and was put back{state}.")

    def _defined_elsewhere(self, released: NotebookNode) -> str:
        """Names that a deleted answer cell defines, if the learner defines them all in other cells (a merge, say)."""
        mine = set().union(*(_defines(c) for c in self.notebook.cells), set())
        theirs = _defines(released)
        return ", ".join(sorted(theirs)) if theirs and theirs <= mine else ""

    def _place(self, position: int) -> int:
        for before in reversed(self.release.cells[:position]):
            cell = self.found.get(before.id)
            for index, mine in enumerate(self.notebook.cells):
                if mine is cell or cell is None and mine.get("id") == before.id:
                    return index + 1
        return 0

    def unique_ids(self) -> None:
        """Graded cells get their released ids; nobody else may have one of those, or one that is taken."""
        originals = {id(c): name for name, c in self.found.items()}
        taken = set(originals.values())
        for number, cell in enumerate(self.notebook.cells):
            if id(cell) in originals:
                cell.id = originals[id(cell)]
                continue
            if not cell.get("id") or cell.id in taken:
                cell.id = f"extra-{number}"
            taken.add(cell.id)
        self.notebook.nbformat, self.notebook.nbformat_minor = 4, 5


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _retype(cell: NotebookNode, cell_type: str) -> None:
    cell.cell_type = cell_type
    if cell_type == "code":
        cell.outputs, cell.execution_count = [], None
    else:
        cell.pop("outputs", None)
        cell.pop("execution_count", None)


def _likeness(released: NotebookNode, cell: NotebookNode) -> float:
    """Share of the released cell's lines, but for the stub's, that are in the other cell in the same order."""
    lines = [line.strip() for line in released.source.split("\n") if line.strip()]
    given = [line for line in lines if "YOUR CODE HERE" not in line and NOT_WRITTEN not in line]
    theirs = [line.strip() for line in cell.source.split("\n") if line.strip()]
    if not given:
        return 0.0
    same = SequenceMatcher(None, given, theirs, autojunk=False).get_matching_blocks()
    return sum(block.size for block in same) / len(given)


def _defines(cell: NotebookNode) -> set[str]:
    """Functions and variables that a code cell defines at its top level."""
    try:
        body = ast.parse(python_text(cell.source) or "").body if cell.cell_type == "code" else []
    except (SyntaxError, ValueError):
        return set()
    names = {n.name for n in body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    targets = [t for n in body if isinstance(n, ast.Assign) for t in n.targets]
    return names | {t.id for t in targets if isinstance(t, ast.Name)}
