"""Unit 04, tolerances: errors of dot products beside the learner's tolerance and a library's default."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .. import environment
from ..exercises.tolerances import row_sums

RTOL, ATOL = 1e-5, 1e-8
"""Defaults of numpy.allclose."""


def errors(K: int, dtype: torch.dtype, count: int = 200) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(errors, exact results, magnitudes), each (count,) in float64, of dot products of K fp16 numbers.

    The products are exact, and are added one after another in this format.
    """
    g = torch.Generator().manual_seed(K)
    x, y = (torch.randn(count, K, generator=g, dtype=torch.float64).half().double() for _ in range(2))
    products = x * y
    expected = products.sum(1)
    return (row_sums(products, dtype).double() - expected).abs(), expected, products.abs().sum(1)


def dot_products(tolerance: Callable) -> None:
    """Print the largest errors of accumulators in fp32 and fp16, in units of two tolerances for fp32."""
    if environment.grading_in_progress():
        return
    print(f"{'K':>6}{'accumulator':>13}{'error / yours':>16}{'error / default':>18}")
    for K in (16, 256, 4096):
        for name, dtype in (("fp32", torch.float32), ("fp16", torch.float16)):
            error, expected, magnitude = errors(K, dtype)
            pairs = zip(magnitude.tolist(), expected.tolist(), strict=True)
            try:
                mine = torch.tensor([tolerance(K, m, e, "fp32", "fp32") for m, e in pairs])
            except Exception as e:
                print(f"`tolerance` does not run yet: {type(e).__name__}")
                return
            default = RTOL * expected.abs() + ATOL
            print(f"{K:6}{name:>13}{(error / mine).max():16.3g}{(error / default).max():18.3g}")
