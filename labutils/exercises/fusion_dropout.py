"""Unit 13: dropout and GELU in one kernel, forward and backward.

Dropout's mask depends only on (seed, row, column): element (m, n) takes number n % 4 of those that Philox 4×32 with
10 rounds computes from the counter m·⌈N/4⌉ + n // 4. So the backward pass, a test or another GPU gets the same mask.
"""

from dataclasses import replace

import torch

from ..spec.exercise import (
    Case,
    Contract,
    Cost,
    KernelExercise,
    Number,
    Points,
    array,
    out,
    register,
)
from .elementwise_triton import _backward_magnitude, _erf_gelu, _gelu, _gelu_backward
from .fusion_norms import by_row, wrong

MASK32 = 0xFFFFFFFF

AT_P = "an element whose random number is exactly p is dropped: u >= p keeps it"


def philox(seed: int, counters: torch.Tensor) -> list[torch.Tensor]:
    """Four 32-bit numbers per counter (int64 tensors): Philox 4×32, 10 rounds (Salmon and others, 2011)."""

    def product(a: int, b):
        low, high = b & 0xFFFF, b >> 16
        middle = a * high + ((a * low) >> 16)
        return middle >> 16, (a * b) & MASK32  # the low half is right even if the product wraps around

    c = [counters & MASK32, counters >> 32, torch.zeros_like(counters), torch.zeros_like(counters)]
    key = [seed & MASK32, (seed >> 32) & MASK32]
    for _ in range(10):
        (high_b, low_b), (high_a, low_a) = product(0xCD9E8D57, c[2]), product(0xD2511F53, c[0])
        c = [high_b ^ c[1] ^ key[0], low_b, high_a ^ c[3] ^ key[1], low_a]
        key = [(key[0] + 0x9E3779B9) & MASK32, (key[1] + 0xBB67AE85) & MASK32]
    return c


def uniform(seed: int, M: int, N: int, device="cpu") -> torch.Tensor:
    """The random number in [0, 1) of each element of an (M, N) matrix, computed from Philox as in Triton."""
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


def _kept_above(x, p, seed):
    return (uniform(seed, *x.shape, x.device) > p).to(x.dtype) / (1 - p)


def _by_column(x, p, seed):
    return _kept(x[:1], p, seed).expand_as(x)


def _flipped(x, p, seed):
    return (uniform(seed, *x.shape, x.device) < p).to(x.dtype) / (1 - p)


def _dropout_cases() -> tuple[Case, ...]:
    """Few programs: Philox takes the interpreter a hundred steps in each."""
    cases = (
        Case("one element, whose random number is exactly p", {"M": 1, "N": 1, "p": 0.375, "seed": 5_179_874}),
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
    return tuple(
        replace(c, sizes={"p": (k % 6 + 1) / 8, "seed": 1000 + 7 * k} | dict(c.sizes)) for k, c in enumerate(cases)
    )


def _draw_dropout(rng) -> dict[str, int]:
    columns = rng.choice([rng.randrange(1, 200), 1024 * rng.randrange(1, 3) + rng.choice([-1, 0, 1])])
    return {"M": rng.randrange(1, 6), "N": columns, "p": rng.randrange(1, 7) / 8, "seed": rng.randrange(1, 2**31)}


def _dropout(name, title, points, inputs, output, reads, reference, magnitude, library, known_mistakes) -> None:
    register(
        KernelExercise(
            id=f"13_fusion_dropout/{name}",
            title=title,
            entry=name,
            points=points,
            arguments={n: array("N") if n == "bias" else array("M", "N") for n in inputs}
            | {"p": Number("p"), "seed": Number("seed"), output: out("M", "N")},
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
            tiny=Case("2 rows of 4", {"M": 2, "N": 4, "p": 0.5, "seed": 3}),
            bench={"M": 2**14, "N": 2**13, "p": 0.25, "seed": 12345},
            library=library,
            known_mistakes=known_mistakes,
        )
    )


_dropout(
    "dropout_gelu",
    "Dropout of GELU in one kernel",
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
        wrong(AT_P, lambda h, bias, p, seed: _gelu(h + bias) * _kept_above(h, p, seed)),
        wrong(
            "kept elements are not divided by 1 − p", lambda h, bias, p, seed: _dropout_gelu(h, bias, p, seed) * (1 - p)
        ),
        wrong(
            "the mask is inverted: dropped elements are kept",
            lambda h, bias, p, seed: _gelu(h + bias) * _flipped(h, p, seed),
        ),
        wrong("nothing is dropped", lambda h, bias, p, seed: _gelu(h + bias)),
        wrong(
            "nothing is dropped, but everything is divided by 1 − p", lambda h, bias, p, seed: _gelu(h + bias) / (1 - p)
        ),
        wrong("{name} is multiplied by 1 − p", lambda h, bias, p, seed: _dropout_gelu(h, bias, p, seed) * (1 - p) ** 2),
        wrong("{name} is divided by p", lambda h, bias, p, seed: _dropout_gelu(h, bias, p, seed) * (1 - p) / p),
        wrong("{name} leaves out the bias", lambda h, bias, p, seed: _dropout_gelu(h, 0 * bias, p, seed)),
        wrong("{name} leaves out the GELU", lambda h, bias, p, seed: (h + bias) * _kept(h, p, seed)),
        wrong(
            "{name} uses the erf form of GELU; this exercise wants the tanh form",
            lambda h, bias, p, seed: _erf_gelu(h + bias) * _kept(h, p, seed),
        ),
        wrong("dropout is applied before GELU", lambda h, bias, p, seed: _gelu((h + bias) * _kept(h, p, seed))),
        wrong("every row drops the same columns", lambda h, bias, p, seed: _gelu(h + bias) * _by_column(h, p, seed)),
        wrong(
            "the seed is not used: the mask is that of seed 0", lambda h, bias, p, seed: _dropout_gelu(h, bias, p, 0)
        ),
        wrong(
            "{name} uses the bias by row, not by column",
            lambda h, bias, p, seed: _gelu(h + by_row(bias, h)) * _kept(h, p, seed),
            "transposed",
        ),
    ),
)


def _steep(h, bias, dy, p, seed):
    """As in unit 06's backward pass, plus the error of h + bias times the slope's own slope (below 1.2)."""
    x = h + bias
    sum_error = 1.2 * dy.abs() * torch.where(x.abs() < 12, h.abs() + bias.abs(), 0.0)
    return (_backward_magnitude(x, dy) + sum_error) * _kept(h, p, seed)


_dropout(
    "dropout_gelu_backward",
    "Backward pass with a recomputed mask",
    Points(correct=4),
    ("h", "bias", "dy"),
    "dh",
    2,
    _dropout_gelu_backward,
    _steep,
    None,
    (
        wrong(AT_P, lambda h, bias, dy, p, seed: _gelu_backward(h + bias, dy) * _kept_above(h, p, seed)),
        wrong("the mask is missing", lambda h, bias, dy, p, seed: _gelu_backward(h + bias, dy)),
        wrong(
            "kept elements are not divided by 1 − p",
            lambda h, bias, dy, p, seed: _dropout_gelu_backward(h, bias, dy, p, seed) * (1 - p),
        ),
        wrong(
            "the mask is inverted",
            lambda h, bias, dy, p, seed: _gelu_backward(h + bias, dy) * _flipped(h, p, seed),
        ),
        wrong(
            "dy is missing", lambda h, bias, dy, p, seed: _dropout_gelu_backward(h, bias, torch.ones_like(h), p, seed)
        ),
        wrong("{name} is dy · gelu(x)", lambda h, bias, dy, p, seed: dy * _gelu(h + bias) * _kept(h, p, seed)),
        wrong("{name} leaves out the derivative of GELU", lambda h, bias, dy, p, seed: dy * _kept(h, p, seed)),
        wrong("the bias is missing", lambda h, bias, dy, p, seed: _dropout_gelu_backward(h, 0 * bias, dy, p, seed)),
        wrong("the seed is not used", lambda h, bias, dy, p, seed: _dropout_gelu_backward(h, bias, dy, p, 0)),
        wrong(
            "the mask is that of another seed, seed + 1",
            lambda h, bias, dy, p, seed: _dropout_gelu_backward(h, bias, dy, p, seed + 1),
        ),
        wrong(
            "every row drops the same columns",
            lambda h, bias, dy, p, seed: _gelu_backward(h + bias, dy) * _by_column(h, p, seed),
        ),
    ),
)
