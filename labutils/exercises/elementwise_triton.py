"""Unit 06: elementwise kernels in Triton.

GeLU is the tanh form, y = x/2 · (1 + t) with t = tanh(a) and a = √(2/π)·(x + 0.044715·x³).
"""

import math

import torch

from ..spec.exercise import (
    Case,
    Contract,
    Cost,
    KernelExercise,
    KnownMistake,
    PlainExercise,
    Points,
    array,
    out,
    register,
)
from ._cases import draw_matrix, draw_vector, matrix_cases, vector_cases

ROOT = math.sqrt(2 / math.pi)
CUBIC = 0.044715


# --- bytes of a vector add -----------------------------------------------------------------------------------------


def _explain_bytes(sizes, yours, expected) -> str | None:
    n, item = sizes["n"], sizes["itemsize"]
    messages = {
        3 * n: "That counts elements. Multiply by `itemsize`.",
        12 * n: "12 bytes per element is right for fp32 only: use `itemsize`.",
        2 * n * item: "That counts two of three arrays. x and y are read; what else moves?",
        n * item: "That counts one of three arrays. x is read; what else moves?",
        4 * n * item: "The kernel need not read out: it overwrites the old contents.",
        24 * n * item: "`itemsize` is in bytes already; do not convert it to bits.",
    }
    return messages.get(yours)


register(
    PlainExercise(
        id="06_elementwise_triton/add_bytes",
        title="Bytes that a vector add must move",
        entry="add_bytes",
        points=Points(correct=1),
        reference=lambda n, itemsize: 3 * n * itemsize,
        rtol=0.0,
        explain=_explain_bytes,
        cases=(
            Case("one fp32 element", {"n": 1, "itemsize": 4}),
            Case("1000 fp32 elements", {"n": 1000, "itemsize": 4}),
            Case("1000 fp16 elements", {"n": 1000, "itemsize": 2}),
            Case("2^27 fp64 elements", {"n": 2**27, "itemsize": 8}),
        ),
        draw=lambda rng: {"n": rng.randrange(1, 10**9), "itemsize": rng.choice([1, 2, 4, 8])},
    )
)


# --- vector add ----------------------------------------------------------------------------------------------------

VECTOR_ADD = register(
    KernelExercise(
        id="06_elementwise_triton/vector_add",
        title="Add two vectors",
        entry="vector_add",
        points=Points(correct=2),
        arguments={"x": array("n"), "y": array("n"), "out": out("n")},
        reference=lambda x, y: x + y,
        magnitude=lambda x, y: x.abs() + y.abs(),
        contract=Contract(terms=1),
        cost=lambda sizes, item: Cost(2 * item * sizes["n"], item * sizes["n"], sizes["n"]),
        cases=vector_cases(large=98_432, exact=True),
        draw=draw_vector,
        tiny=Case("ten elements", {"n": 10}, "integers"),
        bench={"n": 2**27},
        library=lambda x, y: x + y,
        known_mistakes=(
            KnownMistake("wrong-formula", "{name} is a copy of x: y is not added", lambda x, y: x),
            KnownMistake("wrong-formula", "{name} is a copy of y: x is not added", lambda x, y: y),
            KnownMistake("wrong-formula", "{name} is x + x: y is never read", lambda x, y: 2 * x),
            KnownMistake("wrong-formula", "{name} is y + y: x is never read", lambda x, y: 2 * y),
            KnownMistake("wrong-formula", "{name} is x − y, not x + y", lambda x, y: x - y),
            KnownMistake("wrong-formula", "{name} is x · y, not x + y", lambda x, y: x * y),
        ),
    )
)


# --- GeLU ----------------------------------------------------------------------------------------------------------


def _tanh(x, cubic: float = CUBIC, root: float = ROOT):
    return torch.tanh(root * (x + cubic * x**3))


def _gelu(x, cubic: float = CUBIC, root: float = ROOT):
    return 0.5 * x * (1 + _tanh(x, cubic, root))


def _erf_gelu(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


GELU = register(
    KernelExercise(
        id="06_elementwise_triton/gelu",
        title="GeLU, the tanh form",
        entry="gelu",
        points=Points(correct=2, speed=1),
        arguments={"x": array("n"), "out": out("n")},
        reference=_gelu,
        # 1 + t cancels for negative x: a rounding error of a few u in t becomes a few u·|x| in y, however small y is
        magnitude=lambda x: x.abs(),
        contract=Contract(terms=8),
        cost=lambda sizes, item: Cost(item * sizes["n"], item * sizes["n"], 12 * sizes["n"]),
        cases=vector_cases(),
        draw=draw_vector,
        tiny=Case("eight elements", {"n": 8}),
        bench={"n": 2**27},
        library=lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
        known_mistakes=(
            KnownMistake(
                "wrong-formula", "{name} is the erf form of GeLU; this exercise asks for the tanh form", _erf_gelu
            ),
            KnownMistake("wrong-formula", "{name} is missing the factor 1/2", lambda x: 2 * _gelu(x)),
            KnownMistake("wrong-formula", "{name} is missing the cubic term 0.044715·x³", lambda x: _gelu(x, cubic=0)),
            KnownMistake(
                "wrong-formula", "{name} uses 2/π without its square root", lambda x: _gelu(x, root=2 / math.pi)
            ),
            KnownMistake("wrong-formula", "{name} is missing the factor √(2/π)", lambda x: _gelu(x, root=1.0)),
            KnownMistake(
                "wrong-formula",
                "{name} is x·sigmoid(a): tanh(a) is 2·sigmoid(2a) − 1, so the sigmoid needs 2a",
                lambda x: x * torch.sigmoid(ROOT * (x + CUBIC * x**3)),
            ),
            KnownMistake(
                "wrong-formula",
                "{name} is x·sigmoid(1.702·x), a coarser approximation of GeLU",
                lambda x: x * torch.sigmoid(1.702 * x),
            ),
        ),
    )
)


# --- GeLU backward -------------------------------------------------------------------------------------------------


def _slope(x, cubic: float = CUBIC):
    """da/dx."""
    return ROOT * (1 + 3 * cubic * x**2)


def _gelu_backward(x, dy):
    t = _tanh(x)
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * _slope(x))


def _backward_magnitude(x, dy):
    """A rounding error in t is multiplied by |x|·a′, but only while t is not exactly ±1 in fp32.

    If 1 − t² < 2⁻²⁴, every way to compute t gives ±1 and the second term is exactly 0.
    """
    unsure = ((1 - _tanh(x) ** 2) * 2.0**26).clamp(max=1)
    return dy.abs() * (1 + 0.5 * x.abs() * _slope(x) * unsure)


register(
    KernelExercise(
        id="06_elementwise_triton/gelu_backward",
        title="GeLU backward",
        entry="gelu_backward",
        points=Points(correct=2, speed=1),
        arguments={"x": array("n"), "dy": array("n"), "dx": out("n")},
        reference=_gelu_backward,
        magnitude=_backward_magnitude,
        contract=Contract(terms=16),
        cost=lambda sizes, item: Cost(2 * item * sizes["n"], item * sizes["n"], 22 * sizes["n"]),
        cases=vector_cases(),
        draw=draw_vector,
        tiny=Case("eight elements", {"n": 8}),
        bench={"n": 2**27},
        library=lambda x, dy: torch.ops.aten.gelu_backward(dy, x, approximate="tanh"),
        known_mistakes=(
            KnownMistake(
                "wrong-formula",
                "{name} is missing the incoming gradient: multiply by dy",
                lambda x, dy: _gelu_backward(x, torch.ones_like(dy)),
            ),
            KnownMistake(
                "wrong-formula",
                "{name} has only the first term of the product rule; a also depends on x",
                lambda x, dy: dy * 0.5 * (1 + _tanh(x)),
            ),
            KnownMistake(
                "wrong-formula",
                "{name} is missing the 3 that comes from differentiating x³",
                lambda x, dy: dy * 0.5 * (1 + _tanh(x) + x * (1 - _tanh(x) ** 2) * _slope(x, CUBIC / 3)),
            ),
            KnownMistake(
                "wrong-formula",
                "{name} is missing a′, the inner derivative of tanh(a)",
                lambda x, dy: dy * 0.5 * (1 + _tanh(x) + x * (1 - _tanh(x) ** 2)),
            ),
            KnownMistake(
                "wrong-formula",
                "{name} has 1 − t where the derivative of tanh is 1 − t²",
                lambda x, dy: dy * 0.5 * (1 + _tanh(x) + x * (1 - _tanh(x)) * _slope(x)),
            ),
            KnownMistake(
                "wrong-formula", "{name} is dy·gelu(x), not dy times its derivative", lambda x, dy: dy * _gelu(x)
            ),
            KnownMistake(
                "wrong-formula",
                "{name} differentiates the erf form of GeLU; this exercise asks for the tanh form",
                lambda x, dy: (
                    dy * (0.5 * (1 + torch.erf(x / math.sqrt(2))) + x * torch.exp(-(x**2) / 2) / math.sqrt(2 * math.pi))
                ),
            ),
        ),
    )
)


# --- bias and scale over rows --------------------------------------------------------------------------------------

register(
    KernelExercise(
        id="06_elementwise_triton/bias_scale",
        title="Add a bias, then scale, over the rows of a matrix",
        entry="bias_scale",
        points=Points(correct=2, speed=1, traffic=2.0),
        arguments={"x": array("M", "N"), "bias": array("N"), "scale": array("N"), "out": out("M", "N")},
        reference=lambda x, bias, scale: (x + bias) * scale,
        magnitude=lambda x, bias, scale: (x.abs() + bias.abs()) * scale.abs(),
        contract=Contract(terms=2),
        cost=lambda sizes, item: Cost(
            item * (sizes["M"] + 2) * sizes["N"], item * sizes["M"] * sizes["N"], 2 * sizes["M"] * sizes["N"]
        ),
        cases=matrix_cases(exact=True),
        draw=draw_matrix,
        tiny=Case("3 rows of 4", {"M": 3, "N": 4}, "integers"),
        bench={"M": 2**14, "N": 2**13},
        library=lambda x, bias, scale: (x + bias) * scale,
        known_mistakes=(
            KnownMistake(
                "wrong-formula",
                "{name} is x · scale + bias: the bias is added after scaling",
                lambda x, bias, scale: x * scale + bias,
            ),
            KnownMistake("wrong-formula", "{name} is x · scale: no bias", lambda x, bias, scale: x * scale),
            KnownMistake("wrong-formula", "{name} is x + bias: no scale", lambda x, bias, scale: x + bias),
            KnownMistake("wrong-formula", "{name} swaps bias and scale", lambda x, bias, scale: (x + scale) * bias),
            KnownMistake(
                "transposed",
                "{name} uses bias and scale by row, not by column",
                lambda x, bias, scale: _by_row(x, bias, scale),
            ),
        ),
    )
)


def _by_row(x, bias, scale):
    """The result of a kernel that reads bias[m] and scale[m]; NaN where they are too short."""
    m = torch.arange(x.shape[0])
    short = torch.where(m < bias.numel(), 0.0, torch.nan)
    at = m.clamp(max=bias.numel() - 1)
    return (x + (bias[at] + short)[:, None]) * scale[at][:, None]
