"""Reading CUDA C++ as text: what every reader of a cell needs first."""

from __future__ import annotations

import re


def blank(source: str) -> str:
    """The source with comments and the insides of string literals replaced by blanks, character for character."""

    def spaces(match: re.Match) -> str:
        text = match.group(0)
        if text[0] not in "/\"'":  # a number, whose digits may be separated by apostrophes
            return text
        if text[0] in "\"'":
            return text[0] + " " * (len(text) - 2) + text[-1]
        return re.sub(r"[^\n]", " ", text)

    number = r"(?<![\w.])\.?\d(?:[eEpP][+-]|'?[\w.])*"
    return re.sub(
        rf'{number}|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', spaces, source, flags=re.S
    )
