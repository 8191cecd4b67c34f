"""The command `python -m grader grade`. This module imports almost nothing, so the engine's worker starts first and
imports in parallel with this process."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from grader import engines
from grader.course.place import ROOT
from grader.engines.importing import without_collections

if TYPE_CHECKING:
    from grader.intake.roster import Entry


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("unit", metavar="UNIT", help="the unit, such as 06_elementwise_triton")
    parser.add_argument("--submissions", type=Path, required=True, metavar="DIR", help="a folder or zip of submissions")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for gradebook and reports; default: out/UNIT")
    parser.add_argument("--resume", action="store_true", help="continue a run into this folder that ended early")
    parser.add_argument("--fresh", action="store_true", help="start a new run in place of the one in this folder")
    parser.add_argument("--yes", action="store_true", help="with --fresh: do not ask before a run is replaced")
    parser.add_argument(
        "--accept-changes", action="store_true", help="go on although the course's code or its packages changed"
    )
    parser.add_argument(
        "--roster", type=Path, metavar="FILE", help="CSV file of who takes the course (docs/instructors.md)"
    )
    parser.add_argument("--late", type=Path, metavar="FILE", help="rules for late submissions (grader/marks/late.py)")
    add_common_arguments(parser)


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of every verb that grades notebooks."""
    add_engine_arguments(parser)
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the hidden cases, as in an earlier run")
    parser.add_argument(
        "--trust-notebooks", action="store_true", help="take the points from the notebooks' own checks, not the judge"
    )
    parser.add_argument("--verbose", action="store_true", help="print the time of each step")


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """Where grading runs."""
    parser.add_argument("--executor", choices=engines.NAMES, default="local", help="where grading runs")
    # Its old name, which commands in use have; a backend is what runs a kernel.
    parser.add_argument(
        "--backend", dest="executor", choices=engines.NAMES, default=argparse.SUPPRESS, help=argparse.SUPPRESS
    )
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="submissions at a time; default: one per core, at most 8, or 4 per GPU with several GPUs, or one per core "
        "of a Dask cluster that runs already",
    )
    parser.add_argument("--gpus", type=int, metavar="N", help="use N of this machine's GPUs; default: all")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="dask: address of a running scheduler")
    parser.add_argument("--no-tls", action="store_true", help="dask, slurm: send jobs over the network in plain text")
    parser.add_argument(
        "--slurm",
        action="append",
        default=[],
        metavar="OPTION",
        help="slurm, array: option for sbatch, such as --slurm=--time=1:00:00",
    )


def main(args) -> int:
    if not args.submissions.exists():
        print(f"{args.submissions} is not a folder.")
        return 2
    out = args.out or ROOT / "out" / args.unit
    if args.fresh and not args.yes and not may_replace(out):
        return 1
    with contextlib.ExitStack() as stack:
        engine = None
        if args.executor == "local":
            engine = engines.open_engine("local", engines.workers_here(args.workers, args.gpus), gpus=args.gpus)
            stack.enter_context(contextlib.closing(engine))
        with without_collections():
            from grader.commands import progress
            from grader.course.sources import unit_names
            from grader.grading.grade import exit_status

        if args.unit not in unit_names(ROOT):
            print(f"There is no unit {args.unit!r}; there are {', '.join(unit_names(ROOT))}.")
            return 2
        unit = ROOT / "solutions" / args.unit

        def run():
            options = replace(progress.options_of(args), roster=_roster(args.roster))
            progress.grade_and_report(unit, args.submissions, out, options, args.verbose, engine)

        return exit_status(run)


def may_replace(out: Path, ask: Callable[[str], str] = input) -> bool:
    """Whether the run in `out` may be replaced, if there is one: a person says so."""
    entries = sum(1 for _ in (out / "journal" / "entries").glob("*.json"))
    if not entries:
        return True
    print(
        f"{out} holds a run with {entries} submissions. A new run grades everything again, and who is not among the "
        "submissions is removed, with the points that a person gave."
    )
    if not sys.stdin.isatty():
        print("Nothing was changed: --yes replaces it.")
        return False
    return ask("Replace it? Type yes: ").strip().lower() == "yes"


def _roster(path: Path | None) -> tuple[Entry, ...]:
    """Who takes the course: by the file given here, or by the one that the course's settings name."""
    from grader.course.settings import read_settings
    from grader.intake.roster import read_roster

    named = read_settings(ROOT).roster
    path = path or (ROOT / named if named else None)
    return tuple(read_roster(path)) if path else ()
