"""Reading CUDA C++ as text: what every reader of a cell needs first."""

from __future__ import annotations

import re

from .tokens import split


def blank(source: str) -> str:
    """The source with comments and the insides of string literals replaced by blanks, character for character."""
    pieces = []
    for kind, text, _ in split(source):
        if kind == "comment":
            text = re.sub(r"[^\n]", " ", text)
        elif kind == "string":
            first = text.index(text[-1])  # behind its prefix
            text = text[: first + 1] + " " * (len(text) - first - 2) + text[-1]
        pieces.append(text)
    return "".join(pieces)
