"""Holes: places of a new exercise that its author has still to fill (`python -m grader new` leaves them)."""

import re
from pathlib import Path

_HOLE = re.compile(r"HOLE: (.+)")


def registry_module(root: Path, unit: str) -> Path:
    """The module of `labutils/exercises/` that holds the exercises of a unit."""
    return root / "labutils" / "exercises" / f"{unit.partition('_')[2]}.py"


def holes(root: Path, unit: str) -> list[str]:
    """A sentence for each hole that is left in a unit: its source, its exercises, their mutants."""
    folder = root / "solutions" / unit
    files = [folder / f"{unit}.py", registry_module(root, unit), *sorted((folder / "mutants").glob("*.toml"))]
    found = []
    for path in files:
        lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
        for number, line in enumerate(lines, start=1):
            if hole := _HOLE.search(line):
                what = hole[1].strip().rstrip('."')
                found.append(f"{path.relative_to(root)}, line {number}: a hole is left to fill: {what}")
    return found
