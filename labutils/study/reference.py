"""Figures of the reference solutions: data that `python -m grader figures` writes, without a line of the solutions."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from ..check.figures import Figures

PATH = Path(__file__).with_name("reference_figures.json")


@functools.cache
def stored() -> dict[str, Any]:
    """The file: "units" with a hash of each unit's solutions, "figures" by exercise."""
    return json.loads(PATH.read_text(encoding="utf-8"))


def of(exercise_id: str) -> Figures | None:
    """The figures of an exercise's reference solution, if it has any."""
    found = stored()["figures"].get(exercise_id)
    return Figures.from_json({"exercise": exercise_id, **found}) if found else None
