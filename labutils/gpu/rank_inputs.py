"""What the ranks of unit 23 compute with: whole numbers, so that every order of additions gives the same result."""

from __future__ import annotations

import random

import torch

BASE = 16
"""Digits of an element: rank r contributes BASE**r, so that a wrong sum names the ranks that it holds."""


def vectors(world: int, n: int) -> list[list[int]]:
    """x of each rank. Element i of rank r is (i + 1)·16**r."""
    return [[(i + 1) * BASE**rank for i in range(n)] for rank in range(world)]


def weights(width: int, hidden: int) -> list[torch.Tensor]:
    """w_up (width, hidden), b_up (hidden,), w_down (hidden, width), b_down (width,): whole numbers, no two equal."""
    count = 2 * width * hidden + hidden + width
    values = list(range(-(count // 2), count - count // 2))
    random.Random(100 * width + hidden).shuffle(values)
    pieces, taken = [], 0
    for shape in ((width, hidden), (hidden,), (hidden, width), (width,)):
        size = torch.Size(shape).numel()
        pieces.append(torch.tensor(values[taken : taken + size]).reshape(shape))
        taken += size
    return pieces


def inputs(tokens: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """x and dy, (tokens, width)."""
    g = torch.Generator().manual_seed(7 * tokens + width)
    return tuple(torch.randint(-9, 10, (tokens, width), generator=g) for _ in range(2))
