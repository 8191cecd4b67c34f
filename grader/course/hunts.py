"""Hunts: exercises whose cell is released with a bug, which the learner names and then fixes.

The cell `# %% cell="hunt" id="…" exercise="UNIT/NAME"` of a unit's source holds the right kernel. What is released is
the mutant `planted` of `solutions/UNIT/mutants/NAME.toml`, whose table has two more keys:

    cause = "missing barrier"         # one of the causes that the notebook offers
    also = ["for (int s = 16"]        # optional: parts of other lines of the cell that may be named

The lines that may be named follow from the edit. `labutils` has only hashes of the answers: a file that the build
writes, and `labutils/exercises/hunts.py` reads.
"""

import difflib
import json
import tomllib
from pathlib import Path

from nbformat import NotebookNode

from grader.course.edits import edited, edits_of, without_markers
from grader.course.regions import BuildError, located
from labutils.exercises.hunts import ANSWERS, digest

__all__ = [
    "ANSWERS", "PLANTED", "answers", "described", "hashes", "lines_of", "plant", "planted_text", "read_planted",
    "released",
]  # fmt: skip

PLANTED = "planted"
"""The name of the mutant that is released."""


def plant(notebook: NotebookNode, unit: Path) -> None:
    """Put the released text of each hunt's cell into the cell's metadata, where the build takes it from."""
    for cell in notebook.cells:
        if exercise_id := cell.metadata.get("hunt"):
            with located(f"{unit.name}.py, cell {cell.id}"):
                cell.metadata.planted = planted_text(cell.source, read_planted(unit, exercise_id))


def read_planted(unit: Path, exercise_id: str) -> dict:
    """The table of a hunt's planted bug."""
    path = unit / "mutants" / f"{exercise_id.split('/')[-1]}.toml"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))[PLANTED]
    except (OSError, tomllib.TOMLDecodeError, KeyError) as problem:
        raise BuildError(f"{path.name} has no table [{PLANTED}]: {problem}") from None
    if not isinstance(table.get("cause"), str) or not edits_of(table):
        raise BuildError(f"{path.name}: [{PLANTED}] needs a cause, and an edit of the solution")
    return table


def planted_text(source: str, table: dict) -> str:
    """The text of a hunt's cell with the bug."""
    try:
        return edited(without_markers(source + "\n").removesuffix("\n"), edits_of(table))
    except ValueError as problem:
        raise BuildError(str(problem)) from None


def lines_of(source: str, table: dict) -> list[int]:
    """The numbers of the lines of the released cell, from 1, that may be named for the bug.

    They are the lines that differ from the solution's; where a line is missing, its two neighbors.
    """
    right = without_markers(source + "\n").removesuffix("\n").split("\n")
    wrong = planted_text(source, table).split("\n")
    found: set[int] = set()
    for tag, _, _, begin, end in difflib.SequenceMatcher(None, right, wrong, autojunk=False).get_opcodes():
        if tag != "equal":
            found |= set(range(begin, end)) if begin < end else {begin - 1, begin}
    for part in table.get("also", []):
        at = [n for n, line in enumerate(wrong) if part in line]
        if len(at) != 1:
            raise BuildError(f"also = {part!r} is part of {len(at)} lines, not of one")
        found |= set(at)
    return sorted(n + 1 for n in found)


def answers(notebook: NotebookNode, unit: Path) -> dict[str, tuple[list[int], str]]:
    """Lines and cause by hunt, of a source notebook."""
    tables = {cell.metadata.hunt: cell for cell in notebook.cells if cell.metadata.get("hunt")}
    found = {name: (cell, read_planted(unit, name)) for name, cell in tables.items()}
    return {name: (lines_of(cell.source, table), table["cause"]) for name, (cell, table) in found.items()}


def hashes(notebook: NotebookNode, unit: Path) -> dict[str, dict[str, list[str]]]:
    """What labutils keeps of the answers, by hunt."""
    return {
        name: {
            "lines": sorted(digest(name, "line", line) for line in lines),
            "cause": [digest(name, "cause", cause)],
        }
        for name, (lines, cause) in answers(notebook, unit).items()
    }


def described(notebook: NotebookNode, unit: Path) -> dict[str, str]:
    """What each bug was, by hunt: its line or lines as released, the cause, and the sentence of the mutant."""
    cells = {cell.metadata.hunt: cell for cell in notebook.cells if cell.metadata.get("hunt")}
    found = {}
    for name, (numbers, cause) in answers(notebook, unit).items():
        table = read_planted(unit, name)
        shown = cells[name].metadata.planted.split("\n")
        place = f"Line{'s' * (len(numbers) > 1)} {' or '.join(map(str, numbers))}"
        code = " … ".join(f"`{shown[number - 1].strip()}`" for number in numbers[:2])
        found[name] = f"{place}, {code}: {cause}. {table['why']}"
    return found


def released(found: dict[str, dict[str, list[str]]]) -> str:
    """The file of the hashes, a hunt a line."""
    rows = [f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(found.items())]
    return "{\n" + ",\n".join(rows) + "\n}\n"
