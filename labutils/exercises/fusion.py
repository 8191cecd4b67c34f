"""Unit 13: when fusing pays, and five fused kernels.

Dropout's mask is a function of (seed, row, column) alone: element (m, n) takes number n % 4 of those that Philox 4×32
with 10 rounds makes of the counter m·⌈N/4⌉ + n // 4. So the backward pass, a test or another GPU finds the same mask.
"""

import math
from dataclasses import replace

import torch

from ..spec.exercise import (
    Bound,
    Case,
    Contract,
    Cost,
    KernelExercise,
    KnownMistake,
    Number,
    PlainExercise,
    Points,
    array,
    out,
    register,
)
from ._numbers import near
from .elementwise_triton import _backward_magnitude, _erf_gelu, _gelu, _gelu_backward

RMS_EPS, LAYER_EPS = 1e-6, 1e-5


# --- what a chain gains --------------------------------------------------------------------------------------------


def _explain_chain(sizes, yours, expected) -> str | None:
    B, T, H = sizes["B"], sizes["T"], sizes["H"]
    x = B * T * H

    if near(yours, 7 / 3) or near(yours, 7):
        return "Nearly: the norm also reads its weight, H elements, once in either version."
    if near(yours, (3 * x + H) / (7 * x + H)):
        return "That is below 1: the speed-up is the eager chain's traffic over the fused kernel's."
    if near(yours, (8 * x + H) / (3 * x + H)) or near(yours, (9 * x + H) / (3 * x + H)):
        return "The norm is one kernel here: it reads its input once, and writes its output once."
    if near(yours, (7 * x + H) / (4 * x + H)):
        return "This fused kernel does not store the sum: it reads x and residual, and writes out."
    if near(yours, (7 * x + H) / (2 * x + H)):
        return "The fused kernel has two inputs of that size: x and residual."
    return None


register(
    PlainExercise(
        id="13_fusion/chain_speedup",
        title="The speed-up that bytes predict",
        entry="chain_speedup",
        points=Points(correct=1),
        reference=lambda B, T, H: (7 * B * T * H + H) / (3 * B * T * H + H),
        explain=_explain_chain,
        cases=(
            Case("one token of 2", {"B": 1, "T": 1, "H": 2}),
            Case("2 × 3 tokens of 8", {"B": 2, "T": 3, "H": 8}),
            Case("4 × 2048 tokens of 4096", {"B": 4, "T": 2048, "H": 4096}),
        ),
        draw=lambda rng: {"B": rng.randrange(1, 9), "T": rng.randrange(1, 99), "H": rng.randrange(1, 9999)},
    )
)

# Bandwidth and peaks of an H200: 10^9 bytes/s of a copy, 10^9 FLOP/s of the tensor cores and of the ordinary cores.
COPY, TENSOR, CORES = 4200, 989_000, 67_000

MiB = 2**20

CHAINS: dict[str, tuple[list[tuple[int, int]], tuple[int, int], int]] = {
    # name: links (bytes, FLOPs), the fused kernel, the peak of the pipe that does the FLOPs
    "bias, GELU, dropout": (
        [(128 * MiB, 32 * MiB), (128 * MiB, 512 * MiB), (160 * MiB, 64 * MiB)],
        (160 * MiB, 1600 * MiB),
        CORES,
    ),
    "large matmul, then GELU": ([(96 * MiB, 137_439 * MiB), (64 * MiB, 256 * MiB)], (96 * MiB, 137_695 * MiB), TENSOR),
    "softmax of rows too long for the chip": (
        [(256 * MiB, 128 * MiB), (384 * MiB, 512 * MiB)],
        (640 * MiB, 640 * MiB),
        CORES,
    ),
    "sum of each row, then of each column": (
        [(256 * MiB, 64 * MiB), (256 * MiB, 64 * MiB)],
        (512 * MiB, 128 * MiB),
        CORES,
    ),
    "two matmuls, the first done again for each tile of the second": (
        [(96 * MiB, 68_719 * MiB), (96 * MiB, 68_719 * MiB)],
        (128 * MiB, 16 * 68_719 * MiB + 68_719 * MiB),
        TENSOR,
    ),
    "a projection that three kernels use": (
        [(128 * MiB, 34_360 * MiB), (64 * MiB, 32 * MiB), (64 * MiB, 32 * MiB), (64 * MiB, 32 * MiB)],
        (192 * MiB, 3 * 34_360 * MiB + 96 * MiB),
        TENSOR,
    ),
}
"""Six chains of fp16 kernels with the cost of each link, and what one kernel in their place would cost."""


def _seconds(cost, bandwidth, peak):
    return max(cost[0] / (1e9 * bandwidth), cost[1] / (1e9 * peak))


def _fusion_speedup(links, fused, bandwidth, peak):
    return sum(_seconds(link, bandwidth, peak) for link in links) / _seconds(fused, bandwidth, peak)


def _make_chain(chain: int) -> dict:
    if chain < len(CHAINS):
        links, fused, peak = list(CHAINS.values())[chain]
    else:
        links = [((chain * k * 7919) % 997 + 1, (chain * k * 104_729) % 9973 + 1) for k in range(1, 2 + chain % 3 + 1)]
        links, fused, peak = [(MiB * b, MiB * f) for b, f in links], (chain % 499 * MiB + 1, chain % 7919 * MiB), CORES
    return {"links": links, "fused": fused, "bandwidth": COPY, "peak": peak}


def _examine_chain(sizes, arguments, yours) -> tuple[str, str] | None:
    links, fused, bandwidth, peak = arguments.values()
    expected = _fusion_speedup(links, fused, bandwidth, peak)
    name = list(CHAINS)[sizes["chain"]] if sizes["chain"] < len(CHAINS) else "another chain"

    def close(value):
        return math.isclose(yours, value, rel_tol=1e-6)

    try:
        if close(expected):
            return None
    except TypeError:
        return f"{name}: a {type(yours).__name__} came back", "Return one number."
    said = f"{name}: {yours:.6g}, expected {expected:.6g}"
    total = [sum(link[k] for link in links) for k in (0, 1)]
    if close(1 / expected):
        return said, "The speed-up is the links' time over the fused kernel's, not the other way round."
    if close(total[0] / fused[0]):
        return (
            said,
            "That is the ratio of the bytes: a link may wait for its FLOPs instead, and so may the fused kernel.",
        )
    if close(_seconds(total, bandwidth, peak) / _seconds(fused, bandwidth, peak)):
        return said, "Kernels run one after another: each takes the longer of its own two times, then add up."
    if close(
        sum(link[0] / (1e9 * bandwidth) + link[1] / (1e9 * peak) for link in links) / _seconds(fused, bandwidth, peak)
    ):
        return said, "Within a kernel bytes and FLOPs move at the same time: take the longer of the two, not their sum."
    return said, "Work out one link by hand: bytes / (bandwidth · 10^9) and FLOPs / (peak · 10^9), the longer counts."


register(
    PlainExercise(
        id="13_fusion/fusion_speedup",
        title="Six chains: does one kernel pay?",
        entry="fusion_speedup",
        points=Points(correct=2),
        make=_make_chain,
        examine=_examine_chain,
        cases=tuple(Case(name, {"chain": k}) for k, name in enumerate(CHAINS)),
        draw=lambda rng: {"chain": rng.randrange(100, 10**6)},
    )
)


# --- norms ---------------------------------------------------------------------------------------------------------


def _terms(sizes) -> int:
    """Sums of a row go by lanes and trees, N/32 additions deep at most, and a few roundings follow."""
    return 24 + sizes["N"] // 32


def _width(x) -> int:
    return 1 << (x.shape[1] - 1).bit_length()


def _rms(x, w, eps=RMS_EPS):
    return x * torch.rsqrt((x**2).mean(1, keepdim=True) + eps) * w


def _by_row(vector, x):
    """vector[m] where vector[n] belongs; NaN where it is too short."""
    m = torch.arange(x.shape[0])
    short = torch.where(m < vector.numel(), 0.0, torch.nan)
    return (vector[m.clamp(max=vector.numel() - 1)] + short)[:, None].expand_as(x)


def _layer(x, w, b, eps=LAYER_EPS):
    centred = x - x.mean(1, keepdim=True)
    return centred * torch.rsqrt((centred**2).mean(1, keepdim=True) + eps) * w + b


def _moved(most: float) -> Bound:
    """A vector that is read again in each row counts here, although a cache delivers it, not memory."""
    return Bound("bytes asked for, for each byte that must move", "moved_bytes", "compulsory_bytes", at_most=most)


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
        Case("7 × 997, a prime, not aligned to 16 bytes", {"M": 7, "N": 997}, layout="offset"),
        Case("20 × 999, fp16", {"M": 20, "N": 999}, dtype="float16"),
        Case("6 × 1000, bf16, padded rows", {"M": 6, "N": 1000}, layout="padded", dtype="bfloat16"),
        Case("90 × 255, many rows", {"M": 90, "N": 255}, "position"),
    ]
    if shifted:
        cases.insert(-3, Case("8 × 650, a mean of 1000 and a spread of 1", {"M": 8, "N": 650}, "shifted"))
    return tuple(cases)


def _draw(rng) -> dict[str, int]:
    columns = [rng.randrange(2, 200), 2 ** rng.randrange(5, 10) + rng.choice([-1, 0, 1]), rng.randrange(300, 2000)]
    return {"M": rng.randrange(1, 40), "N": rng.choice(columns)}


def _norm(name: str, title: str, points: Points, inputs: tuple[str, ...], reference, magnitude, **more) -> None:
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
            draw=_draw,
            tiny=Case("3 rows of 4", {"M": 3, "N": 4}, "integers"),
            bench={"M": 8192, "N": 4096},
            **more,
        )
    )


def _wrong(sentence: str, compute, kind: str = "wrong-formula") -> KnownMistake:
    return KnownMistake(kind, sentence, compute)


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
        _wrong("{name} is divided by √Σx²: the mean divides the sum by N", lambda x, w: _rms_sum(x, w, 1)),
        _wrong("{name} lacks the weight", lambda x, w: _rms(x, torch.ones_like(w))),
        _wrong("{name} is x · w: not divided by the root mean square", lambda x, w: x * w),
        _wrong("{name} is divided by the mean square, without the root", lambda x, w: _no_root(x, w)),
        _wrong("{name} is multiplied by the root mean square", lambda x, w: x * torch.sqrt(_ms(x) + RMS_EPS) * w),
        _wrong("{name} is a LayerNorm: RMSNorm subtracts no mean", lambda x, w: _layer(x, w, 0.0, RMS_EPS)),
        _wrong("{name} lacks eps under the root", lambda x, w: _rms(x, w, 0.0)),
        _wrong("eps is added to the root, not under it", lambda x, w: x / (torch.sqrt(_ms(x)) + RMS_EPS) * w),
        _wrong("{name} has the weight added, not multiplied", lambda x, w: _rms(x, torch.ones_like(w)) + w),
        _wrong(
            "the mean is over BLOCK_N lanes, of which only N exist: divide by N",
            lambda x, w: _rms_sum(x, w, _width(x)),
            "padded-lanes",
        ),
        _wrong("lanes past the end bring 1 each", lambda x, w: _rms_ones(x, w), "padded-lanes"),
        _wrong("{name} uses the weight by row, not by column", lambda x, w: _rms(x, _by_row(w, x)), "transposed"),
        _wrong("every row of {name} is that of row 0", lambda x, w: _rms(x[:1], w).expand_as(x), "first-block-only"),
    ),
)


def _ms(x):
    return (x**2).mean(1, keepdim=True)


def _rms_sum(x, w, count):
    return x * torch.rsqrt((x**2).sum(1, keepdim=True) / count + RMS_EPS) * w


def _rms_ones(x, w):
    return x * torch.rsqrt(((x**2).sum(1, keepdim=True) + _width(x) - x.shape[1]) / x.shape[1] + RMS_EPS) * w


def _no_root(x, w):
    return x / (_ms(x) + RMS_EPS) * w


def _silu(x):
    return x * torch.sigmoid(x)


def _chain(x, residual, w):
    return _silu(_rms(x + residual, w))


def _chain_magnitude(x, residual, w):
    """Adding cancels: its error is one of |x| + |residual|, scaled like the sum; silu's slope is at most 1.1."""
    s = x + residual
    scale = torch.rsqrt(_ms(s) + RMS_EPS) * w.abs()
    n = _rms(s, w)
    return 1.1 * (x.abs() + residual.abs()) * scale + n.abs() + _silu(n).abs() * n.clamp(max=0).abs()


_norm(
    "rms_residual_silu",
    "SiLU of the RMSNorm of a sum, in one kernel",
    Points(correct=4, bounds=(_moved(1.4),)),
    ("x", "residual", "w"),
    _chain,
    _chain_magnitude,
    cases=_norm_cases(),
    library=lambda x, residual, w: torch.nn.functional.silu(
        torch.nn.functional.rms_norm(x + residual, x.shape[1:], w, RMS_EPS)
    ),
    known_mistakes=(
        _wrong("{name} lacks the residual", lambda x, residual, w: _chain(x, 0, w)),
        _wrong("the residual is added after the norm", lambda x, residual, w: _silu(_rms(x, w) + residual)),
        _wrong("{name} lacks the SiLU", lambda x, residual, w: _rms(x + residual, w)),
        _wrong("{name} is the sigmoid: SiLU is x · sigmoid(x)", lambda x, residual, w: _sigmoid_of(x, residual, w)),
        _wrong("the SiLU comes before the norm", lambda x, residual, w: _rms(_silu(x + residual), w)),
        _wrong("the weight comes after the SiLU", lambda x, residual, w: _chain(x, residual, torch.ones_like(w)) * w),
        _wrong("{name} lacks the weight", lambda x, residual, w: _chain(x, residual, torch.ones_like(w))),
        _wrong("the mean square is that of x, without the residual", lambda x, residual, w: _x_alone(x, residual, w)),
        _wrong(
            "divided by √Σ, not by the root of the mean", lambda x, residual, w: _silu(_rms_sum(x + residual, w, 1))
        ),
        _wrong(
            "the mean is over BLOCK_N lanes, of which only N exist: divide by N",
            lambda x, residual, w: _silu(_rms_sum(x + residual, w, _width(x))),
            "padded-lanes",
        ),
        _wrong(
            "every row of {name} is that of row 0",
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
    """Subtracting the mean cancels: its error is one of |x|, and of the terms that the mean was summed from."""
    scale = torch.rsqrt(((x - x.mean(1, keepdim=True)) ** 2).mean(1, keepdim=True) + LAYER_EPS)
    return (x.abs() + x.abs().mean(1, keepdim=True)) * scale * w.abs() + b.abs()


_norm(
    "layer_norm",
    "LayerNorm",
    Points(correct=3, bounds=(_moved(2.05),)),
    ("x", "w", "b"),
    _layer,
    _layer_magnitude,
    cases=_norm_cases(shifted=True),
    library=lambda x, w, b: torch.nn.functional.layer_norm(x, x.shape[1:], w, b, LAYER_EPS),
    known_mistakes=(
        _wrong("{name} lacks the bias", lambda x, w, b: _layer(x, w, 0.0)),
        _wrong("{name} lacks the weight", lambda x, w, b: _layer(x, torch.ones_like(w), b)),
        _wrong("weight and bias are swapped", lambda x, w, b: _layer(x, b, w)),
        _wrong("the mean is not subtracted: that is an RMSNorm", lambda x, w, b: _rms(x, w, LAYER_EPS) + b),
        _wrong("the variance is that of a sample, divided by N − 1", lambda x, w, b: _sample(x, w, b)),
        _wrong("the mean square is divided by in place of the variance", lambda x, w, b: _mean_square(x, w, b)),
        _wrong("{name} is divided by the variance, without the root", lambda x, w, b: _no_deviation(x, w, b)),
        _wrong("{name} lacks eps under the root", lambda x, w, b: _layer(x, w, b, 0.0)),
        _wrong(
            "lanes past the end join the variance with the square of the mean: mask again after subtracting",
            lambda x, w, b: _padded_variance(x, w, b),
            "padded-lanes",
        ),
        _wrong(
            "the means are over BLOCK_N lanes, of which only N exist: divide by N",
            lambda x, w, b: _block_means(x, w, b),
            "padded-lanes",
        ),
        _wrong(
            "every row of {name} is that of row 0",
            lambda x, w, b: _layer(x[:1], w, b).expand_as(x),
            "first-block-only",
        ),
    ),
)


def _sample(x, w, b):
    var = x.var(1, keepdim=True) if x.shape[1] > 1 else torch.full((len(x), 1), torch.nan, dtype=x.dtype)
    return (x - x.mean(1, keepdim=True)) * torch.rsqrt(var + LAYER_EPS) * w + b


def _mean_square(x, w, b):
    return (x - x.mean(1, keepdim=True)) * torch.rsqrt(_ms(x) + LAYER_EPS) * w + b


def _no_deviation(x, w, b):
    return (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, correction=0) + LAYER_EPS) * w + b


def _padded_variance(x, w, b):
    mean = x.mean(1, keepdim=True)
    squares = ((x - mean) ** 2).sum(1, keepdim=True) + (_width(x) - x.shape[1]) * mean**2
    return (x - mean) * torch.rsqrt(squares / x.shape[1] + LAYER_EPS) * w + b


def _block_means(x, w, b):
    mean = x.sum(1, keepdim=True) / _width(x)
    squares = ((x - mean) ** 2).sum(1, keepdim=True)
    return (x - mean) * torch.rsqrt(squares / _width(x) + LAYER_EPS) * w + b


# --- dropout -------------------------------------------------------------------------------------------------------

MASK32 = 0xFFFFFFFF


def philox(seed: int, counters: torch.Tensor) -> list[torch.Tensor]:
    """Four 32-bit numbers for each counter (int64 tensors): Philox 4×32, 10 rounds (Salmon and others, 2011)."""

    def product(a: int, b):
        low, high = b & 0xFFFF, b >> 16
        middle = a * high + ((a * low) >> 16)
        return middle >> 16, (a * b) & MASK32  # the low half is right even where the product wraps round

    c = [counters & MASK32, counters >> 32, torch.zeros_like(counters), torch.zeros_like(counters)]
    key = [seed & MASK32, (seed >> 32) & MASK32]
    for _ in range(10):
        (high_b, low_b), (high_a, low_a) = product(0xCD9E8D57, c[2]), product(0xD2511F53, c[0])
        c = [high_b ^ c[1] ^ key[0], low_b, high_a ^ c[3] ^ key[1], low_a]
        key = [(key[0] + 0x9E3779B9) & MASK32, (key[1] + 0xBB67AE85) & MASK32]
    return c


def uniform(seed: int, M: int, N: int, device="cpu") -> torch.Tensor:
    """The random number in [0, 1) of each element of an (M, N) matrix, as Triton makes them of Philox."""
    groups = -(-N // 4)
    counters = torch.arange(M * groups, dtype=torch.int64, device=device)
    signed = torch.stack(philox(int(seed), counters), -1).to(torch.int32)
    x = torch.where(signed < 0, -signed - 1, signed).float() * 4.6566127342e-10
    return x.reshape(M, 4 * groups)[:, :N].double()


def _kept(x, p, seed):
    """1 / (1 − p) where an element is kept, 0 where it is dropped."""
    return (uniform(seed, *x.shape, x.device) >= p).to(x.dtype) / (1 - p)


def _dropout_gelu(h, bias, p, seed):
    return _gelu(h + bias) * _kept(h, p, seed)


def _dropout_gelu_backward(h, bias, dy, p, seed):
    return _gelu_backward(h + bias, dy) * _kept(h, p, seed)


def _by_column(x, p, seed):
    return _kept(x[:1], p, seed).expand_as(x)


def _flipped(x, p, seed):
    return (uniform(seed, *x.shape, x.device) < p).to(x.dtype) / (1 - p)


def _dropout_cases() -> tuple[Case, ...]:
    """Few programs: Philox costs an interpreter a hundred steps in each."""
    cases = (
        Case("one element", {"M": 1, "N": 1}),
        Case("2 × 3", {"M": 2, "N": 3}, "position"),
        Case("3 × 1, a single column", {"M": 3, "N": 1}),
        Case("2 × 1023, one short of a block", {"M": 2, "N": 1023}, "position"),
        Case("3 × 1024, exactly one block", {"M": 3, "N": 1024}, "wide"),
        Case("2 × 1025, one more than a block", {"M": 2, "N": 1025}, "position"),
        Case("5 × 300, padded rows", {"M": 5, "N": 300}, layout="padded"),
        Case("3 × 701, values up to ten thousand", {"M": 3, "N": 701}, "large"),
        Case("3 × 1999, a prime, not aligned to 16 bytes", {"M": 3, "N": 1999}, layout="offset"),
        Case("4 × 1111, fp16", {"M": 4, "N": 1111}, dtype="float16"),
        Case("3 × 1030, bf16, padded rows", {"M": 3, "N": 1030}, layout="padded", dtype="bfloat16"),
        Case("5 × 3000, many blocks", {"M": 5, "N": 3000}, "position"),
    )
    return tuple(replace(c, sizes={**c.sizes, "seed": 1000 + 7 * k}) for k, c in enumerate(cases))


def _draw_dropout(rng) -> dict[str, int]:
    columns = rng.choice([rng.randrange(1, 200), 1024 * rng.randrange(1, 3) + rng.choice([-1, 0, 1])])
    return {"M": rng.randrange(1, 6), "N": columns, "seed": rng.randrange(1, 2**31)}


def _dropout(name, title, points, inputs, output, reads, reference, magnitude, library, known_mistakes) -> None:
    register(
        KernelExercise(
            id=f"13_fusion/{name}",
            title=title,
            entry=name,
            points=points,
            arguments={n: array("N") if n == "bias" else array("M", "N") for n in inputs}
            | {"p": Number(low=0.125, high=0.75), "seed": Number("seed"), output: out("M", "N")},
            reference=reference,
            magnitude=magnitude,
            contract=Contract(terms=24),
            cost=lambda sizes, item: Cost(
                item * sizes["N"] * (reads * sizes["M"] + 1),
                item * sizes["M"] * sizes["N"],
                40 * sizes["M"] * sizes["N"],
            ),
            cases=_dropout_cases(),
            draw=_draw_dropout,
            tiny=Case("2 rows of 4", {"M": 2, "N": 4, "seed": 3}),
            bench={"M": 2**14, "N": 2**13, "seed": 12345},
            library=library,
            known_mistakes=known_mistakes,
        )
    )


_dropout(
    "dropout_gelu",
    "Dropout of GELU of a linear layer's output",
    Points(correct=4),
    ("h", "bias"),
    "out",
    1,
    _dropout_gelu,
    lambda h, bias, p, seed: 1.2 * (h.abs() + bias.abs()) * _kept(h, p, seed),
    lambda h, bias, p, seed: torch.nn.functional.dropout(
        torch.nn.functional.gelu(h + bias, approximate="tanh"), p, training=True
    ),
    (
        _wrong(
            "what is kept is not divided by 1 − p", lambda h, bias, p, seed: _dropout_gelu(h, bias, p, seed) * (1 - p)
        ),
        _wrong("what should be dropped is kept", lambda h, bias, p, seed: _gelu(h + bias) * _flipped(h, p, seed)),
        _wrong("nothing is dropped", lambda h, bias, p, seed: _gelu(h + bias)),
        _wrong("nothing is dropped, but all is scaled", lambda h, bias, p, seed: _gelu(h + bias) / (1 - p)),
        _wrong(
            "{name} is multiplied by 1 − p", lambda h, bias, p, seed: _dropout_gelu(h, bias, p, seed) * (1 - p) ** 2
        ),
        _wrong("{name} is divided by p", lambda h, bias, p, seed: _dropout_gelu(h, bias, p, seed) * (1 - p) / p),
        _wrong("{name} lacks the bias", lambda h, bias, p, seed: _dropout_gelu(h, 0 * bias, p, seed)),
        _wrong("{name} lacks the GELU", lambda h, bias, p, seed: (h + bias) * _kept(h, p, seed)),
        _wrong("{name} is the erf form of GELU", lambda h, bias, p, seed: _erf_gelu(h + bias) * _kept(h, p, seed)),
        _wrong("dropout comes before GELU", lambda h, bias, p, seed: _gelu((h + bias) * _kept(h, p, seed))),
        _wrong("every row drops the same columns", lambda h, bias, p, seed: _gelu(h + bias) * _by_column(h, p, seed)),
        _wrong(
            "the seed is not used: the mask is that of seed 0", lambda h, bias, p, seed: _dropout_gelu(h, bias, p, 0)
        ),
        _wrong(
            "{name} uses the bias by row, not by column",
            lambda h, bias, p, seed: _gelu(h + _by_row(bias, h)) * _kept(h, p, seed),
            "transposed",
        ),
    ),
)


def _steep(h, bias, dy, p, seed):
    """As unit 06's backward pass, and the error of h + bias through the slope's own slope (below 1.2)."""
    x = h + bias
    sum_error = 1.2 * dy.abs() * torch.where(x.abs() < 12, h.abs() + bias.abs(), 0.0)
    return (_backward_magnitude(x, dy) + sum_error) * _kept(h, p, seed)


_dropout(
    "dropout_gelu_backward",
    "Backward, with the mask drawn again",
    Points(correct=4),
    ("h", "bias", "dy"),
    "dh",
    2,
    _dropout_gelu_backward,
    _steep,
    None,
    (
        _wrong("the mask is missing", lambda h, bias, dy, p, seed: _gelu_backward(h + bias, dy)),
        _wrong(
            "what is kept is not divided by 1 − p",
            lambda h, bias, dy, p, seed: _dropout_gelu_backward(h, bias, dy, p, seed) * (1 - p),
        ),
        _wrong(
            "the mask is the wrong way round",
            lambda h, bias, dy, p, seed: _gelu_backward(h + bias, dy) * _flipped(h, p, seed),
        ),
        _wrong(
            "dy is missing", lambda h, bias, dy, p, seed: _dropout_gelu_backward(h, bias, torch.ones_like(h), p, seed)
        ),
        _wrong("{name} is dy · gelu(x)", lambda h, bias, dy, p, seed: dy * _gelu(h + bias) * _kept(h, p, seed)),
        _wrong("{name} lacks the derivative of GELU", lambda h, bias, dy, p, seed: dy * _kept(h, p, seed)),
        _wrong("the bias is missing", lambda h, bias, dy, p, seed: _dropout_gelu_backward(h, 0 * bias, dy, p, seed)),
        _wrong("the seed is not used", lambda h, bias, dy, p, seed: _dropout_gelu_backward(h, bias, dy, p, 0)),
        _wrong(
            "the mask is that of another seed, seed + 1",
            lambda h, bias, dy, p, seed: _dropout_gelu_backward(h, bias, dy, p, seed + 1),
        ),
        _wrong(
            "every row drops the same columns",
            lambda h, bias, dy, p, seed: _gelu_backward(h + bias, dy) * _by_column(h, p, seed),
        ),
    ),
)
