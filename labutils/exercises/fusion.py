"""Unit 13: when fusion pays. Its kernels are in fusion_norms.py and fusion_dropout.py."""

import math

from ..spec.exercise import (
    Case,
    PlainExercise,
    Points,
    register,
)
from ._numbers import near

# --- the gain of a chain --------------------------------------------------------------------------------------------


def _explain_chain(sizes, yours, expected) -> str | None:
    B, T, H = sizes["B"], sizes["T"], sizes["H"]
    x = B * T * H

    if near(yours, 7 / 3) or near(yours, 7):
        return "Almost: in both versions the norm also reads its weight once, H elements."
    if near(yours, (3 * x + H) / (7 * x + H)):
        return "That is below 1: the speedup is the eager chain's traffic over the fused kernel's."
    if near(yours, (8 * x + H) / (3 * x + H)) or near(yours, (9 * x + H) / (3 * x + H)):
        return "The norm is one kernel here: it reads its input once and writes its output once."
    if near(yours, (7 * x + H) / (4 * x + H)):
        return "This fused kernel does not store the sum: it reads x and residual, and writes out."
    if near(yours, (7 * x + H) / (2 * x + H)):
        return "The fused kernel has two inputs of this size: x and residual."
    return None


register(
    PlainExercise(
        id="13_fusion/chain_speedup",
        title="Predict the speedup from bytes",
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

# Copy bandwidth of an H200 in 10^9 bytes/s; peaks of its tensor cores and CUDA cores in 10^9 FLOP/s.
COPY, TENSOR, CORES = 4200, 989_000, 67_000

MiB = 2**20

CHAINS: dict[str, tuple[list[tuple[int, int]], tuple[int, int], int]] = {
    # name: links (bytes, FLOPs), the fused kernel, the peak of the pipe that executes the FLOPs
    "bias, GELU, dropout": (
        [(128 * MiB, 32 * MiB), (128 * MiB, 512 * MiB), (160 * MiB, 64 * MiB)],
        (160 * MiB, 1600 * MiB),
        CORES,
    ),
    "large matmul, then GELU": ([(96 * MiB, 137_439 * MiB), (64 * MiB, 256 * MiB)], (96 * MiB, 137_695 * MiB), TENSOR),
    "softmax of rows too long for on-chip memory": (
        [(256 * MiB, 128 * MiB), (384 * MiB, 512 * MiB)],
        (640 * MiB, 640 * MiB),
        CORES,
    ),
    "sum of each row, then of each column": (
        [(256 * MiB, 64 * MiB), (256 * MiB, 64 * MiB)],
        (512 * MiB, 128 * MiB),
        CORES,
    ),
    "two matmuls, the first recomputed for each tile of the second": (
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
"""Six chains of fp16 kernels: the cost of each link, and the cost of one fused kernel."""


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
        return f"{name}: returned a {type(yours).__name__}", "Return one number."
    message = f"{name}: {yours:.6g}, expected {expected:.6g}"
    total = [sum(link[k] for link in links) for k in (0, 1)]
    if close(1 / expected):
        return message, "The speedup is the links' time over the fused kernel's, not the inverse."
    if close(total[0] / fused[0]):
        return (
            message,
            "That is the ratio of the bytes. A link may be compute-bound, and so may the fused kernel.",
        )
    if close(_seconds(total, bandwidth, peak) / _seconds(fused, bandwidth, peak)):
        return message, "Kernels run one after another: take the longer of each kernel's two times, then add."
    if close(
        sum(link[0] / (1e9 * bandwidth) + link[1] / (1e9 * peak) for link in links) / _seconds(fused, bandwidth, peak)
    ):
        return (
            message,
            "A kernel moves bytes and computes at the same time: take the longer of the two times, not their sum.",
        )
    return (
        message,
        "Compute one link by hand: the larger of bytes / (bandwidth · 10^9) and FLOPs / (peak · 10^9).",
    )


register(
    PlainExercise(
        id="13_fusion/fusion_speedup",
        title="Six chains: does fusion pay?",
        entry="fusion_speedup",
        points=Points(correct=2),
        make=_make_chain,
        examine=_examine_chain,
        cases=tuple(Case(name, {"chain": k}) for k, name in enumerate(CHAINS)),
        draw=lambda rng: {"chain": rng.randrange(100, 10**6)},
    )
)
