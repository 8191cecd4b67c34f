"""Bounds that several units share."""

from ..spec.exercise import Bound

NO_STORE_CONFLICTS = Bound(
    "wavefronts of stores to shared memory, relative to no bank conflicts",
    "shared_store_wavefronts",
    "ideal_shared_store_wavefronts",
    at_most=1,
)
"""For `also` of a bound on bank conflicts of loads: a tile that is stored the wrong way round costs as much."""


def one_side(roots: int) -> Bound:
    """For `also` of bounds on divergence: a kernel that computes both sides of a branch for every thread, and then
    selects, has no branch that could diverge. Only one of the sides takes square roots, `roots` in all."""
    return Bound("square roots", "square_roots", at_most=1.25 * roots)
