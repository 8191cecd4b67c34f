"""What a launcher's copies may do: line an array up for a kernel, and bring a kernel's result to its place.

A copy is read as an index map: each element from where to where. It is allowed where one side is a whole argument,
every element once and of the argument's own type, and the other side is scratch memory that holds the elements in the
same order: axis by axis in the order in which the argument lies in memory, or in the order of its indices. The last
axis is contiguous in the scratch array; behind each row, and behind each block of rows, some elements may be left out
(MOST_PADDING). A scratch array that one copy fills takes no other copy and is never copied from.

So each copy is a strictly increasing map from all of an argument's elements into memory of its own. A chain of such
maps is increasing as well, and the only increasing permutation is none at all: no sequence of copies transposes,
permutes, reduces, interleaves or gathers. Whatever comes out in another order, a kernel has reordered.
(An argument that does not lie in the order of its indices, such as a matrix stored by columns, has two orders to choose
from. Only cases of matrix products have such arguments.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

MOST_PADDING = 256
"""Behind a row of n elements fewer than max(256, n) may be left out, and as many rows behind n rows: the sides of the
largest tiles are 256, and a row may grow to the next power of two."""

VECTOR = 16
"""Bytes of the widest access: what begins at a multiple of it, as do its rows, needs no copy."""

SECTOR = 32

BYTES = {
    **{"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2},
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "int8", "uint8", "bool"), 1),
}
"""Bytes of an element, of every type in grader.judge.plan.DTYPES."""


class NotAlignment(ValueError):
    """A copy that does more than align or pad; the message says what, as the end of "your launcher …"."""


INTO_OUTPUT = "copies an array into the output with PyTorch, which is the kernel's work"
REARRANGED = "rearranges an array with PyTorch, which is the kernel's work"
OVERLAPS = "copies between elements that overlap, with PyTorch, which is the kernel's work"
PARTS = "copies parts of an array with PyTorch, which is the kernel's work; only a whole argument can be aligned"
GATHERS = "copies several arrays into one with PyTorch, which is the kernel's work"
BEYOND = "copies beyond the end of its scratch memory"


class Axis(NamedTuple):
    """One axis of a copy: its length, and the distances between its elements in the argument and in the scratch."""

    length: int
    argument: int
    scratch: int


def check(copies: Sequence[tuple[dict, dict]], arguments: Sequence[dict], scratch: Sequence[int]) -> None:
    """Raises NotAlignment unless these copies, as (source view, target view), align or pad and do nothing else.

    `arguments` are the launcher's, as `wire.arguments_of` describes them; `scratch` the bytes of its scratch arrays.
    """
    filled = Counter(target["scratch"] for _, target in copies if "scratch" in target)
    for source, target in copies:
        if "argument" in target and source.get("scratch", -1) in {-1, *filled}:
            raise NotAlignment(INTO_OUTPUT)
        if "scratch" in target and "scratch" in source:
            raise NotAlignment(REARRANGED)
        if "scratch" in target and filled[target["scratch"]] > 1:
            raise NotAlignment(GATHERS)
        ours, theirs = (source, target) if "argument" in source else (target, source)
        if (_last(theirs) + 1) * BYTES[theirs["dtype"]] > scratch[theirs["scratch"]]:
            raise NotAlignment(BEYOND)
        _check_one(ours, theirs, arguments[ours["argument"]])


def needless_sectors(copies: Sequence[tuple[dict, dict]], arguments: Sequence[dict]) -> int:
    """Sectors that are read and written by copies of arrays that were aligned already."""
    moved = 0
    for source, target in copies:
        ours = source if "argument" in source else target
        home = arguments[ours["argument"]]
        unit = max(VECTOR // BYTES[home["dtype"]], 1)
        *rows, last = home["strides"] or [1]
        # Its storage begins at a multiple of 256 bytes, wherever it lies.
        if last == 1 and not any(n % unit for n in (home["start"], *rows)):
            moved += 2 * -(-prod(home["shape"]) * BYTES[home["dtype"]] // SECTOR)
    return moved


def _last(view: dict) -> int:
    """The last element that a view reaches."""
    return view["offset"] + sum((n - 1) * s for n, s in zip(view["shape"], view["strides"], strict=True) if n)


def _check_one(ours: dict, theirs: dict, home: dict) -> None:
    """One copy between a view of the argument `home` and a view of scratch memory."""
    if ours["dtype"] != home["dtype"]:
        raise NotAlignment(REARRANGED)
    axes = [Axis(n, a, b) for n, a, b in zip(ours["shape"], ours["strides"], theirs["strides"], strict=True) if n != 1]
    if any(axis.length == 0 for axis in axes):
        return  # moves nothing
    if any(axis.argument == 0 or axis.scratch == 0 for axis in axes):
        raise NotAlignment(OVERLAPS)
    if ours["offset"] != home["start"]:
        raise NotAlignment(PARTS)
    wanted = [(n, s) for n, s in zip(home["shape"], home["strides"], strict=True) if n != 1]
    in_order = sorted(range(len(wanted)), key=lambda k: -wanted[k][1])
    found = _by_axis(sorted(axes, key=lambda a: -a.argument), [wanted[k] for k in in_order])
    as_indexed = [found[in_order.index(k)] for k in range(len(wanted))]
    if not any(_increases(order) for order in (found, as_indexed)):
        raise NotAlignment(REARRANGED)


def _by_axis(axes: list[Axis], wanted: list[tuple[int, int]]) -> list[Axis]:
    """The copy's map over the argument's own axes, outermost in memory first in both.

    A view may join axes that lie one in the other, and split one; both are undone here. Raises NotAlignment where the
    view is not the whole argument, or where an axis of the argument has no single distance in the scratch array.
    """
    rest, found = list(axes), []
    for length, step in reversed(wanted):
        pieces: list[Axis] = []
        while (done := prod(p.length for p in pieces)) < length:
            if not rest or rest[-1].argument != step * done:
                raise NotAlignment(PARTS)
            axis, left = rest.pop(), length // done
            if axis.length > left and axis.length % left == 0:  # it goes on in the next axis
                rest.append(Axis(axis.length // left, axis.argument * left, axis.scratch * left))
                axis = Axis(left, axis.argument, axis.scratch)
            if length % (done * axis.length):
                raise NotAlignment(PARTS)
            pieces.append(axis)
        if any(outer.scratch != inner.scratch * inner.length for inner, outer in pairwise(pieces)):
            raise NotAlignment(REARRANGED)
        found.append(Axis(length, step, pieces[0].scratch))
    if rest:
        raise NotAlignment(PARTS)
    return found[::-1]


def _increases(axes: list[Axis]) -> bool:
    """Do the elements lie in the scratch array in the order of these axes, with nothing but padding in between?"""
    if not axes:
        return True
    nested = all(
        inner.scratch * inner.length <= outer.scratch < inner.scratch * (inner.length + max(MOST_PADDING, inner.length))
        for outer, inner in pairwise(axes)
    )
    return nested and axes[-1].scratch == 1
