"""What `tl.multiple_of`, `tl.max_contiguous` and `tl.max_constancy` promise the compiler, held against the values.

The compiler believes them: by a false one it loads four lanes at once that lie elsewhere. What is looked at is what it
could use: groups of up to 16 lanes, and pointers to 16 bytes. Two ways to keep offsets inside break no promise, since
Triton's own tutorials promise of them that they are contiguous: the rest of a group may be clamped to one value
(`tl.where(offs < n, offs, 0)`), and a group may wrap to 0 once (`offs % n`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

WIDEST = 16
"""Lanes of one access, and bytes of it."""


class FalsePromise(ValueError):
    """A hint to the compiler that is not true."""


def check(name: str, data: np.ndarray, values: Sequence[int], itemsize: int = 0) -> None:
    """Raise FalsePromise if a hint, `name` with a value for each axis, is not true of these values; `itemsize` is that
    of what pointers point to."""
    data = np.atleast_1d(np.asarray(data)).astype(np.int64)
    for axis, value in enumerate(map(int, values)):
        if name == "multiple_of":
            broken = _no_multiples(data, value, itemsize)
        else:
            broken = _CHECKS[name](np.moveaxis(data, axis, -1), value, itemsize)
        if broken.size:
            some = ", ".join(map(str, broken[:4].tolist())) + " …" * (broken.size > 4)
            raise FalsePromise(f"tl.{name} promises {value} to the compiler, which is not true of {some}")


def _no_multiples(data: np.ndarray, value: int, itemsize: int) -> np.ndarray:
    """Values that begin a run along every axis and are no multiples."""
    value = max(1, min(value, WIDEST) if itemsize else value)
    first = np.ones(data.shape, bool)
    for axis in range(data.ndim):
        step = np.diff(data, axis=axis)
        behind = tuple(slice(int(k == axis), None) for k in range(data.ndim))
        first[behind] &= (step != (itemsize or 1)) & (step != 0)
    return data[first & (data % value != 0)]


def _contiguous(lanes: np.ndarray, value: int, itemsize: int) -> np.ndarray:
    """The first group that does not go up by one."""
    groups = _groups(lanes, value)
    fine = np.diff(groups) == (itemsize or 1)
    if not itemsize:
        to_zero = ~fine & (groups[:, 1:] == 0)
        same = groups == groups[:, -1:]
        clamped = np.logical_and.accumulate(same[:, ::-1], axis=1)[:, ::-1][:, 1:]
        lower = groups[:, -1:] <= groups[:, :-1]
        fine |= clamped & lower | to_zero & (to_zero.sum(axis=1, keepdims=True) == 1)
    return _first(groups, ~fine.all(axis=1))


def _constant(lanes: np.ndarray, value: int, itemsize: int) -> np.ndarray:
    """The first group that is not the same everywhere."""
    groups = _groups(lanes, value)
    return _first(groups, (groups != groups[:, :1]).any(axis=1))


def _groups(lanes: np.ndarray, value: int) -> np.ndarray:
    size = min(max(value, 1), WIDEST, lanes.shape[-1])
    return lanes[..., : lanes.shape[-1] // size * size].reshape(-1, size)


def _first(groups: np.ndarray, bad: np.ndarray) -> np.ndarray:
    return groups[bad][0] if bad.any() else groups[:0, 0]


_CHECKS: dict[str, Callable[[np.ndarray, int, int], np.ndarray]] = {
    "max_contiguous": _contiguous,
    "max_constancy": _constant,
}

HINTS = ("multiple_of", *_CHECKS)
"""Names of the hints in Triton's language."""
