"""`python -m grader judge NOTEBOOK`: judge one submission, or replay a recorded one."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from grader.judge import record, sandbox
from grader.judge.gpulock import GpuLock
from grader.judge.judge import HIDDEN_CASES, Judge
from grader.judge.seeds import draw_seed
from grader.judge.submission import NotJudged, Submission, read
from labutils import exercises
from labutils.spec.verdict import Verdict


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("notebook", type=Path, nargs="?", metavar="NOTEBOOK", help="a submission")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdict record to this file (-: terminal)")
    parser.add_argument("--replay", type=Path, metavar="RECORD", help="judge a recorded submission again")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the hidden cases; default: a secret one")
    parser.add_argument("--hidden", type=int, default=HIDDEN_CASES, metavar="N", help="hidden cases per exercise")


def main(args) -> int:
    if message := sandbox.warning():
        print(message, file=sys.stderr)
    if args.replay:
        return _replay(args.replay)
    if args.notebook is None:
        print("Name a notebook, or a record with --replay.", file=sys.stderr)
        return 2
    try:
        submission = read(args.notebook)
        ids = exercises_of(submission)
    except NotJudged as why:
        print(f"Not judged: {why}.")
        return 2
    judge = Judge(draw_seed() if args.seed is None else args.seed, args.hidden, gpu_lock=GpuLock())
    verdicts = judge.judge(submission, ids)
    report = record.of(submission, judge, verdicts)
    if args.json and str(args.json) == "-":
        print(json.dumps(report))
        return 0
    if args.json:
        args.json.write_text(json.dumps(report), encoding="utf-8")
    _show(verdicts)
    return 0


def exercises_of(submission: Submission) -> list[str]:
    """The exercises of the unit to which most checks of a notebook belong. Raises NotJudged if there are none."""
    known = exercises.all_exercises()
    found = [i for i in submission.checks if i in known]
    if not found:
        raise NotJudged("it contains no check of this course")
    unit = Counter(i.split("/")[0] for i in found).most_common(1)[0][0]
    return [i for i in known if i.split("/")[0] == unit]


def _replay(path: Path) -> int:
    try:
        recorded = json.loads(path.read_text(encoding="utf-8"))
        verdicts, differences = record.replay(recorded)
    except (OSError, ValueError, KeyError, TypeError) as e:
        print(f"{path} is not a verdict record ({type(e).__name__}).")
        return 2
    _show(verdicts)
    for difference in differences:
        print(difference)
    print("The verdicts differ from the record." if differences else "The verdicts match the record.")
    return 1 if differences else 0


def _show(verdicts: dict[str, Verdict]) -> None:
    for verdict in verdicts.values():
        print(verdict.text() + "\n")
    marks, points = (sum(getattr(v, name) for v in verdicts.values()) for name in ("marks", "points"))
    print(f"{marks:g} of {points:g} points")
