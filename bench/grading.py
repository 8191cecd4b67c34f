"""Grade a generated class on each engine and with stock `nbgrader autograde`: how much faster, and are marks equal?

    python -m bench.grading [--unit 00_start] [--count 60] [--engines local dask array] [--stock 12]
    python -m bench.grading --unit 06_elementwise_triton --gpus 1 2 4 [--count 60] [--stock 0] [--json FILE]

Ours is timed from the command to the written grade book and feedback, stock from the command to the grade book. Stock
grades one after another, so its time for a part of the class, drawn evenly, stands for the whole; the output says so.
With --gpus the local engine grades on each number of GPUs in turn. The array engine needs Slurm's commands; where they
are missing, `--stand-in` runs its workers as processes of this machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.submissions import UNIT, write_class

ROOT = Path(__file__).resolve().parents[1]
PLACES = ROOT / "bench" / "fake_slurm"


def grade(unit: str, submissions: Path, out: Path, *options: str, env: dict | None = None) -> dict:
    """Grade with our command: its seconds, each student's outcomes, how many were graded and not set aside."""
    line = [sys.executable, "-m", "grader", "grade", unit, "--submissions", str(submissions), "--out", str(out)]
    begin = time.perf_counter()
    done = subprocess.run([*line, "--verbose", *options], cwd=ROOT, env=env, capture_output=True, text=True)
    seconds = time.perf_counter() - begin
    if done.returncode:
        raise SystemExit(f"{' '.join(options)}: {done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    for said in done.stdout.splitlines():
        if said.startswith("seconds: "):
            print(f"    {said}", flush=True)
    students = json.loads((out / "grades.json").read_text(encoding="utf-8"))["students"]
    outcomes = {s["student"]: [_short(o) for o in s["outcomes"]] for s in students}
    graded = sum(not s["problem"] for s in students)
    return {"seconds": seconds, "graded": graded, "steady": steady(out), "outcomes": outcomes}


def steady(out: Path) -> float:
    """Submissions a second in the middle half of the class: what start and end of the command cost is not in it. NaN
    for a class of one."""
    times = sorted(path.stat().st_mtime for path in (out / "course" / "autograded").glob("*/*/*.ipynb"))
    first, last = len(times) // 4, 3 * len(times) // 4
    if first == last:
        return math.nan
    return (last - first) / (times[last] - times[first])


def stock(unit: str, submissions: Path, folder: Path, count: int, ours: Path) -> dict:
    """Grade `count` of the submissions, evenly chosen, with stock nbgrader."""
    course = folder / "stock"
    paths = sorted(submissions.glob("*.ipynb"))
    course.mkdir()
    shutil.copytree(ours / "course" / "source", course / "source")
    shutil.copy(ours / "course" / "gradebook.db", course)
    for path in [paths[k * len(paths) // count] for k in range(count)]:
        target = course / "submitted" / path.stem / unit / f"{unit}.ipynb"
        target.parent.mkdir(parents=True)
        shutil.copy(path, target)
    paths = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH")) if p)  # packages may come from there
    env = os.environ | {"PYTHONPATH": paths, "GPULAB_SEED": "1"}
    line = [sys.executable, "-m", "bench.stock_nbgrader", str(course), unit]
    done = subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def furthest(a: dict[str, list[dict]], b: dict[str, list[dict]]) -> float:
    """The largest difference between the marks of any exercise in two gradings; says where they differ."""
    if a.keys() != b.keys() or any(len(a[s]) != len(b[s]) for s in a):
        return float("inf")
    most = 0.0
    for student in a:
        for x, y in zip(a[student], b[student], strict=True):
            if apart := abs(x["marks"] - y["marks"]):
                print(f"    {student}, {x['name']}: {_said(x)}; first {_said(y)}")
            most = max(most, apart)
    return most


def _short(outcome: dict) -> dict:
    notes = (outcome["verdict"] or {}).get("notes", [])
    return {k: outcome[k] for k in ("name", "marks", "kind", "sentence")} | {"notes": notes}


def _said(outcome: dict) -> str:
    return f"{outcome['marks']:g} points {outcome['kind']} {outcome['sentence']}".strip()


def write(args: argparse.Namespace, workers: int | None, rows: list[dict]) -> None:
    """Write what was measured so far, with every mark: classes graded by two commands can be compared."""
    if args.json:
        said = {"unit": args.unit, "count": args.count, "workers": workers, "rows": rows}
        args.json.write_text(json.dumps(said), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.grading", description=__doc__.splitlines()[0])
    parser.add_argument("--unit", default=UNIT, help="one whose exercises give points for speed keeps GPUs busy")
    parser.add_argument("--count", type=int, default=60, metavar="N", help="submissions")
    parser.add_argument("--seed", type=int, default=1, help="draws the class")
    parser.add_argument("--engines", nargs="*", default=["local", "dask", "array"])
    parser.add_argument("--workers", type=int, help="by default one for each core; with --gpus what `grade` chooses")
    parser.add_argument("--stock", type=int, default=12, metavar="N", help="submissions for stock nbgrader; 0: none")
    parser.add_argument("--gpus", type=int, nargs="*", default=[], metavar="N", help="numbers of GPUs to compare")
    parser.add_argument("--stand-in", action="store_true", help="run the array's workers without Slurm")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    env = os.environ | ({"PATH": f"{PLACES}{os.pathsep}{os.environ['PATH']}"} if args.stand_in else {})
    rows: list[dict] = []
    with tempfile.TemporaryDirectory(prefix="bench-grading-") as name:
        folder = Path(name)
        write_class(folder / "submissions", args.count, args.seed, args.unit)
        workers = args.workers or (os.cpu_count() or 2 if not args.gpus else None)
        options = ["--workers", str(workers)] if workers else []
        runs = [(e, ["--executor", e, *options]) for e in args.engines if not args.gpus]
        runs += [(f"{n} GPUs", ["--gpus", str(n), *options]) for n in args.gpus]
        first = None
        for title, options in runs:
            out = folder / title.replace(" ", "_")
            run = grade(args.unit, folder / "submissions", out, "--seed", "7", *options, env=env)
            first = first or run | {"out": out}
            apart = furthest(run["outcomes"], first["outcomes"])
            faster = first["seconds"] / run["seconds"]
            rows.append({"engine": title, **run, "marks_apart": apart, "faster_than_first": faster})
            print(
                f"{title:10} {run['seconds']:7.1f} s  {run['graded'] / run['seconds']:6.2f} graded/s  "
                f"{faster:5.2f} × the first, marks at most {apart:.3g} apart; "
                f"in the middle half {run['steady']:.2f} graded/s, {run['steady'] / first['steady']:.2f} × the first",
                flush=True,
            )
            write(args, workers, rows)
        if args.stock and first:
            run = stock(args.unit, folder / "submissions", folder, min(args.stock, args.count), first["out"])
            rate = run["graded"] / run["seconds"]
            part = "" if args.stock >= args.count else f"; measured on {args.stock} of the {args.count}"
            print(
                f"stock      {run['seconds']:7.1f} s  {rate:6.2f} graded/s  "
                f"({run['graded']} graded, {run['not_graded']} not{part})"
            )
            for row in rows:
                row["times_stock"] = row["graded"] / row["seconds"] / rate
                print(f"{row['engine']:10} {row['times_stock']:5.1f} × the throughput of stock nbgrader")
            rows.append({"engine": "stock", **run})
            write(args, workers, rows)


if __name__ == "__main__":
    main()
