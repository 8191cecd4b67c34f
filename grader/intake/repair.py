"""Repair a submitted notebook so that unmodified nbgrader can grade it, and list the repairs in sentences.

Front ends lose nbgrader's metadata, and learners copy, move, split, merge and delete cells. `grader.intake.matching`
finds each graded cell of the release; `grader.intake.split_cells` joins split ones.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections import Counter

from nbformat import NotebookNode

from grader.course.cells import is_cuda
from grader.intake import matching, split_cells
from grader.intake.choice import Fit
from grader.intake.matching import defines, functions, is_answer
from grader.intake.matching import grading_of as _metadata

SEVERAL = 4
"""From so many repairs of one kind on, one sentence says all."""

_CHECKED = re.compile(r"""\blab\.check\(\s{0,9}["'](\w{1,60})/""")


class NotThisUnit(Exception):
    """A notebook without an exercise of the unit; the message says what it seems to be."""


def repair(submitted: NotebookNode, release: NotebookNode) -> list[str]:
    """Repair `submitted` in place to match the unit's release; returns a sentence for each kind of repair.

    Raises NotThisUnit if none of the unit's exercises is in it, or it is another unit's.
    """
    return repaired(submitted, release)[0]


def repaired(submitted: NotebookNode, release: NotebookNode) -> tuple[list[str], Fit]:
    """`repair`, with how well the notebook fits the release."""
    mender = _Mender(submitted, release)
    mender.require_unit()
    mender.find()
    mender.require_exercises()
    fit = mender.fit()
    mender.plain_copies()
    mender.join_parts()
    mender.settle()
    mender.put_back_moved()
    mender.restore_missing()
    mender.unique_ids()
    return mender.messages, fit


def _as_released(cell: NotebookNode, grading: dict) -> bool:
    """Is the cell's text the one that nbgrader wrote a checksum of? Then it is of an edition in another language."""
    return "checksum" in grading and _checksum(cell, grading) == grading["checksum"]


def _checksum(cell: NotebookNode, grading: dict) -> str:
    """`nbgrader.utils.compute_checksum`: the process that reads a submission cannot import it."""
    flags = [grading.get(name, False) for name in ("grade", "solution", "locked")]
    parts = [cell.source, cell.cell_type, *map(str, flags), str(grading.get("grade_id"))]
    if flags[0]:
        try:
            parts.append(str(float(grading["points"])))
        except (KeyError, TypeError, ValueError):
            return ""
    return hashlib.md5("".join(parts).encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


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
        self.answers = set().union(*(functions(c) for c in self.wanted if is_answer(c)))
        self.found: dict[str, NotebookNode] = {}  # by the released cell's id
        self.by_ids: set[str] = set()  # those of them that were found by an id
        self.messages: list[str] = []

    def find(self) -> None:
        """Assign to each graded cell of the release at most one submitted cell."""
        self._free_merged_answers()
        lost: list[NotebookNode] = []
        for match in (matching.by_grade_id, matching.by_cell_id, matching.by_marker, matching.by_text):
            for cell in self.wanted:
                if cell.id in self.found:
                    continue
                free = self._free() if is_answer(cell) else [c for c in self._free() if not self._answers_in(c)]
                if (mine := match(cell, free)) is not None:
                    self.found[cell.id] = mine
                    if match in (matching.by_grade_id, matching.by_cell_id):
                        self.by_ids.add(cell.id)
                    if match is not matching.by_grade_id:
                        lost.append(cell)
        self._say(lost, "The grading information of {} was lost and is restored.")

    def _say(self, cells: list[NotebookNode], one: str, many: str = "") -> None:
        """A sentence for each of these cells, or one for all of them: `many`, or else `one` with their number."""
        if len(cells) < SEVERAL:
            self.messages += [_capital(one.format(_name(c))) for c in cells]
            return
        rest = f" and {len(cells) - SEVERAL} more" if len(cells) > SEVERAL else ""
        names = ", ".join(_name(c) for c in cells[:SEVERAL])
        sentence = (many or one).format(f"{len(cells)} cells").rstrip(".")
        self.messages.append(f"{_capital(sentence)}: {names}{rest}.")

    def require_unit(self) -> None:
        """Raises NotThisUnit for a notebook whose checks are all another unit's. Cells that units share, such as the
        first one, would make it look like one of this unit with everything deleted."""
        named = Counter(
            unit for c in self.notebook.cells if c.cell_type == "code" for unit in _CHECKED.findall(c.source)
        )
        ours = {unit for c in self.release.cells if c.cell_type == "code" for unit in _CHECKED.findall(c.source)}
        if ours and named and not ours & named.keys():
            raise NotThisUnit(f"this is unit {named.most_common(1)[0][0]}, not {min(ours)}")

    def fit(self) -> Fit:
        """How well the notebook fits the release, before anything is put in its place."""
        answers = [c for c in self.wanted if is_answer(c) and c.id in self.found]
        written = sum(self.found[c.id].source.strip() != c.source.strip() for c in answers)
        return Fit(len(self.by_ids) / len(self.wanted), len(self.found) / len(self.wanted), written)

    def _free(self) -> list[NotebookNode]:
        taken = {id(c) for c in self.found.values()}
        return [c for c in self.notebook.cells if id(c) not in taken]

    def _answers_in(self, cell: NotebookNode) -> set[str]:
        """Functions of the unit's answer cells that a cell defines: it is no locked cell, whatever it claims."""
        return functions(cell) & self.answers

    def _free_merged_answers(self) -> None:
        """A cell that was merged with a locked one keeps that one's metadata, and would lose its text to it."""
        locked = {c.metadata.nbgrader.grade_id: c for c in self.wanted if not is_answer(c)}
        for cell in self.notebook.cells:
            released = locked.get(_metadata(cell).get("grade_id"))
            if released is not None and (names := self._answers_in(cell)):
                cell.metadata.pop("nbgrader")
                cell.id = f"{cell.get('id') or 'cell'}-merged"[-64:]
                self.messages.append(f"{_capital(_name(released))} had been merged with an answer, {', '.join(names)}.")

    def require_exercises(self) -> None:
        exercises = [c for c in self.wanted if _metadata(c).get("solution") or _metadata(c).get("grade")]
        # A written answer's id may be that of another unit's: with no code beside it, it proves nothing.
        proof = [c for c in exercises if c.cell_type == "code"] or exercises
        if not any(c.id in self.found for c in proof):
            title = next((c.source.split("\n", 1)[0].lstrip("# ") for c in self.notebook.cells if c.source.strip()), "")
            raise NotThisUnit(f"no exercise of this unit is in it; it begins with {title[:60]!r}")

    def plain_copies(self) -> None:
        """Other cells lose nbgrader's metadata: each still runs, and none is graded."""
        known = {c.metadata.nbgrader.grade_id: c for c in self.wanted}
        for cell in self._free():
            grading = cell.metadata.pop("nbgrader", None)
            original = known.get(grading.get("grade_id")) if isinstance(grading, dict) else None
            if original is not None:
                self.messages.append(
                    f"A copy of {_name(original)} became an ordinary cell: it runs, but is not graded."
                )
            elif grading:
                self.messages.append(
                    f"A cell that claimed to be graded is not part of this unit ({cell.get('id')!r}); it is not graded."
                )

    def join_parts(self) -> None:
        """Put the parts of a split answer into its cell, so that the whole text is judged."""
        for released in self.wanted:
            cell = self.found.get(released.id)
            if cell is None or not is_answer(released) or released.cell_type != "code":
                continue
            parts = split_cells.parts_of(cell, self._around(cell), released)
            if len(parts) == 1 and is_cuda(released.source) and functions(cell) and not cell.source.startswith("%%"):
                cell.source = released.source.split("\n", 1)[0] + "\n" + cell.source
                self.messages.append(f"The first line of {_name(released)}, '%%cuda', was lost and is restored.")
                parts = split_cells.parts_of(cell, self._around(cell), released)
            if len(parts) > 1:
                cell.source = split_cells.joined(parts)
                mine = {id(c) for c in parts if c is not cell}
                self.notebook.cells = [c for c in self.notebook.cells if id(c) not in mine]
                self.messages.append(f"{_capital(_name(released))} was split into {len(parts)} and is joined again.")

    def _around(self, cell: NotebookNode) -> list[NotebookNode]:
        """The code cells near a found one, as far as the next found ones."""
        others = {id(c) for c in self.found.values() if c is not cell}
        run: list[NotebookNode] = []
        for c in self.notebook.cells:
            if id(c) in others:
                if any(r is cell for r in run):
                    break
                run = []
            elif c.cell_type == "code" and c.source.strip() or c is cell:
                run.append(c)
        return run

    def settle(self) -> None:
        """Give every found cell the metadata and the type that it was released with, and locked cells their text."""
        changed, edited = [], []
        for released in self.wanted:
            cell = self.found.get(released.id)
            if cell is None:
                continue
            grading = _metadata(cell)
            if grading and any(grading.get(k) != v for k, v in released.metadata.nbgrader.items() if k != "checksum"):
                changed.append(released)
            cell.metadata.nbgrader = copy.deepcopy(released.metadata.nbgrader)
            if cell.cell_type != released.cell_type:
                self.messages.append(
                    f"{_capital(_name(released))} had become {cell.cell_type} and is {released.cell_type} again."
                )
                _retype(cell, released.cell_type)
            locked = not is_answer(released)
            if locked and cell.source.strip() != released.source.strip() and not _as_released(cell, grading):
                edited.append(released)
            if locked:
                cell.source = released.source
        self._say(changed, "The grading information of {} was changed and is restored.")
        self._say(edited, "{} had been edited; it runs as released.", "{} had been edited; they run as released.")

    def put_back_moved(self) -> None:
        """Put locked cells that were moved back where they were; an answer stays where its author wants it."""
        order = {released.id: n for n, released in enumerate(self.release.cells)}
        by_cell = {id(c): name for name, c in self.found.items()}
        names = [by_cell[id(c)] for c in self.notebook.cells if id(c) in by_cell]
        answers = {c.id for c in self.wanted if is_answer(c)}
        kept = _longest_in_order(names, order, answers)
        for name in sorted((n for n in names if n not in kept and n not in answers), key=order.get):
            cell = self.found.pop(name)
            self.notebook.cells = [c for c in self.notebook.cells if c is not cell]
            self.notebook.cells.insert(self._place(order[name]), cell)
            self.found[name] = cell
            self.messages.append(f"{_capital(_name(self.release.cells[order[name]]))} had been moved and was put back.")

    def restore_missing(self) -> None:
        """Put deleted cells back behind the cell that precedes them in the release."""
        given, answers = [], []
        for position, released in enumerate(self.release.cells):
            if released.id in self.found or not _metadata(released):
                continue
            if is_answer(released) and (names := self._defined_elsewhere(released)):
                self.messages.append(
                    f"{_capital(_name(released))} is gone, but another cell defines {names}; nothing was put back."
                )
                continue
            cell = copy.deepcopy(released)
            self.notebook.cells.insert(self._place(position), cell)
            self.found[released.id] = cell
            (answers if is_answer(released) else given).append(released)
        for cells, state in ((given, ""), (answers, " without an answer")):
            one, many = (
                f"{{}} had been deleted and was put back{state}.",
                f"{{}} had been deleted and were put back{state}.",
            )
            self._say(cells, one, many)

    def _defined_elsewhere(self, released: NotebookNode) -> str:
        """Names that a deleted answer cell defines, if the learner defines them all in other cells (a merge, say)."""
        mine = set().union(*(defines(c) for c in self.notebook.cells), set())
        theirs = defines(released)
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


def _longest_in_order(names: list[str], order: dict[str, int], heavy: set[str]) -> set[str]:
    """The names that are already in order, as many as can be; a heavy one counts twice."""
    best: list[tuple[int, list[str]]] = []
    for i, name in enumerate(names):
        before = max((best[j] for j in range(i) if order[names[j]] < order[name]), default=(0, []), key=lambda b: b[0])
        best.append((before[0] + 1 + (name in heavy), [*before[1], name]))
    return set(max(best, default=(0, []), key=lambda b: b[0])[1])


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _retype(cell: NotebookNode, cell_type: str) -> None:
    cell.cell_type = cell_type
    if cell_type == "code":
        cell.outputs, cell.execution_count = [], None
    else:
        cell.pop("outputs", None)
        cell.pop("execution_count", None)
