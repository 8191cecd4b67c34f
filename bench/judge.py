"""How well the judge's clock tells: `python -m bench.judge [--races N] [--json FILE]`; needs a GPU.

A reference solution against itself, and against the same with 5 % more to do. The first should come out within 1 %,
the second should be told apart, each in at least 95 of 100 races. Then how long it takes to judge whole units, and how
far the marks of one submission differ from grading to grading.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import replace
from pathlib import Path

from bench.machine import present
from grader.course.sources import ROOT, source_notebook
from grader.judge import gpu, speed
from grader.judge.judge import Judge
from grader.judge.submission import Submission
from labutils import exercises

RACED = ("06_elementwise_triton/gelu", "07_elementwise_cuda/gelu", "10_warp_reduction/row_sum")
UNITS = ("06_elementwise_triton", "07_elementwise_cuda", "09_shared_memory")


def competitor(judge: Judge, task_id: str, more: float):
    """The solution's plan and kernels at the timed size, with the largest dimension so many times as large."""
    known = exercises.get(task_id)
    case = speed.timed_case(known)
    largest = max(case.sizes, key=case.sizes.get)
    case = replace(case, sizes={**case.sizes, largest: int(case.sizes[largest] * more) // 64 * 64})
    return judge.gpu.plan_reference(known, case)


def races(judge: Judge, task_id: str, kinds: list[str], count: int) -> dict:
    same, more = competitor(judge, task_id, 1.0), competitor(judge, task_id, 1.05)
    runner = gpu.Runner()
    found: dict[str, list[dict]] = {}
    begin = time.perf_counter()
    try:
        arrays = judge.gpu.drawn(runner, more.exercise, more.task.timed, seed=1, count=3)
        for kind in kinds:
            a, found[kind] = {"same": same, "slower": more}[kind], []
            for _ in range(count):
                told = judge.gpu.race(runner, arrays, a.timed_plan, same.timed_plan)
                found[kind].append(vars(speed.beside(told["seconds"]["a"], told["seconds"]["b"])))
            each = (time.perf_counter() - begin) / sum(map(len, found.values()))
            print(f"{task_id}, {kind}: {said(kind, found[kind])}; {each:.2f} s each", flush=True)
    finally:
        runner.close()
    return {"exercise": task_id, **found}


def said(kind: str, races: list[dict]) -> str:
    if kind == "same":
        return f"within 1 % in {sum(abs(r['value'] - 1) <= 0.01 for r in races)} of {len(races)}"
    middle = statistics.median(r["value"] for r in races)
    return f"told apart in {sum(r['low'] > 1.0 for r in races)} of {len(races)} (median ratio {middle:.3f})"


def units(judge: Judge, names: list[str], repeats: int) -> list[dict]:
    told = []
    for unit in names:
        submission = Submission.of(source_notebook(ROOT / "solutions" / unit))
        ids = [i for i in exercises.all_exercises() if i.startswith(unit)]
        for k in range(repeats):
            begin = time.perf_counter()
            judge.spent.clear()
            verdicts = judge.judge(submission, ids)
            seconds = time.perf_counter() - begin
            marks = {i: v.marks for i, v in verdicts.items()}
            ratios = {i: round(v.timing["ratio"], 4) for i, v in verdicts.items() if v.timing}
            told.append({"unit": unit, "seconds": seconds, "marks": marks, "ratios": ratios})
            if k < 2:
                print(f"{unit}: {len(ids)} exercises judged in {seconds:.1f} s{' (with start-up)' if k == 0 else ''}")
                print("  " + ", ".join(f"{what} {s:.1f} s" for what, s in judge.spent.items()))
                for v in verdicts.values():
                    if not v.passed:
                        print(v.text())
        spread = {
            i: max(t["marks"][i] for t in told if t["unit"] == unit)
            - min(t["marks"][i] for t in told if t["unit"] == unit)
            for i in ids
        }
        print(f"  marks differ by at most {max(spread.values()):.2f} points in {repeats} gradings")
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--races", type=int, default=100)
    parser.add_argument("--kinds", nargs="*", default=["same", "slower"], choices=["same", "slower"])
    parser.add_argument("--raced", nargs="*", default=RACED, metavar="EXERCISE")
    parser.add_argument("--units", nargs="*", default=UNITS, metavar="UNIT")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if not present():
        return
    judge = Judge(seed=int(time.time()))
    told = {
        "units": units(judge, args.units, args.repeats),
        "races": [races(judge, i, args.kinds, args.races) for i in args.raced],
    }
    if args.json:
        args.json.write_text(json.dumps(told))


if __name__ == "__main__":
    main()
