"""Number formats bit by bit: how fp32, tf32, bf16, fp16, fp8 and fp4 hold a value, how fine their steps are.

Pure maths, rounding to nearest, ties to even.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """A binary floating-point format: a sign, `exponent` bits, `mantissa` bits.

    `top` says what the codes with the largest exponent mean: "ieee" (inf and NaN), "nan" (numbers, but for the very
    last code, which is NaN) or "numbers" (numbers alone, so that overflow saturates).
    """

    name: str
    exponent: int
    mantissa: int
    top: str = "ieee"

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def bias(self) -> int:
        return 2 ** (self.exponent - 1) - 1

    @property
    def largest(self) -> float:
        """The largest finite value."""
        last = (1 << self.exponent + self.mantissa) - 1
        return self.decode(last - {"ieee": 1 << self.mantissa, "nan": 1, "numbers": 0}[self.top])

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def smallest(self) -> float:
        """The smallest positive value, a subnormal one."""
        return 2.0 ** (1 - self.bias - self.mantissa)

    def step(self, value: float) -> float:
        """Distance from a value to the next larger one of this format (in magnitude)."""
        power = math.frexp(abs(value))[1] - 1 if value else -math.inf
        return 2.0 ** (max(power, 1 - self.bias) - self.mantissa)

    def decode(self, code: int) -> float:
        """The value of a code of `bits` bits."""
        sign = -1.0 if code >> (self.bits - 1) & 1 else 1.0
        magnitude = code & (1 << self.bits - 1) - 1
        power, fraction = magnitude >> self.mantissa, magnitude & (1 << self.mantissa) - 1
        if power == (1 << self.exponent) - 1:
            if self.top == "ieee":
                return math.nan if fraction else sign * math.inf
            if self.top == "nan" and fraction == (1 << self.mantissa) - 1:
                return math.nan
        if power == 0:
            return sign * fraction * self.smallest
        return sign * (1 + fraction / (1 << self.mantissa)) * 2.0 ** (power - self.bias)

    def encode(self, value: float) -> int:
        """The code of the nearest value; of two equally near ones, that whose last bit is 0.

        What is too large becomes inf, NaN or the largest value, as the format has it.
        """
        sign = int(math.copysign(1, value) < 0) << self.bits - 1
        infinity = ((1 << self.exponent) - 1) << self.mantissa
        last = (1 << self.bits - 1) - 1
        if math.isnan(value):
            return sign | (infinity | 1 << self.mantissa - 1 if self.top == "ieee" else last)
        overflow = sign | {"ieee": infinity, "nan": last, "numbers": last}[self.top]
        if math.isinf(value):
            return overflow
        step = self.step(value)
        rounded = round(abs(value) / step) * step  # Python rounds halves to even; steps are powers of two, so exact
        if rounded > self.largest:
            return overflow
        if rounded < self.smallest_normal:
            return sign | round(rounded / self.smallest)
        mantissa, power = math.frexp(rounded)
        fraction = round((2 * mantissa - 1) * (1 << self.mantissa))
        return sign | (power - 1 + self.bias) << self.mantissa | fraction

    def stored(self, value: float) -> float:
        """What is left of a value once it is stored in this format."""
        return self.decode(self.encode(value))

    def fields(self, value: float) -> tuple[str, str, str]:
        """Sign, exponent and mantissa of the stored value as bits."""
        text = f"{self.encode(value):0{self.bits}b}"
        return text[0], text[1 : 1 + self.exponent], text[1 + self.exponent :]


FORMATS = {
    f.name: f
    for f in (
        Format("fp32", 8, 23),
        Format("tf32", 8, 10),
        Format("bf16", 8, 7),
        Format("fp16", 5, 10),
        Format("fp8 e4m3", 4, 3, "nan"),
        Format("fp8 e5m2", 5, 2),
        Format("fp4 e2m1", 2, 1, "numbers"),
    )
}
"""Widest first. TF32 lives in 32-bit registers, of which tensor cores read 19 bits."""
