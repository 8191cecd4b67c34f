"""Grading as an instructor sees it in a terminal: progress, a table of results, the paths of the files."""

from __future__ import annotations

import io
import time
from pathlib import Path

from rich import box
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from grader.engines import Engine
from grader.grading.grade import Clock, Watcher, grade
from grader.grading.options import GradeOptions
from grader.marks.late import Rules
from grader.marks.marks import marks_of
from grader.marks.results import ClassResults, Graded
from grader.reports.report import places

SLOW = 3
"""How many of the submissions that have been running longest are named."""
SAY_EVERY = 10.0
"""Seconds before the first line where there is no terminal to draw a bar in; each pause is twice the one before."""
LONGEST_PAUSE = 600.0

NOTABLE = 0.1
"""A stage that takes fewer seconds than this gets no line."""


class Progress(Watcher):
    """Submissions done, rate, time left, and the slowest ones: a progress bar, or plain lines in a log."""

    def __init__(self, console: Console, verbose: bool, clock: Clock, say_every: float = SAY_EVERY):
        self.console, self.verbose, self.clock, self.say_every = console, verbose, clock, say_every
        self.stages_shown = 0
        self.engine: Engine | None = None
        self.total = self.done = self.restored = 0
        self.began = self.last_line = time.monotonic()
        self._live = Live(console=console, transient=True, get_renderable=self.line, refresh_per_second=2)

    def begin(self, engine: Engine, total: int, done: int) -> None:
        self.stages()
        self.engine, self.total, self.done, self.restored = engine, total, done, done
        self.began = self.last_line = time.monotonic()
        if done:
            self.console.print(f"{done} of {total} are done already.", highlight=False)

    def step(self, student: Graded) -> None:
        self.done += 1
        now = time.monotonic()
        if self.verbose:
            self.console.print(f"{self.done:3} of {self.total}  {student.student}", markup=False, highlight=False)
        elif not self.console.is_terminal and now - self.last_line >= self.say_every:
            self.last_line, self.say_every = now, min(2 * self.say_every, LONGEST_PAUSE)
            self.console.print(self.line(), soft_wrap=True)

    def stages(self) -> None:
        """A line for each stage that is over and has none yet, with its seconds."""
        for name, seconds in list(self.clock.steps.items())[self.stages_shown :]:
            if seconds >= NOTABLE:
                self.console.print(f"{name:<16} {seconds:7.1f} s", highlight=False)
        self.stages_shown = len(self.clock.steps)

    def line(self) -> Text:
        """12 of 60 · 0.8/s · 1:02 left · slowest: Ana Duarte 12 s"""
        if self.engine is None:
            return Text("starting")
        seconds, new = time.monotonic() - self.began, self.done - self.restored
        parts = [f"{self.done} of {self.total}"]
        if new:
            rate = new / seconds
            left = round((self.total - self.done) / rate)
            parts += [f"{rate:.1f}/s" if rate >= 1 else f"{1 / rate:.1f} s each", f"{left // 60}:{left % 60:02} left"]
        slowest = sorted(self.engine.running().items(), key=lambda item: -item[1])[:SLOW]
        if slowest:
            parts.append("slowest: " + ", ".join(f"{student} {s:.0f} s" for student, s in slowest))
        return Text(" · ".join(parts))

    def __enter__(self) -> Progress:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_) -> None:
        self._live.stop()


def engine_options(args) -> dict:
    """Where a command line asks for the work to be done."""
    names = ("executor", "workers", "gpus", "scheduler")
    return {name: getattr(args, name) for name in names} | {"slurm": tuple(args.slurm), "encrypted": not args.no_tls}


def options_of(args) -> GradeOptions:
    """The options that a command line asks for. Raises LateError."""
    return GradeOptions(
        seed=args.seed,
        marker=marks_of if args.trust_notebooks else None,
        resume=args.resume,
        fresh=args.fresh,
        accept_changes=args.accept_changes,
        rules=Rules.read(args.late) if args.late else None,
        **engine_options(args),
    )


def grade_and_report(
    unit: Path,
    submissions: Path,
    out: Path,
    options: GradeOptions,
    verbose: bool = False,
    engine: Engine | None = None,
) -> ClassResults:
    """Grade while showing how it goes, print the table. `engine`: one that was opened before."""
    console, clock = Console(), Clock()
    progress = Progress(console, verbose, clock)
    with progress:
        results = grade(unit, submissions, out, options, engine=engine, watcher=progress, clock=clock)
    progress.stages()
    console.print()
    print_table(results, console)
    console.print(_legend(results), highlight=False, soft_wrap=True)
    files = places(out)
    tables = [files.pop("csv"), files.pop("json")]
    shown = {"gradebook": [out / "course" / "gradebook.db"], **{k: [path] for k, path in files.items()}}
    for about, paths in (shown | {"tables": tables}).items():
        console.print(f"{about:<10} {', '.join(map(_short, paths))}", highlight=False, soft_wrap=True)
    if verbose:
        times = sorted(((s.seconds, s.student) for s in results.students), reverse=True)
        console.print("\nnotebooks: " + ", ".join(f"{name} {s:.1f}" for s, name in times), highlight=False)
    return results


def print_table(results: ClassResults, console: Console) -> None:
    """The class: a row for each student, a column for each exercise, and what happened.

    In a terminal a row is one line and says no more than fits; elsewhere lines are as long as their sentences.
    """
    if console.is_terminal:
        bare = console.measure(table(results, room=0)).maximum
        console.print(table(results, room=max(console.width - bare, 0)))
        return
    paper = Console(width=10_000, color_system=None, file=io.StringIO())
    paper.print(table(results))
    lines = [line.rstrip() for line in paper.file.getvalue().splitlines()]
    console.print("\n".join(filter(None, lines)), soft_wrap=True, markup=False, highlight=False)


def table(results: ClassResults, room: int | None = None) -> Table:
    """The class as a table. With `room`, sentences are cut to so many characters, and an exercise is ✓, ✗ or, where
    nothing was written, –."""
    shown = Table(title=escape(f"{results.title} — {results.device}"), box=box.SIMPLE_HEAD, title_justify="left")
    shown.add_column("student", no_wrap=True)
    for check in results.checks:
        words = check.name.split("_")
        shown.add_column((" " if room is None else "\n").join(words))
    shown.add_column("marks", justify="right", no_wrap=True)
    shown.add_column("what happened"[:room], no_wrap=True)
    for student in results.students:
        happened = student.what_happened()
        if room is not None and len(happened) > room:
            happened = happened[: max(room - 1, 0)] + "…"[:room]
        cells = [*_cells(student, short=room is not None), _marks(student, results)]
        shown.add_row(escape(student.student), *cells, escape(happened))
    return shown


def _cells(student: Graded, short: bool):
    for outcome in student.outcomes:
        if outcome.passed:
            yield "[green]✓[/]"
        elif outcome.open:
            yield "[yellow]?[/]" if short else "[yellow]open[/]"
        elif short:
            yield "–" if outcome.kind == "unfilled" else "[red]✗[/]"
        else:
            yield f"[red]✗[/] {escape(outcome.kind)}"


def _marks(student: Graded, results: ClassResults) -> str:
    colour = "green" if student.marks >= results.points else "red" if student.marks == 0 else "yellow"
    return f"[{colour}]{student.marks:g}[/]/{results.points:g}"


def _legend(results: ClassResults) -> str:
    waiting = f" {results.manual:g} more points for written answers, which a person grades." if results.manual else ""
    notes = "".join(f"\n{escape(note)}" for note in results.notes)
    return f"{len(results.students)} submissions in {results.seconds:.0f} s.{waiting}{notes}"


def _short(path: Path) -> str:
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
