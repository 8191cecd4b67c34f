"""A line in a notebook for as long as something slow runs. It is gone afterwards; elsewhere nothing is shown."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from .. import environment
from ..language.show import shown

LONG_S = 2.0
"""What takes as long as this is announced."""


@contextlib.contextmanager
def line(text: str, seconds: float) -> Iterator[None]:
    """Show `text` within the block if it is expected to take so many seconds."""
    handle = _shown(text) if seconds >= LONG_S and not environment.grading_in_progress() else None
    try:
        yield
    finally:
        if handle is not None:
            handle.update({"text/plain": ""}, raw=True)


def _shown(text: str):
    """The display that can be changed; None where no notebook shows it."""
    with contextlib.suppress(ImportError):
        from IPython import get_ipython
        from IPython.display import display

        if hasattr(get_ipython(), "kernel"):
            return display({"text/plain": shown(text)}, raw=True, display_id=True)
    return None
