"""Grade a class: submissions in; nbgrader's gradebook, feedback, a report and tables out.

    python -m grader grade UNIT --submissions DIR

Collect and repair → sanitize (nbgrader) → run and judge, on an engine → journal → record (nbgrader) → feedback, report,
exports. A submission that fails at any step gets 0 points and one sentence that says why; all others are graded. Each
result is in the journal first, so `--resume` can continue any run that ended early. A folder with a finished run gets
what is new or changed; what it has stays.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from grader import engines
from grader.course.regions import BuildError
from grader.execute.notebook import NotebookLimits
from grader.gradebook.gradebook import Course, GradebookError
from grader.gradebook.journal import DiskFull, Journal, JournalError, when
from grader.gradebook.provenance import named
from grader.grading.derive import rebuild
from grader.grading.options import GradeOptions
from grader.grading.run import Clock, Run, Watcher
from grader.intake.collect import Unreadable, collect
from grader.marks import late
from grader.marks.results import ClassResults

FOR_FEEDBACK = NotebookLimits(cell=30, notebook=300)
"""Limits for a notebook that gives no points; nbgrader's limit for a cell is the same."""


def grade(
    unit: Path,
    submissions: Path,
    out: Path,
    options: GradeOptions | None = None,
    *,
    engine: engines.Engine | None = None,
    watcher: Watcher | None = None,
    clock: Clock | None = None,
) -> ClassResults:
    """Grade every submission of the unit in the folder `unit`; gradebook, tables and pages are made in `out`.

    `engine`: one that was opened before, in place of the one that `options` ask for; it is closed here. Raises what
    `said` turns into sentences: BuildError, GradebookError, JournalError, NoEngine, Unreadable, DiskFull.
    """
    options = options or GradeOptions()
    clock, begin, started = clock or Clock(), time.perf_counter(), datetime.now(UTC)
    with contextlib.ExitStack() as stack:
        journal = stack.enter_context(contextlib.closing(Journal(out / "journal")))
        journal.belongs_to(unit.name)
        if not options.fresh:
            _refuse_unfinished(journal, out, options.resume)
        # It imports while the class is collected.
        engine = engine or options.open_engine(out)
        stack.enter_context(contextlib.closing(engine))
        limits = options.limits or (FOR_FEEDBACK if options.marker is None else NotebookLimits())
        run = Run(Course(out / "course", unit.name), journal, out, options.marker, limits)
        run.release(unit, options)
        clock.step("release")
        shelf = stack.enter_context(_shelf(out))
        handed_in = collect(submissions, unit.name, run.released, options.student, shelf)
        run.accept(handed_in, options.roster)
        del handed_in
        clock.step("collect and repair")
        todo = run.restore()
        clock.step("restore")
        run.work(engine, todo, watcher or Watcher(), clock, final=not journal.header["late"])
        run.add_absent(options.roster)
        run.forget_students()
        now, seconds = started.strftime("%Y-%m-%d %H:%M UTC"), round(time.perf_counter() - begin, 1)
        results = rebuild(out, journal, run.books, when=now, seconds=seconds)
        clock.step("gradebook and reports")
    return results


@contextlib.contextmanager
def _shelf(out: Path) -> Iterator[Path]:
    """A folder for notebooks between collecting and the course. What a crash left in it is removed."""
    shelf = out / "collected"
    shutil.rmtree(shelf, ignore_errors=True)
    try:
        yield shelf
    finally:
        shutil.rmtree(shelf, ignore_errors=True)


def _refuse_unfinished(journal: Journal, out: Path, resume: bool) -> None:
    """Raises JournalError if the last run did not end, unless it is to be continued."""
    header = journal.header
    if header is None or header["finished"]:
        return
    if again := header.get("regrade"):
        raise JournalError(
            f"Grading {named(again['exercises'])} again is not finished in {out}: the same `regrade` command goes on."
        )
    if not resume:
        raise JournalError(
            f"The run of {when(header)} in {out} is not finished: {len(journal.students())} submissions are done. "
            "--resume continues it, --fresh starts a new run."
        )


def exit_status(run: Callable[[], object], how: str = "the same command with --resume continues") -> int:
    """Grade; if that ends early, print why and how to continue. Returns the exit status."""
    go_on = f"All results so far are saved; {how}."
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
