"""One edit of a text: a span and what stands there instead."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """Replace `text[begin:end]` by `new`; `operator` names the kind of mistake."""

    operator: str
    begin: int
    end: int
    new: str

    def applied(self, text: str) -> str:
        return text[: self.begin] + self.new + text[self.end :]


def regions(text: str) -> list[tuple[int, int]]:
    """Spans of characters between the markers of solution regions: what a learner writes. Without markers the whole."""
    spans, begin, at = [], None, 0
    for line in text.splitlines(keepends=True):
        if "### BEGIN SOLUTION" in line:
            begin = at + len(line)
        elif "### END SOLUTION" in line and begin is not None:
            spans.append((begin, at))
            begin = None
        at += len(line)
    return spans or [(0, len(text))]
