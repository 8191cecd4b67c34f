"""Systematic first-order mutation: every solution with one small mistake in it, made by rules and not by hand.

A table of mistakes that somebody thought of shares its author's blind spots. These are the slips that a rule can make
anywhere: a mask removed, one stride for another, `<` for `<=`, a barrier left out. Each must be refused by the check,
or be listed as equivalent in `solutions/UNIT/mutants/equivalent.toml` with the reason that a person wrote:

    [[axpy]]
    line = "pid = tl.program_id(0)"         # as it stands in the solution, without indentation
    becomes = "pid = tl.program_id(1)"      # or a list, if several mutations of the line share the reason
    why = "The grid has one axis, …"

`mutations(exercise_id)` makes them all. `python -m grader mutate` tries them, except those of statements that only
another exercise executes (`grader.course.mutations.executed`).
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from grader.course.mutants import SOURCES, language_of, marked_answer, without_markers
from grader.course.mutations import cuda, triton
from grader.course.mutations.edits import Edit


@dataclass(frozen=True)
class Mutation:
    """A solution with one edit. `line` is the first line that differs, `becomes` what stands there instead, both
    without indentation; `text` is the whole answer, as a mutant's (`grader.course.mutants.Mutant`), and `number` the
    number of the edit's first line in the answer."""

    exercise: str
    operator: str
    line: str
    becomes: str
    text: str
    language: str
    number: int = 0

    @property
    def name(self) -> str:
        return f"{self.operator}: {self.line}  →  {self.becomes}"


def mutations(exercise_id: str, rewritten: Callable[[str], str] = str) -> list[Mutation]:
    """Every mutation of an exercise's solution, in the order of its text; of equal texts the first. `rewritten` makes
    another right answer of the solution's text, to mutate that one."""
    source, language = rewritten(marked_answer(exercise_id)), language_of(exercise_id)
    original, found, known = without_markers(source), [], set()
    for edit in (cuda if language == "cuda" else triton).edits(source):
        text = without_markers(edit.applied(source))
        if text != original and text not in known:
            known.add(text)
            line, becomes = _difference(original, text)
            number = without_markers(source[: edit.begin]).count("\n") + 1
            found.append(Mutation(exercise_id, edit.operator, line, becomes, text, language, number))
    return found


def _difference(before: str, after: str) -> tuple[str, str]:
    """The first lines that differ, without indentation; "" where a line is gone."""
    old, new = before.split("\n"), after.split("\n")
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            return " ".join(s.strip() for s in old[a:b]), " ".join(s.strip() for s in new[c:d])
    return "", ""


def equivalents(unit: str) -> dict[tuple[str, str, str], str]:
    """Why a mutation changes nothing that a check could see: by (exercise, line, becomes)."""
    path = SOURCES / unit / "mutants" / "equivalent.toml"
    if not path.exists():
        return {}
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    return {
        (f"{unit}/{name}", entry["line"], becomes): entry["why"]
        for name, entries in tables.items()
        for entry in entries
        for becomes in ([entry["becomes"]] if isinstance(entry["becomes"], str) else entry["becomes"])
    }


def stale(unit: str, exercise_ids: list[str]) -> Iterator[str]:
    """Entries of a unit's list that no mutation has any more, as sentences."""
    made = {(m.exercise, m.line, m.becomes) for i in exercise_ids for m in mutations(i)}
    for key in equivalents(unit):
        if key not in made:
            yield f"{key[0]}: no mutation turns {key[1]!r} into {key[2]!r}"


__all__ = ["Edit", "Mutation", "equivalents", "mutations", "stale"]
