"""Decoding with a KV cache: what limits its speed, and how pages and batching use memory and slots."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence

from .. import environment
from ..gpu import device
from .slots import continuous, in_batches, requests

# --- slots ---------------------------------------------------------------------------------------------------------


def batching(slots: int = 4):
    """The same requests in fixed batches and with continuous batching, step by step: a figure with a slider."""
    from ..plots.explorer import Explorer, Slider
    from .decoding_plots import batches

    tokens = requests()

    def draw(slots: int):
        return batches({"fixed batches": in_batches(tokens, slots), "continuous": continuous(tokens, slots)}, slots)

    return Explorer(draw, {"slots": Slider("slots", 1, 8)}, {"slots": slots})


# --- pages ---------------------------------------------------------------------------------------------------------


def pages(lengths: Sequence[int] = (7, 3, 10), page: int = 4, pool: int = 12, seed: int = 5):
    """Figure of a pool of pages and the block tables that list them; all sequences share their first page."""
    from .. import plots
    from .decoding_plots import page_pool

    order, tables = random.Random(seed).sample(range(pool), pool), []
    shared = order.pop()
    for length in lengths:
        own = [order.pop() for _ in range(-(-length // page) - (length >= page))]
        tables.append([shared, *own] if length >= page else own)
    return plots.show(page_pool, lengths, page, pool, tables)


def room(cache_bytes: Callable, unused: Callable, sequences: Callable, memory: int = 60 * 10**9) -> None:
    """The notebook's predictions for a model with 80 layers, 8 key heads of size 128, fp16, and 60 GB free."""
    if environment.grading_in_progress():
        return
    lengths = [140, 460, 900, 1300, 2600]
    try:
        token = cache_bytes(80, 8, 128, 1, 2)
        print(f"{token / 1024:.0f} KiB per token; with 64 key heads {cache_bytes(80, 64, 128, 1, 2) / 1024:.0f} KiB.")
        print(f"Sequences of {', '.join(map(str, lengths))} tokens, {memory // 10**9} GB:")
        for page, name in ((8192, "8192 tokens each"), (256, "pages of 256"), (16, "pages of 16")):
            lost = sum(unused(n, page) for n in lengths)
            fit = sequences(memory, token, sum(lengths) // len(lengths), page)
            print(
                f"  {name:20} {lost / (lost + sum(lengths)):6.1%} of the memory unused; {fit:4} of average length fit"
            )
    except (TypeError, NotImplementedError, ZeroDivisionError) as e:
        print(f"Some of the functions above are not written yet: {e}")


# --- measured ------------------------------------------------------------------------------------------------------


def cut(k, v, page: int, seed: int = 0):
    """A contiguous cache k, v (B, HK, N, D) split into scattered pages: (k pages, v pages, table)."""
    import torch

    B, HK, N, D = k.shape
    g = torch.Generator(device=k.device).manual_seed(seed)
    order = torch.randperm(B * N // page, generator=g, device=k.device)
    table = torch.empty_like(order)
    table[order] = torch.arange(len(order), device=k.device)  # page order[i] of the caches is at i

    def pool(x):
        return x.view(B, HK, N // page, page, D).transpose(1, 2).reshape(-1, HK, page, D)[order]

    return pool(k), pool(v), table.view(B, N // page).int()


def speeds(decode: Callable, paged: Callable, intensity: Callable, B: int = 64, N: int = 8192) -> None:
    """Cache bandwidth of your kernels and PyTorch's, compared with a plain read; without a GPU, only the bound."""
    if environment.grading_in_progress():
        return
    from ..exercises._decode import library
    from ..timing import ceilings

    H, HK, D = 32, 8, 128
    moved = 4 * B * HK * N * D
    try:
        per_byte = intensity(1, H // HK, 2)
    except (TypeError, NotImplementedError):
        per_byte = float("nan")
    roof = ceilings.here()
    ridge = roof.tflops.get("fp16", 0) * 1e12 / (roof.read_gbs * 1e9)
    print(f"Decode, {B} sequences, {HK} key heads for {H}, {N} keys of {D}, fp16: {moved / 1e6:,.0f} MB of cache.")
    print(f"{per_byte:g} FLOP a byte; the ridge point of {roof.gpu} (measured) is {ridge:.0f}.")
    print(f"At {roof.read_gbs:.0f} GB/s, the measured read bandwidth, that takes {moved / roof.read_gbs / 1e3:.0f} µs.")
    if not device.has_gpu():
        return
    import torch

    from ..timing.stopwatch import Stopwatch

    rings: dict[str, list] = {}
    full = torch.full((B,), N, dtype=torch.int32, device="cuda")
    for seed in range(2):
        q = torch.randn(B, H, D, device="cuda", dtype=torch.float16)
        k, v = (torch.randn(B, HK, N, D, device="cuda", dtype=torch.float16) for _ in range(2))
        out = torch.empty_like(q)
        rings.setdefault("yours", []).append(functools.partial(decode, q, k, v, full, out))
        pool = cut(k, v, 16, seed)
        rings.setdefault("yours, pages of 16", []).append(functools.partial(paged, q, *pool, full, out))
        rings.setdefault("PyTorch", []).append(functools.partial(library, q, k, v))
    for name, sample in Stopwatch().take_turns(rings).items():
        rate = moved / sample.median / 1e9
        print(
            f"  {name:20} {sample.median * 1e6:8.0f} µs {rate:6.0f} GB/s, {rate / roof.read_gbs:5.1%} of a plain read"
        )
