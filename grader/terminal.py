"""Grading as an instructor sees it in a terminal: a progress bar, a table, the places of the files."""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from grader.grade import Clock, grade
from grader.marks import marks_of
from grader.report import write
from grader.results import ClassResults, Graded


def grade_and_report(unit: Path, submissions: Path, out: Path, args) -> ClassResults:
    """Grade with a progress bar, write the reports, print the table."""
    console, clock = Console(), Clock()
    if not console.is_terminal:  # a log: nobody can make it wider
        console = Console(width=max(console.width, 150))
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    with bar:
        task = bar.add_task("grading", total=None)

        def progress(done: int, total: int, student: str) -> None:
            bar.update(task, total=total, completed=done)
            if args.verbose:
                bar.console.print(f"{done:3} of {total}  {student}", highlight=False)

        marker = marks_of if args.trust_notebooks else None
        results = grade(
            unit,
            submissions,
            out,
            seed=args.seed,
            workers=args.workers,
            marker=marker,
            progress=progress,
            clock=clock,
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
