"""Who takes the course, from a CSV file of a platform: so that who submitted nothing is in every table.

Moodle      the grading worksheet of the assignment, or the table of participants, in any of its languages
Canvas      the gradebook
nbgrader    `id,first_name,last_name,email`, as for `nbgrader db student import`
else        columns called name or student, and if there are any id and email
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.intake.files import Unreadable
from grader.intake.platforms import CANVAS_POINTS, MOODLE, MoodleColumns, is_canvas, moodle_languages, read_table
from grader.marks.results import Origin

NOTHING = "Nothing submitted, 0 points."


class RosterError(Unreadable):
    """A roster that cannot be used; the message is a sentence."""


@dataclass(frozen=True)
class Entry:
    """Someone who takes the course. `id` is the platform's number, as in the names of submitted files."""

    name: str
    id: str = ""
    email: str = ""
    system: str = "folder"

    @property
    def origin(self) -> Origin:
        return Origin(self.system, self.id, self.name, self.email)

    @property
    def student(self) -> str:
        """The name under which this person's submission would be graded."""
        if self.system == "nbgrader":
            return self.id
        return re.sub(r"[\W_]", "", self.name).lower() if self.system == "canvas" else self.name


def read_roster(path: Path) -> list[Entry]:
    """Everyone in a roster. Raises RosterError."""
    try:
        rows, _ = read_table(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as problem:
        raise RosterError(f"The roster {path.name} cannot be read: {problem}.") from None
    rows = [row for row in rows if any(cell.strip() for cell in row)]
    if not rows:
        raise RosterError(f"The roster {path.name} is empty.")
    head = [cell.strip() for cell in rows[0]]
    entry = entry_reader(head)
    if entry is None:
        columns = ", ".join(map(repr, head))
        raise RosterError(f"The roster {path.name} has no column of names that is known; it has {columns}.")
    filled = ([*map(str.strip, row), *[""] * (len(head) - len(row))] for row in rows[1:])
    return list(dict.fromkeys(e for row in filled if (e := entry(row)) and e.student))


def absent(roster: Iterable[Entry], submitted: Iterable[tuple[str, Origin | None]]) -> tuple[list[Entry], list[Entry]]:
    """Who of a roster has submitted nothing, and who has. Of two people with one name and no number, one submission is
    the first one's."""
    roster = list(roster)
    found = match(roster, submitted, namesakes=True)
    return [e for e in roster if e not in found], list(found)


def match(
    roster: Iterable[Entry], submitted: Iterable[tuple[str, Origin | None]], namesakes: bool = False
) -> dict[Entry, str]:
    """The student as whom someone of a roster submitted, for each of those who did.

    A submission belongs to whom the platform's number names, else the e-mail address, else the name, whatever the order
    of its parts and its accents. A name that several have tells nothing, unless `namesakes` lets the first one have it.
    """
    left, found = list(dict.fromkeys(roster)), {}
    submissions = [(student, origin or Origin(name=student)) for student, origin in submitted]
    people = {student: _people(origin) for student, origin in submissions}
    for same in (_same_number, _same_email, _same_name):
        for student, origin in submissions:
            entries = [e for e in left if same(e, student, origin)]
            if len(entries) > people[student] and not namesakes:
                continue
            for entry in entries[: people[student]]:
                left.remove(entry)
                people[student] -= 1
                found[entry] = student
    return found


def _same_number(entry: Entry, _student: str, origin: Origin) -> bool:
    return bool(entry.id) and entry.id == origin.id and entry.system == origin.system


def _same_email(entry: Entry, _student: str, origin: Origin) -> bool:
    return bool(entry.email) and entry.email.casefold() in origin.email.casefold().split(", ")


def _same_name(entry: Entry, student: str, origin: Origin) -> bool:
    names = {student, origin.name, *origin.name.split(" and ")} - {""}
    return entry.student in names or any(_letters(name) in _spellings(entry.name) for name in names)


def _people(origin: Origin) -> int:
    """How many people a submission may be of: Gradescope's groups submit once."""
    return len(origin.name.split(" and ")) if origin.system == "gradescope" else 1


def _spellings(name: str) -> set[str]:
    """A name's letters in the order in which it is written, and in the one with the last name elsewhere."""
    parts = re.split(r"[\s,]+", name.strip())
    return {_letters("".join(order)) for order in (parts, parts[1:] + parts[:1], parts[-1:] + parts[:-1])}


def _letters(name: str) -> str:
    decomposed = unicodedata.normalize("NFKD", name).casefold()
    return "".join(c for c in decomposed if c.isalnum())


def entry_reader(head: list[str]) -> Callable[[list[str]], Entry | None] | None:
    """What makes an entry of a row with these columns; None if they are not known."""
    at = {name: number for number, name in reversed(list(enumerate(head)))}
    plain = {name.casefold(): number for name, number in at.items()}
    if is_canvas(head):
        return lambda row: _canvas(row, at)
    if {"id", "first_name", "last_name"} <= at.keys():
        full = [at["first_name"], at["last_name"]]
        email = at.get("email")
        return lambda row: Entry(_joined(row, full), row[at["id"]], _cell(row, email), "nbgrader")
    if worksheet := moodle_languages(head):
        return lambda row: _moodle(row, at, worksheet[0])
    if people := [c for c in MOODLE if c.first and {c.first, c.last} <= at.keys()]:
        return lambda row: _participant(row, at, people)
    name = next((plain[word] for word in ("name", "student", "full name") if word in plain), None)
    if name is None:
        return None
    number, email = plain.get("id"), plain.get("email")
    return lambda row: Entry(row[name], _cell(row, number), _cell(row, email))


def _canvas(row: list[str], at: dict[str, int]) -> Entry | None:
    name = _joined(row, [at["LastName"], at["FirstName"]]) if "LastName" in at else row[at["Student"]]
    number = row[at["ID"]]
    if not number or name.casefold() in (CANVAS_POINTS, "student, test"):
        return None
    login = _cell(row, at.get("SIS Login ID"))
    return Entry(name, number, login if "@" in login else "", "canvas")


def _moodle(row: list[str], at: dict[str, int], columns: MoodleColumns) -> Entry | None:
    number = re.search(r"\d+$", row[at[columns.identifier]])
    name, email = (_cell(row, at.get(column)) for column in (columns.name, columns.email))
    return Entry(name or row[at[columns.identifier]], number[0] if number else "", email, "moodle")


def _participant(row: list[str], at: dict[str, int], languages: Sequence[MoodleColumns]) -> Entry:
    """Of the table of participants: it lacks the number that is in the names of submitted files."""
    email = next((row[at[c.email]] for c in languages if c.email in at), "")
    return Entry(_joined(row, [at[languages[0].first], at[languages[0].last]]), "", email, "moodle")


def _joined(row: list[str], places: list[int]) -> str:
    return " ".join(row[place] for place in places if row[place])


def _cell(row: list[str], place: int | None) -> str:
    return "" if place is None else row[place]
