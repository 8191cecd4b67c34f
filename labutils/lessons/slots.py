"""Requests in slots, step by step, in fixed batches or continuously: unit 19's simulation of batching."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Stay:
    """One request in a slot: its number, and the steps in which it generates a token."""

    request: int
    slot: int
    steps: range


def requests(count: int = 12, longest: int = 16, seed: int = 1) -> list[int]:
    """Tokens that each request will generate: many short requests and a few long ones."""
    rng = random.Random(seed)
    return [rng.choice([rng.randrange(1, longest // 3), rng.randrange(1, longest + 1)]) for _ in range(count)]


def in_batches(tokens: Sequence[int], slots: int) -> list[Stay]:
    """A batch starts together; the next batch waits until its longest request is done."""
    stays, now = [], 0
    for first in range(0, len(tokens), slots):
        batch = tokens[first : first + slots]
        stays += [Stay(first + i, i, range(now, now + n)) for i, n in enumerate(batch)]
        now += max(batch)
    return stays


def continuous(tokens: Sequence[int], slots: int) -> list[Stay]:
    """A slot takes the next request in the step after its previous one is done."""
    free, stays = [0] * slots, []
    for request, n in enumerate(tokens):
        slot = min(range(slots), key=lambda i: (free[i], i))
        stays.append(Stay(request, slot, range(free[slot], free[slot] + n)))
        free[slot] += n
    return stays


def steps_of(stays: Sequence[Stay]) -> int:
    return max(s.steps.stop for s in stays)


def use_of_slots(stays: Sequence[Stay], slots: int) -> float:
    """Fraction of slots, over all steps, that generate a token."""
    return sum(len(s.steps) for s in stays) / (slots * steps_of(stays))
