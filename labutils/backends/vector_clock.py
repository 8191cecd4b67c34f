"""Happens-before between the programs of a launch, by vector clocks.

The terms are those of FastTrack (Flanagan and Freund, "FastTrack: Efficient and Precise Dynamic Race Detection", PLDI
2009). An *epoch* c@p is the part of program p between its atomic number c and the next one. A vector clock holds, for
each program, how many of its epochs happened before now. Two accesses to one element, of which one is a store, race
when neither happened before the other.
"""

from __future__ import annotations

from typing import NamedTuple


class Epoch(NamedTuple):
    """`clock` atomics of `program` came before this."""

    program: int
    clock: int


class VectorClock:
    """For each program, how many of its epochs happened before. Programs that it does not know have none."""

    def __init__(self):
        self._clocks: dict[int, int] = {}

    def __contains__(self, epoch: Epoch) -> bool:
        """Did this epoch happen before?"""
        return epoch.clock < self._clocks.get(epoch.program, 0)

    def add(self, epoch: Epoch) -> None:
        """This epoch, and those of its program before it, happened before."""
        self._clocks[epoch.program] = max(self._clocks.get(epoch.program, 0), epoch.clock + 1)

    def join(self, other: VectorClock) -> None:
        """What happened before either happened before both."""
        for program, clock in other._clocks.items():
            if clock > self._clocks.get(program, 0):
                self._clocks[program] = clock
