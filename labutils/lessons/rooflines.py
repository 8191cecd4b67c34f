"""Unit 05: measured kernels and the learner's own under the roof, and three claims about rooflines.

The ledgers and the verdict are the learner's. Without a GPU the times are stored ones of an H200.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .. import environment
from ..gpu import device
from ..gpu.roofline import Ledger, Roof, units
from ..timing import ceilings

N, ROWS = 2**27, (4096, 8192)
STEPS = (1, 4, 16, 64, 256, 1024)
"""FMAs per element of the learner's kernel: from far left of the ridge to far right of it."""


@dataclass(frozen=True)
class Placed:
    """A kernel under the roof of one pipe; `seconds` is None where it was not measured."""

    work: Ledger
    pipe: str
    seconds: float | None


def library_kernels(softmax_ledger: Callable, matmul_ledger: Callable) -> dict[str, Placed]:
    """Seven kernels of PyTorch, timed here, or with the times of an H200."""
    import torch

    kernels = {  # ledger, pipe, function, shapes of its inputs, seconds on an H200
        "GeLU": (Ledger({"x": 4 * N}, {"y": 4 * N}, 12 * N), "fp32", torch.nn.functional.gelu, [(N,)], 257e-6),
        "softmax": (softmax_ledger(*ROWS, 4), "fp32", lambda x: torch.softmax(x, -1), [ROWS], 142e-6),
        "sum": (Ledger({"x": 8 * N}, {}, 2 * N), "fp32", torch.sum, [(2 * N,)], 260e-6),
        "transposed copy": (
            Ledger({"x": 2**28}, {"y": 2**28}, 0), "fp32", lambda x, y: y.copy_(x.T), 2 * [(8192, 8192)], 465e-6,
        ),
    }  # fmt: skip
    for m, stored in ((512, 7.3e-6), (1024, 9.5e-6), (4096, 199e-6)):
        kernels[f"matmul {m}"] = (matmul_ledger(m, m, m, 2), "fp16", torch.mm, 2 * [(m, m)], stored)
    return {name: Placed(work, pipe, _seconds(pipe, *how)) for name, (work, pipe, *how) in kernels.items()}


def _seconds(pipe: str, fn: Callable, shapes: Sequence[tuple[int, ...]], stored: float) -> float:
    if not device.has_gpu() or environment.grading_in_progress():
        return stored
    import torch

    from ..timing import measure

    dtype = {"fp16": torch.float16, "fp32": torch.float32}[pipe]
    timed = measure.benchmark(fn, *(torch.randn(s, device="cuda", dtype=dtype) for s in shapes))
    return timed.median if timed else stored


def own_kernel(launcher: Callable, steps: Sequence[int] = STEPS) -> dict[str, Placed]:
    """The learner's chain of FMAs, `launcher(x, steps, out)`, timed for several lengths; without a GPU, its ledger."""
    placed = {}
    for count in steps:
        work = Ledger({"x": 4 * N}, {"out": 4 * N}, 2 * count * N)
        placed[f"yours, {count} FMAs"] = Placed(work, "fp32", _own_seconds(launcher, count))
    return placed


def _own_seconds(launcher: Callable, count: int) -> float | None:
    if not device.has_gpu() or environment.grading_in_progress():
        return None
    import torch

    from ..timing import measure

    x = torch.rand(N, device="cuda")
    out = torch.empty_like(x)
    timed = measure.benchmark(lambda x: launcher(x, count, out), x)
    return timed.median if timed else None


def verdicts(placed: dict[str, Placed], verdict: Callable[[Ledger, float, Roof], str]) -> None:
    """Print time, least time and the learner's verdict of each measured kernel, under measured roofs."""
    known = ceilings.here()
    for name, kernel in placed.items():
        roof = known.roof(kernel.pipe)
        least = units(roof.predict(kernel.work).seconds, "s")
        if kernel.seconds is None:
            print(f"{name:17} not measured, least {least:>8}: {roof.bound(kernel.work)}-bound by its ledger")
        else:
            print(f"{name:17} {units(kernel.seconds, 's'):>12}, least {least:>8}: "
                  f"{verdict(kernel.work, kernel.seconds, roof)}")  # fmt: skip


def points(placed: dict[str, Placed]) -> dict[str, tuple[Ledger, float | None]]:
    """What `lab.widgets.roofline` draws: kernels that do FLOPs."""
    return {name: (kernel.work, kernel.seconds) for name, kernel in placed.items() if kernel.work.flops}


# --- three claims --------------------------------------------------------------------------------------------------

TOKENS, WIDTH, HEADS, LENGTH, ITEM = 8 * 512, 1024, 16, 512, 2
"""One layer of BERT-large: 8 sequences of 512 tokens, fp16."""


def claims(softmax_ledger: Callable, layer_norm_ledger: Callable, matmul_ledger: Callable) -> None:
    """Print three claims of course material beside what ledgers, datasheets and, on a GPU, a profile give."""
    known, a100, m = ceilings.here(), device.find("A100 40GB"), 4096
    ridges = ", ".join(f"{p} {Roof.of(a100, p).ridge:.0f}" for p in ("fp32", "tf32", "fp16"))
    here = ", ".join(f"{p} {known.roof(p).ridge:.0f}" for p in known.tflops)
    print(f"ridge: claim, A100: 10; its datasheet: {ridges}; measured on {known.gpu}: {here} FLOP/byte")
    print(f"intensity: claim M = {m}; from the ledger: {matmul_ledger(m, m, m, 2).intensity:.0f} = M / 3 in fp16")
    contractions, others = bert_layer(softmax_ledger, layer_norm_ledger, matmul_ledger)
    flops = sum(others).flops / sum(contractions + others).flops
    for roof in (Roof.of(device.find("V100 SXM2"), "fp16"), known.roof("fp16")):
        slow, fast = (sum(roof.predict(w).seconds for w in part) for part in (others, contractions))
        print(f"not matmul: claim 0.02 % of FLOPs, 39 % of time; {roof.name}: {flops:.2%}, {slow / (slow + fast):.0%}")
    _measured_share()


def bert_layer(softmax_ledger, layer_norm_ledger, matmul_ledger) -> tuple[list[Ledger], list[Ledger]]:
    """(matmuls, all other operations) of a forward pass through one layer, each operation a kernel of its own."""
    T, H, L = TOKENS, WIDTH, LENGTH
    scores = 8 * HEADS * L * L

    def elementwise(elements: int, inputs: int, flops_each: int) -> Ledger:
        return Ledger({"in": inputs * elements * ITEM}, {"out": elements * ITEM}, flops_each * elements)

    contractions = [matmul_ledger(T, k * H, H, ITEM) for k in (3, 1, 4)] + [matmul_ledger(T, H, 4 * H, ITEM)]
    contractions += [128 * matmul_ledger(L, L, H // HEADS, ITEM), 128 * matmul_ledger(L, H // HEADS, L, ITEM)]
    others = [softmax_ledger(scores // L, L, ITEM), elementwise(scores, 1, 1), elementwise(scores, 2, 1)]  # scale, mask
    others += [elementwise(scores, 2, 1), elementwise(4 * T * H, 1, 12), 2 * elementwise(T * H, 2, 1)]  # dropout, GeLU
    others += [elementwise(k * T * H, 1, 1) for k in (3, 1, 4, 1)]  # biases
    others += [2 * elementwise(T * H, 2, 1), 2 * layer_norm_ledger(T, H, ITEM)]  # residuals, norms
    return contractions, others


def _measured_share() -> None:
    """Print which share of the layer's time on this GPU is not matmul."""
    if not device.has_gpu() or environment.grading_in_progress():
        return
    import torch

    from ..timing import profiling

    T, H, L = TOKENS, WIDTH, LENGTH

    def layer(x, w_qkv, w_out, w_up, w_down):
        q, k, v = (x @ w_qkv).view(8, L, 3, HEADS, H // HEADS).permute(2, 0, 3, 1, 4)
        p = torch.dropout(torch.softmax(q @ k.mT * 0.125, -1), 0.1, True)
        x = torch.layer_norm(x + torch.dropout((p @ v).transpose(1, 2).reshape(T, H) @ w_out, 0.1, True), (H,))
        return torch.layer_norm(x + torch.dropout(torch.nn.functional.gelu(x @ w_up) @ w_down, 0.1, True), (H,))

    shapes = ((T, H), (H, 3 * H), (H, H), (H, 4 * H), (4 * H, H))
    tensors = (torch.randn(s, device="cuda", dtype=torch.float16) / 32 for s in shapes)
    if seen := profiling.profile(layer, *tensors):
        slow = sum(row.us for row in seen.rows if "matmul" not in row.kernel.operation)
        print(f"measured on {seen.gpu}, PyTorch without compiling: {slow / seen.busy_us:.0%} of the time is not matmul")
