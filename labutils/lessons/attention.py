"""Tiled attention: byte counts, a small case to step through, and measurements compared with published claims."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import environment
from ..gpu import device

if TYPE_CHECKING:
    import torch

    from ..plots.explorer import Explorer

H200 = {
    "(4, 32, 4096, 128)": (346, 676, 542),
    "(4, 32, 4096, 64)": (302, 480, 455),
    "(2, 16, 16384, 128) causal": (313, 615, 519),
}
"""TFLOP/s of FlashAttention-2, of cuDNN and of `flash` of unit 17: NVIDIA H200, bf16, torch 2.11, Triton 3.6, one run
of `python -m bench.attention`. Shapes are (sequences, heads, keys, head size)."""


@dataclass(frozen=True)
class Step:
    """State after one tile: its queries and keys, and (m, l, acc) of those queries.

    `m` is the largest score so far; `factor` is what the tile multiplied the older l and acc with.
    """

    queries: range
    keys: range
    scores: torch.Tensor
    m: torch.Tensor
    l: torch.Tensor  # noqa: E741
    acc: torch.Tensor
    factor: torch.Tensor


def steps(q, k, v, block_m: int, block_n: int, causal: bool = False) -> list[Step]:
    """All tiles that the programs process, one program after another, in float64."""
    import torch

    scale, done = q.shape[1] ** -0.5, []
    for first in range(0, len(q), block_m):
        rows = range(first, min(first + block_m, len(q)))
        m = torch.full((len(rows),), -torch.inf, dtype=torch.float64)
        l, acc = torch.zeros_like(m), torch.zeros(len(rows), v.shape[1], dtype=torch.float64)  # noqa: E741
        end = min(rows.stop, len(k)) if causal else len(k)
        for start in range(0, end, block_n):
            columns = range(start, min(start + block_n, len(k)))
            s = scale * q[rows.start : rows.stop].double() @ k[columns.start : columns.stop].double().T
            if causal:
                s = s.masked_fill(torch.tensor([[j > i for j in columns] for i in rows]), -torch.inf)
            new = torch.maximum(m, s.amax(1))
            factor, p = torch.exp(m - new), torch.exp(s - new[:, None])
            m, l = new, l * factor + p.sum(1)  # noqa: E741
            acc = acc * factor[:, None] + p @ v[columns.start : columns.stop].double()
            done.append(Step(rows, columns, s, m, l, acc, factor))
    return done


def small_case(causal: bool = False) -> list[Step]:
    """Six queries and eight keys in tiles of 3 × 2; causal with six keys."""
    import torch

    g = torch.Generator().manual_seed(3)
    q, k, v = (torch.randint(-3, 4, (n, 4), generator=g).double() for n in (6, 6 if causal else 8, 6 if causal else 8))
    return steps(q, k, v[:, :2], 3, 2, causal)


def stepper(mask: str = "no mask") -> Explorer:
    """Step through the tiles of a small case: which scores are computed, and how m, l and acc change."""
    from ..plots.explorer import Choice, Explorer, Slider
    from .attention_plots import attention_step

    cases = {"no mask": small_case(), "causal": small_case(causal=True)}
    most = max(map(len, cases.values()))

    def draw(mask: str, tile: int):
        every = cases[mask]
        return attention_step(every, min(tile, len(every)) - 1)

    controls = {"mask": Choice("scores", tuple(cases)), "tile": Slider("tile", 1, most)}
    return Explorer(draw, controls, {"mask": mask, "tile": 2})


# --- byte counts ----------------------------------------------------------------------------------------------------


def ledgers(score_bytes: Callable, naive_bytes: Callable, tiled_bytes: Callable, D: int = 128) -> None:
    """The notebook's three byte counts for lengths from 1 K to 128 K, one head, fp16."""
    if environment.grading_in_progress():
        return
    print(f"one head, D = {D}, fp16, blocks of 128 queries; intensity in FLOP/byte")
    print(f"{'keys':>8} {'scores':>11} {'three kernels':>15} {'tiles':>11} {'intensity: three, tiles, ideal':>37}")
    try:
        for power in (10, 12, 14, 17):
            N = 2**power
            flops, naive, tiled = 4 * N * N * D, naive_bytes(N, D, 2), tiled_bytes(N, D, 128, 2)
            once = flops / (8 * N * D)
            print(
                f"{N:8} {score_bytes(1, N, 2) / 2**20:7.0f} MiB {naive / 2**20:11.0f} MiB {tiled / 2**20:7.0f} MiB "
                f"{flops / naive:16.0f} {flops / tiled:8.0f} {once:11.0f}"
            )
    except (TypeError, NotImplementedError) as e:
        print(f"Some of the functions above are not written yet: {e}")


# --- measured ------------------------------------------------------------------------------------------------------

Launcher = Callable[..., object]


def flops(B: int, H: int, N: int, D: int, causal: bool = False) -> float:
    """FLOPs of a forward pass as papers count them: two products, half of them with a causal mask."""
    return 4 * B * H * N * N * D * (0.5 if causal else 1.0)


def backends(q, k, v, causal: bool = False) -> dict[str, Callable[[], object]]:
    """PyTorch's attention by backend, for (B, H, N, D) arrays: the backends that work here."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def call(backend):
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    found = {}
    for name, backend in (
        ("FlashAttention-2", SDPBackend.FLASH_ATTENTION),
        ("cuDNN", SDPBackend.CUDNN_ATTENTION),
    ):
        try:
            call(backend)
        except RuntimeError:
            continue
        found[name] = functools.partial(call, backend)
    return found


def claims(flash: Launcher) -> None:
    """Claims about FlashAttention 2 and 3, compared with measurements: on this GPU, or stored ones."""
    if environment.grading_in_progress():
        return
    print('Claims: "FlashAttention-2 reaches 35 % of an H100\'s peak" and "FlashAttention-3 75 %" (of 989 TFLOP/s).')
    if not device.has_gpu():
        for shape, (fa2, cudnn, triton) in H200.items():
            rates = {"FlashAttention-2": fa2, "cuDNN": cudnn, "flash": triton}
            print(f"  H200, {shape}: " + ", ".join(f"{name} {rate} ({rate / 989:.0%})" for name, rate in rates.items()))
        return
    import torch

    from ..timing.stopwatch import Stopwatch

    gpu, watch = device.current(), Stopwatch()
    dtype = torch.bfloat16 if gpu.capability >= (8, 0) else torch.float16
    for B, H, N, D, causal in ((4, 32, 4096, 128, False), (4, 32, 4096, 64, False), (2, 16, 16384, 128, True)):
        rings: dict[str, list] = {}
        for _ in range(2):
            q, k, v = (torch.randn(B, H, N, D, device="cuda", dtype=dtype) for _ in range(3))
            out, lse = torch.empty(B * H, N, D, device="cuda", dtype=dtype), torch.empty(B * H, N, device="cuda")
            flat = [x.flatten(0, 1) for x in (q, k, v)]
            rings.setdefault("yours", []).append(functools.partial(flash, *flat, out, lse, causal))
            for name, call in backends(q, k, v, causal).items():
                rings.setdefault(name, []).append(call)
        peak = (gpu.peak("bf16") or gpu.peak("fp16") or 0) / 1e12
        taken = watch.take_turns(rings)
        parts = []
        for name, sample in taken.items():
            rate = flops(B, H, N, D, causal) / sample.median / 1e12
            parts.append(f"{name} {rate:.0f} TFLOP/s" + (f" ({rate / peak:.0%})" if peak else ""))
        print(f"  {gpu.name}, ({B}, {H}, {N}, {D}){' causal' if causal else ''}: {', '.join(parts)}", flush=True)


def gluon(iteration) -> None:
    """Check the Gluon kernel with the learner's `iteration` and print its TFLOP/s, on a Hopper GPU."""
    if environment.grading_in_progress():
        return
    if not device.runs(90):
        print("The Gluon kernel runs on Hopper GPUs (sm_90) only.")
        return
    import torch

    try:
        from .flash_gluon import launcher

        flash = launcher(iteration)
        q, k, v = (torch.randn(2, 512, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        out, lse = torch.empty_like(q), torch.empty(2, 512, device="cuda")
        flash(q, k, v, out, lse, True)
    except Exception as e:  # not written yet, wrong shapes, or a Triton without Gluon
        print(f"The Gluon kernel does not run: {type(e).__name__}: {str(e).splitlines()[0][:90] if str(e) else ''}")
        return
    right, _ = formula(q.float(), k.float(), v.float(), True)
    if (error := (out - right).abs().max().item()) > 2e-2 * right.abs().max().item():
        print(
            f"The Gluon kernel is wrong by up to {error:.2g}: "
            "start all three products, then wait until two are in flight."
        )
        return
    claims(flash)


def memory(flash: Launcher, score_bytes: Callable, lengths=(2**12, 2**14, 2**15, 2**17)) -> None:
    """Peak memory of four heads compared with the predicted bytes, up to 128 K keys."""
    if environment.grading_in_progress():
        return
    heads, D = 4, 128
    if not device.has_gpu():
        print("Measuring peak memory needs a GPU. Predicted for 4 heads, fp16: Q, K, V, out and lse; all scores:")
    else:
        print("Memory in addition to Q, K, V for 4 heads, fp16: predicted; your kernel's peak; all scores:")
    for N in lengths:
        predicted = heads * N * (2 * D + 4)
        scores = f"{score_bytes(heads, N, 2) / 2**20:8.0f} MiB"
        if not device.has_gpu():
            print(f"  {N:7} keys {(predicted + 3 * heads * N * D * 2) / 2**20:7.0f} MiB {scores}")
            continue
        print(f"  {N:7} keys {predicted / 2**20:7.1f} MiB {peak_bytes(flash, heads, N, D) / 2**20:7.1f} MiB {scores}")


def peak_bytes(flash: Launcher, heads: int, N: int, D: int) -> int:
    """Peak bytes of a causal forward pass in addition to its inputs: output, lse, and any workspace."""
    import torch

    q, k, v = (torch.randn(heads, N, D, device="cuda", dtype=torch.float16) for _ in range(3))
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    out, lse = torch.empty_like(q), torch.empty(heads, N, device="cuda")
    flash(q, k, v, out, lse, 1)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


# --- backward ------------------------------------------------------------------------------------------------------


def owners(tiles: int = 8, row: int = 5, column: int = 2):
    """Figure of the causal tiles of S: those that the program of one row loops over, and of one column."""
    from .. import plots
    from .attention_plots import attention_owners

    return plots.show(attention_owners, tiles, row, column)


def forward(q, k, v, causal=True):
    """(out, lse) by PyTorch: its FlashAttention on a GPU, elsewhere the formula. q (H, M, D), k and v (HK, N, D)."""
    import torch

    k, v = (x.repeat_interleave(len(q) // len(x), 0) for x in (k, v))
    if q.is_cuda:
        result = torch.ops.aten._scaled_dot_product_flash_attention(q[None], k[None], v[None], 0.0, bool(causal))
        return result[0][0], result[1][0]
    out, lse = formula(q.float(), k.float(), v.float(), causal)
    return out.to(q.dtype), lse


def formula(q, k, v, causal=True):
    """(out, lse) with every score in memory: the reference for the kernels."""
    import torch

    k, v = (x.repeat_interleave(len(q) // len(x), 0) for x in (k, v))
    s = q @ k.mT * q.shape[-1] ** -0.5
    if causal:
        s = s.masked_fill(torch.ones(s.shape[1:], dtype=torch.bool, device=s.device).triu(1), -torch.inf)
    return torch.softmax(s, -1) @ v, torch.logsumexp(s, -1)


def gradient_table(apply: Callable, heads=(4, 2), N: int = 40, D: int = 32, seed: int = 0) -> dict[str, float] | None:
    """Gradients of `apply(q, k, v, causal)` compared with float64 and with differences along a random direction.

    Prints a table; the largest error of each gradient in units of the largest element, by name.
    """
    import torch

    if environment.grading_in_progress():
        return None
    g = torch.Generator().manual_seed(seed)
    where = "cuda" if device.has_gpu() else "cpu"
    shapes = {"q": heads[0], "k": heads[1], "v": heads[1]}
    exact = {n: torch.randn(h, N, D, generator=g).half().double().requires_grad_() for n, h in shapes.items()}
    dout = torch.randn(heads[0], N, D, generator=g).half().double()

    def loss(*x):
        return (formula(*x)[0] * dout).sum()

    right = torch.autograd.grad(loss(*exact.values()), list(exact.values()))
    x = [t.detach().half().to(where).requires_grad_() for t in exact.values()]
    try:
        apply(*x, True).backward(dout.half().to(where))
    except Exception as e:  # a kernel that is missing or fails: its check tells more
        print(f"No gradients: {type(e).__name__}")
        return None
    errors = {}
    print(f"{'':4} {'largest error':>14} {'largest element':>16} {'along t':>10} {'by differences':>15}")
    for i, (name, mine) in enumerate(zip(exact, x, strict=True)):
        mine, t = mine.grad.cpu().double(), torch.randn(right[i].shape, generator=g, dtype=torch.float64)
        moved = [
            [y.detach() + (sign * 1e-5 * t if j == i else 0) for j, y in enumerate(exact.values())] for sign in (1, -1)
        ]
        slope = ((loss(*moved[0]) - loss(*moved[1])) / 2e-5).item()
        error, most = (mine - right[i]).abs().max().item(), right[i].abs().max().item()
        errors["d" + name] = error / most
        print(f"d{name:3} {error:14.2g} {most:16.2g} {(mine * t).sum().item():10.4f} {slope:15.4f}")
    return errors


def gluon_gradients(q, k, v, dout) -> Callable[[], None] | None:
    """The causal backward pass of `flash_backward_gluon` for (B, H, N, D) arrays, or None where it does not run."""
    import torch

    try:
        from .flash_backward_gluon import backward, usable
    except ImportError:  # a Triton without Gluon
        return None
    q, k, v, dout = (x.detach().flatten(0, 1) for x in (q, k, v, dout))
    if not usable(q, k):
        return None
    gradients = (torch.empty_like(x) for x in (q, k, v))
    out, lse = forward(q, k, v, True)
    return functools.partial(backward, q, k, v, out, dout, lse, *gradients, True)


def backward_claims(apply: Callable) -> None:
    """Backward TFLOP/s of `apply`, PyTorch's two backends and the Gluon kernel: 2.5 times the forward FLOPs."""
    if environment.grading_in_progress():
        return
    if not device.has_gpu():
        print(
            "H200, causal, (4, 32, 4096, 128) bf16, backward: FlashAttention-2 265 TFLOP/s, cuDNN 501, "
            "the kernels of this unit 427, one kernel in Gluon 552."
        )
        return
    import torch

    from ..timing.stopwatch import Stopwatch

    B, H, N, D = 4, 32, 4096, 128
    dtype = torch.bfloat16 if device.current().capability >= (8, 0) else torch.float16
    rings: dict[str, list] = {}
    for _ in range(2):
        x = [torch.randn(B, H, N, D, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3)]
        dout = torch.randn(B, H, N, D, device="cuda", dtype=dtype)

        def again(out, x=x, dout=dout):
            return functools.partial(torch.autograd.grad, out, x, dout, retain_graph=True)

        rings.setdefault("yours", []).append(again(apply(*(t.flatten(0, 1) for t in x), True).view_as(dout)))
        for name, call in backends(*x, True).items():
            rings.setdefault(name, []).append(again(call()))
        if call := gluon_gradients(*x, dout):
            rings.setdefault("Gluon", []).append(call)
    for name, sample in Stopwatch().take_turns(rings).items():
        print(f"  {name:18} {2.5 * flops(B, H, N, D, True) / sample.median / 1e12:5.0f} TFLOP/s", flush=True)
