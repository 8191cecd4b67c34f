"""Time every solution that has a benchmark size, beside the library and a plain copy of the same bytes.

    python -m bench [EXERCISE…] [--json FILE]

One run, one process, all competitors in turns: ratios are to be compared, not microseconds.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from bench.machine import present, versions
from grader.course.solutions import load, solution_text
from labutils.exercises import all_exercises
from labutils.exercises.hunts import is_hunt
from labutils.gpu import device
from labutils.spec.exercise import KernelExercise
from labutils.timing.benchmark import measure


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    parser.add_argument("exercises", nargs="*", help="ids or units; all by default")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    if not present("`python -m bench.checks` times the checks."):
        return 0
    figures, modules = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for task in wanted(arguments.exercises):
            if task.unit not in modules:
                path = Path(folder, f"{task.unit}.py")
                path.write_text(solution_text(task.unit), encoding="utf-8")
                modules[task.unit] = load(str(path))
            result = measure(task, getattr(modules[task.unit], task.entry))
            if result is None:
                print(f"{task.id}: no figure")
                figures.append({"exercise": task.id, "rows": None})
                continue
            print(result, end="\n\n", flush=True)
            figures.append(result.to_json())
    if arguments.json:
        arguments.json.write_text(json.dumps({"versions": versions(), "figures": figures}, indent=1), encoding="utf-8")
    return 0 if figures and all(f["rows"] for f in figures) else 1


def wanted(names: list[str]) -> list[KernelExercise]:
    """Kernel exercises with a benchmark size, of these ids or units; without names all but hunts, whose kernels are
    those of other exercises."""
    tasks = [t for t in all_exercises().values() if isinstance(t, KernelExercise) and t.bench]
    tasks = [t for t in tasks if names or not is_hunt(t.id)]
    return [t for t in tasks if device.runs(t.only) and (not names or t.id in names or t.unit in names)]


if __name__ == "__main__":
    sys.exit(main())
