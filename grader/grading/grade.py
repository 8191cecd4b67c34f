"""Grade a class: submissions in; nbgrader's gradebook, feedback, a report and tables out.

    python -m grader grade UNIT --submissions DIR

Collect and repair → sanitize (nbgrader) → run and judge, on an engine → journal → record (nbgrader) → feedback, report,
exports. A submission that fails at any step gets 0 points and one sentence that says why; all others are graded. Each
result is in the journal first, so `--resume` can continue any run that ended early.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from grader import engines
from grader.course.regions import BuildError
from grader.execute.notebook import NotebookLimits
from grader.gradebook.gradebook import Course, GradebookError
from grader.gradebook.journal import DiskFull, Journal, JournalError, when
from grader.grading.marking import device_of, is_manual
from grader.grading.options import GradeOptions
from grader.grading.run import Clock, Run, Watcher
from grader.intake.collect import Unreadable, collect, lay_out
from grader.marks import late
from grader.marks.marks import sentence
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
    """Grade every submission of the unit in the folder `unit`; the course folder and the exports are made in `out`.

    `engine`: one that was opened before, in place of the one that `options` ask for; it is closed here. Raises what
    `said` turns into sentences: BuildError, GradebookError, JournalError, NoEngine, Unreadable, DiskFull.
    """
    options = options or GradeOptions()
    clock, begin = clock or Clock(), time.perf_counter()
    with contextlib.ExitStack() as stack:
        journal = stack.enter_context(contextlib.closing(Journal(out / "journal")))
        if journal.header and not journal.header["finished"] and not options.resume and not options.fresh:
            raise JournalError(
                f"The run of {when(journal.header)} in {out} is not finished: {len(journal.students())} submissions "
                "are done. --resume continues it, --fresh starts a new run."
            )
        # It imports while the class is collected.
        engine = engine or options.open_engine(out)
        stack.enter_context(contextlib.closing(engine))
        limits = options.limits or (FOR_FEEDBACK if options.marker is None else NotebookLimits())
        run = Run(Course(out / "course", unit.name), journal, out, options.marker, limits)
        run.release(unit, options.seed, options.resume)
        clock.step("release")
        handed_in = collect(submissions, unit.name, run.released, options.student)
        lay_out(handed_in, run.course.folder, unit.name)
        clock.step("collect and repair")
        todo = run.restore(handed_in, options.resume)
        clock.step("restore")
        run.work(engine, todo, watcher or Watcher(), clock, final=options.rules is None)
        run.add_absent(options.roster)
        run.close_books(options.rules)
        clock.step("record")
        try:
            # A run that was killed may leave half a page.
            run.course.feedback(missing=options.rules is None and not options.resume)
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


def exit_status(run: Callable[[], object]) -> int:
    """Grade; if that ends early, print why and how to continue. Returns the exit status."""
    go_on = "All results so far are saved; the same command with --resume continues."
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
