"""Shared by unit 19's exercises: attention of one query per sequence, over caches of different lengths."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..spec.inputs import generator
from ._attention import attention, magnitude, scores

NOT_THERE = -1
"""The block table's entry past the last page of a sequence."""


def lengths(sizes, g=None):
    """Keys in the cache of each sequence, at most N. The first has N, the second of three or more a single one.

    `mix` 0: all have N. Else it chooses, so that everything that must fit the lengths can find them again.
    """
    B, N = sizes["B"], most_keys(sizes)
    if not sizes["mix"]:
        return torch.full((B,), N)
    chosen = torch.randint(1, N + 1, (B,), generator=generator(sizes["mix"], "lengths", B, N))
    chosen[0] = N
    if B > 2:
        chosen[1] = 1
    return chosen


def most_keys(sizes) -> int:
    return sizes["N"] if "N" in sizes else sizes["T"] * sizes["PAGE"]


def table(sizes, g=None):
    """The pages of each sequence, in order of its keys: scattered over the pool, with a first page that all sequences
    share if they fill it. Where the pool is too small, pages serve several sequences. Follows from the sizes, as the
    lengths do: where nothing is stored must be found again."""
    B, T, P, page = (sizes[n] for n in ("B", "T", "P", "PAGE"))
    used = -(-lengths(sizes) // page)
    pool, taken = torch.randperm(P, generator=generator(sizes["mix"], "table", B, T, P)), 0
    found = torch.full((B, T), NOT_THERE)
    for b, count in enumerate(used.tolist()):
        found[b, :count] = pool[torch.arange(taken, taken + count) % P]
        taken += count
    full = lengths(sizes) >= page
    found[full, 0] = found[0, 0]
    return found


def unused(sizes):
    """Where the pools, (P, HK, PAGE, D), hold the key of no sequence."""
    P, page = sizes["P"], sizes["PAGE"]
    free = torch.ones(P, page, dtype=torch.bool)
    for numbers, length in zip(table(sizes), lengths(sizes), strict=True):
        keys = torch.arange(int(length))
        free[numbers[keys // page], keys % page] = False
    return free[:, None, :, None].expand(P, sizes["HK"], page, sizes["D"])


def group_of(q, k) -> int:
    return q.shape[-2] // k.shape[1]


def each(q, lengths, of: Callable, *more):
    """`of(b, number of keys, q (H, 1, D))` for each sequence, stacked; an invalid length counts as one key."""
    counts = torch.nan_to_num(lengths, nan=1.0).long().clamp(min=1).tolist()
    results = [of(b, n, q[b][:, None]) for b, n in enumerate(counts)]
    return {name: torch.stack([r[name] for r in results]) for name in results[0]}


def parts(q, k, v, lengths, chunk, S: int, of: Callable = attention):
    """Attention over each part of the keys: part (B, H, S, D) and lse (B, H, S); empty parts are 0 and -inf."""

    def one(b, n, query):
        n = min(n, k.shape[2])
        outs, sums = [], []
        for s in range(S):
            piece = slice(s * chunk, min((s + 1) * chunk, n))
            if piece.start >= n:
                empty = torch.zeros_like(query[:, 0])
                outs.append(empty)
                sums.append(torch.full_like(empty[:, 0], 0.0 if of is magnitude else -torch.inf))
                continue
            r = of(query, k[b][:, piece], v[b][:, piece])
            outs.append(r["out"][:, 0])
            sums.append(r["lse"][:, 0])
        return {"part": torch.stack(outs, 1), "lse": torch.stack(sums, 1)}

    return each(q, lengths, one)


def decode(q, k, v, lengths, of: Callable = attention):
    """out (B, H, D) of contiguous caches k, v (B, HK, N, D)."""

    def one(b, n, query):
        return {"out": of(query, k[b][:, :n], v[b][:, :n])["out"][:, 0]}

    return each(q, lengths, one)


def gathered(pages, numbers):
    """Keys of the pages (P, HK, PAGE, D) with these numbers, concatenated: (HK, keys, D)."""
    at = torch.nan_to_num(numbers, nan=0.0).long().clamp(0, len(pages) - 1)
    return pages[at].transpose(0, 1).flatten(1, 2)


def paged(q, k, v, table, lengths, of: Callable = attention):
    """out (B, H, D) of paged caches k, v (P, HK, PAGE, D); `table` (B, T) lists the pages of each sequence."""
    page = k.shape[2]

    def one(b, n, query):
        numbers = table[b, : -(-n // page)]
        mine = [gathered(x, numbers)[:, :n] for x in (k, v)]
        return {"out": of(query, *mine)["out"][:, 0]}

    return each(q, lengths, one)


def with_scores(change: Callable) -> Callable:
    """An `of` function: attention on scores and values modified by `change(s, k, v)`."""

    def of(query, k, v):
        from ._attention import from_scores

        return from_scores(*change(scores(query, k), k, v))

    return of


def magnitude_of(form: Callable, **more) -> Callable:
    """M of the error model for one of the functions above."""
    return lambda *arrays, **named: form(*arrays, of=magnitude, **named, **more)


def library(q, k, v, lengths=None):
    """PyTorch's attention for one query per sequence: q (B, H, D), k and v (B, HK, N, D)."""
    mask = None
    if lengths is not None:
        mask = (torch.arange(k.shape[2], device=k.device) < lengths[:, None].to(k.device))[:, None, None]
    sdpa = torch.nn.functional.scaled_dot_product_attention
    return sdpa(q[:, :, None], k, v, attn_mask=mask, enable_gqa=q.shape[1] != k.shape[1])[:, :, 0]
