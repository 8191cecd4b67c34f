"""Bounds that several units share."""

from ..spec.exercise import Bound

NO_STORE_CONFLICTS = Bound(
    "wavefronts of stores to shared memory, relative to no bank conflicts",
    "shared_store_wavefronts",
    "ideal_shared_store_wavefronts",
    at_most=1,
)
"""For `also` of a bound on bank conflicts of loads: a tile that is stored the wrong way round costs as much."""
