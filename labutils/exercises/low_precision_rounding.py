"""Unit 22: rows quantized to E4M3 with one scale each, and common rounding mistakes."""

from __future__ import annotations

import torch

from ..spec.exercise import Bound, Case, Cost, KernelExercise, KnownMistake, Points, array, out, register
from ._codes import (
    CODES,
    E4M3,
    MIDPOINTS,
    NORMAL,
    OUTLIER,
    SIZES,
    SMALL,
    STEP,
    WIDE,
    ZEROS,
    cut_code,
    encode,
    is_power,
    magnitude_code,
    near_tie,
    rows,
    signed,
)

UNIT = "22_low_precision"

# --- rows to E4M3 --------------------------------------------------------------------------------------------------


def _scale(amax: torch.Tensor) -> torch.Tensor:
    return torch.where(amax > 0, amax / E4M3.largest, 1.0)


def _quantized(x, scale, code=encode) -> dict[str, torch.Tensor]:
    return {"q": code(x / scale, E4M3), "scale": scale[:, 0]}


def _quantize(x) -> dict[str, torch.Tensor]:
    return _quantized(x, _scale(x.abs().amax(1, keepdim=True)))


def _doubt_rows(x) -> dict[str, torch.Tensor]:
    """M of the error model: either code is accepted where the quotient is near a tie and the division rounds."""
    scale = _scale(x.abs().amax(1, keepdim=True))
    doubt = near_tie(x / scale, E4M3) & ~is_power(scale)
    return {"q": STEP * doubt.double(), "scale": scale[:, 0]}


def _of_rows(change):
    """A wrong quantization: `change(x, scale)` returns the codes and the scales."""

    def compute(x):
        q, scale = change(x, _scale(x.abs().amax(1, keepdim=True)))
        return {"q": q, "scale": scale.expand(len(x), 1)[:, 0]}

    return compute


def _with_scale(scale_of):
    """The codes and scales for another scale, `scale_of(x)` of shape (M, 1) or (1, 1)."""
    return _of_rows(lambda x, scale: (encode(x / scale_of(x), E4M3), scale_of(x)))


def _flushed(y, of):
    return signed(torch.where(y.abs() < of.smallest_normal, 0, magnitude_code(y, of)), y, of)


def roundings(of, wrong) -> tuple[KnownMistake, ...]:
    """Wrong roundings of a format; `wrong(code)` uses the function code(y, format) instead of `encode`."""
    return (
        KnownMistake(
            "wrong-formula",
            "{name} has codes that are low by one: the extra bits are truncated, not rounded",
            wrong(lambda y, f: signed(cut_code(y, f), y, f)),
        ),
        KnownMistake(
            "wrong-formula",
            "{name} rounds ties away from zero: of two equally near codes, take the even one",
            wrong(lambda y, f: encode(y, f, "away")),
        ),
        KnownMistake(
            "wrong-formula",
            "{name} rounds ties down: of two equally near codes, take the even one",
            wrong(lambda y, f: encode(y, f, "down")),
        ),
        KnownMistake("wrong-formula", "{name} has no signs: the sign is the top bit of a code", wrong(magnitude_code)),
        KnownMistake(
            "wrong-formula",
            "{name} has the sign in the wrong bit, or uses two's complement: a code is a sign bit and a magnitude",
            wrong(lambda y, f: torch.where(torch.signbit(y), -magnitude_code(y, f), magnitude_code(y, f)) % 2**f.bits),
        ),
        KnownMistake(
            "wrong-formula",
            f"{{name}} flushes values below the smallest normal number, {of.smallest_normal:g}, to 0",
            wrong(_flushed),
        ),
        KnownMistake(
            "wrong-formula",
            "{name} has inverted signs",
            wrong(lambda y, f: encode(-y, f)),
        ),
    )


ROW_MISTAKES = (
    KnownMistake(
        "wrong-formula",
        "one scale is used for the whole matrix: each row needs its own",
        _with_scale(lambda x: _scale(x.abs().amax().reshape(1, 1))),
    ),
    KnownMistake(
        "wrong-formula",
        "the scale comes from the largest x, not from the largest |x|",
        _with_scale(lambda x: _scale(x.amax(1, keepdim=True))),
    ),
    KnownMistake(
        "wrong-formula",
        "{name}: x is multiplied by the scale; the codes represent x / scale",
        _of_rows(lambda x, scale: (encode(x * scale, E4M3), scale)),
    ),
    KnownMistake(
        "wrong-formula",
        "{name}: x is not divided by the scale",
        _of_rows(lambda x, scale: (encode(x, E4M3), scale)),
    ),
    KnownMistake(
        "wrong-formula",
        "{name} is 448 / amax: store the factor that codes are multiplied by, amax / 448",
        _of_rows(lambda x, scale: (encode(x / scale, E4M3), 1 / scale)),
    ),
    KnownMistake(
        "wrong-formula",
        "{name} is the largest |x| itself: divide it by 448, the largest value of E4M3",
        _with_scale(lambda x: torch.where((a := x.abs().amax(1, keepdim=True)) > 0, a, 1.0)),
    ),
    *(
        KnownMistake(
            "wrong-formula",
            f"the scale maps the largest |x| to {top}: the largest value of E4M3 is 448",
            _with_scale(lambda x, top=top: _scale(x.abs().amax(1, keepdim=True)) * 448 / top),
        )
        for top in (240, 256, 480, 57344)
    ),
    KnownMistake(
        "wrong-formula",
        "{name} is 0 for a row of zeros, and 0 / 0 is NaN: use the scale 1 there",
        _with_scale(lambda x: x.abs().amax(1, keepdim=True) / 448),
    ),
    *roundings(E4M3, lambda code: _of_rows(lambda x, scale: (code(x / scale, E4M3), scale))),
)


def _row_cost(sizes, item) -> Cost:
    M, N = sizes["M"], sizes["N"]
    return Cost(item * M * N, M * N + 4 * M, 3 * M * N)


def _mn(M, N, mix=NORMAL):
    return {"M": M, "N": N, "mix": mix}


register(
    KernelExercise(
        id=f"{UNIT}/quantize_rows",
        title="Quantize rows to E4M3",
        entry="quantize_rows",
        points=Points(
            correct=4,
            bounds=(Bound("bytes moved, relative to the minimum", "moved_bytes", "compulsory_bytes", at_most=1.05),),
        ),
        arguments={
            "x": array("M", "N", fill=rows),
            "q": out("M", "N", dtype="uint8"),
            "scale": out("M", dtype="float32"),
        },
        reference=_quantize,
        magnitude=_doubt_rows,
        contract=CODES,
        cost=_row_cost,
        cases=(
            Case("one element", _mn(1, 1), fill="position"),
            Case("3 × 127", _mn(3, 127), fill="wide"),
            Case("4 × 128", _mn(4, 128, SIZES)),
            Case(
                "13 × 300: ties between two codes, in rows whose scale is a power of two",
                _mn(13, 300, MIDPOINTS),
            ),
            Case("8 × 200: some rows of zeros", _mn(8, 200, ZEROS), fill="position"),
            Case("5 × 500: one outlier, a thousand times larger", _mn(5, 500, OUTLIER), fill="wide"),
            Case("6 × 100: subnormal fp16 numbers", _mn(6, 100, SMALL)),
            Case("7 × 333, padded rows", _mn(7, 333, SIZES), fill="position", layout="padded"),
            Case(
                "5 × 1000, not aligned to 16 bytes, all magnitudes",
                _mn(5, 1000, WIDE),
                fill="wide",
                layout="offset",
            ),
            Case("11 × 4096", _mn(11, 4096, SIZES)),
        ),
        draw=lambda rng: _mn(
            rng.randrange(1, 30), rng.choice([rng.randrange(1, 130), rng.randrange(130, 3000)]), rng.randrange(7)
        ),
        tiny=Case("2 × 6", _mn(2, 6)),
        bench=_mn(32768, 4096),
        known_mistakes=ROW_MISTAKES,
    )
)
