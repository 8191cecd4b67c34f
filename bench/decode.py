"""Decode of unit 19 beside PyTorch's attention, and beside what reading alone reaches: GB/s of the cache.

python -m bench.decode [--json FILE]
python -m bench.decode --tune [--json FILE]     tiles, warps, stages, parts, and ways to follow a block table

Bytes are those of keys and values, each counted once. Every timing begins with a cold L2 and takes turns.
"""

import functools
import itertools
import sys
from collections.abc import Callable, Mapping

from bench.common import Table, fail, run, solution
from labutils.exercises._decode import library
from labutils.lessons import decoding
from labutils.timing import ceilings
from labutils.timing.stopwatch import ratio

UNIT = "19_decode_attention"

SHAPES = {
    "64 × 8192 keys, 32 heads on 8": (64, 32, 8, 8192),
    "16 × 32768 keys, 32 heads on 8": (16, 32, 8, 32768),
    "1 × 131072 keys, 32 heads on 8": (1, 32, 8, 131072),
    "64 × 8192 keys, 64 heads on 8": (64, 64, 8, 8192),
    "64 × 4096 keys, 32 heads on 32": (64, 32, 32, 4096),
    "8 × 1024 keys, 32 heads on 8": (8, 32, 8, 1024),
}
"""Sequences, query heads, key heads, keys; head size 128, fp16."""

D, GOAL, PAGED_GOAL = 128, 0.85, 0.95


def caches(shape: tuple, count: int = 2) -> list[tuple]:
    """(q, k, v, lengths, out) a few times over: each larger than the L2."""
    import torch

    B, H, HK, N = shape
    ring = []
    for _ in range(count):
        q = torch.randn(B, H, D, device="cuda", dtype=torch.float16)
        k, v = (torch.randn(B, HK, N, D, device="cuda", dtype=torch.float16) for _ in range(2))
        ring.append((q, k, v, torch.full((B,), N, dtype=torch.int32, device="cuda"), torch.empty_like(q)))
    return ring


def bytes_of(shape: tuple) -> int:
    B, _, HK, N = shape
    return 2 * 2 * B * HK * N * D


def close(name: str, got, q, k, v) -> None:
    """A wrong kernel's time means nothing: the first sequences beside the formula in fp32."""
    right = library(q[:2].float(), k[:2].float(), v[:2].float())
    error = ((got[:2].float() - right).abs().max() / right.abs().max()).item()
    if not error < 5e-3:
        fail(f"{name} is wrong: its largest error is {error:.2g} of the largest element")


def measure(table: Table) -> None:
    read = ceilings.measured().read_gbs * 1e9
    print(f"reading alone: {read / 1e9:.0f} GB/s\n")
    unit = solution(UNIT)
    for name, shape in SHAPES.items():
        rings: dict[str, list[Callable]] = {}
        for seed, (q, k, v, lengths, out) in enumerate(caches(shape)):
            calls = {"ours": functools.partial(unit.decode, q, k, v, lengths, out)}
            for page in (16, 64):
                pool = decoding.cut(k, v, page, seed)
                calls[f"ours, pages of {page}"] = functools.partial(unit.paged, q, *pool, lengths, out)
            for who, call in calls.items():
                out.zero_()
                call()
                close(who, out, q, k, v)
            calls["PyTorch"] = functools.partial(library, q, k, v)
            for who, call in calls.items():
                rings.setdefault(who, []).append(call)
        report(table, name, bytes_of(shape), rings, read)
        del rings, calls, pool, q, k, v


def report(table: Table, name: str, moved: int, rings: Mapping, read: float) -> None:
    samples = table.watch.take_turns(rings)
    ours = samples["ours"]
    print(f"{name}: {moved / 1e6:,.0f} MB")
    for who, sample in samples.items():
        rate, times = moved / sample.median, ratio(sample, ours)
        said = "" if sample is ours else f", ours is {times.value:.3f} × as fast ({times.low:.3f} … {times.high:.3f})"
        print(
            f"  {who:20} {sample.median * 1e6:9.1f} µs {rate / 1e9:6.0f} GB/s {rate / read:6.1%} of reading{said}",
            flush=True,
        )
    if name == next(iter(SHAPES)):
        reached = moved / ours.median / read
        print(f"  {'reached' if reached >= GOAL else 'MISSED '} {reached:.3f} of {GOAL} × reading")
        for who in rings:
            if "pages" in who:
                share = ours.median / samples[who].median
                print(f"  {'reached' if share >= PAGED_GOAL else 'MISSED '} {share:.3f} of {PAGED_GOAL}: {who}")
    table.rows.append({"name": name, "bytes": moved, "seconds": {n: s.median for n, s in samples.items()}})


# --- variants ------------------------------------------------------------------------------------------------------

LOOKUP = "        page = tl.load(table_ptr + b * stride_tb + keys // PAGE, mask=mask_n, other=0).to(tl.int64)\n"
LOOP = "    for start in range(split * chunk, end, BLOCK_N):\n        keys = start + offs_n\n"
JOIN = "        m, l, acc = join(s, v, m, l, acc, scale)\n    ### END SOLUTION\n    part = acc"

FOLLOW = {
    "": (),
    "; numbers one tile ahead": (
        (
            LOOP,
            "    following = tl.load(table_ptr + b * stride_tb + (split * chunk + offs_n) // PAGE,\n"
            "                        mask=split * chunk + offs_n < end, other=0)\n" + LOOP,
        ),
        (
            LOOKUP,
            "        page = following.to(tl.int64)\n"
            "        following = tl.load(table_ptr + b * stride_tb + (keys + BLOCK_N) // PAGE,\n"
            "                            mask=keys + BLOCK_N < end, other=0)\n",
        ),
    ),
    "; one number a tile": (
        (LOOKUP, "        page = tl.load(table_ptr + b * stride_tb + start // PAGE).to(tl.int64) + 0 * offs_n\n"),
    ),
}
"""Variants of the text of `paged_kernel`; the last is right where a tile lies on one page."""


def configs(tiles: tuple[int, ...], warps: tuple[int, ...], stages: tuple[int, ...]) -> list[dict]:
    found = []
    for tile, count, depth in itertools.product(tiles, warps, stages):
        if tile * D * 4 * depth <= 220 * 1024 and not (tile == 32 and count == 8):
            found.append(dict(BLOCK_N=tile, num_warps=count, num_stages=depth))
    return found


def named(config: Mapping) -> str:
    return ", ".join(f"{k.removeprefix('BLOCK_').removeprefix('num_')} {v}" for k, v in config.items())


def tune(table: Table) -> None:
    unit = solution(UNIT)
    for name in list(SHAPES)[:3]:
        shape = SHAPES[name]
        B, _, HK, N = shape
        moved, ring = bytes_of(shape), caches(shape)
        parts = [n for n in (512, 1024, 2048, 4096) if n <= N and B * HK * N // n >= 132]
        own = unit.chunk_of(B, HK, N, 64)
        variants = {
            f"{named(c)}, parts of {n}": lambda *x, c=c, n=n: unit.decode(*x, chunk=n, config=c)
            for c, n in itertools.product(
                configs((32, 64, 128), (2, 4, 8), (2, 3, 4)), [*parts, own] if B > 1 else [own, 2 * own, own // 2]
            )
        }
        table.tune(f"decode, {name} (our own choice: parts of {own})", moved, variants, ring, best=10)
        if B < 64:
            continue
        for page in (16, 64):
            paged = [(q, *decoding.cut(k, v, page), lengths, out) for q, k, v, lengths, out in ring]
            variants = {}
            for how, changes in FOLLOW.items():
                follow = solution(UNIT, *changes) if changes else unit
                for c in configs((16, 32, 64, 128), (4,), (2, 3, 4, 5, 6)):
                    if "one number" not in how or c["BLOCK_N"] <= page:
                        variants[named(c) + how] = lambda *x, c=c, f=follow: f.paged(*x, chunk=1024, config=c)
            table.tune(f"pages of {page}, {name}", moved, variants, paged, best=10)
            del paged


if __name__ == "__main__":
    sys.exit(run(__doc__, "python -m bench.decode", measure, tune))
