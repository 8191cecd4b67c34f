"""Everything that a graded class shows, made from its journal: gradebook, tables, pages.

`rebuild` can be repeated at any time and gives the same again, so whatever a crash left behind, the next command that
grades heals. `python -m grader verify OUT --repair` does nothing else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from grader.gradebook.gradebook import Course, GradebookError
from grader.gradebook.journal import Journal, JournalError
from grader.grading.bookkeeper import Bookkeeper
from grader.grading.marking import device_of
from grader.intake.collect import alphabetical
from grader.marks import late
from grader.marks.marks import sentence
from grader.marks.results import Check, ClassResults, Graded
from grader.marks.students import Students
from grader.reports import report


def rules_in(journal: Journal) -> late.Rules | None:
    """The late rules of a run; None if it has none."""
    text = journal.header["late"]
    return late.Rules.parse(text) if text else None


def results_of(journal: Journal, students: Iterable[Graded] | None = None) -> ClassResults:
    """The results of the class, from the journal alone. `findings` are left out: they come from the submissions.
    `students`: those of the journal's entries, if they have been read."""
    header = journal.the_run()
    if students is None:
        students = (Graded.from_json(e["graded"]) for e in journal.entries())
    rules = rules_in(journal)
    students = Students(late.applied(rules, students), alphabetical)
    return ClassResults(
        unit=header["unit"],
        title=header["title"],
        checks=[Check(**check) for check in header["checks"]],
        students=students,
        device=device_of(students),
        seed=header["seed"],
        when=header["when"],
        seconds=header["seconds"],
        notes=_notes(journal, students),
        manual=header["manual"],
    )


def _notes(journal: Journal, students: Iterable[Graded]) -> list[str]:
    rules = rules_in(journal)
    strangers = rules.strangers(students) if rules else []
    return [*journal.header["notes"], *(f"The late rules name {name!r}, who submitted nothing." for name in strangers)]


def settle(books: Bookkeeper) -> ClassResults:
    """Make the gradebook, nbgrader's feedback and the records agree with the journal; returns the results."""
    journal, course = books.journal, books.course
    book = course.marks()
    results = results_of(journal, (books.catch_up(entry, book) for entry in journal.entries()))
    for student in set(journal.header["replaces"]) - {s.student for s in results.students}:
        course.remove(student)
        books.forget(student)
    for student in late.enter(course, results.students, rules_in(journal)):
        course.drop_feedback(student)
    try:
        course.feedback()
    except GradebookError as problem:  # the points are in; the reports need no feedback pages
        note = sentence(str(problem))
        journal.header["notes"] += [note] * (note not in journal.header["notes"])
        results.notes = _notes(journal, results.students)
    return results


def rebuild(out: Path, journal: Journal, books: Bookkeeper | None = None, **about) -> ClassResults:
    """Make everything that the class shows from the journal, and note in it that the run is finished.

    `books`: of the run that just graded. `about`: what the header says of that run.
    """
    header = journal.the_run()
    header |= about
    books = books or Bookkeeper(Course(out / "course", header["unit"]), journal, out, {})
    results = settle(books)
    report.write(results, out)
    journal.finish()
    return results


def heal(out: Path) -> ClassResults:
    """Make everything in `out` from its journal again. Raises JournalError, also for a run that is not finished, and
    GradebookError and DiskFull."""
    with contextlib.closing(Journal(out / "journal")) as journal:
        if not journal.the_run()["finished"]:
            raise JournalError(f"The run in {out} is not finished: its own command goes on (`status` says which).")
        return rebuild(out, journal)
