"""Markdown as a translator sees it: a document in pieces, and what of a text must stay as it is."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping

FENCE = re.compile(r"^ *(`{3,}|~{3,}).*?^ *\1[^\n]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"<code>.*?</code>|(``+|`(?! ))(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
FIELD = re.compile(r"\{[^{}\n]*\}")
LATEX = re.compile(r"\$\$.+?\$\$|\$[^\s$](?:[^$\n]*[^\s$])?\$(?!\d)", re.DOTALL)
TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
TARGET = re.compile(r"(?<=\]\()[^()\s]+(?=\))")
ADDRESS = re.compile(r"https?://[^\s)>\]\"'`]+")

_STARTS = re.compile(r"\s*([-*+] |\d+[.)] |\||#|>|<)")
"""How a line begins that does not continue the line before it."""

_ALONE = re.compile(r"\s*(\||#)")
"""How a line begins that no line continues."""

_RULE = re.compile(r"\s*\|?[\s:|-]+\|?\s*")
_WORD = re.compile(r"[A-Za-z]{2}|[a-z]")


def says_something(text: str) -> bool:
    """Is anything of this text to be translated?"""
    for kept in (FENCE, CODE, FIELD, LATEX, TAG, TARGET, ADDRESS):
        text = kept.sub(" ", text)
    return bool(_WORD.search(text))


def pieces(text: str) -> Iterator[tuple[str, str]]:
    """A document as (kept, message): headings, paragraphs, items and rows of tables, each one message in one line.

    `kept` comes before the message as it is: blank lines, indentation, code. Joined, they are the document, but for the
    line breaks inside of paragraphs.
    """
    kept, message, fence = "", "", ""
    for line in text.split("\n"):
        stripped = line.strip()
        mark = re.match(r"`{3,}|~{3,}", stripped)
        code = bool(fence or mark) or (line.startswith("    ") and not message)
        if mark and (not fence or stripped == fence):
            fence = "" if fence else mark[0]
        if code or not stripped or _RULE.fullmatch(line):
            if message:
                yield kept, message
                kept, message = "\n", ""
            kept += line + "\n"
        elif message and not _STARTS.match(line) and not _ALONE.match(message):
            message += " " + stripped
        else:
            if message:
                yield kept, message
                kept = "\n"
            kept += line[: len(line) - len(line.lstrip())]
            message = stripped
    yield (kept, message) if message else (kept.removesuffix("\n"), "")


def messages(text: str) -> list[str]:
    """What is to be translated of a document."""
    return [message for _, message in pieces(text) if says_something(message)]


def translated(text: str, translate: Callable[[str], str]) -> str:
    """A document with each piece translated, also those that are no message, such as a heading that is a name."""
    return "".join(kept + translate(message) for kept, message in pieces(text))


def anchor(heading: str) -> str:
    """The fragment that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def moved(text: str, source: str, target: str, places: Mapping[str, str]) -> str:
    """A text whose links worked in the file `source` of the repository, for the file `target`.

    `places` says where files and folders of the repository have their other edition.
    """

    def link(match: re.Match) -> str:
        path, sign, fragment = match[0].partition("#")
        if not path or not re.fullmatch(r"[\w./-]+", path):
            return match[0]
        there = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        parents = [there[: n.start()] for n in re.finditer("/", there)]
        for known in (there, *reversed(parents)):
            if known in places:
                there = places[known] + there[len(known) :]
                break
        return posixpath.relpath(there, posixpath.dirname(target) or ".") + sign + fragment

    return TARGET.sub(link, text)


def first_line(text: str) -> str:
    """The first line with text, without markdown; "" if there is none."""
    lines = (line.strip(" #*_") for line in text.split("\n"))
    return next((re.sub(r"[*`$]|\[(?=[^\]]*\]\()|\]\([^)]*\)", "", line) for line in lines if line), "")
