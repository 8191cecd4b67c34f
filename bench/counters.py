"""The emulator's counters beside those of the hardware, read by Nsight Compute, for every CUDA C++ solution.

    python -m bench.counters [EXERCISE…] [--json FILE]

Needs a CUDA GPU and `ncu`. Each solution runs its largest public case once; totals of the exercise's own kernels only.
"""

import argparse
import csv
import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import labutils as lab
from grader.course.solutions import load, solution_text
from labutils.exercises import all_exercises, get
from labutils.exercises.hunts import is_hunt
from labutils.gpu import device
from labutils.spec.exercise import KernelExercise
from labutils.spec.inputs import make_run

METRICS = {
    "global_load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
}
"""Our names and Nsight Compute's."""

SEED = 11


def ncu() -> str | None:
    """The profiler's path, if it is here."""
    return shutil.which("ncu") or next((str(p) for p in Path("/usr/local").glob("cuda*/bin/ncu")), None)


def cuda_exercises(names=()) -> list[KernelExercise]:
    tasks = [t for t in all_exercises().values() if isinstance(t, KernelExercise) and t.language == "cuda"]
    tasks = [t for t in tasks if names or not is_hunt(t.id)]
    return [t for t in tasks if not names or t.id in names or t.unit in names]


def launch(task: KernelExercise, path: str):
    """The solution of an exercise, and the arguments of its largest public case."""
    case = max(task.cases, key=lambda c: task.cost(c.sizes, 4).bytes)
    run = make_run(task, case, SEED, "cuda")
    return getattr(load(path), task.entry), run.arguments


def emulated(task: KernelExercise, path: str) -> tuple[dict[str, int], list[str]]:
    """The emulator's totals, and the names of the kernels in the order of their launches."""
    fn, arguments = launch(task, path)
    with lab.record() as r:
        fn(*arguments)
    return {k: r.totals()[k] for k in METRICS}, r.launches


def measured(solutions: dict[str, str]) -> list[tuple[str, dict[str, int]]]:
    """(kernel name, counters) of every launch of these solutions (exercise -> file), in order, by the hardware.

    All run in one process under the profiler. Raises RuntimeError with the profiler's words.
    """
    command = [ncu(), "--csv", "--metrics", ",".join(METRICS.values()), "--clock-control", "none"]
    command += [sys.executable, "-m", "bench.counters", "--run", json.dumps(solutions)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    start = done.stdout.find('"ID"')
    if start < 0:
        raise RuntimeError(f"ncu gave no table: {(done.stdout + done.stderr).strip()[-300:]}")
    ours = {v: k for k, v in METRICS.items()}
    launches: dict[int, tuple[str, dict[str, int]]] = {}
    for row in csv.DictReader(io.StringIO(done.stdout[start:])):
        _, counters = launches.setdefault(int(row["ID"]), (row["Kernel Name"], {}))
        counters[ours[row["Metric Name"]]] = round(float(row["Metric Value"].replace(",", "")))
    return [launches[number] for number in sorted(launches)]


def compare(tasks: list[KernelExercise]) -> list[dict]:
    """A row for each exercise and counter: ours and the hardware's."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {task.id: str(Path(folder, f"{task.unit}.py")) for task in tasks}
        for unit in {task.unit for task in tasks}:
            Path(folder, f"{unit}.py").write_text(solution_text(unit), encoding="utf-8")
        ours = {task.id: emulated(task, paths[task.id]) for task in tasks}
        seen = iter(measured(paths))
    rows = []
    for task in tasks:
        totals, theirs = ours[task.id][0], Counter()
        for kernel in ours[task.id][1]:  # what else is launched between them is PyTorch's
            theirs.update(next(c for name, c in seen if re.search(rf"\b{re.escape(kernel)}\b", name)))
        rows += [
            {"exercise": task.id, "counter": k, "emulator": totals[k], "hardware": theirs[k]}
            for k in METRICS
            if totals[k] or theirs[k]
        ]
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.counters", description=__doc__.splitlines()[0])
    parser.add_argument("exercises", nargs="*")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--run", metavar="SOLUTIONS", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        import torch

        for exercise_id, path in json.loads(arguments.run).items():
            fn, values = launch(get(exercise_id), path)
            fn(*values)
        torch.cuda.synchronize()
        return 0
    if not device.has_gpu() or ncu() is None:
        print("This comparison needs a CUDA GPU and Nsight Compute (ncu).")
        return 0
    rows = compare(cuda_exercises(arguments.exercises))
    for r in rows:
        mark = "=" if r["emulator"] == r["hardware"] else "≠"
        print(f"{r['exercise']:40} {r['counter']:24} {r['emulator']:>10} {mark} {r['hardware']:>10}")
    same = sum(r["emulator"] == r["hardware"] for r in rows)
    print(f"{same} of {len(rows)} totals identical ({same / max(len(rows), 1):.1%})")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0 if same >= 0.97 * len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
