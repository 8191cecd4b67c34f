"""Grade a class: submissions in, nbgrader's grade book, feedback, a report and tables out.

    python -m grader grade UNIT --submissions DIR

Collect and mend → sanitize (nbgrader) → run and judge, on an engine → journal → record (nbgrader) → feedback, report,
exports. A submission that fails at any step costs its own marks, is said in one sentence, and stops nobody else. What
the engine gave is in the journal before it is anywhere else, so that `--resume` continues a run that ended anyhow.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from grader import engines, late
from grader.build import ROOT, unit_names
from grader.collect import Unreadable, collect, lay_out
from grader.execute.notebook import Limits
from grader.gradebook import Course, GradebookError
from grader.journal import DiskFull, Journal, JournalError, when
from grader.marking import Marker, device_of, is_manual
from grader.marks import sentence
from grader.regions import BuildError
from grader.results import ClassResults
from grader.run import Clock, Run, Watcher

FOR_FEEDBACK = Limits(cell=30, notebook=300)
"""Of a notebook from which no marks come; nbgrader gives a cell as long."""


def grade(
    unit: Path,
    submissions: Path,
    out: Path,
    *,
    seed: int | None = None,
    workers: int | None = None,
    limits: Limits | None = None,
    marker: Marker | None = None,
    backend: str = "local",
    resume: bool = False,
    fresh: bool = False,
    rules: late.Rules | None = None,
    watcher: Watcher | None = None,
    clock: Clock | None = None,
    **options,
) -> ClassResults:
    """Grade every submission of the unit in the folder `unit`; the course folder and the exports are made in `out`.

    The marks of an exercise come from the judge. `marker` takes its place: it turns an executed check cell into marks,
    as `marks_of` does for a course that trusts what its students' notebooks show. `options` go to the engine. Raises
    what `main` turns into sentences: BuildError, GradebookError, JournalError, NoEngine, Unreadable, DiskFull.
    """
    clock, begin = clock or Clock(), time.perf_counter()
    with contextlib.ExitStack() as stack:
        journal = stack.enter_context(contextlib.closing(Journal(out / "journal")))
        if journal.header and not journal.header["finished"] and not resume and not fresh:
            raise JournalError(
                f"The run of {when(journal.header)} in {out} is not finished: {len(journal.students())} submissions "
                "are done. --resume goes on where it ended, --fresh begins anew."
            )
        # It imports while the class is collected.
        workers = engines.workers_here(workers)
        engine = stack.enter_context(contextlib.closing(engines.open_engine(backend, workers, out=out, **options)))
        limits = limits or (FOR_FEEDBACK if marker is None else Limits())
        run = Run(Course(out / "course", unit.name), journal, out, marker, limits)
        run.release(unit, seed, resume)
        clock.step("release")
        handed_in = collect(submissions, unit.name, run.released)
        lay_out(handed_in, run.course.folder, unit.name)
        clock.step("collect and mend")
        todo = run.restore(handed_in, resume)
        clock.step("restore")
        run.work(engine, todo, watcher or Watcher(), clock)
        run.close_books(rules)
        clock.step("record")
        try:
            run.course.feedback()
        except GradebookError as problem:  # the marks are in; the reports need no feedback pages
            run.notes.append(sentence(str(problem)))
        journal.finish()
        clock.step("feedback")
    release = run.released
    return ClassResults(
        unit=unit.name,
        title=release.cells[0].source.split("\n", 1)[0].lstrip("# "),
        checks=run.checks,
        students=list(run.students.values()),
        device=device_of(run.students.values()),
        seed=journal.header["seed"],
        when=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        seconds=round(time.perf_counter() - begin, 1),
        notes=run.notes,
        manual=sum(c.metadata.nbgrader.points for c in release.cells if is_manual(c)),
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("unit", metavar="UNIT", help="the unit, such as 06_elementwise_triton")
    parser.add_argument(
        "--submissions", type=Path, required=True, metavar="DIR", help="a folder or a zip of what was handed in"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="grade book and reports; by default out/UNIT")
    parser.add_argument("--resume", action="store_true", help="go on where the last run into this folder ended")
    parser.add_argument("--fresh", action="store_true", help="begin anew although the last run did not end")
    parser.add_argument("--late", type=Path, metavar="FILE", help="what handing in late costs (grader/late.py)")
    add_common_arguments(parser)


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of every verb that grades."""
    parser.add_argument("--backend", choices=engines.NAMES, default="local", help="where the work is done")
    parser.add_argument("--workers", type=int, metavar="N", help="submissions at a time; by default one for each core")
    parser.add_argument("--gpus", type=int, metavar="N", help="use N of this machine's GPUs; by default all")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="dask: of a scheduler that runs already")
    parser.add_argument(
        "--slurm",
        action="append",
        default=[],
        metavar="OPTION",
        help="slurm, array: for sbatch, as --slurm=--time=1:00:00",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="draw the hidden cases of an earlier run again")
    parser.add_argument(
        "--trust-notebooks", action="store_true", help="marks from the notebooks' own checks, without the judge"
    )
    parser.add_argument("--verbose", action="store_true", help="say where the time goes")


def main(args) -> int:
    from grader import terminal

    if args.unit not in unit_names(ROOT):
        print(f"There is no unit {args.unit!r}; there are {', '.join(unit_names(ROOT))}.")
        return 2
    if not args.submissions.exists():
        print(f"{args.submissions} is not a folder.")
        return 2
    out = args.out or ROOT / "out" / args.unit
    return said(lambda: terminal.grade_and_report(ROOT / "solutions" / args.unit, args.submissions, out, args))


def said(run: Callable[[], object]) -> int:
    """Grade; whatever ends it early is said in a sentence, with the way to go on. Returns the exit status."""
    go_on = "What is graded is safe; the same command with --resume goes on."
    with contextlib.suppress(ValueError):  # only the main thread hears signals
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run()
    except (BuildError, GradebookError, JournalError, Unreadable, engines.NoEngine, late.LateError) as problem:
        print(problem)
        return 1
    except DiskFull as where:
        print(f"The disk is full: {where}. {go_on}")
        return 1
    except KeyboardInterrupt:
        print(f"\nStopped. {go_on}")
        return 130
    return 0
