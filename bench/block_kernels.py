"""Kernels of unit 24 beside Liger-Kernel, eager PyTorch and a copy of the same bytes, all in turns in one run.

python -m bench.block_kernels [--json FILE]
python -m bench.block_kernels --tune [--json FILE]     warps, blocks, stages and programs to choose from

Under a minute; `--tune` takes some minutes, most of them in the compiler. Arrays are fp16. The constants of each kernel
were chosen for its first shape, not for the others. Bytes are those that must move, so the copy moves them too. Without
Liger-Kernel (`pip install liger-kernel`) its rows are missing, and a line says so.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Mapping

from bench.common import Table, run, solution, wrong
from bench.rivals import liger

UNIT = "24_block_kernels"

ROPE = ((4, 2048, 32, 8), (8, 2048, 32, 8), (2, 8192, 40, 8), (1, 4096, 64, 8))
"""Sequences, tokens, heads of queries and of keys; a head has D elements. The first q is 8192 × 4096. In each of these
lists the second has the sizes of `bench.block`."""
D = 128

GATES = ((8192, 4096), (16384, 14336), (16384, 5120), (4096, 14336))
"""M × N of SwiGLU's output."""

NORMS = ((8192, 4096), (16384, 4096), (16384, 5120), (4096, 8192))
"""M × N of x."""

EPS = 1e-6
GOALS = {"copy": 0.90, "Liger": 1.0}
"""Least share of the bandwidth of the copy, and of Liger's speed."""

COUNT = 2
"""Sets of data, used one after another."""

DEVICE = "cuda"

SECONDS = 1.2
"""Most that one comparison takes: there are sixteen."""


def half(*shape):
    import torch

    return torch.randn(shape, device=DEVICE, dtype=torch.float16)


def in_turns(table: Table, name: str, moved: int, data: list, calls: Mapping[str, Callable]) -> None:
    """Time each call(*data[i]); one that fails is left out with a line. Compare with the goals."""
    rings = {}
    for who, call in calls.items():
        try:
            call(*data[0])
            rings[who] = [functools.partial(call, *d) for d in data]
        except Exception as problem:
            print(f"  left out: {who}: {type(problem).__name__}: {str(problem)[:120]}")
    if "ours" not in rings:
        return
    seconds = table.compare(name, moved, rings)
    reached = {who: seconds[who] / seconds["ours"] for who in GOALS if who in seconds}
    for who, goal in GOALS.items():
        if who in reached:
            print(
                f"  {'reached' if reached[who] >= goal else 'MISSED '} {reached[who]:.3f} of {goal} × {who}", flush=True
            )
    table.rows[-1]["reached"] = reached


def measure(table: Table) -> None:
    import torch

    if liger("rope") is None:
        print("Liger-Kernel is not installed: its rows are missing.\n")
    unit, table.watch.max_seconds = solution(UNIT), SECONDS
    for part, shapes in ((rope, ROPE), (swiglu, GATES), (swiglu_backward, GATES), (norm, NORMS)):
        for shape in shapes:
            try:
                part(table, unit, *shape)
            except Exception as problem:  # the other parts are worth their time
                print(f"left out: {part.__name__}{shape}: {type(problem).__name__}: {str(problem)[:200]}")
            torch.cuda.empty_cache()
            print()


# --- RoPE ------------------------------------------------------------------------------------------------------------


def tables(T: int):
    """cos and sin (T, D / 2), fp32."""
    import torch

    frequency = 10_000.0 ** -(torch.arange(D // 2, device=DEVICE, dtype=torch.float64) / (D // 2))
    angles = torch.arange(T, device=DEVICE)[:, None] * frequency
    return angles.cos().float(), angles.sin().float()


def rotated(x, cos, sin):
    """x (B, T, H, D) with tables of D columns, as models write it in PyTorch."""
    import torch

    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


def rope(table: Table, unit, B: int, T: int, H: int, HK: int) -> None:
    """In place, as models call it."""
    import torch

    cos, sin = tables(T)
    wide = [torch.cat([t, t], -1) for t in (cos, sin)]
    halves = [t.half()[:, None] for t in wide]
    data = [(half(B, T, H, D), half(B, T, HK, D)) for _ in range(COUNT)]

    def ours(q, k):
        unit.rope(q, k, cos, sin, 0, q, k)

    q, k = (t[:1, -64:].clone() for t in data[0])
    expected = [rotated(t.double(), *(w[-64:, None].double() for w in wide)) for t in (q, k)]
    ours(*data[0])
    for name, got, right in zip("qk", data[0], expected, strict=True):
        if problem := wrong(name, got[:1, -64:], right):
            print(f"rope: {problem}")
            return
    calls = {"ours": ours}
    if module := liger("rope"):
        table_of = [w[None] for w in wide]
        calls["Liger"] = lambda q, k: module.rope_forward(q.transpose(1, 2), k.transpose(1, 2), *table_of)
    calls["PyTorch"] = lambda q, k: (rotated(q, *halves), rotated(k, *halves))
    moved = 2 * 2 * B * T * (H + HK) * D + 2 * 4 * T * D // 2
    in_turns(table, f"rope, {B} × {T} tokens, {H} + {HK} heads of {D}", moved, data, calls)


# --- SwiGLU ----------------------------------------------------------------------------------------------------------


def gated(x):
    import torch

    gate, up = x.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


def swiglu(table: Table, unit, M: int, N: int) -> None:
    data = [(half(M, 2 * N), half(M, N)) for _ in range(COUNT)]
    x, out = data[0]
    unit.swiglu(x, out)
    if problem := wrong("out", out[-256:], gated(x[-256:].double())):
        print(f"swiglu: {problem}")
        return
    calls = {"ours": unit.swiglu}
    if module := liger("swiglu"):
        if hasattr(module, "swiglu_fused_gate_up_forward"):
            calls["Liger"] = lambda x, out: module.swiglu_fused_gate_up_forward(x)
        else:  # older versions take gate and up apart: the same bytes
            apart = x[:, :N].contiguous(), x[:, N:].contiguous()
            calls["Liger"] = lambda x, out: module.swiglu_forward(*apart)
    calls["PyTorch"] = lambda x, out: gated(x)
    in_turns(table, f"swiglu, {M} × {N}", 2 * 3 * M * N, data, calls)


def swiglu_backward(table: Table, unit, M: int, N: int) -> None:
    import torch

    data = [(half(M, 2 * N).requires_grad_(), half(M, N), half(M, 2 * N)) for _ in range(COUNT)]

    def ours(x, dy, dx):
        unit.swiglu_backward(x.detach(), dy, dx)

    ours(*data[0])
    x, dy, dx = data[0]
    rows = x[-256:].detach().double().requires_grad_()
    (expected,) = torch.autograd.grad(gated(rows), rows, dy[-256:].double())
    if problem := wrong("dx", dx[-256:], expected):
        print(f"swiglu_backward: {problem}")
        return
    calls = {"ours": ours}
    if module := liger("swiglu"):
        if hasattr(module, "swiglu_fused_gate_up_backward"):
            calls["Liger"] = lambda x, dy, dx: module.swiglu_fused_gate_up_backward(x.detach(), dy)
        else:
            apart = x[:, :N].detach().contiguous(), x[:, N:].detach().contiguous()
            calls["Liger"] = lambda x, dy, dx: module.swiglu_backward(*apart, dy)
    graphs = {x.data_ptr(): gated(x) for x, *_ in data}
    calls["PyTorch"] = lambda x, dy, dx: torch.autograd.grad(graphs[x.data_ptr()], x, dy, retain_graph=True)
    in_turns(table, f"swiglu_backward, {M} × {N}", 2 * 5 * M * N, data, calls)


# --- RMSNorm, backward -----------------------------------------------------------------------------------------------


def norm(table: Table, unit, M: int, N: int) -> None:
    import torch

    def normalized(x, w):
        return torch.nn.functional.rms_norm(x, (N,), w, EPS)

    data = []
    for _ in range(COUNT):
        x, w = half(M, N).requires_grad_(), (1 + 0.01 * half(N)).requires_grad_()
        data.append((x, w, half(M, N), torch.empty_like(x), torch.empty_like(w)))

    def ours(x, w, dy, dx, dw):
        unit.rms_norm_backward(x.detach(), w.detach(), dy, dx.detach(), dw.detach())

    ours(*data[0])
    x, w, dy, dx, dw = data[0]
    exact = [t.detach().double().requires_grad_() for t in (x, w)]
    expected = torch.autograd.grad(normalized(*exact), exact, dy.double())
    for name, got, right in zip(("dx", "dw"), (dx, dw), expected, strict=True):
        if problem := wrong(name, got.detach(), right):
            print(f"rms_norm_backward: {problem}")
            return
    del exact, expected
    calls = {"ours": ours}
    if module := liger("rms_norm"):
        calls["Liger"] = _liger_norm(module)
    graphs = {x.data_ptr(): normalized(x, w) for x, w, *_ in data}
    calls["PyTorch"] = lambda x, w, dy, dx, dw: torch.autograd.grad(graphs[x.data_ptr()], (x, w), dy, retain_graph=True)
    in_turns(table, f"rms_norm_backward, {M} × {N}", 2 * (3 * M * N + 2 * N), data, calls)


def _liger_norm(module) -> Callable:
    """Liger's backward pass, in place as by default: on a copy of dy, which each call changes."""
    import torch

    graphs = {}

    def call(x, w, dy, dx, dw):
        if x.data_ptr() not in graphs:
            graphs[x.data_ptr()] = module.LigerRMSNormFunction.apply(x, w, EPS), dy.clone()
        y, changed = graphs[x.data_ptr()]
        return torch.autograd.grad(y, (x, w), changed, retain_graph=True)

    return call


# --- variants --------------------------------------------------------------------------------------------------------


def tune(table: Table) -> None:
    tune_rope(table)
    tune_gates(table)
    for shape in NORMS:
        tune_norm(table, *shape)


def hinted(*stores: str) -> dict[str, object]:
    """The unit, and variants in which these stores have a cache hint; `stores` are ends of lines, up to ')'."""
    hints = {"": "", ", evict_first": ', eviction_policy="evict_first")', ", .cs": ', cache_modifier=".cs")'}
    return {name: solution(UNIT, *((old, old[:-1] + hint) for old in stores if hint)) for name, hint in hints.items()}


def tune_rope(table: Table) -> None:
    B, T, H, HK = ROPE[0]
    cos, sin = tables(T)
    ring = [(half(B, T, H, D), half(B, T, HK, D)) for _ in range(COUNT)]

    def variant(module, heads: int, warps: int):
        def go(q, k):
            module.rope_kernel[(B * T,)](
                q, k, cos, sin, q, k, T, H=H, HK=HK, D=D, BACKWARD=False,
                BLOCK_H=min(heads, H), BLOCK_HK=min(heads, HK), BLOCK_D=D // 2, num_warps=warps,
            )  # fmt: skip

        return go

    modules = hinted(
        "a * cos[None, :] - b * sin[None, :], mask=mask)", "b * cos[None, :] + a * sin[None, :], mask=mask)"
    )
    variants = {
        f"{n} heads, {w} warps{hint}": variant(m, n, w)
        for (hint, m), n, w in itertools.product(modules.items(), (8, 16, 32), (1, 2, 4, 8, 16))
    }
    table.tune(f"rope, {B * T} tokens", 4 * B * T * (H + HK) * D + 4 * T * D, variants, ring, best=10)


def tune_gates(table: Table) -> None:
    import triton

    M, N = GATES[0]
    sizes = [
        (b, w) for b, w in itertools.product((512, 1024, 2048, 4096), (1, 2, 4, 8, 16)) if 4 <= b // (32 * w) <= 32
    ]
    ring = [(half(M, 2 * N), half(M, N)) for _ in range(COUNT)]
    modules = hinted("gate * tl.sigmoid(gate) * up, mask=mask_n)")

    def forward(module, block: int, warps: int):
        def go(x, out):
            grid = (M * triton.cdiv(N, block),)
            module.swiglu_kernel[grid](x, out, N, 2 * N, N, BLOCK_N=block, num_warps=warps)

        return go

    variants = {
        f"block {b}, {w} warps{hint}": forward(m, b, w)
        for (hint, m), (b, w) in itertools.product(modules.items(), sizes)
    }
    table.tune(f"swiglu, {M} × {N}", 6 * M * N, variants, ring, best=10)

    ring = [(half(M, 2 * N), half(M, N), half(M, 2 * N)) for _ in range(COUNT)]
    modules = hinted("dy * up * (s + gate * s * (1 - s)), mask=mask_n)", "dy * gate * s, mask=mask_n)")

    def backward(module, block: int, warps: int):
        def go(x, dy, dx):
            grid = (M * triton.cdiv(N, block),)
            module.swiglu_backward_kernel[grid](x, dy, dx, N, 2 * N, N, 2 * N, BLOCK_N=block, num_warps=warps)

        return go

    variants = {
        f"block {b}, {w} warps{hint}": backward(m, b, w)
        for (hint, m), (b, w) in itertools.product(modules.items(), sizes)
    }
    table.tune(f"swiglu_backward, {M} × {N}", 10 * M * N, variants, ring, best=10)


def tune_norm(table: Table, M: int, N: int) -> None:
    """Both stages together, then the second one alone: its time is what the first one leaves to be gained."""
    import torch
    import triton

    sms = torch.cuda.get_device_properties(0).multi_processor_count
    ring = [(half(M, N), half(N), half(M, N), half(M, N), half(N)) for _ in range(COUNT)]
    BLOCK_N, moved = triton.next_power_of_2(N), 6 * M * N
    hint = ', eviction_policy="evict_last"'
    modules = {
        "": solution(UNIT),
        ", no hint": solution(UNIT, (hint, "")),
        ", evict_first": solution(UNIT, (hint, hint.replace("last", "first"))),
    }

    def sums(partial, dw, columns: int, rows: int, warps: int):
        modules[""].column_sums_kernel[(triton.cdiv(N, columns),)](
            partial, dw, len(partial), N, BLOCK_P=rows, BLOCK_N=columns, num_warps=warps
        )

    def both(module, warps: int, stages: int, programs: int):
        def go(x, w, dy, dx, dw):
            partial = torch.empty(programs, N, device=DEVICE)
            module.rms_norm_backward_kernel[(programs,)](
                x, w, dy, dx, partial, M, N, N, N, N, BLOCK_N=BLOCK_N, STAGES=stages, num_warps=warps
            )
            sums(partial, dw, 32, 512, 8)

        return go

    variants = {
        f"{w} warps, {s} stages, {p} programs, {-(-M // p)} rows each{hint}": both(m, w, s, p)
        for (hint, m), w, s, p in itertools.product(
            modules.items(), (4, 8, 16, 32), (1, 2, 3, 5), (128, sms, 256, 2 * sms, 3 * sms, 4 * sms)
        )
        if 4 <= BLOCK_N // (32 * w) <= 32 and w * p <= 64 * sms and (not hint or s == 5)
    }
    table.tune(f"rms_norm_backward, {M} × {N}", moved, variants, ring, best=12)
    for programs in (sms, 2 * sms):
        partials = [(torch.randn(programs, N, device=DEVICE), half(N)) for _ in range(COUNT)]
        variants = {
            f"tiles of {r} × {c}, {w} warps": functools.partial(sums, columns=c, rows=r, warps=w)
            for r, c, w in itertools.product((64, 128, 256, 512), (16, 32, 64), (4, 8, 16))
            if r * c // (32 * w) <= 64
        }
        table.tune(f"column_sums, {programs} × {N}, from memory", 4 * programs * N, variants, partials, best=6)


if __name__ == "__main__":
    sys.exit(run(__doc__, "python -m bench.block_kernels", measure, tune))
