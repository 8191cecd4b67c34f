"""SGEMM_CUDA (Simon Boehm): matrix products from naive to warp tiles."""

from ..cuda import Case

CASES: list[Case] = []
