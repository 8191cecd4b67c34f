"""Is a unit's solution right, and its reference? The solution must pass its own check, on small cases without a GPU.

A wrong solution and a wrong reference look alike from here: the two disagree, so the build says that and stops. What
passed is remembered by a hash of all that it depends on, so that an unchanged unit is not run again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import prod
from pathlib import Path

import labutils
from labutils import environment, exercises
from labutils.spec.exercise import Case, Exercise, KernelExercise

PROCESSES = 2
"""Units checked at a time; each process takes about 1 GB."""
UNIT_LIMIT = 600.0
"""Seconds for the units of one process."""
CASE_LIMIT = 60.0
"""Seconds for one case; the slowest honest one needs about two."""


def problems_of(units: Iterable[Path]) -> dict[str, list[str]]:
    """What is wrong with the solutions of the units in these folders: sentences by unit, none where all is well."""
    units = [unit for unit in units if _known(unit)]
    passed = _read_passed()
    hashes = {unit.name: _hash(unit) for unit in units}
    todo = [unit for unit in units if passed.get(unit.name) != hashes[unit.name]]
    found = {unit.name: [] for unit in units} | _in_processes(todo)
    green = {unit.name: hashes[unit.name] for unit in todo if not found[unit.name]}
    if green:
        _write_passed(passed | green)
    return found


def check_unit(unit: Path) -> list[str]:
    """Run the solution of every exercise of a unit here and now; what is wrong, in sentences."""
    from grader.course.solutions import load_text, module_text
    from grader.course.sources import source_notebook

    notebook = source_notebook(unit)
    wanted = [known for known in exercises.all_exercises().values() if f'"{known.id}"' in _checks(notebook)]
    if not wanted:
        return []
    with tempfile.TemporaryDirectory(prefix="grader-check-") as folder:
        try:
            module = load_text(module_text(notebook), folder)
        except Exception as problem:
            return [f"{unit.name}.py: the solution's cells do not run: {type(problem).__name__}: {problem}"]
        return [problem for known in wanted if (problem := _problem(known, getattr(module, known.entry, None)))]


def extent(case: Case) -> float:
    """The product of a case's sizes: how much work it is. Sizes that are texts or lists count for nothing."""
    return prod(n for n in case.sizes.values() if isinstance(n, (int, float)))


def smallest_cases(known: Exercise) -> tuple[Case, ...]:
    """The smallest case, and of a kernel the one that its notebook shows: one element alone proves little."""
    smallest = min(known.cases, key=extent)
    return (smallest, known.tiny) if isinstance(known, KernelExercise) else (smallest,)


def _problem(known: Exercise, function) -> str | None:
    from labutils.backends.emulator import Emulator
    from labutils.backends.interpreter import Interpreter
    from labutils.check.evaluate import evaluate

    backend = None
    if isinstance(known, KernelExercise):
        # Without targets nothing is compiled for a GPU, which takes longer than all the rest.
        backend = Interpreter(targets=()) if known.language == "triton" else Emulator(known.only)
    try:
        small = replace(known, cases=smallest_cases(known))
        verdict = evaluate(small, function, backend=backend, time_limit=CASE_LIMIT)
    except Exception as problem:  # such as a reference that raises
        return f"{known.id}: its check does not run: {type(problem).__name__}: {problem}"
    if verdict.passed or verdict.headline and verdict.headline.kind == "unavailable":  # no compiler here
        return None
    found = verdict.headline.symptom if verdict.headline else "no case was run"
    return f"{known.id}: its own check rejects the solution ({found}); the solution or the reference is wrong"


def _known(unit: Path) -> bool:
    """Does the unit check an exercise of the registry?"""
    text = (unit / f"{unit.name}.py").read_text(encoding="utf-8")
    return any(f'"{known}"' in text for known in exercises.all_exercises())


def _checks(notebook) -> str:
    """The texts of all check cells."""
    return "\n".join(c.source for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade"))


def _in_processes(units: list[Path]) -> dict[str, list[str]]:
    """Check units in processes without a GPU: this one may have chosen a GPU for Triton already."""
    if not units:
        return {}
    count = min(PROCESSES, len(units))
    with ThreadPoolExecutor(count) as pool:
        parts = pool.map(_in_process, (units[k::count] for k in range(count)))
        return {name: problems for part in parts for name, problems in part.items()}


def _in_process(units: list[Path]) -> dict[str, list[str]]:
    command = [sys.executable, "-m", __name__, *map(str, units)]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "Agg"},
            capture_output=True,
            text=True,
            timeout=UNIT_LIMIT,
        )
        return json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        why = f"took longer than {UNIT_LIMIT:g} seconds"
    except (IndexError, ValueError):
        why = "ended early: " + (done.stderr.strip().splitlines() or ["without a message"])[-1]
    return {unit.name: [f"{unit.name}.py: checking its solution {why}"] for unit in units}


# --- what passed before --------------------------------------------------------------------------------------------


def _hash(unit: Path) -> str:
    """Of everything that the check of a unit depends on: its source, labutils with the registry, this module."""
    found = hashlib.sha256((unit / f"{unit.name}.py").read_bytes())
    found.update(_shared_hash().encode())
    return found.hexdigest()


def _shared_hash() -> str:
    folder, found = Path(labutils.__file__).parent, hashlib.sha256(sys.version.encode())
    # no check reads the texts about solutions, nor translations
    unread = {folder / "study" / "walkthroughs.json", *(folder / "language").glob("*.json")}
    files = [p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts and p not in unread]
    for path in [Path(__file__), *sorted(files)]:
        found.update(str(path.relative_to(folder.parent)).encode() if path.is_relative_to(folder.parent) else b"")
        found.update(path.read_bytes())
    return found.hexdigest()


def _passed_file() -> Path:
    return environment.cache_folder() / "checked-solutions.json"


def _read_passed() -> dict[str, str]:
    try:
        passed = json.loads(_passed_file().read_text(encoding="utf-8"))
        return passed if isinstance(passed, dict) else {}
    except (OSError, ValueError):
        return {}


def _write_passed(passed: dict[str, str]) -> None:
    path = _passed_file()
    with contextlib.suppress(OSError):  # without a cache everything is checked again
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        partial.write_text(json.dumps(passed, indent=1), encoding="utf-8")
        partial.replace(path)


def main(folders: list[str]) -> None:
    """Check units in this process; the last line of the output is JSON: problems by unit."""
    units = [Path(folder) for folder in folders]
    found = {unit.name: check_unit(unit) for unit in units}
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
