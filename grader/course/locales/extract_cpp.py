"""The messages in our own C++: what the emulator says of a kernel, as templates with holes.

A message there is a sum of string literals and of values: `"lane " + std::to_string(f.lane) + " returned"` is the
template `lane {lane} returned`. A value in brackets that holds literals itself, such as a choice between two, ends it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from grader.course.locales.extract import hole, reads_as_english

_LITERAL = r'"(?:\\.|[^"\\\n])*"'
_NO_TEXT = re.compile(rf"({_LITERAL})|//[^\n]*|/\*.*?\*/|^[ \t]*#[^\n]*$", re.DOTALL | re.MULTILINE)
_KEPT = "\x01{}\x01"
_CALL = re.compile(r"(\w+)(?:<\w+>)?\(([^()\x01]*)\)")
_TERM = r"(?:\x01\d+\x01|(?:[\w.\[\]]|::|->)+)"
_SUM = re.compile(rf"{_TERM}(?:\s*\+\s*{_TERM}|\s*\x01\d+\x01)*")
_NAME = re.compile(r"[a-z_]+")


def of_source(source: str) -> Iterator[str]:
    """The templates in a C++ file, in its order."""
    literals: list[str] = []

    def keep(found: re.Match) -> str:
        if found[1] is None:
            return " "
        literals.append(ast.literal_eval(found[1]))
        return _KEPT.format(len(literals) - 1)

    text, before = _NO_TEXT.sub(keep, source).replace("return ", ";"), ""
    while text != before:  # calls without texts become the name of what they take, from the inside out
        before, text = text, _CALL.sub(lambda call: (_NAME.findall(call[2]) or [call[1]])[-1], text)
    for found in _SUM.finditer(text):
        template, names = "", []
        for term in re.findall(_TERM, found[0]):
            if term[0] == "\x01":
                template += literals[int(term.strip("\x01"))]
            elif not template.endswith("}"):
                template += hole((_NAME.findall(term) or ["value"])[-1], names)
        if "\x01" in found[0] and "\n" not in template and reads_as_english(template):
            yield template
