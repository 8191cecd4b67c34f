"""A message with holes, such as "the last {count} of {n} elements were not written", matched with finished text.

A template that begins with white space or a comma, or ends with white space, was made to be joined to other text: it
has one more hole there.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

HOLE = re.compile(r"\{([a-z_][a-z0-9_]*)\}")

MOST_BLANKS = 3

_PLURAL = re.compile(r"\{plural\d*\}")

_PLURALS = frozenset(("s", "es", "y", "ies", ""))
"""What may stand in the hole for an English plural, which a translation may leave out."""

_MARK = re.compile(r"[.:;!?()—`\"]")
_TOKEN = re.compile(r"[A-Za-z\0]+")


def words(text: str) -> list[str]:
    """The words of a text in lower case, without those that touch a hole (`\\0`)."""
    return [token.lower() for token in _TOKEN.findall(text) if "\0" not in token]


def joined(before: str, after: str) -> str:
    """Two texts, one behind the other. There is no blank beside a full-width mark, which brings its own, and between
    two characters of a script without blanks; there is one between such a character and a word of another script."""
    left, right = before.rstrip(" "), after.lstrip(" ")
    end, begin, blanks = left[-1:], right[:1], len(before + after) - len(left + right)
    if _is_full_width(end) or _is_full_width(begin) or blanks == 1 and _is_wide(end) and _is_wide(begin):
        return left + right
    if not blanks and (_is_wide(end) and _is_of_words(begin, "([") or _is_of_words(end, ")]") and _is_wide(begin)):
        return f"{left} {right}"
    return before + after


def _is_full_width(mark: str) -> bool:
    return _is_wide(mark) and unicodedata.category(mark)[0] == "P"


def _is_wide(mark: str) -> bool:
    return bool(mark) and unicodedata.east_asian_width(mark) in "WF"


def _is_of_words(mark: str, brackets: str) -> bool:
    """Is it a letter, a number, a sign or a bracket, of a script with blanks?"""
    return bool(mark) and not _is_wide(mark) and (unicodedata.category(mark)[0] in "LNS" or mark in "'\"%_" + brackets)


def is_joined(end: str, marks: str) -> bool:
    """Does a text with this first or last character go on there?"""
    return end.isspace() or bool(end) and end in marks


def _holes_from_right(text: str, literals: list[str]) -> list[str] | None:
    """The texts around the literals, each of which is taken where it occurs last."""
    found, end = [], len(text)
    for literal in reversed(literals):
        there = text.rfind(literal, 0, end)
        if there < 0:
            return None
        found.append(text[there + len(literal) : end])
        end = there
    return [*reversed([*found, text[:end]])]


def _holes(text: str, literals: list[str], skipped: int) -> list[str] | None:
    """The texts around the literals; `skipped`: how many blanks the hole before the first single blank holds."""
    found, at = [], 0
    for literal in literals:
        there = text.find(literal, at)
        for _ in range(skipped if literal == " " else 0):
            there = text.find(literal, there + 1) if there >= 0 else there
        if there < 0:
            return None
        skipped = 0 if literal == " " else skipped
        found.append(text[at:there])
        at = there + len(literal)
    return [*found, text[at:]]


@dataclass(frozen=True)
class Template:
    """An English message and its translation."""

    text: str
    translation: str

    def forms(self) -> Iterator[Template]:
        """The template, with a hole for an “s” also as the singular and as the plural, whose words are whole."""
        if _PLURAL.search(self.text):
            for end in ("s", ""):
                yield Template(_PLURAL.sub(end, self.text), _PLURAL.sub(end, self.translation))
        yield self

    @cached_property
    def words(self) -> list[str]:
        """The words that every text made of the template has."""
        return words(HOLE.sub("\0", self.text))

    @cached_property
    def size(self) -> int:
        """How many words the template has, also those that go on in a hole."""
        return len(words(HOLE.sub(" ", self.text)))

    @cached_property
    def order(self) -> tuple[int, int, str]:
        """Templates that say more by themselves come first: by the letters of their words, then by all characters."""
        return -sum(map(len, self.words)), -len(HOLE.sub("", self.text)), self.text

    @cached_property
    def literals(self) -> list[str]:
        """The texts around the holes: one more than there are holes."""
        found = HOLE.split(self.text)[::2]
        return [""] * self._joined_before + found + [""] * self._joined_after

    @cached_property
    def names(self) -> list[str]:
        """The names of the holes, in order; "" for those at the ends."""
        return [""] * self._joined_before + HOLE.split(self.text)[1::2] + [""] * self._joined_after

    @cached_property
    def of_words(self) -> list[bool]:
        """Which holes are among words, as in "{who} reads", not beside a mark, behind a comma or in code.

        They hold no sentence.
        """
        around = zip(self.names, self.literals[:-1], self.literals[1:], strict=True)
        return [
            bool(name)
            and not (_MARK.search(before.rstrip()[-1:]) or before.endswith(", ") or _MARK.match(after.lstrip()))
            for name, before, after in around
        ]

    @cached_property
    def in_code(self) -> list[bool]:
        """Which holes are in code, as in `{source}`."""
        return ["".join(self.literals[: k + 1]).count("`") % 2 == 1 for k in range(len(self.names))]

    @property
    def _joined_before(self) -> bool:
        return is_joined(self.text[:1], ",;:)")

    @property
    def _joined_after(self) -> bool:
        return is_joined(self.text[-1:], "(")

    def match(self, text: str) -> Iterator[list[str]]:
        """What stands in the holes, if the text may have been made of this template.

        Each literal is taken where it occurs first, so the time is linear in the text; in a template that is joined to
        what stands before it, where it occurs last. Of two holes with a blank between them, the first may hold up to
        `MOST_BLANKS` blanks. The first letter may be a capital.
        """
        first, *inner, last = self.literals
        if padded := self._joined_before and not text[:1].isspace():
            text = " " + text
        if self._joined_after:
            text += " "
        same = text.startswith(first) or (first and text[:1].lower() + text[1 : len(first)] == first)
        end = len(text) - len(last)
        if not same or len(first) > end or not text.endswith(last):
            return
        if self._joined_before and not self._joined_after:
            found = _holes_from_right(text[len(first) : end], inner)
            if found is not None and self._has_plurals(found):
                yield [found[0][padded:], *found[1:]]
        for skipped in range(MOST_BLANKS + 1 if " " in inner else 1):
            found = _holes(text[len(first) : end], inner, skipped)
            if found is not None and self._has_plurals(found):
                yield [found[0][padded:], *found[1:]]

    def _has_plurals(self, values: list[str]) -> bool:
        named = zip(self.names, values, strict=True)
        return all(value in _PLURALS for name, value in named if name.startswith("plural"))

    def filled(self, values: list[str]) -> str:
        """The translation of a text that has these values in its holes."""
        named = dict(zip(self.names, values, strict=True))
        text = values[0].rstrip() if self._joined_before else ""
        for k, part in enumerate(HOLE.split(self.translation)):
            text = joined(text, named.get(part, f"{{{part}}}") if k % 2 else part)
        return joined(text, values[-1].strip()) if self._joined_after else text
