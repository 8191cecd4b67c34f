"""Where an output is wrong, and what sets the refused cases apart from those that pass."""

from __future__ import annotations

import math

import torch

from ..spec.exercise import Case
from . import regions

FILLS = {
    "below": "every value far below zero: a maximum that starts at 0 in place of -inf is never replaced",
    "opposed": "every score far below zero: a maximum that starts at 0 in place of -inf is never replaced",
    "large": "very large values: exp overflows unless the maximum is subtracted first",
    "faint": "values of about a thousandth, whose squares are no larger than ε: a wrong place of ε shows",
    "lone": "rows of -inf with one finite value: inf − inf and 0 · inf are NaN",
    "masked": "entries of -inf, also a whole row of them: inf − inf and 0 · inf are NaN",
    "ties": "many equal values",
    "wide": "very large beside very small values",
    "outliers": "one value per row whose square leaves fp16 and is most of the sum of squares (rounded to 16 bits, it "
    "changes the whole row)",
    "peaked": "a few entries are most of each row's sum: rounding them to 16 bits changes the whole row",
    "shifted": "values far from zero beside their spread: the difference of two large numbers loses its digits",
}
LAYOUTS = {
    "padded": "the rows lie further apart than their length: step from row to row by the stride",
    "offset": "the arrays start one element after a 16-byte boundary: a vector access may not start there",
    "far": "the arrays span more than 2**31 elements: multiply by their first stride in 64 bits",
    "columns": "the arrays lie column by column: use both strides",
    "input columns": "the inputs lie column by column: use both strides",
}


def where(name: str, bad: torch.Tensor) -> str:
    """Where the wrong elements are, if it is a block; "" where all are wrong or nothing simple holds."""
    if bad.all() or not bad.any():
        return ""
    if (found := regions.slices(bad)) is not None:
        return f"only {name}[{', '.join(found)}] is wrong"
    if (found := regions.slices(~bad)) is not None:
        return f"all but {name}[{', '.join(found)}] is wrong"
    return ""


LIKELY = 0.05
"""A pattern of the cases counts if it would arise by chance less often than this."""

BLOCKS = (1024, 512, 256, 128, 64, 32, 16, 8)
"""Blocks that may leave a tail. Of numbers that 2 or 4 divides there are too many."""


def apart(refused: list[Case], passed: list[Case], in_blocks: bool = True) -> str:
    """What all refused cases share and no other has, as half a sentence; "" where there is nothing. `in_blocks`: a
    kernel works on blocks, so that the last one may be a partial one."""
    if not passed or not refused:
        return ""
    for attribute, texts in (("fill", FILLS), ("layout", LAYOUTS), ("dtype", {})):
        values = {getattr(c, attribute) for c in refused}
        if len(values) == 1 and not values & {getattr(c, attribute) for c in passed}:
            value = values.pop()
            if value == "offset" and len(refused) == 1:
                continue  # of one case, the layout is one of many things that are its own
            if value in texts:
                return (
                    f"only the case{'s' * (len(refused) > 1)} with {texts[value]}"
                    if attribute == "fill"
                    else texts[value]
                )
            if attribute == "dtype" and value:
                return f"only the cases in {value}: convert to float32 after each load, and back at the store"
    return _sizes(refused, passed, in_blocks)


def _dimensions(cases: list[Case]) -> list[str]:
    """The sizes of the first case that are whole numbers in all cases: a case of a plain function has other arguments
    among its sizes."""
    return [d for d in cases[0].sizes if all(type(c.sizes.get(d, 0)) is int for c in cases)]


def _separating(refused: list[Case], passed: list[Case]) -> str | None:
    """The one dimension above some size of which all cases fail, if that is no coincidence."""
    sizes = _dimensions([*refused, *passed]) if passed else []
    found = [d for d in sizes if min(c.sizes.get(d, 0) for c in refused) > max(c.sizes.get(d, 0) for c in passed)]
    return _no_coincidence(found, refused, passed)


def _in_a_tail(refused: list[Case], passed: list[Case]) -> tuple[str, int] | None:
    """The one dimension, and the largest block, of which all cases that pass have a multiple and none that fails, if
    that is no coincidence."""
    found = []
    for d in _dimensions([*refused, *passed]):
        r, p = [c.sizes.get(d, 0) for c in refused], [c.sizes.get(d, 0) for c in passed]
        blocks = [b for b in BLOCKS if all(v % b for v in r) and not any(v % b for v in p)]
        if blocks and len(set(p)) > 1:
            found.append((d, blocks[0]))
    return _no_coincidence(found, refused, passed)


def _no_coincidence(found: list, refused: list[Case], passed: list[Case]):
    """What was found of one dimension alone, if chance hardly explains it: with few cases of either kind, or of several
    dimensions, it says nothing of the cause."""
    chance = len(_dimensions([*refused, *passed])) / math.comb(len(refused) + len(passed), len(passed))
    return found[0] if len(found) == 1 and chance < LIKELY else None


def _sizes(refused: list[Case], passed: list[Case], in_blocks: bool) -> str:
    if (d := _separating(refused, passed)) is not None:
        least, most = min(c.sizes.get(d, 0) for c in refused), max(c.sizes.get(d, 0) for c in passed)
        return f"only cases with {d} of {least} or more fail, those up to {d} = {most} pass"
    if (tail := _in_a_tail(refused, passed)) is not None:
        said = f"only cases in which {tail[0]} is not a multiple of {tail[1]} fail"
        return f"{said}: the last, partial block is wrong" if in_blocks else said
    return ""


def advice(refused: list[Case], passed: list[Case]) -> str:
    """What to look at where the size of a dimension sets the refused cases apart; "" where it does not."""
    d = _separating(refused, passed) if refused else None
    if d is None:
        return ""
    largest = max(c.sizes.get(d, 0) for c in passed)
    if largest == 1:
        return f"With {d} = 1 the index along {d} is always 0: check that index and its stride in each address."
    return (
        f"Up to {d} = {largest} one warp, block or iteration may be enough: check what changes from the second one on: "
        "the offsets, what is kept, and what is added more than once."
    )
