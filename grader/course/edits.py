"""Edits of a text: what a mutant changes of a solution, and what the markers leave of a text."""

import re
from collections.abc import Iterable
from itertools import pairwise

_MARKER = re.compile(r"^[ \t]*(?:// )?### (?:BEGIN|END) SOLUTION[ \t]*\n", re.MULTILINE)


def edited(text: str, edits: Iterable[Iterable[str]]) -> str:
    """The text with each old part replaced by the new one. Raises ValueError unless each stands in it exactly once."""
    places = []
    for old, new in edits:
        if not old or text.count(old) != 1:
            raise ValueError(f"{old!r} stands in the text {text.count(old) if old else 'no'} times, not once")
        places.append((text.index(old), old, new))
    places.sort()
    for (first, old, _), (second, other, _) in pairwise(places):
        if first + len(old) > second:
            raise ValueError(f"{old!r} and {other!r} overlap")
    for begin, old, new in reversed(places):
        text = text[:begin] + new + text[begin + len(old) :]
    return text


def edits_of(table: dict) -> list:
    """The edits that a mutant's table lists."""
    return [table["edit"]] if "edit" in table else table.get("edits", [])


def is_marker(line: str) -> bool:
    """Whether a line, without its newline, is a marker of a solution region."""
    return bool(_MARKER.fullmatch(line + "\n"))


def without_markers(text: str) -> str:
    """A text without the lines that mark solution regions."""
    return _MARKER.sub("", text)
