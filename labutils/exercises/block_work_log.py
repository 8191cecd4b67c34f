"""Unit 24, capstone: is a work log complete? What it says is for a person to judge."""

from __future__ import annotations

import re

from ..spec.exercise import Case, PlainExercise, Points, register

KEYS = {"change": str, "before": float, "predicted": float, "measured": float, "kept": bool}
"""Of each entry; times are in one unit, which the log chooses."""
LEAST, FAILED = 4, 2
"""Entries, and those of changes that were not kept."""
WORDS = 3
"""A change is described in at least so many words."""
_WORD = re.compile(r"[\u3400-\u9fff]|[^\s\u3400-\u9fff]+")
"""A word; Chinese has no blanks between words, so each of its characters counts."""
NOISE = 0.1
"""`before` of an entry may differ so much from what the last kept change measured: runs differ, versions do not."""


def _problem_of(number: int, entry) -> tuple[str, str] | None:
    if not isinstance(entry, dict):
        return f"entry {number} is {type(entry).__name__}, not a dict", f"An entry has the keys {', '.join(KEYS)}."
    if missing := [key for key in KEYS if key not in entry]:
        return f"entry {number} has no {missing[0]!r}", f"An entry has the keys {', '.join(KEYS)}."
    for key, kind in KEYS.items():
        value = entry[key]
        right = isinstance(value, kind) if kind is not float else _positive(value)
        if not right:
            wanted = {str: "a text", float: "a positive number", bool: "True or False"}[kind]
            return f"entry {number}: {key} is {str(value)[:40]!r}", f"{key} must be {wanted}."
    if len(_WORD.findall(entry["change"])) < WORDS:
        return (
            f"entry {number}: {entry['change']!r} does not say what was changed",
            f"Describe the change in {WORDS} words or more, so that somebody else could repeat it.",
        )
    if entry["kept"] and entry["measured"] > entry["before"]:
        return (
            f"entry {number} was kept, but {entry['measured']:g} is slower than {entry['before']:g} before",
            "Set kept to False, or measure again.",
        )
    return None


def _positive(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


def problem(log) -> tuple[str, str] | None:
    """What is missing in a log and what to do, or None if it is complete."""
    if not isinstance(log, list | tuple):
        return f"work_log returned {type(log).__name__}, not a list", "Return a list of dicts, one for each change."
    for number, entry in enumerate(log, 1):
        if found := _problem_of(number, entry):
            return found
    if len(log) < LEAST:
        return f"the log has {len(log)} entries, not {LEAST}", "Try another change, and add what it did."
    names = [" ".join(entry["change"].lower().split()) for entry in log]
    if twice := next((n for k, n in enumerate(names, 1) if names.index(n) != k - 1), None):
        return f"two entries have the change {twice!r}", "Each entry is another change."
    now, dropped = None, set()
    for number, entry in enumerate(log, 1):
        if entry["before"] in dropped - {now}:
            return (
                f"entry {number} starts from {entry['before']:g}, which a change measured that was not kept",
                f"`before` is the time of the version that you changed, here {now:g}.",
            )
        if now is not None and abs(entry["before"] - now) > NOISE * now:
            return (
                f"entry {number} starts from {entry['before']:g}, but the version before took {now:g}",
                "`before` is the time of the version that you changed: what the last kept change measured.",
            )
        if entry["kept"]:
            now, dropped = entry["measured"], set()
        else:
            now, dropped = entry["before"], dropped | {entry["measured"]}
    if sum(not entry["kept"] for entry in log) < FAILED:
        return (
            f"fewer than {FAILED} changes failed",
            "Add what you tried without success: it tells others what not to try, and why.",
        )
    if all(entry["predicted"] == entry["measured"] for entry in log):
        return "every prediction equals its measurement", "Write the prediction before you measure, and leave it."
    return None


register(
    PlainExercise(
        id="24_capstone/work_log",
        title="A work log",
        entry="work_log",
        points=Points(correct=1),
        make=lambda least: {},
        examine=lambda sizes, arguments, yours: problem(yours),
        cases=(Case("your log", {"least": LEAST}),),
    )
)
