"""Our fastest kernels beside the best public ones: the ratio of the times, for each kind of work, in one run.

python -m bench.peers [--only softmax,norm,chain,matmul,relu,ragged,attention,backward] [--json FILE]

Other packages (`bench/rivals.py`) are used where they are installed, and named where they are not. Every competitor is
first tried once: one that fails or computes something else is left out, with the reason. All others take turns, with a
cold L2 and random normal data. Each kind of work is measured at the shapes for which constants were chosen, and at two
for which nobody chose any ("untuned"), where the ratio may be 5 % less. The rows are measured in a process of its own:
when it crashes or hangs, the next one goes on without the competitor that was at work. About 10 minutes on an H200
once everything is compiled (`bench/precompile.py`).
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import fusion, rivals
from bench.attention import BACKWARD, FORWARD, GRADIENTS, Shape, flat, launchers
from bench.attention import UNIT as FLASH
from bench.common import copies, largest_error, solution, wrong
from bench.hopper import UNITS, turned
from bench.machine import present, versions
from bench.matmul import PERSISTENT, RAGGED
from bench.precompile import SHARE, share_of, stopwatch
from bench.rivals import Competitor, Missing
from bench.softmax import ELEMENTS, LENGTHS
from bench.softmax import wrong as wrong_softmax
from bench.watched import Stopped, follow
from labutils.gpu import device
from labutils.lessons import flash_backward_gluon, hopper, skinny_kernel
from labutils.lessons.attention import backends, formula, forward
from labutils.timing.stopwatch import ratio

DEVICE = "cuda"
SECONDS = 1.2
"""Most that the turns of one row take."""
UNTUNED = 0.95
"""Least share of its goal that a row reaches at a shape for which nobody chose constants."""
PATIENCE_S = 150.0
"""Longest silence of the process that measures: a first call compiles."""
MARK = "PEERS "


@dataclass(frozen=True)
class Row:
    """One line of the table: a kind of work at one shape, and who does it.

    `data` makes sets of arrays, used one after another. `problem(result, *set)` says what is wrong with a result, or
    nothing. With `writes`, the last array of a set is for the result. Memory-bound work has `moved` bytes and is timed
    beside a copy of as many; other work has `flops`.
    """

    name: str
    data: Callable[[], list[tuple]]
    ours: Mapping[str, Competitor]
    others: Mapping[str, Competitor]
    problem: Callable[..., str | None]
    moved: int = 0
    flops: float = 0.0
    tuned: bool = True
    goal: float = 1.0
    writes: bool = True

    @property
    def least(self) -> float:
        return self.goal * (1.0 if self.tuned else UNTUNED)


def writing(fn: Callable) -> Competitor:
    """A competitor that calls fn(*data), which writes the last array."""

    def competitor(*data):
        def call() -> None:
            fn(*data)

        return call

    return competitor


def returning(fn: Callable) -> Competitor:
    """A competitor that calls fn on all arrays but the last, and returns the result."""
    return lambda *data: functools.partial(fn, *data[:-1])


def compiled(fn: Callable) -> Competitor:
    import torch

    return returning(torch.compile(fn, dynamic=False))


# --- one row ---------------------------------------------------------------------------------------------------------


def tried(row: Row, competitor: Competitor, data: Sequence[tuple]) -> list[Callable] | str:
    """A call for each set of data; or why the competitor cannot take part."""
    try:
        if row.writes:
            data[0][-1].fill_(float("nan"))
        ring = [competitor(*arrays) for arrays in data]
        result = ring[0]()
        problem = row.problem(data[0][-1] if result is None else result, *data[0])
        return f"wrong: {problem}" if problem else ring
    except Missing as problem:
        return str(problem)
    except Exception as problem:
        end_if_lost()
        return f"{type(problem).__name__}: {' '.join(str(problem).split())[:200]}"


def end_if_lost() -> None:
    """End this process where the GPU accepts no more work after an error: its successor goes on."""
    import torch

    try:
        if DEVICE == "cuda":
            torch.cuda.synchronize()
    except Exception as problem:
        print(f"  {type(problem).__name__}: {' '.join(str(problem).split())[:200]}", flush=True)
        os._exit(3)


def measure(row: Row, watch, trying: Callable[[str], None], without: Sequence[str] = ()) -> dict:
    """Time of each competitor and the ratio of the best other's to ours. `trying(name)` is told who is at work."""
    data, rings, left_out = row.data(), {}, {}
    for who, competitor in itertools.chain(row.ours.items(), row.others.items()):
        trying(who)
        ring = "its process stopped here" if who in without else tried(row, competitor, data)
        if isinstance(ring, str):
            left_out[who] = ring
        else:
            rings[who] = ring
    trying("")
    result = {"name": row.name, "tuned": row.tuned, "least": row.least, "seconds": {}, "left_out": left_out}
    if not rings:
        return result | {"ratio": None}
    samples = watch.take_turns(rings | ({"copy": copies(row.moved, DEVICE)} if row.moved else {}))
    seconds = {who: sample.median for who, sample in samples.items()}
    result |= {"seconds": seconds, "moved": row.moved, "flops": row.flops}
    ours, other = (
        min((w for w in rings if w in group), key=seconds.get, default=None) for group in (row.ours, row.others)
    )
    if ours is None or other is None:
        return result | {"ratio": None}
    times = ratio(samples[other], samples[ours])
    return result | {
        "ours": ours,
        "other": other,
        "ratio": times.value,
        "interval": [times.low, times.high],
        "ratios": {who: seconds[other] / seconds[who] for who in row.ours if who in seconds},
    }


def rate(result: Mapping, who: str) -> str:
    seconds = result["seconds"]
    if result["flops"]:
        return f"{result['flops'] / seconds[who] / 1e12:6.0f} TFLOP/s"
    return f"{result['moved'] / seconds[who] / 1e9:6.0f} GB/s, {seconds['copy'] / seconds[who]:.3f} of the copy"


def reached(result: Mapping) -> bool:
    return result["ratio"] is not None and result["ratio"] >= result["least"]


def show(result: Mapping) -> None:
    print(f"{result['name']}{'' if result['tuned'] else ' (untuned)'}")
    for who in result["seconds"]:
        print(f"  {who:26} {result['seconds'][who] * 1e6:9.1f} µs {rate(result, who)}")
    for who, why in result["left_out"].items():
        print(f"  left out: {who}: {why}")
    if result["ratio"] is not None:
        low, high = result["interval"]
        print(
            f"  {'reached' if reached(result) else 'MISSED '} {result['ratio']:.3f} ({low:.3f} … {high:.3f}) of "
            f"{result['least']:.2f} × {result['other']}",
            flush=True,
        )


def summary(results: Sequence[Mapping]) -> str:
    """The table in Markdown; then who did not take part, and why."""
    lines = ["| work | ours | best other | ratio | |", "|---|---|---|---|---|"]
    absent: dict[str, int] = {}
    for result in results:
        for who, why in result["left_out"].items():
            absent[f"{who}: {why}"] = absent.get(f"{who}: {why}", 0) + 1
        name = result["name"] + ("" if result["tuned"] else " (untuned)")
        if result["ratio"] is None:
            lines.append(f"| {name} | no figure | | | MISSED |")
            continue
        ours, other = (f"{who}: {rate(result, who).strip()}" for who in (result["ours"], result["other"]))
        verdict = "" if reached(result) else f"MISSED {result['least']:.2f}"
        lines.append(f"| {name} | {ours} | {other} | {result['ratio']:.3f} | {verdict} |")
    return "\n".join(lines + [f"left out in {count} rows: {said}" for said, count in absent.items()])


# --- rows in memory ---------------------------------------------------------------------------------------------------


def normal(*shape, dtype: str = "float16"):
    import torch

    return torch.randn(shape, device=DEVICE).to(getattr(torch, dtype))


def sets(*shapes, dtype: str = "float16", count: int = 3) -> Callable[[], list[tuple]]:
    """Makes sets of arrays of these shapes, each with one for the result that is like the first."""

    def make():
        import torch

        arrays = ([normal(*shape, dtype=dtype) for shape in shapes] for _ in range(count))
        return [(*some, torch.empty_like(some[0])) for some in arrays]

    return make


def compared(reference: Callable, limit: float = 4e-3) -> Callable[..., str | None]:
    """A check of the first and the last rows with the reference in float64."""
    import torch

    def problem(result, *data) -> str | None:
        for rows in (slice(0, 64), slice(-64, None)):
            exact = [x[rows].double() if x.dim() == 2 else x.double() for x in data[:-1]]
            if said := wrong("a row", result[rows], reference(*exact), limit):
                return said
        return "it has NaN" if torch.isnan(result).any() else None

    return problem


def softmax_rows(watch) -> Iterator[Row]:
    import torch

    unit, online = solution("11_softmax"), solution("12_online_softmax")
    shapes = [(ELEMENTS // n, n, True) for n in LENGTHS] + [(10_000, 5000, False), (3000, 20_000, False)]
    shapes += [(1024, 200_000, True), (700, 150_000, False), (2000, 100_000, False)]

    def with_lse(fn: Callable) -> Competitor:
        return lambda x, out: writing(functools.partial(fn, lse=torch.empty(len(x), device=x.device)))(x, out)

    for M, N, tuned in shapes:
        if N > 65_536:
            ours = {"one launch": with_lse(online.one_launch_softmax), "clusters": with_lse(online.cluster_softmax)}
        else:
            ours = {"row a program": writing(unit.softmax), "persistent": writing(unit.persistent_softmax)}
            if 1024 < N <= 32_768:
                ours["row a block"] = writing(unit.block_softmax)
        others = {
            "quack": rivals.quack_softmax,
            "Liger": rivals.liger_softmax,
            "torch.softmax": returning(lambda x: torch.softmax(x, 1)),
            "torch.compile": compiled(lambda x: torch.softmax(x, 1)),
        }
        name = f"softmax fp32, {M} × {N}"
        data = sets((M, N), dtype="float32", count=2)
        yield Row(name, data, ours, others, lambda out, x, _: wrong_softmax(x, out), moved=8 * M * N, tuned=tuned)


def norm_rows(watch) -> Iterator[Row]:
    unit = solution("13_fusion")
    eps, layer_eps = unit.EPS.value, unit.LAYER_EPS.value
    shapes = [(2**26 // n, n, True) for n in (1024, 2048, 4096, 8192, 16_384)]
    for M, N, tuned in [*shapes, (9000, 5000, False), (5000, 12_000, False)]:
        library = functools.partial(_rms_norm, eps=eps)
        others = {
            "quack": rivals.quack_rms_norm(eps),
            "Liger": rivals.liger_rms_norm(eps),
            "F.rms_norm": returning(library),
            "torch.compile": compiled(library),
        }
        ours = {"unit 13": writing(unit.rms_norm), "unit 13, in blocks": writing(unit.long_rms_norm)}
        moved = 2 * (2 * M * N + N)
        name = f"RMSNorm fp16, {M} × {N}"
        yield Row(name, sets((M, N), (N,)), ours, others, compared(library), moved=moved, tuned=tuned)
    shapes = [(16_384, 4096), (8192, 8192), (4096, 16_384), (4096, 24_576), (4096, 32_768)]
    for M, N, tuned in [(m, n, True) for m, n in shapes] + [(9000, 5000, False), (5000, 12_000, False)]:
        library = functools.partial(_layer_norm, eps=layer_eps)
        others = {
            "quack": rivals.quack_layer_norm(layer_eps),
            "Liger": rivals.liger_layer_norm(layer_eps),
            "F.layer_norm": returning(library),
            "torch.compile": compiled(library),
        }
        ours = {"unit 13": writing(unit.layer_norm), "unit 13, in blocks": writing(unit.long_layer_norm)}
        moved = 2 * (2 * M * N + 2 * N)
        name = f"LayerNorm fp16, {M} × {N}"
        yield Row(name, sets((M, N), (N,), (N,)), ours, others, compared(library), moved=moved, tuned=tuned)


def _rms_norm(x, w, eps: float):
    import torch

    return torch.nn.functional.rms_norm(x, x.shape[-1:], w, eps)


def _layer_norm(x, w, b, eps: float):
    import torch

    return torch.nn.functional.layer_norm(x, x.shape[-1:], w, b, eps)


def chain_rows(watch) -> Iterator[Row]:
    unit = solution("13_fusion")
    shapes = [(2**25 // n, n, True) for n in (4096, 8192, 16_384, 32_768)]
    for M, N, tuned in [*shapes, (6000, 5000, False), (1500, 20_000, False)]:
        others = {
            "torch.compile": compiled(unit.eager_chain),
            "torch.compile, by hand": compiled(fusion.manual_chain),
            "quack and SiLU": rivals.quack_chain(unit.EPS.value),
            "eager": returning(unit.eager_chain),
        }
        ours, moved = {"unit 13": writing(unit.rms_residual_silu)}, 2 * (3 * M * N + N)
        name, data = f"residual + RMSNorm + SiLU fp16, {M} × {N}", sets((M, N), (M, N), (N,))
        yield Row(name, data, ours, others, compared(unit.eager_chain), moved=moved, tuned=tuned)


# --- matrix products -------------------------------------------------------------------------------------------------

PRODUCTS = ((4096, 4096, 4096), (8192, 8192, 8192), (5120, 3072, 6144), (3000, 7000, 5000))
UNTUNED_PRODUCTS = ((4608, 5376, 3584), (3500, 6200, 4200))
"""M, N, K. A shape that somebody has chosen a constant at, or a tile because of, moves to the tuned ones."""
SKINNY = ((3000, 200, 6000), (100, 5000, 3000), (2600, 152, 5200))
UNTUNED_RAGGED = ((3576, 216, 7240), (120, 6488, 2080), (88, 6100, 3500))
LAYOUTS = {False: "B K × N", True: "B N × K"}


def product(M: int, N: int, K: int, by_columns: bool = False) -> Callable[[], list[tuple]]:
    """Makes sets (a, b, c); b (K, N) is stored N × K with `by_columns`."""

    def make():
        import torch

        pairs = [
            (normal(M, K), normal(N, K).T if by_columns else normal(K, N)) for _ in range(2 if M * N * K > 2**27 else 8)
        ]
        return [(a, b, torch.empty(M, N, device=DEVICE, dtype=torch.float16)) for a, b in pairs]

    return make


def of_product(result, a, b, _, expected: Callable = lambda c: c, seen: Callable = lambda c: c) -> str | None:
    """A check of the first and the last rows: seen(result) with expected(a @ b) in float64."""
    import torch

    for rows in (slice(0, 256), slice(-256, None)):
        right = expected(a[rows].double() @ b.double())
        limit = 2e-3 * right.abs() + 4e-3 * a.shape[1] ** 0.5
        if bad := int((~((seen(result[rows]).double() - right).abs() <= limit)).sum()):
            return f"{bad} elements"
    return "it has NaN" if torch.isnan(result).any() else None


def clamped(c):
    return c.clamp_min(0)


def cublas(a, b, c) -> Callable[[], object]:
    import torch

    return functools.partial(torch.matmul, a, b, out=c)


def hopper_levels(relu: bool = False) -> dict[str, Competitor]:
    """Unit 16 for both layouts of B, where it runs."""
    if not device.runs(90):
        return {}
    return {"unit 16": writing(turned(functools.partial(solution(UNITS[1]).fastest, relu=relu)))}


def skinny_levels(watch, M: int, N: int, K: int) -> dict[str, Competitor]:
    """Level 7 of unit 16 for b (K, N), where it runs: in the cut with the least estimate, and the best of four."""
    if not device.runs(90) or min(M, N) > skinny_kernel.SKINNY:
        return {}

    def cut_by(cut) -> Competitor:
        return writing(turned(functools.partial(skinny_kernel.multiply, cut)))

    def best(*data) -> Competitor:
        return cut_by(rivals.by_speed(watch, cut_by, skinny_kernel.cuts(M, N, K, True)[:4], data)[0])

    chosen = {"unit 16, skinny, best of four": rivals.chosen_once(best)}
    return {"unit 16, skinny": writing(turned(hopper.skinny))} | chosen


def matmul_rows(watch) -> Iterator[Row]:
    unit = solution(PERSISTENT)
    ours = {"unit 14": writing(functools.partial(unit.persistent, relu=False))} | hopper_levels()
    others = {
        "cuBLAS": cublas,
        "quack": rivals.quack_matmul(),
        "quack, tuned": rivals.tuned(watch, rivals.quack_matmul),
    }
    for (M, N, K), by_columns in itertools.product((*PRODUCTS, *UNTUNED_PRODUCTS), LAYOUTS):
        tuned = (M, N, K) in PRODUCTS
        name = f"matmul fp16, {M} × {N}, K {K}, {LAYOUTS[by_columns]}"
        yield Row(name, product(M, N, K, by_columns), ours, others, of_product, flops=2 * M * N * K, tuned=tuned)


def relu_rows(watch) -> Iterator[Row]:
    unit = solution(PERSISTENT)

    def two_kernels(a, b, c):
        import torch

        return lambda: torch.relu_(torch.matmul(a, b, out=c))

    def fused(a, b, c):
        import torch

        bias = torch.zeros(b.shape[1], device=b.device, dtype=b.dtype)
        return functools.partial(torch._addmm_activation, bias, a, b, out=c)

    others = {
        "cuBLAS and ReLU": two_kernels,
        "cuBLASLt's epilogue": fused,
        "quack": rivals.quack_relu(),
        "quack, tuned": rivals.tuned(watch, rivals.quack_relu),
    }
    check = functools.partial(of_product, expected=clamped)
    shapes = [*itertools.product(PRODUCTS[:2], LAYOUTS), *((s, False) for s in PRODUCTS[2:] + UNTUNED_PRODUCTS)]
    for (M, N, K), by_columns in shapes:
        tuned = (M, N, K) in PRODUCTS
        name = f"matmul + ReLU fp16, {M} × {N}, K {K}, {LAYOUTS[by_columns]}"
        ours = {"unit 14": writing(unit.persistent), "unit 14, planned": writing(unit.matmul)}
        ours |= hopper_levels(relu=True)
        yield Row(name, product(M, N, K, by_columns), ours, others, check, flops=2 * M * N * K, tuned=tuned)


def ragged_rows(watch) -> Iterator[Row]:
    """Ours computes a ReLU as well: all are compared after one."""
    ours = {"unit 14, with ReLU": writing(solution(PERSISTENT).matmul)} | hopper_levels()
    others = {
        "cuBLAS": cublas,
        "quack": rivals.quack_matmul(),
        "quack, tuned": rivals.tuned(watch, rivals.quack_matmul, split=True),
    }
    check = functools.partial(of_product, expected=clamped, seen=clamped)
    for M, N, K in (*RAGGED, *SKINNY, *UNTUNED_RAGGED):
        tuned, name = (M, N, K) not in UNTUNED_RAGGED, f"matmul fp16, {M} × {N}, K {K}"
        with_skinny = ours | skinny_levels(watch, M, N, K)
        yield Row(name, product(M, N, K), with_skinny, others, check, flops=2 * M * N * K, tuned=tuned, goal=0.95)


# --- attention -------------------------------------------------------------------------------------------------------

UNTUNED_ATTENTION = ((3, 20, 5120), (2, 24, 3000))
"""Sequences, heads, keys: at any head size, with and without a mask."""
UNTUNED_GRADIENTS = ((3, 20, 5120), (2, 24, 3072), (2, 24, 3000))


def heads(shape: Shape, count: int) -> Callable[[], list[tuple]]:
    """Makes two sets of bf16 arrays (B, H, N, D)."""
    size = (shape.B, shape.H, shape.N, shape.D)
    return lambda: [tuple(normal(*size, dtype="bfloat16") for _ in range(count)) for _ in range(2)]


def of_attention(result, q, k, v, causal: bool) -> str | None:
    """A check of the last queries of the first and the last head with the formula in fp32."""
    import torch

    some = min(256, q.shape[2])
    for b, h in ((0, 0), (-1, -1)):
        scores = q[b, h, -some:].float() @ k[b, h].float().T * q.shape[-1] ** -0.5
        if causal:
            mask = torch.ones_like(scores, dtype=torch.bool).triu(scores.shape[1] - some + 1)
            scores = scores.masked_fill(mask, -torch.inf)
        error = largest_error(result[b, h, -some:], torch.softmax(scores, -1) @ v[b, h].float())
        if not error < 2e-2:
            return f"its largest error is {error:.2g} of the largest element"
    return None


def of_torch(name: str, causal: bool) -> Competitor:
    def competitor(q, k, v):
        if name not in (found := backends(q, k, v, causal)):
            raise Missing("PyTorch cannot use it here")
        return found[name]

    return competitor


def our_attention(unit, name: str, causal: bool) -> Competitor:
    """A launcher of `bench.attention`, which writes out and lse with the heads of all sequences along one axis."""

    def competitor(q, k, v):
        import torch

        if name not in (found := launchers(unit, q, k)):
            raise Missing("it does not take these arrays")
        x = flat(q, k, v)
        out, lse = torch.full_like(x[0], torch.nan), torch.empty(x[0].shape[:2], device=q.device)

        def call():
            found[name](*x, out, lse, causal)
            return out.view(q.shape)

        return call

    return competitor


def attention_rows(watch) -> Iterator[Row]:
    unit = solution(FLASH)
    shapes = [(shape, True) for shape in FORWARD]
    for (B, H, N), D, causal in itertools.product(UNTUNED_ATTENTION, (128, 64), (False, True)):
        shapes.append((Shape(B, H, N, D, causal, (0, 0)), False))
    for shape, tuned in shapes:
        causal = shape.causal
        others = {
            "FlashInfer, FA3": functools.partial(rivals.flashinfer_fa3, causal=causal),
            "flash-attn-4": functools.partial(rivals.flash_attn_4, causal=causal),
            "cuDNN": of_torch("cuDNN", causal),
            "FlashAttention-2": of_torch("FlashAttention-2", causal),
        }
        ours = {name: our_attention(unit, name, causal) for name in ("Gluon", "flash")}
        check, flops = functools.partial(of_attention, causal=causal), shape.flops
        name = f"attention bf16, {shape.name}"
        yield Row(name, heads(shape, 3), ours, others, check, flops=flops, tuned=tuned, writes=False)


def of_gradients(result, q, k, v, dout, causal: bool) -> str | None:
    """A check of the first head with the formula in float64."""
    import torch

    exact = [x[:1, 0].detach().double().requires_grad_() for x in (q, k, v)]
    right = torch.autograd.grad(formula(*exact, causal)[0], exact, dout[:1, 0].double())
    for got, expected, what in zip(result, right, ("dq", "dk", "dv"), strict=True):
        error = largest_error(got[0, 0], expected[0])
        if not error < 2e-2:
            return f"the largest error of {what} is {error:.2g} of the largest element"
    return None


def torch_gradients(name: str, causal: bool) -> Competitor:
    def competitor(q, k, v, dout):
        import torch

        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        out = of_torch(name, causal)(*leaves)()
        return lambda: torch.autograd.grad(out, leaves, dout, retain_graph=True)

    return competitor


def our_gradients(gluon: bool, causal: bool) -> Competitor:
    """The warp-specialized kernel in Gluon, or unit 18's three kernels."""
    unit = solution(BACKWARD)

    def competitor(q, k, v, dout):
        import torch

        x = flat(q, k, v, dout)
        if gluon and not flash_backward_gluon.usable(*x[:2]):
            raise Missing("it does not take these arrays")
        gradients = [torch.full_like(y, torch.nan) for y in x[:3]]
        out, lse = forward(*x[:3], causal)
        rows = torch.empty_like(lse)

        def call():
            if gluon:
                flash_backward_gluon.backward(*x[:3], out, x[3], lse, *gradients, int(causal))
            else:
                unit.delta(out, x[3], rows)
                unit.dkdv(*x, lse, rows, *gradients[1:], int(causal))
                unit.dq(*x, lse, rows, gradients[0], int(causal))
            return [y.view(q.shape) for y in gradients]

        return call

    return competitor


def backward_rows(watch) -> Iterator[Row]:
    shapes = [(shape, True) for shape in GRADIENTS]
    shapes += [(Shape(B, H, N, 128, True, (0, 0)), False) for B, H, N in UNTUNED_GRADIENTS]
    for shape, tuned in shapes:
        causal = shape.causal
        others = {
            "flash-attn-4": functools.partial(rivals.flash_attn_4_backward, causal=causal),
            "cuDNN": torch_gradients("cuDNN", causal),
            "FlashAttention-2": torch_gradients("FlashAttention-2", causal),
        }
        ours = {"Gluon": our_gradients(True, causal), "unit 18": our_gradients(False, causal)}
        check, flops = functools.partial(of_gradients, causal=causal), 2.5 * shape.flops
        name = f"attention backward bf16, {shape.name}"
        yield Row(name, heads(shape, 4), ours, others, check, flops=flops, tuned=tuned, goal=0.98, writes=False)


# --- all of it -------------------------------------------------------------------------------------------------------

GROUPS: dict[str, Callable[..., Iterator[Row]]] = {
    "softmax": softmax_rows,
    "norm": norm_rows,
    "chain": chain_rows,
    "matmul": matmul_rows,
    "relu": relu_rows,
    "ragged": ragged_rows,
    "attention": attention_rows,
    "backward": backward_rows,
}


def rows(groups: Sequence[str], watch) -> Iterator[tuple[str, Row]]:
    return ((group, row) for group in groups for row in GROUPS[group](watch))


def say(**message) -> None:
    print(MARK + json.dumps(message), flush=True)


def work(groups: Sequence[str], done: Sequence[str], without: Mapping[str, Sequence[str]]) -> None:
    """In the child: measures the rows that are not done, and tells the parent what it does."""
    import torch

    torch._dynamo.config.cache_size_limit = 256
    watch = stopwatch()
    watch.max_seconds = SECONDS
    for group, row in share_of(rows(groups, watch)):
        if row.name in done:
            continue
        result = measure(row, watch, functools.partial(tell, row.name), without.get(row.name, ()))
        show(result)
        say(done={"group": group} | result)
        torch.cuda.empty_cache()


def tell(row: str, who: str) -> None:
    say(row=row, who=who)


def unmeasured(row: str, why: str) -> dict:
    return {"name": row, "tuned": True, "ratio": None, "least": 1.0, "left_out": {"all": why}}


def supervise(groups: Sequence[str], keep: Callable[[list[dict]], None]) -> list[dict]:
    """The results of all rows; `keep` is called after each. A child that crashes or hangs gets a successor."""
    results: list[dict] = []
    without: dict[str, list[str]] = {}
    while True:
        job = {"groups": groups, "done": [r["name"] for r in results], "without": without}
        at = None
        try:
            for line in follow([sys.executable, "-m", "bench.peers", "--worker", json.dumps(job)], PATIENCE_S):
                if not line.startswith(MARK):
                    print(line, flush=True)
                    continue
                message = json.loads(line.removeprefix(MARK))
                at = None if "done" in message else (message["row"], message["who"])
                if "done" in message:
                    results.append(message["done"])
                    keep(results)
            return results
        except Stopped as problem:
            print(f"  stopped: {problem}; at work: {at}", flush=True)
            if at is None:  # nothing to leave out
                return results
            row, who = at
            if who:
                without.setdefault(row, []).append(who)
            else:  # while they took turns
                results.append(unmeasured(row, str(problem)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", default=",".join(GROUPS), help=f"which kinds of work, with commas: {', '.join(GROUPS)}"
    )
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--worker", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(**arguments.worker)
        return 0
    groups = arguments.only.split(",")
    if unknown := set(groups) - GROUPS.keys():
        parser.error(f"--only knows {', '.join(GROUPS)}, not {', '.join(sorted(unknown))}")
    if not present():
        return 0
    if SHARE:
        work(groups, (), {})
        return 0

    def keep(results: list[dict]) -> None:
        if arguments.json:
            arguments.json.write_text(json.dumps({"versions": versions(), "rows": results}, indent=1), encoding="utf-8")

    results = supervise(groups, keep)
    print("\n" + summary(results))
    return 0 if results else 1


if __name__ == "__main__":
    sys.exit(main())
