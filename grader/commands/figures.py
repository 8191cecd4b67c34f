"""`python -m grader figures [UNIT …]`: measure what the solutions' kernels do, for `lab.explain` to compare with.

The figures are data of labutils, counts and properties of machine code, without a line of a solution. A unit is
measured again when its solutions have changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile

from grader.course.solutions import load_text, solution_text
from labutils import exercises
from labutils.check import figures
from labutils.check.evaluate import PUBLIC_SEED
from labutils.gpu import device
from labutils.spec.exercise import KernelExercise
from labutils.study import reference


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("units", nargs="*", help="measure only these units, whether or not they have changed")


def main(args: argparse.Namespace) -> int:
    if device.has_gpu():
        print("Set TRITON_INTERPRET=1: the figures are counted without a GPU.")
        return 2
    known = json.loads(reference.PATH.read_text(encoding="utf-8")) if reference.PATH.exists() else {}
    known = {"units": {}, "figures": {}} | known
    todo = args.units or stale(known)
    failed = []
    for unit in todo:
        found, problems = measure(unit)
        failed += problems
        for line in (f"{unit}: {len(found)} exercises", *problems):
            print(line, flush=True)
        if problems:
            continue
        others = {name: f for name, f in known["figures"].items() if name.split("/")[0] != unit}
        known = {"units": {**known["units"], unit: fingerprint(unit)}, "figures": others | found}
        write(known)
    return 1 if failed else 0


def kernels() -> dict[str, list[KernelExercise]]:
    """The exercises with a kernel, by unit."""
    found: dict[str, list[KernelExercise]] = {}
    for exercise in exercises.all_exercises().values():
        if isinstance(exercise, KernelExercise):
            found.setdefault(exercise.unit, []).append(exercise)
    return found


def stale(known: dict) -> list[str]:
    """Units whose solutions, or the cases that are counted, are not those of the stored figures."""
    return [unit for unit in kernels() if known["units"].get(unit) != fingerprint(unit)]


def fingerprint(unit: str) -> str:
    """Changes with a unit's solutions and with the cases that are counted."""
    cases = [(e.id, repr(figures.counted_case(e))) for e in kernels()[unit]]
    return hashlib.sha256(json.dumps([solution_text(unit), cases]).encode()).hexdigest()[:16]


def measure(unit: str) -> tuple[dict[str, dict], list[str]]:
    """Figures by exercise, and what went wrong, in sentences."""
    found, problems = {}, []
    with tempfile.TemporaryDirectory(prefix="grader-figures-") as folder:
        module = load_text(solution_text(unit), folder)
        for exercise in kernels()[unit]:
            try:
                made = figures.figures(exercise, getattr(module, exercise.entry), PUBLIC_SEED)
            except figures.NoFigures as e:
                problems.append(f"{exercise.id}: {e}")
                continue
            if made.notes:
                problems.append(f"{exercise.id}: {made.notes[0]}")
            found[exercise.id] = compact(made)
    return found, problems


def compact(made: figures.Figures) -> dict:
    """What is stored: lines would show how the solution is written."""
    whole = made.to_json()
    return {name: whole[name] for name in ("case", "counts", "code", "work")}


def write(known: dict) -> None:
    """Sorted, an exercise a line, so that a difference shows which ones changed."""
    parts = [
        '{\n"units": {\n' + ",\n".join(_row(*item) for item in sorted(known["units"].items())),
        '},\n"figures": {\n' + ",\n".join(_row(*item) for item in sorted(known["figures"].items())),
    ]
    reference.PATH.write_text("\n".join(parts) + "\n}\n}\n", encoding="utf-8")


def _row(name: str, value) -> str:
    return f"  {json.dumps(name)}: {json.dumps(value)}"
