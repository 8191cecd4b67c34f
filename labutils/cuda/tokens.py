"""CUDA C++ split into tokens, as a compiler does it, in time proportional to the text.

Every alternative of the pattern below succeeds as soon as it has begun: a comment or a string that is never closed is a
token as well. So no character is looked at more often than a fixed number of times, whatever the text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<space>[ \t\n\r\f\v]+)
    |(?P<comment>//[^\n]*|/\*[^*]*(?:\*(?!/)[^*]*)*(?P<ended>\*/)?)
    |(?P<string>(?P<prefix>u8|[uUL]?)(?P<raw>R?)"(?:\\.|[^"\\\n])*(?P<closed>")?
        |(?:u8|[uUL]?)'(?:\\.|[^'\\\n])*(?P<shut>')?)
    |(?P<number>\.?[0-9](?:[eEpP][+-]|'?[\w.])*)
    |(?P<word>[^\W\d]\w*)
    |(?P<sign>::|->|&&|.)""",
    re.DOTALL | re.VERBOSE,
)


class Token(NamedTuple):
    """One token. `kind` is "word", "number", "string" (characters too), "sign", "space", "comment", "raw" (a raw
    string's beginning) or "broken" (a string or a comment that is never closed); `start` is its offset in the text."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.start + len(self.text)


def split(source: str) -> list[Token]:
    """All tokens of a text; joined, their texts are the text again."""
    found = []
    for m in _TOKEN.finditer(source):
        kind = m.lastgroup
        if kind == "string":
            kind = "raw" if m["raw"] else "string" if m["closed"] or m["shut"] else "broken"
        elif kind == "comment":
            kind = "comment" if m["ended"] or m["comment"][1] == "/" else "broken"
        found.append(Token(kind, m.group(), m.start()))
    return found


def code(source: str) -> list[Token]:
    """The tokens that a compiler looks at: neither blanks nor comments."""
    return [t for t in split(source) if t.kind not in ("space", "comment")]


OPENING = {"(": ")", "[": "]", "{": "}"}


def partners(found: list[Token]) -> list[int]:
    """For each opening bracket the number of the token that closes it (the last one's, where nothing does); for every
    other token its own number."""
    result, open_at = list(range(len(found))), []
    for i, token in enumerate(found):
        if token.kind != "sign":
            continue
        if token.text in OPENING:
            open_at.append(i)
        elif token.text in ")]}":
            while open_at:
                begun = open_at.pop()
                result[begun] = i
                if OPENING[found[begun].text] == token.text:
                    break
    for begun in open_at:
        result[begun] = len(found) - 1
    return result
