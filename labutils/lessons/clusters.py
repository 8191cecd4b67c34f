"""Unit 12's last level: a softmax by clusters of blocks, tested, and timed on a Hopper GPU."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from functools import partial

from .. import environment
from ..cuda import kernel as cuda
from ..gpu import device
from .cluster_kernel import QUADS, SHARED, SOURCE, THREADS

SM = 90
LONG = (1024, 200_000)
SIZES = (2, 4, 8, 16)
"""Blocks of a cluster."""
FEW = 320
"""Threads of a block, of which an SM has room for three or more blocks."""


@functools.cache
def _compiled(cell: str) -> cuda.Kernel:
    return cuda.compile(cell + SOURCE, "cluster_softmax_kernel")


def launch_shape(N: int, few: int = FEW, most: int = THREADS) -> tuple[int, int, int] | None:
    """Blocks of a cluster, threads of a block, and columns of a block's part, for rows of N floats.

    The fewest blocks of at most `few` threads: while one block of an SM computes or stores, its others load. Longer
    rows take the largest cluster, with blocks of at most `most` threads. None: too long for the registers.
    """
    for blocks in SIZES:
        columns = -(-N // (4 * blocks)) * 4  # a multiple of 4, so that all parts begin alike
        threads = 32 * -(-columns // (32 * 4 * QUADS))
        if threads <= (most if blocks == SIZES[-1] else few):
            return blocks, threads, columns
    return None


def softmax(exchange: cuda.Kernel, x, out, lse, fallback: Callable) -> None:
    """out = softmax of the rows of x (M, N), lse (M,) = log-sum-exp, with the `exchange` function of the kernel's cell.

    One row per cluster, for contiguous fp32 rows that start at any address and have at most 327 680 columns. Everything
    else goes to `fallback`: longer rows, other types, other GPUs, strided rows, and x and out with different alignment.
    """
    M, N = x.shape
    shape = launch_shape(N) if x.is_cuda else launch_shape(N, 64, 64)  # a cluster has at most 1024 emulated threads
    plain = str(x.dtype) == "torch.float32" and x.is_contiguous() and out.is_contiguous()
    alike = x.data_ptr() % 16 == out.data_ptr() % 16
    if shape is None or not plain or not alike or (x.is_cuda and not device.runs(SM)):
        fallback(x, out, lse)
        return
    blocks, threads, columns = shape
    kernel = _compiled(exchange.module.source).clustered(blocks)
    kernel[M * blocks, threads, SHARED](x, out, lse, N, columns, blocks)


def try_exchange(exchange: cuda.Kernel) -> None:
    """Merge 32 numbers per block in one cluster of each size, and print how the result compares with PyTorch's."""
    import torch

    if environment.grading_in_progress():
        return
    if isinstance(exchange, cuda.Unfilled):
        print("exchange() is not written yet.")
        return
    place = "cuda" if device.runs(SM) else "cpu"
    for blocks in SIZES:
        x = 3 * torch.randn(blocks, 32, generator=torch.Generator().manual_seed(blocks)).to(place)
        m, l = torch.full((2, blocks), 7.0, device=place)  # noqa: E741
        exchange.clustered(blocks)[blocks, 32, 8 * blocks + 8](x, m, l, blocks)
        largest = x.max()
        total = torch.exp(x - largest).sum()
        right = bool((m == largest).all()) and bool(torch.allclose(l, total.expand_as(l), rtol=1e-4))
        print(f"{blocks} blocks: " + ("right" if right else f"m {m.tolist()}, expected {largest.item():.4f}; "
              f"l {l.tolist()}, expected {total.item():.4f}"))  # fmt: skip


def try_out(exchange: cuda.Kernel, softmax: Callable, others: Mapping[str, Callable]) -> None:
    """Run softmax(x, out, lse) on a small matrix, print its error against PyTorch, and time it on a Hopper GPU."""
    import torch

    if environment.grading_in_progress() or isinstance(exchange, cuda.Unfilled):
        return
    here = device.runs(SM)
    place, (M, N) = ("cuda", (40, 50_257)) if here else ("cpu", (3, 2003))
    x = 3 * torch.randn(M, N, generator=torch.Generator().manual_seed(1)).to(place)
    x[0, : N // 2] = -torch.inf
    x[1] = -torch.inf
    out, lse = torch.full_like(x, 7.0), torch.full((M,), 7.0, device=place)
    softmax(x, out, lse)
    expected, expected_lse = torch.softmax(x.double(), 1), torch.logsumexp(x.double(), 1)
    rest = torch.arange(M, device=place) != 1
    error = ((out.double() - expected).abs() / expected.clamp_min(1e-30))[rest].max().item()
    print(f"{M} × {N}: largest relative difference {error:.1e} from torch.softmax,")
    print(f"{(lse.double() - expected_lse)[rest].abs().max().item():.1e} from torch.logsumexp.")
    print(f"A row that is all -inf: {out[1, 0].item()} everywhere, lse {lse[1].item()}.")
    if not here:
        print("This ran in the emulator, so there is no timing: that needs a Hopper GPU.")
        return
    for name, rate in rates({"cluster_softmax": softmax, **others}).items():
        print(f"{name:20} {rate:5.0f} GB/s")


def rates(softmaxes: Mapping[str, Callable]) -> dict[str, float]:
    """GB/s of 2MN floats for each softmax, for PyTorch's and for a copy, interleaved, at the unit's size."""
    import torch

    from ..timing import stopwatch

    M, N = LONG
    pairs = [(torch.randn(M, N, device="cuda"), torch.empty(M, N, device="cuda")) for _ in range(2)]
    lse = torch.empty(M, device="cuda")
    calls = {}
    for name, f in softmaxes.items():
        try:
            f(*pairs[0], lse)
        except Exception as e:  # a kernel that is not written must not hide the others
            print(f"{name}: left out: {type(e).__name__}: {str(e)[:100]}")
            continue
        calls[name] = [partial(f, x, out, lse) for x, out in pairs]
    calls["torch.softmax"] = [partial(torch.softmax, x, 1) for x, _ in pairs]
    calls["copy"] = [partial(out.copy_, x) for x, out in pairs]
    taken = stopwatch.Stopwatch().take_turns(calls)
    return {name: 8 * M * N / sample.median / 1e9 for name, sample in taken.items()}
