"""The walkthroughs as data, for `lab.walkthrough`: each solution, why it is written so, and a unit's model answers.

`solutions/UNIT/walkthroughs.toml` has a table for each exercise with a kernel:

    [vector_add]
    why = "…"               # why the solution is written this way
    production = "…"        # what libraries do
    tried = "…"             # what was slower or wrong

Together they have 60 to 150 words. A hunt's table has, in 30 to 90 words,

    evidence = "…"          # which case, count or picture shows the bug, and how it leads to the line
    practice = "…"          # how such a bug is found in practice

Line and cause are those of the planted bug. In both, `{claim: key}` is replaced by the claim's value, as in a notebook.
The code is the solution itself. Model answers are those in the written-answer cells of the unit's source.

`walkthroughs` in course.toml names the units whose walkthroughs learners get.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from grader.course.claims import filled, read_claims
from grader.course.hunts import described
from grader.course.mutants import answer
from grader.course.regions import SOLUTION, BuildError, find_regions, outside
from grader.course.settings import read_settings
from grader.course.sources import source_notebook
from labutils import exercises
from labutils.exercises import hunts
from labutils.spec.exercise import KernelExercise
from labutils.study.walkthroughs import HUNT_PARTS, PARTS

FILE = "walkthroughs.toml"

LEAST, MOST = 60, 150
"""Words of an exercise's text."""

HUNT_LEAST, HUNT_MOST = 30, 90
"""Words of a hunt's text."""


def texts(unit: Path) -> dict[str, dict[str, str]]:
    """The texts of a unit by exercise, with the values of claims. Raises BuildError with file and exercise."""
    claims = read_claims(unit.parent)
    found = {}
    for name, table in tables(unit).items():
        place = f"{unit.name}/{FILE}: {name}"
        if problem := _problem(f"{unit.name}/{name}", table):
            raise BuildError(f"{place} {problem}")
        found[name] = {
            part: filled(" ".join(table[part].split()), claims, place) for part in PARTS | HUNT_PARTS if part in table
        }
    if unit.name in hunts.UNITS:
        bugs = described(source_notebook(unit), unit)
        found = {name: {"bug": bugs[f"{unit.name}/{name}"], **parts} for name, parts in found.items()}
    return found


def tables(unit: Path) -> dict[str, dict[str, str]]:
    """The texts as the author wrote them. Raises BuildError for a file that is no TOML."""
    try:
        return tomllib.loads((unit / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as problem:
        raise BuildError(f"{unit.name}/{FILE}: {problem}") from None


def _problem(exercise_id: str, table) -> str:
    if exercise_id not in exercises.all_exercises():
        return "is no exercise of this unit"
    hunt = hunts.is_hunt(exercise_id)
    parts = [part for part in HUNT_PARTS if part != "bug"] if hunt else list(PARTS)
    if not isinstance(table, dict) or set(table) != set(parts):
        return f"must have {', '.join(parts)}"
    if not all(isinstance(text, str) and text.strip() for text in table.values()):
        return "must hold texts"
    count, (least, most) = words(table), (HUNT_LEAST, HUNT_MOST) if hunt else (LEAST, MOST)
    return "" if least <= count <= most else f"has {count} words, not {least} to {most}"


def words(table: dict[str, str]) -> int:
    """How many words a text has."""
    return sum(len(re.findall(r"\S+", text)) for text in table.values())


def questions(unit: Path) -> list[list[str]]:
    """The questions of a unit for a written answer, each with its model answer."""
    cells = (cell for cell in source_notebook(unit).cells if cell.metadata.get("nbgrader", {}).get("solution"))
    return [question(cell.source) for cell in cells if cell.cell_type == "markdown"]


def question(source: str) -> list[str]:
    """The question of a cell for a written answer, and its model answer."""
    regions = [region for region in find_regions(source, code=False) if region.kind == SOLUTION]
    model = "\n".join(line for region in regions for line in region.lines).strip()
    return [outside(source, regions).strip(), model]


def released(root: Path) -> str:
    """The file: the walkthroughs of all units that the course gives to learners, an exercise a line."""
    chosen = read_settings(root).walkthroughs
    rows, asked = [], []
    units = dict.fromkeys(e.unit for e in exercises.all_exercises().values())
    for unit in units:
        folder = root / "solutions" / unit
        if not (folder / f"{unit}.py").exists() or not ("all" in chosen or unit in chosen):
            continue
        known = texts(folder)
        for exercise in exercises.all_exercises().values():
            if exercise.unit == unit:
                name = exercise.id.split("/")[1]
                rows.append(_row(exercise.id, {"code": answer(exercise.id), **known.get(name, {})}))
        if pairs := questions(folder):
            asked.append(_row(unit, pairs))
    return '{\n "exercises": {' + ",".join(rows) + '\n },\n "questions": {' + ",".join(asked) + "\n }\n}\n"


def _row(name: str, value) -> str:
    return f"\n  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}"


def missing(root: Path) -> list[str]:
    """Exercises with a kernel that have no text."""
    known = {unit: texts(root / "solutions" / unit) for unit in {e.unit for e in exercises.all_exercises().values()}}
    kernels = (e for e in exercises.all_exercises().values() if isinstance(e, KernelExercise))
    return [e.id for e in kernels if e.id.split("/")[1] not in known[e.unit]]
