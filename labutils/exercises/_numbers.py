"""Known wrong numbers, and what to say of each: for plain exercises whose answer is a number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ..spec.exercise import Hint


def near(yours, value: float) -> bool:
    """Is this that number, up to rounding? Nothing that is no number is."""
    try:
        return math.isclose(float(yours), value, rel_tol=1e-9, abs_tol=1e-12)
    except (TypeError, ValueError, OverflowError):
        return False


def sentence_for(yours, messages: Mapping[float, str] | Iterable[tuple[float, str]]) -> Hint | None:
    """The sentences of the known wrong values that equal yours; None without any."""
    pairs = messages.items() if isinstance(messages, Mapping) else messages
    return Hint.of(text for value, text in pairs if near(yours, value))
