"""Which of a student's notebooks is graded.

The unit's name decides first, then ids of the unit's cells, then likeness to the unit, then whether anything is
written, and last the time. An unfilled notebook that wins over one with answers is noted.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST = 0.5
"""Share of the unit's cells that must be found, by id or at all, for a notebook to have the unit's ids or to be like
it. One cell more than another notebook has is no reason to take an older one."""


@dataclass(frozen=True)
class Fit:
    """How well a notebook fits a unit: the share of the unit's graded cells that were found by an id, the share that
    was found at all, and the number of answers that are not as they were released."""

    ids: float = 0.0
    found: float = 0.0
    written: int = 0

    @property
    def kind(self) -> tuple[bool, bool]:
        """Ids, then likeness."""
        return self.ids >= MOST, self.found >= MOST


def rank(has_units_name: bool, fit: Fit, when: tuple):
    """The order of notebooks, the last one is graded; `when` orders those that are equal in all else by time."""
    return has_units_name, *fit.kind, fit.written > 0, when
