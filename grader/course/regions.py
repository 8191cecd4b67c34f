"""The regions of a cell that learners must not see: answers, hidden tests and mark schemes.

A region stands between lines `### BEGIN SOLUTION` and `### END SOLUTION`; in CUDA C++ they begin with `// `.
nbgrader looks for these words anywhere in a line and lets a stray END pass. We accept exactly one spelling,
so that no slip of the pen turns an answer into released text.
"""

import re
from contextlib import contextmanager
from dataclasses import dataclass

SOLUTION, HIDDEN_TESTS, MARK_SCHEME = "SOLUTION", "HIDDEN TESTS", "MARK SCHEME"

_EXACT = re.compile(r"\s*(?:// )?### (BEGIN|END) (SOLUTION|HIDDEN TESTS|MARK SCHEME)\s*")
# What nbgrader takes for a marker, wherever it stands.
_STOCK = re.compile(r"(?:BEGIN|END) (?:SOLUTION|HIDDEN TESTS|MARK SCHEME)")
# What an author may have meant as a marker: at the start of a line or of a comment, in any case and spacing.
_LOOSE = re.compile(
    r"(?:^|#|//|<!--)[\W_]*(?:begin|end)[\W_]*(?:solution|hidden[\W_]*test|mark(?:ing)?[\W_]*scheme)",
    re.IGNORECASE,
)
# In code, three number signs are kept for markers; this catches misspelt ones.
_RESERVED = re.compile(r"\s*(?:// ?)?###(?!#)")


class BuildError(Exception):
    """What is wrong with a source, in one sentence that names the place."""


@contextmanager
def located(place: str):
    """Put the place in front of any BuildError raised inside."""
    try:
        yield
    except BuildError as problem:
        raise BuildError(f"{place}: {problem}") from None


@dataclass(frozen=True)
class Region:
    """A marked region: its kind, the line numbers (from 0) of both markers, and the lines between them."""

    kind: str
    begin: int
    end: int
    lines: tuple[str, ...]

    def code_lines(self, comment: str = "#") -> list[str]:
        """The lines that are neither blank nor only a comment, without their indentation."""
        stripped = (line.strip() for line in self.lines)
        return [line for line in stripped if line and not line.startswith(comment)]


def looks_like_marker(line: str, code: bool) -> bool:
    """Whether a line is a marker or could have been meant as one."""
    return bool(_STOCK.search(line) or _LOOSE.search(line) or code and _RESERVED.match(line))


def find_regions(source: str, code: bool = True) -> list[Region]:
    """All regions of a cell, in order. Raises BuildError for anything but well-formed, separate regions."""
    lines = source.split("\n")
    found: list[Region] = []
    opened: tuple[str, int] | None = None
    for number, line in enumerate(lines):
        marker = _EXACT.fullmatch(line)
        if marker is None:
            if looks_like_marker(line, code):
                raise BuildError(
                    f"line {number + 1}, {line.strip()!r}, looks like a marker but is not spelled like "
                    f"'### BEGIN {SOLUTION}', alone on its line"
                )
            continue
        side, kind = marker.groups()
        if side == "BEGIN":
            if opened:
                raise BuildError(f"BEGIN {kind} on line {number + 1} stands inside {_since(opened)}")
            opened = kind, number
        else:
            if opened is None:
                raise BuildError(f"END {kind} on line {number + 1} has no BEGIN")
            if opened[0] != kind:
                raise BuildError(f"END {kind} on line {number + 1} does not end {_since(opened)}")
            found.append(Region(kind, opened[1], number, tuple(lines[opened[1] + 1 : number])))
            opened = None
    if opened:
        raise BuildError(f"BEGIN {opened[0]} on line {opened[1] + 1} has no END")
    return found


def outside(source: str, regions: list[Region]) -> str:
    """The text of a cell without its regions."""
    hidden = {n for region in regions for n in range(region.begin, region.end + 1)}
    return "\n".join(line for n, line in enumerate(source.split("\n")) if n not in hidden)


def _since(opened: tuple[str, int]) -> str:
    return f"the region that BEGIN {opened[0]} opens on line {opened[1] + 1}"
