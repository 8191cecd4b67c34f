"""Grading as an instructor sees it in a terminal: how it goes, a table, the places of the files."""

from __future__ import annotations

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
from grader.marks.late import Rules
from grader.marks.marks import marks_of
from grader.marks.results import ClassResults, Graded
from grader.reports.report import write

SLOW = 3
"""How many of the submissions that have been running longest are named."""
SAY_EVERY = 10.0
"""Seconds between two lines where there is no terminal to draw a bar in."""


class Progress(Watcher):
    """How many are done, how fast, how long it will take, and what takes long: a bar, or plain lines in a log."""

    def __init__(self, console: Console, verbose: bool, say_every: float = SAY_EVERY):
        self.console, self.verbose, self.say_every = console, verbose, say_every
        self.engine: Engine | None = None
        self.total = self.done = self.restored = 0
        self.began = self.said = time.monotonic()
        self._live = Live(console=console, transient=True, get_renderable=self.line, refresh_per_second=2)

    def begin(self, engine: Engine, total: int, done: int) -> None:
        self.engine, self.total, self.done, self.restored = engine, total, done, done
        self.began = self.said = time.monotonic()
        if done:
            self.console.print(f"{done} of {total} need no work.", highlight=False)

    def step(self, student: Graded) -> None:
        self.done += 1
        now = time.monotonic()
        if self.verbose:
            self.console.print(f"{self.done:3} of {self.total}  {student.student}", markup=False, highlight=False)
        elif not self.console.is_terminal and now - self.said >= self.say_every:
            self.said = now
            self.console.print(self.line(), soft_wrap=True)

    def line(self) -> Text:
        """12 of 60 · 0.8/s · 1:02 left · slowest: Ana Duarte 12 s"""
        if self.engine is None:
            return Text("getting ready")
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


def grade_and_report(unit: Path, submissions: Path, out: Path, args, engine: Engine | None = None) -> ClassResults:
    """Grade while showing how it goes, write the reports, print the table. `engine`: one that was opened before."""
    console, clock = Console(), Clock()
    if not console.is_terminal:  # a log: nobody can make it wider
        console = Console(width=max(console.width, 150))
    with Progress(console, args.verbose) as progress:
        results = grade(
            unit,
            submissions,
            out,
            seed=args.seed,
            workers=args.workers,
            marker=marks_of if args.trust_notebooks else None,
            backend=args.backend,
            engine=engine,
            resume=args.resume,
            fresh=args.fresh,
            rules=Rules.read(args.late) if args.late else None,
            watcher=progress,
            clock=clock,
            gpus=args.gpus,
            scheduler=args.scheduler,
            slurm=args.slurm,
        )
    files = write(results, out)
    clock.step("reports")
    wide = console.width >= 120
    console.print(table(results, wide))
    if not wide:
        for student in results.students:
            console.print(f"{student.student}: {student.what_happened()}", markup=False, highlight=False)
    console.print(_legend(results), highlight=False)
    for about, path in {
        "gradebook": out / "course" / "gradebook.db",
        "feedback": out / "course" / "feedback",
        **files,
    }.items():
        console.print(f"{about:<10} {_short(path)}", highlight=False, soft_wrap=True)
    if args.verbose:
        console.print("\nseconds: " + ", ".join(f"{name} {s:.1f}" for name, s in clock.steps.items()), highlight=False)
        times = sorted(((s.seconds, s.student) for s in results.students), reverse=True)
        console.print("notebooks: " + ", ".join(f"{name} {s:.1f}" for s, name in times), highlight=False)
    return results


def table(results: ClassResults, wide: bool = True) -> Table:
    """The class: a row for each student, a column for each exercise; if there is room, with what happened."""
    shown = Table(title=escape(f"{results.title} — {results.device}"), box=box.SIMPLE_HEAD, title_justify="left")
    shown.add_column("student", no_wrap=True)
    for check in results.checks:
        shown.add_column(check.name.replace("_", " "), overflow="fold")
    shown.add_column("marks", justify="right", no_wrap=True)
    if wide:
        shown.add_column("what happened", ratio=1, min_width=40)
    for student in results.students:
        cells = [escape(student.student), *_cells(student), _marks(student, results)]
        shown.add_row(*cells, *([escape(student.what_happened())] if wide else []))
    return shown


def _cells(student: Graded):
    for outcome in student.outcomes:
        yield "[green]✓[/]" if outcome.passed else f"[red]✗[/] {escape(outcome.kind)}"


def _marks(student: Graded, results: ClassResults) -> str:
    colour = "green" if student.marks >= results.points else "red" if student.marks == 0 else "yellow"
    return f"[{colour}]{student.marks:g}[/]/{results.points:g}"


def _legend(results: ClassResults) -> str:
    waiting = f" {results.manual:g} more for written answers, which a person grades." if results.manual else ""
    notes = "".join(f"\n{escape(note)}" for note in results.notes)
    return f"{len(results.students)} submissions in {results.seconds:.0f} s.{waiting}{notes}\n"


def _short(path: Path) -> str:
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
