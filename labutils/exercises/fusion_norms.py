"""Unit 13: fused kernels with a norm."""

import torch

from ..spec.exercise import (
    Bound,
    Case,
    Contract,
    Cost,
    KernelExercise,
    KnownMistake,
    Points,
    array,
    out,
    register,
)

RMS_EPS, LAYER_EPS = 1e-6, 1e-5


def by_row(vector, x):
    """vector[m] in place of vector[n]; NaN where the vector is too short."""
    m = torch.arange(x.shape[0])
    short = torch.where(m < vector.numel(), 0.0, torch.nan)
    return (vector[m.clamp(max=vector.numel() - 1)] + short)[:, None].expand_as(x)


def wrong(sentence: str, compute, kind: str = "wrong-formula") -> KnownMistake:
    return KnownMistake(kind, sentence, compute)


IN_FP16 = "{name} uses squares computed in fp16, which are inf above 65504: convert to fp32 before you square"


def in_fp16(squares):
    """What fp16 makes of them: inf where they are too large."""
    return squares.half().double()


def _terms(sizes) -> int:
    """Depth of a row's sum over lanes and trees, at most N/32 additions, plus a few roundings."""
    return 24 + sizes["N"] // 32


def _width(x) -> int:
    return 1 << (x.shape[1] - 1).bit_length()


def _rms(x, w, eps=RMS_EPS):
    return x * torch.rsqrt((x**2).mean(1, keepdim=True) + eps) * w


def _layer(x, w, b, eps=LAYER_EPS):
    centered = x - x.mean(1, keepdim=True)
    return centered * torch.rsqrt((centered**2).mean(1, keepdim=True) + eps) * w + b


def _moved(most: float) -> Bound:
    """A vector that every row reads again counts each time, although it comes from a cache."""
    return Bound("bytes requested per compulsory byte", "moved_bytes", "compulsory_bytes", at_most=most)


def large_value_cases(half: int, bfloat: int) -> tuple[Case, Case]:
    """Rows in 16 bits with one large value in each, so that a square or a sum in 16 bits shows: `half` rows in fp16,
    `bfloat` in bf16."""
    return (
        Case(f"{half} × 999, fp16, one large value per row", {"M": half, "N": 999}, "outliers", dtype="float16"),
        Case(
            f"{bfloat} × 1000, bf16, padded rows, one large value in each",
            {"M": bfloat, "N": 1000},
            "outliers",
            "padded",
            "bfloat16",
        ),
    )


def _norm_cases(shifted: bool = False) -> tuple[Case, ...]:
    cases = [
        Case("one element", {"M": 1, "N": 1}),
        Case("2 × 3", {"M": 2, "N": 3}, "position"),
        Case("4 × 1, a single column, wide range", {"M": 4, "N": 1}, "wide"),
        Case("5 × 127, one short of a power of two", {"M": 5, "N": 127}, "position"),
        Case("4 × 128, a power of two", {"M": 4, "N": 128}),
        Case("6 × 129, one more than a power of two", {"M": 6, "N": 129}, "position"),
        Case("17 × 115, padded rows", {"M": 17, "N": 115}, layout="padded"),
        Case("9 × 700, values up to ten thousand", {"M": 9, "N": 700}, "large"),
        Case("6 × 243, wide range", {"M": 6, "N": 243}, "wide"),
        Case("8 × 328, a multiple of 8 but not of 16, values of about a thousandth", {"M": 8, "N": 328}, "faint"),
        Case("7 × 997, a prime, not aligned to 16 bytes", {"M": 7, "N": 997}, layout="offset"),
        *large_value_cases(20, 6),
        Case("90 × 255, many rows", {"M": 90, "N": 255}, "position"),
    ]
    if shifted:
        cases.insert(-3, Case("8 × 650, mean 1000, standard deviation 1", {"M": 8, "N": 650}, "shifted"))
    return tuple(cases)


def _draw(rng) -> dict[str, int]:
    columns = [rng.randrange(2, 200), 2 ** rng.randrange(5, 10) + rng.choice([-1, 0, 1]), rng.randrange(300, 2000)]
    return {"M": rng.randrange(1, 40), "N": rng.choice(columns)}


def _norm(
    name: str, title: str, points: Points, inputs: tuple[str, ...], reference, magnitude, draw=_draw, bench=None, **more
) -> None:
    arguments = {n: array("N") if n in ("w", "b") else array("M", "N") for n in inputs} | {"out": out("M", "N")}
    matrices, vectors = sum(n not in ("w", "b") for n in inputs), sum(n in ("w", "b") for n in inputs)
    register(
        KernelExercise(
            id=f"13_fusion/{name}",
            title=title,
            entry=name,
            points=points,
            arguments=arguments,
            reference=reference,
            magnitude=magnitude,
            contract=Contract(terms=_terms),
            cost=lambda sizes, item: Cost(
                item * sizes["N"] * (matrices * sizes["M"] + vectors),
                item * sizes["M"] * sizes["N"],
                8 * sizes["M"] * sizes["N"],
            ),
            draw=draw,
            tiny=Case("3 rows of 4", {"M": 3, "N": 4}, "integers"),
            bench=bench or {"M": 8192, "N": 4096},
            **more,
        )
    )


_norm(
    "rms_norm",
    "RMSNorm",
    Points(correct=3, bounds=(_moved(1.55),)),
    ("x", "w"),
    _rms,
    lambda x, w: _rms(x, w).abs(),
    cases=_norm_cases(),
    library=lambda x, w: torch.nn.functional.rms_norm(x, x.shape[1:], w, RMS_EPS),
    known_mistakes=(
        wrong("{name} is divided by √Σx²: divide the sum by N first", lambda x, w: _rms_sum(x, w, 1)),
        wrong("{name} leaves out the weight", lambda x, w: _rms(x, torch.ones_like(w))),
        wrong("{name} is x · w, not divided by the root mean square", lambda x, w: x * w),
        wrong("{name} is divided by the mean square, without the root", lambda x, w: _no_root(x, w)),
        wrong("{name} is multiplied by the root mean square", lambda x, w: x * torch.sqrt(_ms(x) + RMS_EPS) * w),
        wrong("{name} is a LayerNorm: RMSNorm does not subtract the mean", lambda x, w: _layer(x, w, 0.0, RMS_EPS)),
        wrong("{name} leaves out eps under the root", lambda x, w: _rms(x, w, 0.0)),
        wrong("{name} uses the eps of LayerNorm, 1e-5; that of RMSNorm is 1e-6", lambda x, w: _rms(x, w, LAYER_EPS)),
        wrong("eps is added to the root, not under the root", lambda x, w: x / (torch.sqrt(_ms(x)) + RMS_EPS) * w),
        wrong("the weight is added, not multiplied", lambda x, w: _rms(x, torch.ones_like(w)) + w),
        wrong(
            "the mean divides by BLOCK_N; divide by N",
            lambda x, w: _rms_sum(x, w, _width(x)),
            "padded-lanes",
        ),
        wrong("each lane past the end adds 1", lambda x, w: _rms_ones(x, w), "padded-lanes"),
        wrong(IN_FP16, lambda x, w: _rms_in_fp16(x, w), "precision"),
        wrong("{name} uses the weight by row, not by column", lambda x, w: _rms(x, by_row(w, x)), "transposed"),
        wrong(
            "every row of {name} is the result of row 0", lambda x, w: _rms(x[:1], w).expand_as(x), "first-block-only"
        ),
    ),
)


def _ms(x):
    return (x**2).mean(1, keepdim=True)


def _rms_sum(x, w, count):
    return x * torch.rsqrt((x**2).sum(1, keepdim=True) / count + RMS_EPS) * w


def _rms_in_fp16(x, w):
    return x * torch.rsqrt(in_fp16(x**2).mean(1, keepdim=True) + RMS_EPS) * w


def _rms_ones(x, w):
    """NaN, which fits nothing, where the lanes change so little that any imprecise result would fit."""
    squares, lanes = (x**2).sum(1, keepdim=True), _width(x) - x.shape[1]
    lanes = torch.where(lanes < 0.02 * squares, torch.nan, lanes)
    return x * torch.rsqrt((squares + lanes) / x.shape[1] + RMS_EPS) * w


def _no_root(x, w):
    return x / (_ms(x) + RMS_EPS) * w


def _silu(x):
    return x * torch.sigmoid(x)


def _chain(x, residual, w):
    return _silu(_rms(x + residual, w))


def _chain_magnitude(x, residual, w):
    """The sum cancels: its error is relative to |x| + |residual|, scaled like the sum. SiLU's slope is at most 1.1."""
    s = x + residual
    scale = torch.rsqrt(_ms(s) + RMS_EPS) * w.abs()
    n = _rms(s, w)
    return 1.1 * (x.abs() + residual.abs()) * scale + n.abs() + _silu(n).abs() * n.clamp(max=0).abs()


_norm(
    "rms_residual_silu",
    "Residual, RMSNorm and SiLU in one kernel",
    Points(correct=4, bounds=(_moved(1.4),)),
    ("x", "residual", "w"),
    _chain,
    _chain_magnitude,
    cases=_norm_cases(),
    library=lambda x, residual, w: torch.nn.functional.silu(
        torch.nn.functional.rms_norm(x + residual, x.shape[1:], w, RMS_EPS)
    ),
    known_mistakes=(
        wrong("{name} leaves out the residual", lambda x, residual, w: _chain(x, 0, w)),
        wrong("the residual is added after the norm", lambda x, residual, w: _silu(_rms(x, w) + residual)),
        wrong("{name} leaves out the SiLU", lambda x, residual, w: _rms(x + residual, w)),
        wrong("{name} is the sigmoid: SiLU is n · sigmoid(n)", lambda x, residual, w: _sigmoid_of(x, residual, w)),
        wrong("the SiLU is applied before the norm", lambda x, residual, w: _rms(_silu(x + residual), w)),
        wrong(
            "the weight is applied after the SiLU", lambda x, residual, w: _chain(x, residual, torch.ones_like(w)) * w
        ),
        wrong("{name} leaves out the weight", lambda x, residual, w: _chain(x, residual, torch.ones_like(w))),
        wrong("the mean square is that of x, without the residual", lambda x, residual, w: _x_alone(x, residual, w)),
        wrong("divided by √Σ: divide the sum by N first", lambda x, residual, w: _silu(_rms_sum(x + residual, w, 1))),
        wrong(
            "the mean divides by BLOCK_N; divide by N",
            lambda x, residual, w: _silu(_rms_sum(x + residual, w, _width(x))),
            "padded-lanes",
        ),
        wrong(IN_FP16, lambda x, residual, w: _silu(_rms_in_fp16(x + residual, w)), "precision"),
        wrong(
            "every row of {name} is the result of row 0",
            lambda x, residual, w: _chain(x[:1], residual[:1], w).expand_as(x),
            "first-block-only",
        ),
    ),
)


def _sigmoid_of(x, residual, w):
    return torch.sigmoid(_rms(x + residual, w))


def _x_alone(x, residual, w):
    return _silu((x + residual) * torch.rsqrt(_ms(x) + RMS_EPS) * w)


def _layer_magnitude(x, w, b):
    """Subtracting the mean cancels: the error is relative to |x| and to the terms of the mean."""
    scale = torch.rsqrt(((x - x.mean(1, keepdim=True)) ** 2).mean(1, keepdim=True) + LAYER_EPS)
    return (x.abs() + x.abs().mean(1, keepdim=True)) * scale * w.abs() + b.abs()


def _layer_mistakes(block, lanes) -> tuple[KnownMistake, ...]:
    """`block`: BLOCK_N for a row of x; `lanes`: those of all its blocks."""
    return (
        wrong("{name} leaves out the bias", lambda x, w, b: _layer(x, w, 0.0)),
        wrong("{name} leaves out the weight", lambda x, w, b: _layer(x, torch.ones_like(w), b)),
        wrong("weight and bias are swapped", lambda x, w, b: _layer(x, b, w)),
        wrong("the mean is not subtracted: this is an RMSNorm", lambda x, w, b: _rms(x, w, LAYER_EPS) + b),
        wrong("the variance divides by N − 1; divide by N", lambda x, w, b: _sample(x, w, b)),
        wrong("divided by the root mean square, not by the standard deviation", lambda x, w, b: _mean_square(x, w, b)),
        wrong("{name} is divided by the variance, without the root", lambda x, w, b: _no_deviation(x, w, b)),
        wrong("{name} leaves out eps under the root", lambda x, w, b: _layer(x, w, b, 0.0)),
        wrong("{name} uses the eps of RMSNorm, 1e-6; LAYER_EPS is 1e-5", lambda x, w, b: _layer(x, w, b, RMS_EPS)),
        wrong(
            "lanes past the end add mean² to the variance: mask again after subtracting",
            lambda x, w, b: _padded_variance(x, w, b, lanes(x)),
            "padded-lanes",
        ),
        wrong("the mean is not subtracted in the result", lambda x, w, b: _not_centered(x, w, b)),
        wrong(
            "the bias is added before the weight is multiplied", lambda x, w, b: _layer(x, torch.ones_like(w), b) * w
        ),
        wrong(
            "the means divide by BLOCK_N; divide by N",
            lambda x, w, b: _block_means(x, w, b, block(x), block(x)),
            "padded-lanes",
        ),
        wrong(
            "the mean divides by BLOCK_N; divide by N",
            lambda x, w, b: _block_means(x, w, b, block(x), x.shape[1]),
            "padded-lanes",
        ),
        wrong(
            "the variance divides by BLOCK_N; divide by N",
            lambda x, w, b: _block_means(x, w, b, x.shape[1], block(x)),
            "padded-lanes",
        ),
        wrong(IN_FP16, lambda x, w, b: _layer_in_fp16(x, w, b), "precision"),
        wrong(
            "every row of {name} is the result of row 0",
            lambda x, w, b: _layer(x[:1], w, b).expand_as(x),
            "first-block-only",
        ),
    )


_norm(
    "layer_norm",
    "LayerNorm",
    Points(correct=3, bounds=(_moved(2.05),)),
    ("x", "w", "b"),
    _layer,
    _layer_magnitude,
    cases=_norm_cases(shifted=True),
    library=lambda x, w, b: torch.nn.functional.layer_norm(x, x.shape[1:], w, b, LAYER_EPS),
    known_mistakes=_layer_mistakes(_width, _width),
)


def _long_block(x) -> int:
    """BLOCK_N of the launcher for long rows."""
    N = x.shape[1]
    return 2048 if N <= 7168 else 4096 if N <= 20_480 else 8192


def _long_lanes(x) -> int:
    return -(-x.shape[1] // _long_block(x)) * _long_block(x)


def _long_cases() -> tuple[Case, ...]:
    return (
        Case("2 × 3", {"M": 2, "N": 3}, "position"),
        Case("3 × 1, a single column, wide range", {"M": 3, "N": 1}, "wide"),
        Case("9 × 115, padded rows", {"M": 9, "N": 115}, layout="padded"),
        Case("3 × 2047, one short of a block", {"M": 3, "N": 2047}, "position"),
        Case("2 × 2048, exactly one block", {"M": 2, "N": 2048}),
        Case("3 × 2049, one more than a block", {"M": 3, "N": 2049}, "position"),
        Case("2 × 4096, two blocks, wide range", {"M": 2, "N": 4096}, "wide"),
        Case("4 × 5000, padded rows", {"M": 4, "N": 5000}, layout="padded"),
        Case("3 × 9001, not aligned to 16 bytes", {"M": 3, "N": 9001}, layout="offset"),
        Case("3 × 3000, values of about a thousandth", {"M": 3, "N": 3000}, "faint"),
        Case("3 × 12000, values up to ten thousand", {"M": 3, "N": 12_000}, "large"),
        Case("3 × 20000, mean 1000, standard deviation 1", {"M": 3, "N": 20_000}, "shifted"),
        *large_value_cases(20, 6),
        Case("2 × 24585, fp16", {"M": 2, "N": 24_585}, dtype="float16"),
        Case("40 × 3000, many rows", {"M": 40, "N": 3000}, "position"),
    )


def _draw_long(rng) -> dict[str, int]:
    near = rng.choice([2048, 4096, 8192, 24_576]) + rng.choice([-1, 0, 1])
    return {"M": rng.randrange(1, 6), "N": rng.choice([rng.randrange(2, 500), near, rng.randrange(2500, 20_000)])}


def _partial(x, w, b, for_mean, for_variance):
    """With sums over slices of the row, divided by N."""
    N = x.shape[1]
    mean = x[:, for_mean].sum(1, keepdim=True) / N
    squares = (((x - mean) ** 2)[:, for_variance]).sum(1, keepdim=True)
    return (x - mean) * torch.rsqrt(squares / N + LAYER_EPS) * w + b


def _last(x) -> slice:
    return slice(_long_lanes(x) - _long_block(x), None)


EVERY = slice(None)

_LONG_MISTAKES = (
    wrong(
        "the mean takes its sum from the last block only: add up all blocks",
        lambda x, w, b: _partial(x, w, b, _last(x), EVERY),
        "missing-accumulation",
    ),
    wrong(
        "the mean takes its sum from the first block only: add up all blocks",
        lambda x, w, b: _partial(x, w, b, slice(_long_block(x)), EVERY),
        "missing-accumulation",
    ),
    wrong(
        "the variance takes its sum from the last block only: add up all blocks",
        lambda x, w, b: _partial(x, w, b, EVERY, _last(x)),
        "missing-accumulation",
    ),
    wrong(
        "the variance takes its sum from the first block only: add up all blocks",
        lambda x, w, b: _partial(x, w, b, EVERY, slice(_long_block(x))),
        "missing-accumulation",
    ),
)

_norm(
    "long_layer_norm",
    "LayerNorm of long rows",
    Points(correct=3, bounds=(_moved(3.05),)),
    ("x", "w", "b"),
    _layer,
    _layer_magnitude,
    draw=_draw_long,
    bench={"M": 4096, "N": 24_576},
    cases=_long_cases(),
    library=lambda x, w, b: torch.nn.functional.layer_norm(x, x.shape[1:], w, b, LAYER_EPS),
    known_mistakes=(*_layer_mistakes(_long_block, _long_lanes), *_LONG_MISTAKES),
)


def _layer_in_fp16(x, w, b):
    centered = x - x.mean(1, keepdim=True)
    return centered * torch.rsqrt(in_fp16(centered**2).mean(1, keepdim=True) + LAYER_EPS) * w + b


def _sample(x, w, b):
    var = x.var(1, keepdim=True) if x.shape[1] > 1 else torch.full((len(x), 1), torch.nan, dtype=x.dtype)
    return (x - x.mean(1, keepdim=True)) * torch.rsqrt(var + LAYER_EPS) * w + b


def _mean_square(x, w, b):
    return (x - x.mean(1, keepdim=True)) * torch.rsqrt(_ms(x) + LAYER_EPS) * w + b


def _no_deviation(x, w, b):
    return (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, correction=0) + LAYER_EPS) * w + b


def _padded_variance(x, w, b, width):
    mean = x.mean(1, keepdim=True)
    squares = ((x - mean) ** 2).sum(1, keepdim=True) + (width - x.shape[1]) * mean**2
    return (x - mean) * torch.rsqrt(squares / x.shape[1] + LAYER_EPS) * w + b


def _not_centered(x, w, b):
    return x * torch.rsqrt(x.var(1, keepdim=True, correction=0) + LAYER_EPS) * w + b


def _block_means(x, w, b, of_mean, of_variance):
    """With sums divided by these numbers."""
    mean = x.sum(1, keepdim=True) / of_mean
    squares = ((x - mean) ** 2).sum(1, keepdim=True)
    return (x - mean) * torch.rsqrt(squares / of_variance + LAYER_EPS) * w + b
