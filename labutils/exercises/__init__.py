"""The exercises of the course, one or more modules per unit, and their catalogue. Importing this registers them all."""

import difflib
import importlib
import pkgutil

from ..spec.exercise import Exercise, registered

# A plug-in point: a unit's exercises are part of the course when their module lies in this folder.
for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def all_exercises() -> dict[str, Exercise]:
    """Every exercise of the course by id, in the order of the units."""
    return registered()


def get(exercise_id: str) -> Exercise:
    """The exercise of that id. Raises KeyError with the nearest known id, or with all whose name this is: hunts last,
    which have the names of other units' exercises."""
    known = all_exercises()
    if not isinstance(exercise_id, str):
        raise KeyError(f"the first argument is the exercise's id, as text, not a {type(exercise_id).__name__}")
    if exercise_id in known:
        return known[exercise_id]
    named = [name for name in known if name.partition("/")[2] == exercise_id]
    near = sorted(named, key=lambda name: "_hunt/" in name) or difflib.get_close_matches(
        exercise_id, known, n=1, cutoff=0.4
    )
    ids = ", ".join(map(repr, near))
    raise KeyError(f"no exercise is called {exercise_id!r}" + (f"; did you mean {ids}?" if near else ""))
