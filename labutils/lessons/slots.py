"""Requests in slots, step by step: in batches, or continuously. What unit 19 shows of batching."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Stay:
    """One request in a slot: its number, and the steps in which it makes a token."""

    request: int
    slot: int
    steps: range


def requests(count: int = 12, longest: int = 16, seed: int = 1) -> list[int]:
    """Tokens that each request is going to make: a few long ones among many short ones."""
    rng = random.Random(seed)
    return [rng.choice([rng.randrange(1, longest // 3), rng.randrange(1, longest + 1)]) for _ in range(count)]


def in_batches(tokens: Sequence[int], slots: int) -> list[Stay]:
    """A batch starts together; the next one waits until the longest of it is done."""
    stays, now = [], 0
    for first in range(0, len(tokens), slots):
        batch = tokens[first : first + slots]
        stays += [Stay(first + i, i, range(now, now + n)) for i, n in enumerate(batch)]
        now += max(batch)
    return stays


def continuous(tokens: Sequence[int], slots: int) -> list[Stay]:
    """A slot takes the next request in the step after its last one is done."""
    free, stays = [0] * slots, []
    for request, n in enumerate(tokens):
        slot = min(range(slots), key=lambda i: (free[i], i))
        stays.append(Stay(request, slot, range(free[slot], free[slot] + n)))
        free[slot] += n
    return stays


def steps_of(stays: Sequence[Stay]) -> int:
    return max(s.steps.stop for s in stays)


def use_of_slots(stays: Sequence[Stay], slots: int) -> float:
    """Share of slots, over all steps, in which a token is made."""
    return sum(len(s.steps) for s in stays) / (slots * steps_of(stays))
