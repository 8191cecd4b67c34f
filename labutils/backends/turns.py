"""The programs of one interpreted launch: in what order they run, and who runs while another waits.

A GPU promises no order, so a seed draws one. Programs of one wave (`access.WAVE`) stay together, so that what is
counted by waves does not depend on it. A program that polls is interrupted by others that have not begun yet, the
lowest number first, until it sees what it waits for. They run on top of it: a program that has begun goes on only when
those have finished, so that a second barrier of all programs comes to no end here.
"""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable, Iterator

import numpy as np
from numpy.random import default_rng  # here: a caged process imports nothing any more

from .access import WAVE, Recorder
from .errors import Deadlock

POLLS, MOST_POLLS = 8, 2000
"""Looks in vain until another program runs, and until it is a deadlock if there is none."""

DEEPEST = 400
"""Programs that may wait at the same time."""

DRAWN = 1 << 20
"""Programs of a launch whose order is drawn. Those after them run by number, last, and interrupt nobody."""


def drawn_order(total: int, seed: int) -> np.ndarray:
    """The numbers of all programs in the order in which they run. Seed 0: by number."""
    if not seed:
        return np.arange(total)
    random = default_rng(seed)
    waves = random.permutation(-(-total // WAVE))
    within = random.permuted(np.tile(np.arange(WAVE), (waves.size, 1)), axis=1)
    order = (within + WAVE * waves[:, None]).ravel()
    return order[order < total]


class Programs:
    """Stands for a kernel's function during a launch: each call runs the next program, if one is left."""

    def __init__(self, function: Callable, recorder: Recorder, seed: int):
        self.__globals__, self.__name__ = function.__globals__, function.__name__
        self.__signature__ = inspect.signature(function)
        self._function, self._recorder, self._seed = function, recorder, seed
        self._waiting = 0

    def begin(self, grid: tuple[int, int, int], move_to: Callable[[int, int, int], None]) -> None:
        """`move_to(x, y, z)` makes the interpreter answer for that program from now on."""
        self._grid, self._move_to = grid, move_to
        total = grid[0] * grid[1] * grid[2]
        drawn = min(total, DRAWN)
        self._left = np.ones(drawn, bool)
        self._order = itertools.chain(self._next_of(drawn_order(drawn, self._seed)), range(drawn, total))
        self._lowest = 0
        self._number, self._polls, self._arguments = -1, 0, {}

    def _next_of(self, order: np.ndarray) -> Iterator[int]:
        return (int(n) for n in order if self._left[n])

    def __call__(self, **arguments) -> None:
        self._arguments = arguments
        number = next(self._order, None)
        if number is not None:
            self._run(number)

    def _run(self, number: int) -> None:
        self._left[number : number + 1] = False  # a slice: numbers past the drawn ones have no place here
        self._number, self._polls = number, 0
        place = self._place(number)
        self._move_to(*place)
        self._recorder.program(place, number)
        self._function(**self._arguments)

    def _place(self, number: int) -> tuple[int, int, int]:
        _, y, z = self._grid
        return number // (y * z), number // z % y, number % z

    def polled(self, for_good: bool = True) -> None:
        """The program that runs has looked at something and changed nothing. `for_good`: at a variable of atomics, so
        that it waits for ever if nobody else is left."""
        self._polls += 1
        if self._polls % POLLS:
            return
        while self._lowest < self._left.size and not self._left[self._lowest]:
            self._lowest += 1
        none_left = self._lowest == self._left.size or self._waiting == DEEPEST
        if none_left and for_good and self._polls >= MOST_POLLS:
            raise Deadlock(f"program {self._number} waits for what no other program does any more")
        if not none_left:
            self._interrupt(self._lowest)

    def moved(self) -> None:
        """The program that runs has changed something."""
        self._polls = 0

    def _interrupt(self, other: int) -> None:
        number, polls = self._number, self._polls
        sys.setrecursionlimit(max(sys.getrecursionlimit(), 50 * DEEPEST))
        self._waiting += 1
        try:
            self._run(other)
        finally:
            self._waiting -= 1
        self._number, self._polls = number, polls
        self._move_to(*self._place(number))
        self._recorder.go_on(self._place(number), number)
