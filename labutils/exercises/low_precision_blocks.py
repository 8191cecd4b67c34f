"""Unit 22 (sub-byte): blocks quantized to E2M1 with an 8-bit scale (NVFP4 and MXFP4), and the inverse."""

from __future__ import annotations

import torch

from ..spec.exercise import Bound, Case, Cost, KernelExercise, KnownMistake, Number, Points, array, out, register
from ._codes import (
    CODES,
    E2M1,
    E4M3,
    MIDPOINTS,
    NORMAL,
    OUTLIER,
    SIZES,
    SMALL,
    STEP,
    WIDE,
    ZEROS,
    decode,
    encode,
    is_power,
    midpoints,
    near_tie,
)
from .low_precision_rounding import roundings

UNIT = "22_sub_byte"

# --- blocks to E2M1: NVFP4 and MXFP4 -------------------------------------------------------------------------------


def packed(code: torch.Tensor) -> torch.Tensor:
    """Two 4-bit codes per byte, the even one in the low half."""
    return code[:, 0::2] + 16 * code[:, 1::2]


def unpacked(byte: torch.Tensor) -> torch.Tensor:
    byte = byte.long()
    return torch.stack([byte % 16, byte // 16], -1).flatten(1)


def _nv_code(x, tensor_scale, largest=6.0):
    """Codes of the block scales, (G, 1)."""
    return encode(x.abs().amax(1, keepdim=True) / (largest * tensor_scale), E4M3)


def _quotient(x, scale):
    return torch.where(scale > 0, x / scale.clamp_min(1e-300), 0.0 * x)


def _nv(x, tensor_scale, code=encode, scale_code=None, scale=None) -> dict[str, torch.Tensor]:
    scale_code = _nv_code(x, tensor_scale) if scale_code is None else scale_code
    scale = decode(scale_code, E4M3) * tensor_scale if scale is None else scale
    return {"codes": packed(code(_quotient(x, scale), E2M1)), "scales": scale_code[:, 0].double()}


def mx_code(x, up=0) -> torch.Tensor:
    """E8M0: the power of two that brings the largest |x| to [4, 8), as 127 + power; 0 for a block of zeros."""
    amax = x.abs().amax(1, keepdim=True)
    return torch.where(amax > 0, torch.frexp(amax.clamp_min(1e-30))[1] - 1 - 2 + up + 127, 0).double()


def _mx(x, code=encode, scale_code=None) -> dict[str, torch.Tensor]:
    scale_code = mx_code(x) if scale_code is None else scale_code
    scale = torch.where(scale_code > 0, torch.exp2(scale_code - 127), 0.0)
    return {"codes": packed(code(_quotient(x, scale), E2M1)), "scales": scale_code[:, 0]}


def _doubt_nv(x, tensor_scale) -> dict[str, torch.Tensor]:
    """Codes are in doubt where the block's scale is, or where the quotient is near a tie and the division rounds."""
    exact = x.abs().amax(1, keepdim=True) / (6 * tensor_scale)
    scale = decode(encode(exact, E4M3), E4M3) * tensor_scale
    torn = near_tie(exact, E4M3)
    doubt = near_tie(_quotient(x, scale), E2M1) & ~is_power(scale)
    return {
        "codes": torch.where(torn, 255 * STEP, packed(STEP * doubt.double())),
        "scales": STEP * torn[:, 0].double(),
    }


def _blocks(sizes, g) -> torch.Tensor:
    """Blocks to quantize, (G, SIZE)."""
    G, size, mix = sizes["G"], sizes["SIZE"], sizes["mix"]
    x = torch.randn(G, size, generator=g, dtype=torch.float64)
    if mix == MIDPOINTS:
        x = midpoints((G, size), g, E2M1)
        x[torch.arange(G), torch.randint(0, size, (G,), generator=g)] = 6.0
        x = x * torch.exp2(torch.arange(G)[:, None] % 7 - 5.0)
    elif mix == ZEROS:
        x[::2] = 0.0 * x[::2]
    elif mix == OUTLIER:
        x[torch.arange(G), torch.randint(0, size, (G,), generator=g)] = -30.0
    elif mix == SMALL:
        x = x * torch.exp2(torch.arange(G)[:, None] % 14 - 17.0)
    elif mix in (SIZES, WIDE):
        x = x * torch.exp2(torch.arange(G)[:, None] % 9 - 6.0)
    return x


def _of(G, size, mix=NORMAL, tensor_scale=2.0**-6):
    return {"G": G, "SIZE": size, "HALF": size // 2, "mix": mix, "tensor_scale": tensor_scale}


def _draw_blocks(rng) -> dict:
    tensor_scale = rng.choice([1, 3, 5, 7]) * 2.0 ** -rng.randrange(5, 9)
    return _of(rng.randrange(1, 300), 16, rng.randrange(7), tensor_scale)


def _block_cost(sizes, item) -> Cost:
    G, size = sizes["G"], sizes["SIZE"]
    return Cost(item * G * size, G * (size // 2 + 1), 3 * G * size)


def _pairs_swapped(result):
    byte = result["codes"].long()
    return {"codes": byte % 16 * 16 + byte // 16, "scales": result["scales"]}


def _halves(code):
    """Element i packed with element i + half a block."""
    half = code.shape[1] // 2
    return code[:, :half] + 16 * code[:, half:]


def _over_two(x, reduce):
    """The maximum over a block and its neighbor: blocks of twice the size."""
    pairs = len(x) // 2 * 2
    wide = x.clone()
    if not pairs:
        return reduce(wide)
    wide[:pairs] = (
        x[:pairs].abs().reshape(pairs // 2, -1).amax(1).repeat_interleave(2)[:, None].expand(pairs, x.shape[1])
    )
    return reduce(wide)


def block_mistakes(compute, scale_code, of_size: int) -> tuple[KnownMistake, ...]:
    """Mistakes of both formats: `compute(x, code=, scale_code=, **more)`, and `scale_code(x, **more)`."""
    return (
        KnownMistake(
            "wrong-formula",
            "{name}: the two nibbles of each byte are swapped: the even element is in the low four bits",
            lambda x, **more: _pairs_swapped(compute(x, **more)),
        ),
        KnownMistake(
            "wrong-formula",
            "{name} packs element i with element i + half a block: neighbors share a byte",
            lambda x, **more: compute(x, **more) | {"codes": _of_halves(compute, x, more)},
        ),
        KnownMistake(
            "wrong-formula",
            f"the scales belong to blocks of {2 * of_size}, not {of_size}",
            lambda x, **more: compute(x, scale_code=_over_two(x, lambda w: scale_code(w, **more)), **more),
        ),
        KnownMistake(
            "wrong-formula",
            "the scale comes from the largest x, not from the largest |x|",
            lambda x, **more: compute(x, scale_code=scale_code(x.clamp_min(0), **more), **more),
        ),
        *roundings(E2M1, lambda code: lambda x, **more: compute(x, code=code, **more)),
    )


def _of_halves(compute, x, more):
    codes = unpacked(compute(x, **more)["codes"])
    return _halves(codes)


NV_MISTAKES = (
    KnownMistake(
        "wrong-formula",
        "{name}: x is divided by the unrounded scale: divide by the E4M3 scale that is stored",
        lambda x, tensor_scale: _nv(
            x, tensor_scale, scale=(x.abs().amax(1, keepdim=True) / 6).expand(len(x), 1)
        ),
    ),
    KnownMistake(
        "wrong-formula",
        "the scale maps the largest |x| to 8: the largest value of E2M1 is 6",
        lambda x, tensor_scale: _nv(x, tensor_scale, scale_code=_nv_code(x, tensor_scale, 8.0)),
    ),
    KnownMistake(
        "wrong-formula",
        "the scale maps the largest |x| to 4: the largest value of E2M1 is 6",
        lambda x, tensor_scale: _nv(x, tensor_scale, scale_code=_nv_code(x, tensor_scale, 4.0)),
    ),
    KnownMistake(
        "wrong-formula",
        "tensor_scale is not used: a block's scale is amax / (6 · tensor_scale)",
        lambda x, tensor_scale: _nv(x, 1.0),
    ),
    KnownMistake(
        "wrong-formula",
        "{name}: x is divided by the block's scale only; the full scale is block scale · tensor_scale",
        lambda x, tensor_scale: _nv(x, tensor_scale, scale=decode(_nv_code(x, tensor_scale), E4M3)),
    ),
    KnownMistake(
        "wrong-formula",
        "the block's scale is amax / 6 · tensor_scale: divide by tensor_scale",
        lambda x, tensor_scale: _nv(x, tensor_scale, scale_code=_nv_code(x, 1 / tensor_scale)),
    ),
    KnownMistake(
        "wrong-formula",
        "{name}: the scales are powers of two, as in MXFP4: here they are E4M3",
        lambda x, tensor_scale: _mx(x),
    ),
    *block_mistakes(_nv, lambda x, tensor_scale: _nv_code(x, tensor_scale), 16),
)  # fmt: skip

register(
    KernelExercise(
        id=f"{UNIT}/nvfp4",
        title="NVFP4: blocks of 16",
        entry="nvfp4",
        points=Points(
            correct=3,
            bounds=(Bound("bytes moved, relative to the minimum", "moved_bytes", "compulsory_bytes", at_most=1.1),),
        ),
        arguments={
            "x": array("G", "SIZE", fill=_blocks),
            "tensor_scale": Number("tensor_scale"),
            "codes": out("G", "HALF", dtype="uint8"),
            "scales": out("G", dtype="uint8"),
        },
        reference=_nv,
        magnitude=_doubt_nv,
        contract=CODES,
        cost=_block_cost,
        cases=(
            Case("one block", _of(1, 16), fill="position"),
            Case("2 blocks, tensor_scale is not a power of two", _of(2, 16, tensor_scale=3 * 2.0**-9), fill="wide"),
            Case("49 blocks: 0.25, 0.75, 1.25, …: ties between two codes", _of(49, 16, MIDPOINTS)),
            Case("20 blocks: some of zeros", _of(20, 16, ZEROS), fill="position"),
            Case("33 blocks: one outlier", _of(33, 16, OUTLIER, 2.0**-4), fill="wide"),
            Case("70 blocks, some so small that the scale is subnormal, or 0", _of(70, 16, SMALL, 2.0**-5)),
            Case("40 blocks, tensor_scale is so large that scales are subnormal, or 0", _of(40, 16, SIZES, 256.0)),
            Case("130 blocks of different sizes", _of(130, 16, SIZES, 5 * 2.0**-9), fill="position"),
            Case("257 blocks, not aligned to 16 bytes", _of(257, 16, SIZES), fill="wide", layout="offset"),
        ),
        draw=_draw_blocks,
        tiny=Case("a block of 16", _of(1, 16)),
        bench=_of(2**23, 16, tensor_scale=2.0**-9),
        known_mistakes=NV_MISTAKES,
    )
)  # fmt: skip


MX_MISTAKES = (
    *(
        KnownMistake(
            "wrong-formula",
            f"the power of two is {'too large' if up > 0 else 'too small'} by a factor of {2 ** abs(up)}: "
            "it brings the largest |x| to [4, 8)",
            lambda x, up=up: _mx(x, scale_code=mx_code(x, up)),
        )
        for up in (1, 2, -1)
    ),
    KnownMistake(
        "wrong-formula",
        "{name} is the power without the bias: E8M0 stores power + 127",
        lambda x: _mx(x) | {"scales": (mx_code(x)[:, 0] - 127) % 256},
    ),
    KnownMistake(
        "wrong-formula",
        "{name}: the scale is E4M3, as in NVFP4: here it is a power of two, E8M0",
        lambda x: _nv(x, 1.0),
    ),
    *block_mistakes(_mx, mx_code, 32),
)

register(
    KernelExercise(
        id=f"{UNIT}/mxfp4",
        title="MXFP4: blocks of 32",
        entry="mxfp4",
        points=Points(correct=2),
        arguments={
            "x": array("G", "SIZE", fill=_blocks),
            "codes": out("G", "HALF", dtype="uint8"),
            "scales": out("G", dtype="uint8"),
        },
        reference=_mx,
        magnitude=lambda x: {n: torch.zeros_like(v) for n, v in _mx(x).items()},
        contract=CODES,
        cost=_block_cost,
        cases=(
            Case("one block", _of(1, 32)),
            Case("35 blocks: ties between two codes", _of(35, 32, MIDPOINTS), fill="position"),
            Case("20 blocks: some of zeros", _of(20, 32, ZEROS), fill="wide"),
            Case("33 blocks: one outlier", _of(33, 32, OUTLIER)),
            Case("40 blocks of small numbers", _of(40, 32, SMALL), fill="position"),
            Case(
                "130 blocks of different sizes, not aligned to 16 bytes",
                _of(130, 32, SIZES),
                fill="wide",
                layout="offset",
            ),
        ),
        draw=lambda rng: _of(rng.randrange(1, 300), 32, rng.randrange(7)),
        tiny=Case("a block of 32", _of(1, 32)),
        bench=_of(2**22, 32),
        known_mistakes=MX_MISTAKES,
    )
)


# --- the inverse ---------------------------------------------------------------------------------------------------


def _any_codes(sizes, g) -> torch.Tensor:
    return torch.randint(0, 256, (sizes["G"], sizes["HALF"]), generator=g)


def _any_scales(sizes, g) -> torch.Tensor:
    """E4M3 codes up to 64, including 0 and a subnormal code."""
    code = torch.randint(0, 105, (sizes["G"],), generator=g)
    code[1::5] = torch.randint(0, 8, code[1::5].shape, generator=g)
    return code


def _dequantized(codes, scales, tensor_scale, value=lambda c: decode(c, E2M1), scale=lambda s: decode(s, E4M3)):
    return value(unpacked(codes)) * scale(scales)[:, None] * tensor_scale


def _with_leading_one(code, of):
    """Values where nonzero subnormal codes get a leading 1 and an exponent lower by one."""
    code = code.long()
    m = code % 2 ** (of.bits - 1)
    wrong = torch.copysign((1 + m / 2**of.mantissa) * 2.0**-of.bias, decode(code, of))
    return torch.where((m > 0) & (m < 2**of.mantissa), wrong, decode(code, of))


register(
    KernelExercise(
        id=f"{UNIT}/dequantize",
        title="Dequantize NVFP4 to fp16",
        entry="dequantize",
        points=Points(correct=2),
        arguments={
            "codes": array("G", "HALF", fill=_any_codes, dtype="uint8"),
            "scales": array("G", fill=_any_scales, dtype="uint8"),
            "tensor_scale": Number("tensor_scale"),
            "x": out("G", "SIZE"),
        },
        reference=_dequantized,
        magnitude=lambda **inputs: _dequantized(**inputs).abs(),
        contract=CODES,
        cost=lambda sizes, item: Cost(
            sizes["G"] * (sizes["HALF"] + 1), item * sizes["G"] * sizes["SIZE"], 2 * sizes["G"] * sizes["SIZE"]
        ),
        cases=(
            Case("one block", _of(1, 16)),
            Case("5 blocks", _of(5, 16, tensor_scale=3 * 2.0**-9), fill="position"),
            Case("130 blocks", _of(130, 16), fill="wide"),
            Case("257 blocks, not aligned to 16 bytes", _of(257, 16, tensor_scale=7 * 2.0**-8), layout="offset"),
        ),
        draw=lambda rng: _of(
            rng.randrange(1, 300), 16, tensor_scale=rng.choice([1, 3, 5]) * 2.0 ** -rng.randrange(4, 8)
        ),
        tiny=Case("a block of 16", _of(1, 16)),
        bench=_of(2**23, 16, tensor_scale=2.0**-9),
        known_mistakes=(
            KnownMistake(
                "wrong-formula",
                "the two nibbles of each byte are swapped: the even element is in the low four bits",
                lambda codes, **more: _dequantized(codes.long() % 16 * 16 + codes.long() // 16, **more),
            ),
            KnownMistake(
                "wrong-formula",
                "{name} has no signs: the sign is bit 3 of a 4-bit code",
                lambda **inputs: _dequantized(**inputs).abs(),
            ),
            KnownMistake(
                "wrong-formula",
                "{name} is not multiplied by tensor_scale",
                lambda codes, scales, tensor_scale: _dequantized(codes, scales, 1.0),
            ),
            KnownMistake(
                "wrong-formula",
                "{name} is not multiplied by the block scales",
                lambda codes, scales, tensor_scale: _dequantized(codes, scales, tensor_scale, scale=torch.ones_like),
            ),
            KnownMistake(
                "wrong-formula",
                "the scale codes are used as integers: decode them from E4M3",
                lambda **inputs: _dequantized(**inputs, scale=lambda s: s),
            ),
            KnownMistake(
                "wrong-formula",
                "the scales are read as powers of two, as in MXFP4: they are E4M3",
                lambda **inputs: _dequantized(**inputs, scale=lambda s: torch.exp2(s - 127)),
            ),
            KnownMistake(
                "wrong-formula",
                "the codes are used as integers: 0 to 7 mean 0, 0.5, 1, 1.5, 2, 3, 4, 6",
                lambda **inputs: _dequantized(**inputs, value=lambda c: (c % 8 * (1 - 2 * (c // 8))).double()),
            ),
            *(
                KnownMistake(
                    "wrong-formula",
                    "two blocks use the same scale: a block has 16 values",
                    lambda codes, scales, tensor_scale, step=step: _dequantized(
                        codes, scales[torch.arange(len(scales)) // 2 * step], tensor_scale
                    ),
                )
                for step in (1, 2)
            ),
            KnownMistake(
                "wrong-formula",
                "code 1 is decoded wrongly: it is subnormal, 0.5, without a leading 1",
                lambda **inputs: _dequantized(
                    **inputs, value=lambda c: _with_leading_one(c, E2M1), scale=lambda s: _with_leading_one(s, E4M3)
                ),
            ),
        ),
    )
)
