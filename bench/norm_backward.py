"""Variants of RMSNorm's backward kernel (unit 24): each is checked, then timed beside the solution and a copy.

python -m bench.norm_backward [--json FILE]

The solution reads a row, waits for one reduction of a pair of sums, and stores the row. The variants change what a
program waits for: `two sums` are two reductions, `prefetch` loads the next row into registers before it reduces this
one, `rows` reduces several rows at once, `parts` splits a row at a power of two, so that no lane of 5120 columns is
idle, and `contiguous` gives neighboring rows to one program. `no hint` stores dx without a cache hint. Most of the time
goes into the compiler (`bench/precompile.py`).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator

from bench.block_kernels import COUNT, EPS, NORMS, UNIT, half
from bench.common import Table, run, solution, wrong

DEVICE = "cuda"
SECONDS = 1.2
"""Most that one comparison takes."""

LOOP = "for row in tl.range(tl.program_id(0), M, tl.num_programs(0), num_stages=STAGES):"
LOADS = """\
        x = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * stride_ym + offs_n, mask=mask_n, other=0.0).to(tl.float32)
"""
SUMS = """\
        squares, products = tl.reduce((x * x, dy * w * x), 0, add_pairs)
        r, mean = tl.rsqrt(squares / N + EPS), products / N
"""
STORES = """\
        dx = r * (dy * w - x * (r * r * mean))
        # The next kernel reads dx: ask the L2 to keep it longer than x and dy.
        tl.store(dx_ptr + row * stride_dm + offs_n, dx, mask=mask_n, eviction_policy="evict_last")
        dw += dy * x * r
"""

TWO_SUMS = ((SUMS, SUMS.replace("tl.reduce((x * x, dy * w * x), 0, add_pairs)", "tl.sum(x * x), tl.sum(dy * w * x)")),)
NO_HINT = ((', eviction_policy="evict_last"', ""),)

PREFETCH = (
    (
        f"    {LOOP}\n{LOADS}{SUMS}",
        """\
    row = tl.program_id(0)
    x_next = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n, other=0.0)
    dy_next = tl.load(dy_ptr + row * stride_ym + offs_n, mask=mask_n, other=0.0)
    for row in tl.range(tl.program_id(0), M, tl.num_programs(0), num_stages=1):
        x, dy = x_next.to(tl.float32), dy_next.to(tl.float32)
        following = row + tl.num_programs(0)
        mask = mask_n & (following < M)
        x_next = tl.load(x_ptr + following * stride_xm + offs_n, mask=mask, other=0.0)
        dy_next = tl.load(dy_ptr + following * stride_ym + offs_n, mask=mask, other=0.0)
        squares, products = tl.reduce((x * x, dy * w * x), 0, add_pairs)
        r, mean = tl.rsqrt(squares / N + EPS), products / N
""",
    ),
)


def rows_at_once(rows: int) -> tuple[tuple[str, str], ...]:
    """Tiles of `rows` rows: a barrier for all of them."""
    return (
        (
            f"    {LOOP}\n{LOADS}{SUMS}{STORES}",
            f"""\
    offs_r = tl.arange(0, {rows})
    for first in tl.range(tl.program_id(0) * {rows}, M, tl.num_programs(0) * {rows}, num_stages=STAGES):
        rows = (first + offs_r)[:, None]
        mask = (rows < M) & mask_n[None, :]
        x = tl.load(x_ptr + rows * stride_xm + offs_n[None, :], mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + rows * stride_ym + offs_n[None, :], mask=mask, other=0.0).to(tl.float32)
        squares, products = tl.reduce((x * x, dy * w[None, :] * x), 1, add_pairs)
        r, mean = tl.rsqrt(squares / N + EPS)[:, None], (products / N)[:, None]
        tl.store(dx_ptr + rows * stride_dm + offs_n[None, :], r * (dy * w[None, :] - x * (r * r * mean)), mask=mask)
        dw += tl.sum(dy * x * r, 0)
""",
        ),
    )


CONTIGUOUS = (
    (
        LOOP,
        "each = tl.cdiv(M, tl.num_programs(0))\n"
        "    first = tl.program_id(0) * each\n"
        "    for row in tl.range(first, tl.minimum(first + each, M), num_stages=STAGES):",
    ),
)

PARTS = (
    (
        """\
    w = tl.load(w_ptr + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK_N,), tl.float32)
"""
        f"    {LOOP}\n{LOADS}{SUMS}{STORES}"
        "    tl.store(partial_ptr + tl.program_id(0) * N + offs_n, dw, mask=mask_n)\n",
        """\
    FIRST: tl.constexpr = BLOCK_N // 2
    REST: tl.constexpr = BLOCK_N // 8
    offs_n, offs_m = tl.arange(0, FIRST), FIRST + tl.arange(0, REST)
    w = tl.load(w_ptr + offs_n).to(tl.float32)
    v = tl.load(w_ptr + offs_m).to(tl.float32)
    dw, dv = tl.zeros((FIRST,), tl.float32), tl.zeros((REST,), tl.float32)
    for row in tl.range(tl.program_id(0), M, tl.num_programs(0), num_stages=STAGES):
        x = tl.load(x_ptr + row * stride_xm + offs_n).to(tl.float32)
        dy = tl.load(dy_ptr + row * stride_ym + offs_n).to(tl.float32)
        y = tl.load(x_ptr + row * stride_xm + offs_m).to(tl.float32)
        dz = tl.load(dy_ptr + row * stride_ym + offs_m).to(tl.float32)
        squares, products = tl.reduce((x * x, dy * w * x), 0, add_pairs)
        more, others = tl.reduce((y * y, dz * v * y), 0, add_pairs)
        r, mean = tl.rsqrt((squares + more) / N + EPS), (products + others) / N
        tl.store(dx_ptr + row * stride_dm + offs_n, r * (dy * w - x * (r * r * mean)))
        tl.store(dx_ptr + row * stride_dm + offs_m, r * (dz * v - y * (r * r * mean)))
        dw += dy * x * r
        dv += dz * y * r
    tl.store(partial_ptr + tl.program_id(0) * N + offs_n, dw)
    tl.store(partial_ptr + tl.program_id(0) * N + offs_m, dv)
""",
    ),
)


def variants(M: int, N: int) -> Iterator[tuple[str, tuple, int, int, int]]:
    """(name, changes, warps, stages, programs per SM)."""
    wide = 2 if N > 4096 else 1
    for name, changes in (("pair", ()), ("two sums", TWO_SUMS), ("no hint", NO_HINT)):
        for warps, stages, each in ((8, 5, 1), (16, 5, 1), (8, 3, 2)):
            yield name, changes, min(warps * wide, 16), stages, each
    for warps, each in ((8, 2), (4, 4), (8, 4), (16, 2)):
        yield "prefetch", PREFETCH, warps * wide, 1, max(each // wide, 1)
    yield "contiguous", CONTIGUOUS, 4 * wide, 3, 2
    for rows, warps, stages, each in ((2, 8, 2, 2), (2, 16, 2, 1), (2, 8, 1, 3), (4, 16, 2, 1), (4, 16, 1, 2)):
        if rows * N <= 16_384 * 2:
            yield f"{rows} rows", rows_at_once(rows), min(warps * wide, 32), stages, each
    if N == 5120:
        for warps, stages, each in ((8, 3, 1), (8, 3, 2), (4, 3, 3), (8, 2, 3), (16, 3, 1)):
            yield "parts", PARTS, warps, stages, each


def launcher(module, N: int, warps: int, stages: int, programs: int) -> Callable:
    """rms_norm_backward with these constants; the second stage is the solution's."""
    import torch
    import triton

    block_n = triton.next_power_of_2(N)
    block_p = min(triton.next_power_of_2(programs), 512) if DEVICE == "cuda" else 4

    def call(x, w, dy, dx, dw):
        partial = torch.empty(programs, N, dtype=torch.float32, device=x.device)
        module.rms_norm_backward_kernel[(programs,)](
            x, w, dy, dx, partial, len(x), N, N, N, N, BLOCK_N=block_n, STAGES=stages, num_warps=warps
        )
        module.column_sums_kernel[(triton.cdiv(N, 32),)](
            partial, dw, programs, N, BLOCK_P=block_p, BLOCK_N=32, num_warps=8
        )

    return call


def expected(x, w, dy):
    """dx and dw in float64 by PyTorch."""
    import torch

    exact = [t.double().requires_grad_() for t in (x, w)]
    y = torch.nn.functional.rms_norm(exact[0], (x.shape[1],), exact[1], EPS)
    return torch.autograd.grad(y, exact, dy.double())


def checked(call: Callable, data: tuple, right: tuple) -> Callable:
    """`call`, after one comparison with `right`; raises ValueError if it is wrong."""
    x, w, dy, dx, dw = data
    for t in (dx, dw):
        t.fill_(float("nan"))
    call(*data)
    for name, got, true in zip(("dx", "dw"), (dx, dw), right, strict=True):
        if problem := wrong(name, got, true):
            raise ValueError(problem)
    return call


def compare(table: Table, M: int, N: int, sms: int) -> None:
    """Choose the fastest correct variant quickly, then time it beside the solution and a copy."""
    import torch

    data = [(half(M, N), 1 + 0.01 * half(N), half(M, N), half(M, N), half(N)) for _ in range(COUNT)]
    right = expected(*data[0][:3])
    unit = solution(UNIT)
    calls = {"solution": unit.rms_norm_backward}
    for name, changes, warps, stages, each in variants(M, N):
        programs = min(each * sms, M)
        title = f"{name}, {warps} warps, {stages} stages, {programs} programs"
        calls[title] = launcher(solution(UNIT, *changes), N, warps, stages, programs)
    correct: dict[str, bool] = {}

    def once_checked(title: str) -> Callable:
        def call(*arrays):
            if title not in correct:
                correct[title] = False
                checked(calls[title], data[0], right)
                correct[title] = True
            calls[title](*arrays)

        return call

    name, moved = f"rms_norm_backward, {M} × {N}", 2 * (3 * M * N + 2 * N)
    best = table.tune(name, moved, {title: once_checked(title) for title in calls}, data, best=8)
    rings = {who: [functools.partial(calls[who], *d) for d in data] for who in dict.fromkeys((best, "solution")) if who}
    if rings:
        table.compare(f"{name}: {best}", moved, rings)
    torch.cuda.empty_cache()


def measure(table: Table) -> None:
    import torch

    table.watch.max_seconds = SECONDS
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    for shape in NORMS:
        compare(table, *shape, sms)


if __name__ == "__main__":
    sys.exit(run(__doc__, "python -m bench.norm_backward", measure, measure))
