"""Unit 24, kernels: the gated activation SwiGLU, forward and backward."""

from __future__ import annotations

import torch

from ..spec.exercise import Bound, Case, Contract, Cost, KernelExercise, Points, array, out, register
from .fusion_norms import wrong

UNIT = "24_block_kernels"

# --- references ----------------------------------------------------------------------------------------------------


def parts(x):
    """gate and up, (M, N) each, of x (M, 2N)."""
    return x.chunk(2, -1)


def silu(x):
    return x * torch.sigmoid(x)


def slope(x):
    """The derivative of SiLU."""
    s = torch.sigmoid(x)
    return s + x * s * (1 - s)


def _forward(x):
    gate, up = parts(x)
    return silu(gate) * up


def gradients(x, dy, of_gate=slope, of_up=silu, swap=False):
    """Gradient of x (M, 2N): dy · up · of_gate(gate), then dy · of_up(gate)."""
    gate, up = parts(x)
    pair = dy * up * of_gate(gate), dy * of_up(gate)
    return torch.cat(pair[::-1] if swap else pair, -1)


def _doubt(gate):
    """M of sigmoid(gate), relative: exp passes on the rounding of its argument, |gate| roundings.

    Above 30, sigmoid is exactly 1 in fp32. Below −80, exp(−gate) may overflow: then 0 is as good as the tiny result.
    """
    return torch.where(gate < -80, 2.0**24, torch.where(gate > 30, 1.0, 1 + gate.abs()))


def _forward_magnitude(x):
    gate, up = parts(x)
    return (silu(gate) * up).abs() * _doubt(gate)


def _backward_magnitude(x, dy):
    gate, up = parts(x)
    s, dy, size = torch.sigmoid(gate), dy.abs(), gate.abs()
    of_gate = s + 2 * size * s * (1 - s)
    return torch.cat([dy * up.abs() * of_gate, dy * size * s], -1) * _doubt(gate).repeat(1, 2)


# --- common mistakes -----------------------------------------------------------------------------------------------


def _of_parts(change):
    return lambda x: change(*parts(x))


def _neighbors(x):
    return x[:, 0::2], x[:, 1::2]


def _gelu(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


FORWARD = (
    wrong(
        "the halves of x are swapped: the first N columns are the gate, to which SiLU applies",
        _of_parts(lambda gate, up: gate * silu(up)),
    ),
    wrong("{name} is gate · up, without SiLU", _of_parts(lambda gate, up: gate * up)),
    wrong(
        "{name} is sigmoid(gate) · up; SiLU is gate · sigmoid(gate)",
        _of_parts(lambda gate, up: torch.sigmoid(gate) * up),
    ),
    wrong("{name} leaves out up", _of_parts(lambda gate, up: silu(gate))),
    wrong("{name} is silu(gate · up): apply SiLU to the gate only", _of_parts(lambda gate, up: silu(gate * up))),
    wrong("SiLU applies to the gate only, not to both halves", _of_parts(lambda gate, up: silu(gate) * silu(up))),
    wrong("up is added; multiply by it", _of_parts(lambda gate, up: silu(gate) + up)),
    wrong("{name} has GELU in place of SiLU", _of_parts(lambda gate, up: _gelu(gate) * up)),
    wrong("{name} has ReLU in place of SiLU", _of_parts(lambda gate, up: gate.clamp(min=0) * up)),
    wrong(
        "exp has the wrong sign: sigmoid(x) is 1 / (1 + exp(−x))",
        _of_parts(lambda gate, up: gate * torch.sigmoid(-gate) * up),
    ),
    wrong(
        "gate and up are read as neighbors: the gate is the first N columns of a row, up the last N",
        lambda x: silu(_neighbors(x)[0]) * _neighbors(x)[1],
    ),
    wrong("both factors are the gate: up begins N columns later", _of_parts(lambda gate, up: silu(gate) * gate)),
    wrong("both factors are up: the gate is the first N columns", _of_parts(lambda gate, up: silu(up) * up)),
    wrong(
        "every row of {name} is the result of row 0", lambda x: _forward(x[:1]).expand(len(x), -1), "first-block-only"
    ),
)


def _swapped_inputs(x, dy):
    """The gradient of gate · silu(up)."""
    gate, up = parts(x)
    return torch.cat([dy * silu(up), dy * gate * slope(up)], -1)


def _joined(left, right):
    """The gradient of the gate of one dx and that of up of another."""
    return torch.cat([parts(left)[0], parts(right)[1]], -1)


BACKWARD = (
    wrong(
        "the derivative of SiLU lacks the term x · s · (1 − s): s also depends on x",
        lambda x, dy: gradients(x, dy, of_gate=torch.sigmoid),
    ),
    wrong(
        "the gradient of the gate has only the derivative of sigmoid, s · (1 − s)",
        lambda x, dy: gradients(x, dy, of_gate=lambda g: torch.sigmoid(g) * torch.sigmoid(-g)),
    ),
    wrong(
        "the derivative of SiLU lacks the term s: by the product rule it is s + x · s · (1 − s)",
        lambda x, dy: gradients(x, dy, of_gate=lambda g: g * torch.sigmoid(g) * torch.sigmoid(-g)),
    ),
    wrong(
        "the derivative of SiLU is s + x · s · (1 − s); here the second term is subtracted",
        lambda x, dy: gradients(x, dy, of_gate=lambda g: 2 * torch.sigmoid(g) - slope(g)),
    ),
    wrong(
        "the derivative of SiLU lacks x in its second term, x · s · (1 − s)",
        lambda x, dy: gradients(x, dy, of_gate=lambda g: torch.sigmoid(g) * (1 + torch.sigmoid(-g))),
    ),
    wrong(
        "the gradient of the gate has silu(gate) in place of its derivative",
        lambda x, dy: gradients(x, dy, of_gate=silu),
    ),
    wrong(
        "the gradient of the gate is dy · up: the derivative of SiLU is missing",
        lambda x, dy: gradients(x, dy, of_gate=torch.ones_like),
    ),
    wrong(
        "the gradient of up is dy · gate: SiLU is missing",
        lambda x, dy: gradients(x, dy, of_up=lambda gate: gate),
    ),
    wrong(
        "the gradient of up is dy · sigmoid(gate): it is dy · silu(gate)",
        lambda x, dy: gradients(x, dy, of_up=torch.sigmoid),
    ),
    wrong(
        "the gradient of up has the derivative of SiLU: it is dy · silu(gate)",
        lambda x, dy: gradients(x, dy, of_up=slope),
    ),
    wrong("the two gradients are swapped: that of the gate comes first", lambda x, dy: gradients(x, dy, swap=True)),
    wrong("the halves of x are swapped: the first N columns are the gate", _swapped_inputs),
    wrong("dy is missing from both gradients", lambda x, dy: gradients(x, torch.ones_like(dy))),
    wrong(
        "up is missing from the gradient of the gate",
        lambda x, dy: gradients(torch.cat([parts(x)[0], torch.ones_like(dy)], -1), dy),
    ),
    wrong(
        "dy is missing from the gradient of the gate",
        lambda x, dy: _joined(gradients(x, torch.ones_like(dy)), gradients(x, dy)),
    ),
    wrong(
        "dy is missing from the gradient of up",
        lambda x, dy: _joined(gradients(x, dy), gradients(x, torch.ones_like(dy))),
    ),
    wrong(
        "every row of {name} is the result of row 0",
        lambda x, dy: gradients(x[:1], dy[:1]).expand_as(x),
        "first-block-only",
    ),
)


# --- the exercises -------------------------------------------------------------------------------------------------


def sizes_of(M: int, N: int) -> dict[str, int]:
    """W is the width of x: gate and up."""
    return {"M": M, "N": N, "W": 2 * N}


CASES = (
    Case("2 × 3", sizes_of(2, 3), "position"),  # first: a single positive gate does not tell ReLU from no activation
    Case("one element", sizes_of(1, 1)),
    Case("3 × 1, a single column, wide range", sizes_of(3, 1), "wide"),
    Case("3 × 1023, one short of a block", sizes_of(3, 1023), "position"),
    Case("2 × 3072, exactly three blocks", sizes_of(2, 3072)),
    Case("3 × 1025, one more than a block", sizes_of(3, 1025), "position"),
    Case("17 × 115, padded rows", sizes_of(17, 115), "position", "padded"),
    Case("5 × 700, values up to ten thousand", sizes_of(5, 700), "large"),
    Case("7 × 997, a prime, not aligned to 16 bytes", sizes_of(7, 997), layout="offset"),
    Case("4 × 1111, fp16", sizes_of(4, 1111), dtype="float16"),
    Case("3 × 1030, bf16, padded rows", sizes_of(3, 1030), layout="padded", dtype="bfloat16"),
    Case("5 × 3000, several blocks per row", sizes_of(5, 3000), "position"),
)


def _draw(rng) -> dict[str, int]:
    columns = rng.choice([rng.randrange(2, 200), 1024 + rng.choice([-1, 1]), 2048 + rng.choice([-1, 1]), 3072])
    return sizes_of(rng.randrange(2, 20), columns)


def _register(name: str, title: str, arguments, elements: tuple[int, int], **more) -> None:
    """`elements` read and written, in units of M · N."""
    moved = Bound("bytes moved, relative to the minimum", "moved_bytes", "compulsory_bytes", at_most=1.05)
    register(
        KernelExercise(
            id=f"{UNIT}/{name}",
            title=title,
            entry=name,
            points=Points(correct=3, bounds=(moved,)),
            arguments=arguments,
            contract=Contract(terms=12),
            cost=lambda sizes, item: Cost(
                *(item * n * sizes["M"] * sizes["N"] for n in elements), 8 * sizes["M"] * sizes["N"]
            ),
            cases=CASES,
            draw=_draw,
            tiny=Case("2 rows of 2", sizes_of(2, 2), "integers"),
            bench=sizes_of(8192, 4096),
            **more,
        )
    )


_register(
    "swiglu",
    "SwiGLU",
    {"x": array("M", "W"), "out": out("M", "N")},
    (2, 1),
    reference=_forward,
    magnitude=_forward_magnitude,
    library=lambda x: torch.nn.functional.silu(x[:, : x.shape[1] // 2]) * x[:, x.shape[1] // 2 :],
    known_mistakes=FORWARD,
)

_register(
    "swiglu_backward",
    "SwiGLU, backward",
    {"x": array("M", "W"), "dy": array("M", "N"), "dx": out("M", "W")},
    (3, 2),
    reference=gradients,
    magnitude=_backward_magnitude,
    known_mistakes=BACKWARD,
)
