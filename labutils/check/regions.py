"""Sets of elements in words: `out[16:, :]`, `x[1::2]`, "out[0, 3] and 7 more"."""

from __future__ import annotations

import torch


def element(name: str, index: tuple[int, ...] | list[int]) -> str:
    """`out[0, 3]`."""
    return f"{name}[{', '.join(map(str, index))}]"


def at(name: str, shape: tuple[int, ...], flat: int) -> str:
    """The element with this number in row-major order, by its index."""
    return element(name, unravel(flat, shape))


def unravel(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of the element with this number in row-major order."""
    index = []
    for n in reversed(shape):
        index.append(flat % n)
        flat //= n
    return tuple(reversed(index))


def slices(marked: torch.Tensor) -> list[str] | None:
    """The marked elements as one slice for each axis, or None where they are no such block."""
    if not marked.any():
        return None
    found, count = [], 1
    for axis in range(marked.dim()):
        others = [d for d in range(marked.dim()) if d != axis]
        along = (marked.any(dim=others) if others else marked).nonzero().flatten().tolist()
        one = _slice(along, marked.shape[axis])
        if one is None:
            return None
        found.append(one)
        count *= len(along)
    return found if count == int(marked.sum()) else None


def _slice(along: list[int], size: int) -> str | None:
    """Positions on an axis as a slice, where they are evenly spaced."""
    first, last = along[0], along[-1]
    if len(along) == size:
        return ":" if size > 1 else "0"
    if len(along) == 1:
        return str(first)
    step = along[1] - first
    if any(b - a != step for a, b in zip(along[:-1], along[1:], strict=True)):
        return None
    if step > 1 and len(along) < 3:
        return None
    end = "" if last + step >= size else str(last + 1)
    return f"{first or ''}:{end}" + (f":{step}" if step > 1 else "")


def describe(name: str, marked: torch.Tensor) -> str:
    """The marked elements of an array: a slice, or the first of them and how many more."""
    count = int(marked.sum())
    if marked.numel() > 1 and count == marked.numel():
        return f"all of {name}"
    if (found := slices(marked)) is not None:
        return f"{name}[{', '.join(found)}]"
    return f"{element(name, marked.nonzero()[0].tolist())} and {count - 1} more"


def of_flat(name: str, shape: tuple[int, ...], flat) -> str:
    """`describe` for elements given by their numbers in row-major order."""
    marked = torch.zeros(shape, dtype=torch.bool)
    marked.view(-1)[torch.as_tensor(sorted(flat), dtype=torch.long)] = True
    return describe(name, marked)
