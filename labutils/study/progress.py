"""Where a learner stands: points by exercise, hints seen, and what comes next. One file, on this machine, theirs alone.

Grading never reads it, and nothing sends it anywhere. A file that cannot be read is put aside, never overwritten.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .. import environment, exercises
from ..spec.exercise import Exercise
from ..spec.verdict import Verdict

COURSE = Path(__file__).with_name("course.json")


@functools.cache
def _stored() -> dict[str, Any]:
    """What `python -m grader build` takes from the README and the notebooks: "paths", and the "order" of exercises."""
    return json.loads(COURSE.read_text(encoding="utf-8"))


def paths() -> dict[str, list[str]]:
    """Units by path, in order; no unit stands for every unit."""
    return _stored()["paths"]


def in_order() -> list[Exercise]:
    """All exercises as the notebooks have them, one after another."""
    place = {name: number for number, name in enumerate(_stored()["order"])}
    return sorted(exercises.all_exercises().values(), key=lambda exercise: place.get(exercise.id, len(place)))


def following(exercise_id: str) -> str | None:
    """The exercise after this one in the course; None after the last."""
    names = [exercise.id for exercise in in_order()]
    return dict(zip(names, names[1:], strict=False)).get(exercise_id)


def unit_after_hunts(exercise_id: str) -> str | None:
    """The first unit after this exercise that is no hunt."""
    names = [exercise.id for exercise in in_order()]
    units = [exercises.get(name).unit for name in names[names.index(exercise_id) :]]
    return next((unit for unit in units if not unit.endswith("_hunt")), None)


@dataclass
class Entry:
    """One exercise: the best points so far of how many, the checks that were run, the hints that were shown, and the
    day of the first check that passed (ISO 8601)."""

    points: float = 0.0
    total: float = 0.0
    checks: int = 0
    hints: int = 0
    passed: str = ""


@dataclass
class Progress:
    """What the file holds, with the exercises by id; `lab.progress()` shows it."""

    entries: dict[str, Entry] = field(default_factory=dict)
    file: Path | None = None

    def of(self, exercise_id: str) -> Entry:
        """The entry of an exercise; a new one at first."""
        return self.entries.setdefault(exercise_id, Entry())

    def done(self, exercise_id: str) -> bool:
        """Has a check passed?"""
        return exercise_id in self.entries and bool(self.entries[exercise_id].passed)

    def following(self, path: str) -> str | None:
        """The first exercise of a path that is not done."""
        return next((e.id for e in _course(path) if not self.done(e.id)), None)

    def rows(self) -> list[tuple[str, int, int, float, float]]:
        """For each unit that was begun: exercises done and in all, points reached and in all."""
        found = []
        for unit in dict.fromkeys(e.unit for e in in_order()):
            own = [e for e in in_order() if e.unit == unit]
            if any(e.id in self.entries for e in own):
                done = sum(self.done(e.id) for e in own)
                points = sum(self.entries[e.id].points for e in own if e.id in self.entries)
                found.append((unit, done, len(own), points, sum(e.points.total for e in own)))
        return found

    def __repr__(self) -> str:
        course = in_order()
        done = sum(self.done(e.id) for e in course)
        lines = [f"{done} of {len(course)} exercises done, {self._points():g} points"]
        rows = self.rows()
        wide = max((len(row[0]) for row in rows), default=0)
        for unit, done, count, points, total in rows:
            bar = "█" * round(10 * done / count)
            lines.append(f"  {unit:{wide}}  {bar:·<10}  {done} of {count}   {points:g} of {total:g} points")
        lines.append("Next:")
        for path in paths():
            left = sum(not self.done(e.id) for e in _course(path))
            lines.append(f"  in {path}: {self.following(path) or 'all done'}" + (f" ({left} left)" if left else ""))
        lines.append(f"Kept in {self.file}; it is yours, and nothing sends it anywhere.")
        return "\n".join(lines)

    def _points(self) -> float:
        return sum(entry.points for entry in self.entries.values())


def _course(path: str) -> list[Exercise]:
    """The exercises of a path, in its order."""
    units = paths()[path] or dict.fromkeys(e.unit for e in in_order())
    return [e for unit in units for e in in_order() if e.unit == unit]


def progress() -> Progress:
    """What is known so far."""
    return read(environment.progress_file())


def read(path: Path) -> Progress:
    """What a file holds. One that cannot be read is put aside under another name, and a sentence says so."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Progress({name: Entry(**entry) for name, entry in data["exercises"].items()}, path)
    except FileNotFoundError:
        return Progress(file=path)
    except OSError as e:
        print(f"Your progress cannot be read: {e}")
    except (ValueError, KeyError, TypeError, AttributeError):
        aside = path.with_name(f"{path.name}.unreadable-{time.strftime('%Y%m%d-%H%M%S')}")
        with contextlib.suppress(OSError):
            os.replace(path, aside)
            print(f"Your progress could not be read; the file is now {aside}, and a new one begins.")
    return Progress(file=path)


@contextlib.contextmanager
def changing() -> Iterator[Progress]:
    """Change the progress: it is read at the beginning and written, whole or not at all, at the end.

    Two notebooks take turns. Where nothing can be written, the check goes on without.
    """
    path = environment.progress_file()
    with contextlib.ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(_locked(path.with_name(f"{path.name}.lock")))
        except OSError:
            yield Progress(file=path)
            return
        known = read(path)
        yield known
        with contextlib.suppress(OSError):
            write(known, path)


def write(known: Progress, path: Path) -> None:
    """Write beside the file, then rename: a reader finds the old text or the new one."""
    data = {"version": 1, "exercises": {name: asdict(entry) for name, entry in sorted(known.entries.items())}}
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", delete=False, encoding="utf-8") as partial:
        json.dump(data, partial, indent=1)
    try:
        os.replace(partial.name, path)
    except OSError:
        os.unlink(partial.name)
        raise


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Alone among this user's processes, where the system has such locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def note(exercise: Exercise, verdict: Verdict) -> None:
    """Remember a check."""
    with changing() as known:
        entry = known.of(exercise.id)
        entry.checks += 1
        entry.points, entry.total = max(entry.points, float(verdict.marks)), float(exercise.points.total)
        if verdict.passed and not entry.passed:
            entry.passed = time.strftime("%Y-%m-%d")
