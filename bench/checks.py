"""How long a learner waits for `lab.check`: every exercise's solution, cold and warm, on the machine at hand.

    python -m bench.checks [UNIT …]

"Cold" is the first check in a fresh process with an empty compile cache, after the imports; "warm" the second one. Ends
with status 1 where something takes longer than `MOST`, on a machine without a GPU.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from grader.course.solutions import load, solution_text
from labutils.check.evaluate import evaluate
from labutils.exercises import all_exercises, get

IMPORT_S = 0.3
MOST = {"triton": (1.0, 5.0), "cuda": (0.3, 5.0), "python": (0.3, 5.0)}
"""Seconds for `import labutils`, and by language for a warm check: in the middle, and for the slowest exercise."""


def one(exercise_id: str, path: str) -> None:
    """In a process of its own: print the seconds of the first and of the second check."""
    task = get(exercise_id)
    fn, times = getattr(load(path), task.entry), []
    for _ in range(2):
        begin = perf_counter()
        verdict = evaluate(task, fn)
        times.append(perf_counter() - begin)
        assert verdict.passed, verdict.text()
    print(json.dumps(times))


def import_seconds() -> tuple[float, float]:
    """Seconds that `import labutils` takes, and `import torch` after it; medians of five processes."""
    code = "from time import perf_counter as t; a = t(); import labutils; b = t(); import torch; print(b - a, t() - b)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    both = [tuple(map(float, r.stdout.split())) for r in runs]
    return statistics.median(b[0] for b in both), statistics.median(b[1] for b in both)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.checks", description=__doc__.splitlines()[0])
    parser.add_argument("units", nargs="*", metavar="UNIT", help="by default all")
    parser.add_argument("--one", nargs=2, metavar=("EXERCISE", "FILE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        one(*args.one)
        return 0
    ours_s, torch_s = import_seconds()
    print(f"import labutils {ours_s:.2f} s, import torch {torch_s:.2f} s more\n")
    print(f"{'exercise':44} {'cold':>7} {'warm':>7}")
    cold: dict[str, list[float]] = {}
    warm: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for task in all_exercises().values():
            if args.units and task.unit not in args.units:
                continue
            path = Path(folder, f"{task.unit}.py")
            if not path.exists():
                path.write_text(solution_text(task.unit), encoding="utf-8")
            environment = os.environ | {"TRITON_CACHE_DIR": f"{folder}/{task.name}", "GPULAB_CACHE": f"{folder}/cache"}
            command = [sys.executable, "-m", "bench.checks", "--one", task.id, str(path)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            first, second = json.loads(done.stdout.splitlines()[-1])
            print(f"{task.id:44} {first:6.2f}s {second:6.2f}s", flush=True)
            language = getattr(task, "language", "python")
            cold.setdefault(language, []).append(first)
            warm.setdefault(language, []).append(second)
    print()
    slow = ours_s > IMPORT_S
    for language, times in warm.items():
        middle, worst = statistics.median(times), max(times)
        print(
            f"{language:7} {len(times):4} exercises, median {statistics.median(cold[language]):.2f} s cold, "
            f"{middle:.2f} s warm; worst {max(cold[language]):.2f} s cold, {worst:.2f} s warm"
        )
        slow |= middle > MOST[language][0] or worst > MOST[language][1]
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
