"""What is to be translated: the messages of each catalog, in the order in which a reader meets them."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path

from grader.course import cards, index, walkthroughs
from grader.course.claims import read_claims
from grader.course.hunts import described
from grader.course.locales import extract, extract_cpp, markdown
from grader.course.locales.catalogs import Edition, Message
from grader.course.place import CODE
from grader.course.sources import source_notebook, unit_names, written_notebook
from labutils.exercises import hunts
from labutils.language.translator import PUNCTUATION
from labutils.plots import theater_words
from labutils.study.progress import paths

DOCS = ("README.md", "docs/learners.md", "docs/start.md", "docs/instructors.md", "docs/glossary.md")
"""The documents of an edition."""

WORDS = ("Glossary", "Open in Colab", "YOUR ANSWER HERE")
"""What the build itself writes into notebooks."""

ALONE = {
    "blocks": "what limits occupancy", "instructions": "what takes the time of a kernel",
    "reference": "the head of a column", "how": "the head of a column: how a figure is known",
}  # fmt: skip
"""Single words in tables of `labutils`, which the code does not tell from keys."""

_UNITS = re.compile(r"\b(?:[KMGT]?B|[KMGTP]?FLOPs?|SMs?|[munµ]?s|[KMG]?Hz|bits?|fp\d+)\b")


_GRADER = ("reports", "marks", "intake", "gradebook", "grading", "judge", "execute")
"""Rooms of the grader whose texts a report or a feedback page may show."""


def catalogs(root: Path) -> list[str]:
    """The names of the catalogs of the course in `root`."""
    return [*unit_names(root), "docs", "lab", "grader"]


def messages(root: Path, catalog: str) -> list[Message]:
    """The messages of a catalog, each once."""
    if catalog == "docs":
        found = _docs(root)
    elif catalog == "grader":
        found = [Message(word, "notebooks") for word in WORDS] + _pages()
    elif catalog == "lab":
        found = [Message(mark, "punctuation") for mark in PUNCTUATION]
        found += [Message(path, "a path through the course") for path in paths()]
        found += [
            Message(f"{fill} {{number}}", "how a hidden case is filled") for fill in ("position", "normal", "wide")
        ]
        found += [Message(text, place) for text, place in _in_code("labutils").items()]
        found += [Message(word, place) for word, place in ALONE.items()]
        found += [Message(text, "the player of lab.play") for text in (*theater_words.WORDS, *theater_words.STATIC)]
        for path in sorted((CODE / "labutils" / "backends" / "simt" / "runtime").glob("*.cpp")):
            found += [Message(text, path.name) for text in extract_cpp.of_source(path.read_text(encoding="utf-8"))]
    else:
        found = _unit(root / "solutions" / catalog)
    return list({message.text: message for message in reversed(found)}.values())[::-1]


@functools.cache
def _in_code(*folders: str) -> dict[str, str]:
    """`extract.of_folders` of our own code, which does not change while a process runs."""
    return extract.of_folders(CODE / folder for folder in folders)


def shares(root: Path, edition: Edition) -> dict[str, tuple[int, int]]:
    """By catalog, how many of its messages are translated, and how many there are."""
    return shares_of({name: messages(root, name) for name in catalogs(root)}, edition)


def shares_of(known: Mapping[str, list[Message]], edition: Edition) -> dict[str, tuple[int, int]]:
    """`shares` of messages that are known already, by catalog."""
    found = {}
    for name, listed in known.items():
        texts = {message.text for message in listed}
        found[name] = len(texts & edition.translations(name).keys()), len(texts)
    return found


def _unit(unit: Path) -> list[Message]:
    found = []
    for cell in written_notebook(unit).cells:
        if cell.cell_type == "markdown" and markdown.says_something(cell.source):
            header = [cell.metadata[key] for key in ("cell", "id") if key in cell.metadata]
            found.append(Message(cell.source, " ".join(header)))
    found += [Message(text, "claim card") for text in cards.texts(unit) if markdown.says_something(text)]
    for name, table in walkthroughs.tables(unit).items():
        found += [Message(" ".join(text.split()), f"walkthrough of {name}: {part}") for part, text in table.items()]
    if unit.name in hunts.UNITS:
        bugs = described(source_notebook(unit), unit)
        found += [Message(text, f"walkthrough of {name}: bug") for name, text in bugs.items()]
    claims = (claim for claim in read_claims(unit.parent).values() if claim.unit == unit.name)
    return found + [Message(c.value, f"value of {c.key}") for c in claims if has_words(c.value)]


def has_words(value: str) -> bool:
    """Has the value of a claim more than numbers and their units?"""
    return bool(re.search(r"[a-z]{2}", _UNITS.sub("", value)))


def _pages() -> list[Message]:
    """What the grader's pages and tables say."""
    folders = _in_code(*(f"grader/{room}" for room in _GRADER))
    folders = folders | extract.of_files([CODE / "grader" / "course" / "submitted.py"], CODE)
    found = [Message(text, place) for text, place in folders.items()]
    for path in sorted((CODE / "grader" / "reports" / "templates").glob("*.html.j2")):
        found += [Message(text, path.name) for text in extract.of_page(path.read_text(encoding="utf-8"))]
    return found


def _docs(root: Path) -> list[Message]:
    found = [Message(text, "the notebook with the map of the course") for text in markdown.messages(index.TITLE)]
    for name in DOCS:
        if (path := root / name).exists():
            found += [Message(text, name) for text in markdown.messages(path.read_text(encoding="utf-8"))]
    return found
