"""What one piece of evidence says: a sentence on the cause, and one thing to try."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Evidence:
    """`cause` goes on after the symptom; with `replaces` it takes its place. `advice` may be empty: then the
    diagnosis keeps its own. `array`: the input whose elements are missing; `nothing`: none of it has any effect."""

    cause: str
    advice: str = ""
    replaces: bool = False
    array: str = ""
    nothing: bool = False
