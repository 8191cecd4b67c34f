"""Shared by the low-precision exercises: codes, quotients that may round either way, and data to quantize."""

from __future__ import annotations

import functools

import torch

from ..gpu.formats import FORMATS, Format
from ..spec.precision import Contract

E4M3, E2M1 = FORMATS["fp8 e4m3"], FORMATS["fp4 e2m1"]
CODES = Contract(dtype="float16", terms=4)
"""Scales are fp32 results of a few operations. Codes have no rounding error; they are right or wrong."""

STEP = 1.25 / (4 * 2.0**-24)
"""M of the error model for a code that may differ by one: growth · M must exceed 1."""

CLOSE = 2.0**-20
"""A quotient this close to a tie (relative) may round either way, depending on the fp32 division."""


@functools.cache
def values(of: Format) -> torch.Tensor:
    """All values from 0 to the largest one of a format, float64; the index is the code."""
    return torch.tensor([of.decode(c) for c in range(of.encode(of.largest) + 1)], dtype=torch.float64, device="cpu")


@functools.cache
def _middles(of: Format) -> torch.Tensor:
    v = values(of)
    return (v[1:] + v[:-1]) / 2


def magnitude_code(y: torch.Tensor, of: Format, ties: str = "even") -> torch.Tensor:
    """The code of |y|: of the nearest value, or the largest code. Ties to "even", "away" or "down"."""
    y = torch.nan_to_num(y.abs(), nan=0.0)
    middles = _middles(of).to(y.device)
    code = torch.searchsorted(middles, y.contiguous())
    tie = torch.cat([middles, middles.new_full((1,), torch.inf)])[code] == y
    return code + (tie & ((code % 2 == 1) if ties == "even" else torch.full_like(tie, ties == "away")))


def cut_code(y: torch.Tensor, of: Format) -> torch.Tensor:
    """The code of |y|, truncated."""
    return torch.searchsorted(values(of).to(y.device), torch.nan_to_num(y.abs(), nan=0.0).contiguous(), right=True) - 1


def signed(code: torch.Tensor, y: torch.Tensor, of: Format) -> torch.Tensor:
    """The code with the sign bit of y; -0 has it too."""
    return code + torch.signbit(y).long() * 2 ** (of.bits - 1)


def encode(y: torch.Tensor, of: Format, ties: str = "even") -> torch.Tensor:
    return signed(magnitude_code(y, of, ties), y, of).double()


def decode(codes: torch.Tensor, of: Format) -> torch.Tensor:
    """Values of signed codes; NaN for codes that are not numbers."""
    codes = torch.nan_to_num(codes, nan=0.0).long()
    known = values(of).to(codes.device)
    found = torch.cat([known, known.new_full((256,), torch.nan)])
    half = 2 ** (of.bits - 1)
    value = found[codes % half]
    return torch.where(codes // half % 2 == 1, -value, value)


def near_tie(y: torch.Tensor, of: Format) -> torch.Tensor:
    """Whether |y| is so close to the middle of two values that fp32 arithmetic may land on either side."""
    y, middles = y.abs().contiguous(), _middles(of).to(y.device)
    at = torch.searchsorted(middles, y)
    gap = torch.minimum((middles[at.clamp(max=len(middles) - 1)] - y).abs(), (y - middles[(at - 1).clamp(min=0)]).abs())
    return gap <= CLOSE * y.clamp_min(of.smallest / 4)


def is_power(scale: torch.Tensor) -> torch.Tensor:
    """Whether this is a power of two: dividing by it is exact, so no code is in doubt."""
    return torch.frexp(scale)[0] == 0.5


# --- data ----------------------------------------------------------------------------------------------------------


def midpoints(shape, g, of: Format) -> torch.Tensor:
    """Values of a format and the midpoints between them, with both signs, and zeros of both signs."""
    both = torch.cat([values(of), _middles(of)])
    x = both[torch.randint(0, len(both), shape, generator=g)]
    return x * (1 - 2 * torch.randint(0, 2, shape, generator=g))


def rows(sizes, g) -> torch.Tensor:
    """Rows to quantize, (M, N); `mix` selects the data."""
    M, N, mix = sizes["M"], sizes["N"], sizes["mix"]
    x = torch.randn(M, N, generator=g, dtype=torch.float64)
    if mix == MIDPOINTS:
        x = midpoints((M, N), g, E4M3)
        x[torch.arange(M), torch.randint(0, N, (M,), generator=g)] = E4M3.largest
        x = x * torch.exp2(torch.arange(M)[:, None] % 13 - 6.0)
    elif mix == ZEROS:
        x[::2] = 0.0 * x[::2]  # of both signs
    elif mix == OUTLIER:
        x[torch.arange(M), torch.randint(0, N, (M,), generator=g)] = -1000.0
    elif mix == SMALL:
        x = torch.randint(-60, 61, (M, N), generator=g) * 2.0**-24
    elif mix == WIDE:
        x = x * torch.exp2(torch.randint(-14, 15, (M, N), generator=g).double()).clamp(max=2.0**12)
    elif mix == SIZES:
        x = x * torch.exp2(torch.arange(M)[:, None] % 11 - 5.0)
    return x


NORMAL, MIDPOINTS, ZEROS, OUTLIER, SMALL, WIDE, SIZES = range(7)
"""Data of rows: normally distributed; ties between two codes; some rows of zeros; one element a
thousand times larger, and negative; subnormal fp16; all magnitudes; rows of different magnitude."""
