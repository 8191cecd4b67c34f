"""A leaderboard: the fastest kernels relative to the reference solution, under names of the students' own choice.

It lists only students who asked for it. They are in a small table, with the student as in the gradebook and the name to
show:

    "Ana Duarte" = "warp wizard"

An exercise without measured times is ranked by memory traffic, and says so.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from grader.marks.results import ClassResults
from grader.reports import feedback, pages


class NoLeaderboard(Exception):
    """A table of pseudonyms that cannot be used; the message is a sentence."""


@dataclass(frozen=True)
class Place:
    """A line of the board. Equal ratios, as they are shown, share a rank."""

    rank: int
    name: str
    ratio: float


def pseudonyms(path: Path) -> dict[str, str]:
    """The names to show by student. Raises NoLeaderboard, also if a pseudonym is taken twice."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise NoLeaderboard(f"{path.name} cannot be read: {problem}.") from None
    if not all(isinstance(name, str) and name.strip() for name in table.values()):
        raise NoLeaderboard(f'{path.name}: each line is "student" = "the name to show".')
    if len(set(table.values())) < len(table):
        raise NoLeaderboard(f"{path.name}: two students have the same pseudonym.")
    return table


def boards(results: ClassResults, who: dict[str, str], names: bool = False) -> list[tuple[str, str, list[Place]]]:
    """For each exercise its title, what is compared, and the places; those without places are left out."""
    found = []
    for check in results.checks:
        ratios: dict[str, list[tuple[float, str]]] = {"time": [], "memory traffic": []}
        for student in results.students:
            shown = student.student if names else who.get(student.student)
            outcome = next((o for o in student.outcomes if o.cell == check.cell), None)
            if shown is None or outcome is None or not outcome.verdict or not outcome.verdict.passed:
                continue
            timing, traffic = outcome.verdict.timing, feedback.traffic(outcome.verdict)
            if timing:
                ratios["time"].append((round(timing["ratio"], 2), shown))
            elif traffic is not None:
                ratios["memory traffic"].append((round(traffic, 2), shown))
        found += [(check.title, what, _places(places)) for what, places in ratios.items() if places]
    return found


def _places(ratios: list[tuple[float, str]]) -> list[Place]:
    ordered = sorted(ratios)
    values = [ratio for ratio, _ in ordered]
    return [Place(values.index(ratio) + 1, name, ratio) for ratio, name in ordered]


def html(results: ClassResults, who: dict[str, str], names: bool = False) -> str:
    return pages.render("leaderboard.html.j2", r=results, boards=boards(results, who, names), names=names)
