"""How long a learner waits for `lab.check`: every exercise's solution, cold and warm, on the machine at hand.

    python -m bench.checks

"Cold" is the first check in a fresh process with an empty compile cache, after the imports; "warm" the second one.
"""

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

BEST_MEDIAN_S, WORST_S = 3.0, 10.0
"""What a learner should wait at most: in the middle, and for the slowest exercise."""


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
    """Seconds that `import torch` takes, and what `import labutils` adds to it; medians of five processes."""
    code = "from time import perf_counter as t; a = t(); import torch; b = t(); import labutils; print(b - a, t() - b)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    both = [tuple(map(float, r.stdout.split())) for r in runs]
    return statistics.median(b[0] for b in both), statistics.median(b[1] for b in both)


def main() -> int:
    if len(sys.argv) == 3:
        one(*sys.argv[1:])
        return 0
    torch_s, ours_s = import_seconds()
    print(f"import torch {torch_s:.2f} s, import labutils {ours_s:.2f} s more\n")
    print(f"{'exercise':44} {'cold':>7} {'warm':>7}")
    cold, warm = [], []
    with tempfile.TemporaryDirectory() as folder:
        for task in all_exercises().values():
            path = Path(folder, f"{task.unit}.py")
            if not path.exists():
                path.write_text(solution_text(task.unit), encoding="utf-8")
            environment = os.environ | {"TRITON_CACHE_DIR": f"{folder}/{task.name}", "GPULAB_CACHE": f"{folder}/cache"}
            command = [sys.executable, "-m", "bench.checks", task.id, str(path)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            first, second = json.loads(done.stdout.splitlines()[-1])
            print(f"{task.id:44} {first:6.2f}s {second:6.2f}s", flush=True)
            cold.append(first)
            warm.append(second)
    print(
        f"\nmedian {statistics.median(cold):.2f} s cold, {statistics.median(warm):.2f} s warm; worst {max(cold):.2f} s"
    )
    return 0 if statistics.median(cold) <= BEST_MEDIAN_S and max(cold) <= WORST_S and ours_s <= 1.0 else 1


if __name__ == "__main__":
    sys.exit(main())
