"""The precision that an exercise asks for, and the error that honest arithmetic of that precision can make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

ROUND_OFF = MappingProxyType(
    {"float64": 2.0**-53, "float32": 2.0**-24, "tf32": 2.0**-11, "float16": 2.0**-11, "bfloat16": 2.0**-8}
    | {"fp8 sums": 2.0**-13, "uint8": 0.0, "int32": 0.0}
)
"""Unit round-off u of each format: a rounding changes a value by at most u times its size (IEEE 754).

"fp8 sums": Hopper's tensor cores keep about 14 bits of a sum of fp8 products (DeepSeek-V3 Technical Report,
arXiv:2412.19437, section 3.5.2). Whole numbers are not rounded."""

TINY = MappingProxyType(
    {"float64": 2.0**-1074, "float32": 2.0**-126, "float16": 2.0**-25, "bfloat16": 2.0**-126}
    | {"uint8": 0.0, "int32": 0.0}
)
"""Absolute slack of each stored format: half its smallest subnormal for fp16; for the others its smallest normal
number, because GPUs may flush subnormals to zero."""


@dataclass(frozen=True)
class Contract:
    """The precision that the exercise asks for.

    `dtype` is how arrays lie in memory, `accumulate` what the arithmetic is done in, `operands` the format that
    operands may be rounded to as its inputs (None: used as stored; "tf32" for a `tl.dot` that may use it).
    `terms` is the number of roundings on the way to one element: a number, or a function of the case's sizes
    (the reduction length of a dot product). `any_order`: atomics may add in any order, so that the last bits may differ
    from run to run; exact cases must still give the same bits.
    """

    dtype: str = "float32"
    accumulate: str = "float32"
    operands: str | None = None
    terms: int | Callable[[Mapping[str, int]], int] = 4
    any_order: bool = False

    def tolerance(self, expected, magnitude, sizes: Mapping[str, int], dtype: str):
        """Largest |yours − expected| that an honest kernel can show, per element.

        [min(n, 8·√n)·u_acc + 2·u_in]·M + u_out·|y*| + tiny, the forward error bound of a sum of n terms (Higham,
        Accuracy and Stability of Numerical Algorithms, §3–4) with 8·√n for its probabilistic form; M is the same
        expression on absolute values.
        """
        n = self.terms(sizes) if callable(self.terms) else self.terms
        growth = min(n, 8 * n**0.5) * ROUND_OFF[self.accumulate]
        if self.operands is not None:
            growth += 2 * ROUND_OFF[self.operands]
        return growth * magnitude + ROUND_OFF[dtype] * expected.abs() + TINY[dtype]
