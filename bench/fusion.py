"""The fused kernels of unit 13 beside eager chains, torch.compile and a plain copy of the same bytes.

python -m bench.fusion [--json FILE]
python -m bench.fusion --tune [--json FILE]     variants, to choose warps, stages, blocks and grids
"""

import sys

import labutils as lab
from bench.common import Table, fail, run, solution

B, T, H = 4, 2048, 4096
DROPOUT = (65_536, 8192)
P = 0.125
COLUMNS = (1024, 2048, 4096, 5120, 8192, 12_288, 16_384, 24_576, 32_768)
WIDTHS = (4096, 5000, 8192, 12_000, 16_384, 20_000, 24_576, 32_768)
OPERANDS = {"rms_norm": (2, 1), "layer_norm": (2, 2), "rms_residual_silu": (3, 1)}
"""Matrices, the result among them, and vectors."""


def _tensors(*shapes, count=2, dtype="float16"):
    import torch

    kind = getattr(torch, dtype)
    return [[torch.randn(s, device="cuda").to(kind) for s in shapes] for _ in range(count)]


def _close(name: str, got, expected, most: float) -> None:
    error = ((got.double() - expected.double()).abs() / (1 + expected.double().abs())).max().item()
    if not error < most:
        fail(f"{name} is wrong: {error:.2g}")


def manual_norm(x, w):
    """RMSNorm as models write it, an operation a line: by way of fp32."""
    import torch

    f = x.float()
    return (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w


def manual_chain(x, residual, w):
    import torch

    return torch.nn.functional.silu(manual_norm(x + residual, w))


def measure(table: Table) -> None:
    unit = solution("13_fusion")
    measure_chain(table, unit)
    measure_norms(table, unit)
    measure_widths(table, unit)
    measure_dropout(table, solution("13_fusion_dropout"))
    measure_spills(table, unit)


def measure_chain(table: Table, unit) -> None:
    import torch

    M = B * T
    ring = [(x, r, w, torch.empty_like(x)) for x, r, w in _tensors((M, H), (M, H), (H,), count=3)]
    eager = torch.compile(unit.eager_chain, dynamic=False)
    manual = torch.compile(manual_chain, dynamic=False)

    def counted(x, residual, w, out):
        """Three kernels whose transfers are 3 + 2 + 2: add, our own norm, SiLU."""
        s = x + residual
        unit.rms_norm(s, w, out)
        return torch.nn.functional.silu(out)

    unit.rms_residual_silu(*ring[0])
    _close("rms_residual_silu", ring[0][3], unit.eager_chain(*(t.double() for t in ring[0][:3])), 2e-3)
    functions = {
        "rms_residual_silu": unit.rms_residual_silu,
        "compiled": lambda x, r, w, out: eager(x, r, w),
        "compiled, by hand": lambda x, r, w, out: manual(x, r, w),
        "eager, 7 transfers": counted,
        "eager, F.rms_norm": lambda x, r, w, out: unit.eager_chain(x, r, w),
        "eager, by hand": lambda x, r, w, out: manual_chain(x, r, w),
    }
    rings = {n: [lambda f=f, d=d: f(*d) for d in ring] for n, f in functions.items()}
    seconds = table.compare(f"residual + RMSNorm + SiLU, {B}·{T} × {H} fp16", (3 * M * H + H) * 2, rings)
    predicted = unit.chain_speedup(B, T, H)
    got = seconds["eager, 7 transfers"] / seconds["rms_residual_silu"]
    print(f"  predicted {predicted:.3f} × over 7 transfers, measured {got:.3f} × ({got / predicted - 1:+.1%})")
    print(
        f"  claim 2.3 × over eager; measured {seconds['eager, F.rms_norm'] / seconds['rms_residual_silu']:.2f} × over"
    )
    print(f"  three kernels, {seconds['eager, by hand'] / seconds['rms_residual_silu']:.1f} × over the norm by hand\n")
    table.rows.append({"name": "chain speed-up", "predicted": predicted, "measured": got})
    print(lab.profile(eager, *ring[0][:3]), end="\n\n")


def measure_norms(table: Table, unit) -> None:
    import torch

    F, M = torch.nn.functional, B * T
    for name, extra in (("rms_norm", 0), ("layer_norm", 1)):
        ring = [(x, *v, torch.empty_like(x)) for x, *v in _tensors((M, H), *[(H,)] * (1 + extra), count=4)]
        if name == "rms_norm":
            library, hand = (lambda x, w, out: F.rms_norm(x, (H,), w, 1e-6)), (lambda x, w, out: manual_norm(x, w))
        else:
            library, hand = (lambda x, w, b, out: F.layer_norm(x, (H,), w, b, 1e-5)), None
        whole = torch.compile(lambda *d, f=library: f(*d), dynamic=False)
        getattr(unit, name)(*ring[0])
        _close(name, ring[0][-1], library(*(t.double() for t in ring[0])), 2e-3)
        functions = {name: getattr(unit, name), "library": library, "compiled": whole} | (
            {"eager, by hand": hand} if hand else {}
        )
        rings = {n: [lambda f=f, d=d: f(*d) for d in ring] for n, f in functions.items()}
        seconds = table.compare(f"{name}, {M} × {H} fp16", (2 * M * H + (1 + extra) * H) * 2, rings)
        if hand:
            print(f"  claim: RMSNorm 8.1 × over eager; measured {seconds['eager, by hand'] / seconds[name]:.1f} ×")
        print()


def measure_widths(table: Table, unit) -> None:
    """A row in registers and a row in blocks, by the number of columns."""
    import torch

    F = torch.nn.functional
    for N in WIDTHS:
        M = 2**26 // N
        libraries = {
            "rms_norm": lambda x, w, n=N: F.rms_norm(x, (n,), w, 1e-6),
            "layer_norm": lambda x, w, b, n=N: F.layer_norm(x, (n,), w, b, 1e-5),
            "rms_residual_silu": unit.eager_chain,
        }
        for name, (of_rows, of_columns) in OPERANDS.items():
            library = libraries[name]
            ring = [(*d, torch.empty_like(d[0])) for d in _tensors(*[(M, N)] * (of_rows - 1), *[(N,)] * of_columns)]
            ours = {n: getattr(unit, n) for n in (name, f"long_{name}") if hasattr(unit, n)}
            for who, call in ours.items():
                call(*ring[0])
                _close(who, ring[0][-1][:64], library(*(t[:64].double() for t in ring[0][: of_rows - 1]),
                       *(t.double() for t in ring[0][of_rows - 1 : -1])), 4e-3)  # fmt: skip
            torch._dynamo.reset()
            whole = torch.compile(library, dynamic=False)
            functions = ours | {"compiled": lambda *d, f=whole: f(*d[:-1])}
            rings = {n: [lambda f=f, d=d: f(*d) for d in ring] for n, f in functions.items()}
            table.compare(f"{name}, {M} × {N} fp16", (of_rows * M * N + of_columns * N) * 2, rings)


def measure_dropout(table: Table, unit) -> None:
    """Forward and backward. PyTorch's own graph and hosts' time are in its figure, so the arrays are large."""
    import torch

    F, (M, N) = torch.nn.functional, DROPOUT
    ring = []
    for h, bias, dy in _tensors((M, N), (N,), (M, N)):
        ring.append((h.requires_grad_(), bias, dy, torch.empty_like(dy), torch.empty_like(dy)))

    def chain(h, bias):
        return F.dropout(F.gelu(h + bias, approximate="tanh"), P, training=True)

    compiled = torch.compile(chain, dynamic=False)

    def ours(h, bias, dy, out, dh):
        unit.dropout_gelu(h.detach(), bias, P, 12345, out)
        unit.dropout_gelu_backward(h.detach(), bias, dy, P, 12345, dh)

    def theirs(fn):
        return lambda h, bias, dy, out, dh: torch.autograd.grad(fn(h, bias), h, dy)

    ours(*ring[0])
    h, bias, dy, out, dh = ring[0]
    part = slice(0, 512)
    x = (h[part].detach().double() + bias.double()).requires_grad_()
    kept = out[part] != 0
    y = F.gelu(x, approximate="tanh")
    (slope,) = torch.autograd.grad(y, x, dy[part].double())
    _close("dropout_gelu", out[part], torch.where(kept, y / (1 - P), 0.0), 2e-3)
    share = (out != 0).double().mean().item()
    clear = y.abs() > 1e-4  # where GELU underflows to 0 the mask cannot be seen
    _close("dropout_gelu_backward", dh[part][clear & kept], (slope / (1 - P))[clear & kept], 4e-3)
    print(f"kept {share:.4f} of the elements, 1 - p = {1 - P}")
    functions = {"dropout_gelu, both": ours, "compiled": theirs(compiled), "eager": theirs(chain)}
    rings = {n: [lambda f=f, d=d: f(*d) for d in ring] for n, f in functions.items()}
    table.compare(f"dropout(GELU(h + bias)), both passes, {M} × {N} fp16", 5 * M * N * 2, rings)
    forward = {
        "dropout_gelu": lambda h, bias, dy, out, dh: unit.dropout_gelu(h.detach(), bias, P, 12345, out),
        "compiled": lambda h, bias, dy, out, dh: compiled(h.detach(), bias),
    }
    rings = {n: [lambda f=f, d=d: f(*d) for d in ring] for n, f in forward.items()}
    table.compare(f"dropout(GELU(h + bias)), forward alone, {M} × {N} fp16", 2 * M * N * 2, rings)
    print(lab.profile(theirs(compiled), *ring[0]), end="\n\n")


def measure_spills(table: Table, unit) -> None:
    """Rows of 32768 columns by warps: what it costs when registers overflow, beside the unfused chain."""
    import torch

    from labutils.lessons import compiled

    M, N = 1024, 32_768
    ring = [(x, r, w, torch.empty_like(x)) for x, r, w in _tensors((M, N), (M, N), (N,), count=3)]
    launches = {}
    for warps in (4, 8, 16, 32):
        options = dict(BLOCK_N=N, num_warps=warps)
        launches[f"fused, {warps} warps"] = unit.rms_residual_silu_kernel, (*ring[0], N, N, N, N), options
    compiled.table(launches)

    def fused(options):
        return lambda x, r, w, out: unit.rms_residual_silu_kernel[(M,)](x, r, w, out, N, N, N, N, **options)

    functions = {name: fused(launch[2]) for name, launch in launches.items()}
    functions["eager, F.rms_norm"] = lambda x, r, w, out: unit.eager_chain(x, r, w)
    rings = {n: [lambda f=f, d=d: f(*d) for d in ring] for n, f in functions.items()}
    table.compare(f"residual + RMSNorm + SiLU, {M} × {N} fp16", (3 * M * N + N) * 2, rings)


# --- variants ------------------------------------------------------------------------------------------------------


def tune(table: Table) -> None:
    tune_rows(table, solution("13_fusion"))
    tune_blocks(table, solution("13_fusion"))
    tune_dropout(table, solution("13_fusion_dropout"))


def tune_rows(table: Table, unit) -> None:
    """Warps by the number of columns, for the kernels of which a program computes one row."""
    import torch
    import triton

    def launch(kernel, N, warps):
        def go(*data):
            strides = [t.stride(0) for t in data if t.dim() == 2]
            kernel[(data[0].shape[0],)](*data, N, *strides, BLOCK_N=triton.next_power_of_2(N), num_warps=warps)

        return go

    for name, (of_rows, of_columns) in OPERANDS.items():
        kernel = getattr(unit, f"{name}_kernel")
        for N in COLUMNS:
            M = 2**26 // N
            ring = [(*d, torch.empty_like(d[0])) for d in _tensors(*[(M, N)] * (of_rows - 1), *[(N,)] * of_columns)]
            variants = {f"{w} warps": launch(kernel, N, w) for w in (1, 2, 4, 8, 16, 32)}
            table.tune(f"{name}, {M} × {N}", (of_rows * M * N + of_columns * N) * 2, variants, ring)


def tune_blocks(table: Table, unit) -> None:
    """Block size and warps, for the kernels that read a row in blocks."""
    import torch

    def launch(kernel, N, block, warps):
        def go(*data):
            kernel[(data[0].shape[0],)](*data, N, N, N, BLOCK_N=block, num_warps=warps)

        return go

    for name in ("rms_norm", "layer_norm"):
        of_rows, of_columns = OPERANDS[name]
        kernel = getattr(unit, f"long_{name}_kernel")
        for N in COLUMNS:
            M = 2**26 // N
            ring = [(*d, torch.empty_like(d[0])) for d in _tensors((M, N), *[(N,)] * of_columns)]
            variants = {
                f"block {b}, {w} warps": launch(kernel, N, b, w)
                for b in (1024, 2048, 4096, 8192) for w in (4, 8, 16, 32) if 8 <= b // (32 * w) <= 16
            }  # fmt: skip
            table.tune(f"long_{name}, {M} × {N}", (of_rows * M * N + of_columns * N) * 2, variants, ring)


def tune_dropout(table: Table, unit) -> None:
    import torch
    import triton

    M, N = 16_384, 8192
    ring = [(h, b, y, torch.empty_like(h)) for h, b, y in _tensors((M, N), (N,), (M, N))]

    def forward(BLOCK, warps):
        def go(h, bias, dy, out):
            grid = (M * triton.cdiv(N, BLOCK),)
            unit.dropout_gelu_kernel[grid](h, bias, out, P, 12345, N, N, N, BLOCK_N=BLOCK, num_warps=warps)

        return go

    def backward(BLOCK, warps):
        def go(h, bias, dy, dh):
            grid = (M * triton.cdiv(N, BLOCK),)
            unit.dropout_gelu_backward_kernel[grid](
                h, bias, dy, dh, P, 12345, N, N, N, N, BLOCK_N=BLOCK, num_warps=warps
            )

        return go

    for name, make, moved in (("forward", forward, 2), ("backward", backward, 3)):
        variants = {
            f"block {b}, {w} warps": make(b, w) for b in (512, 1024, 2048, 4096, 8192) for w in (1, 2, 4, 8, 16)
            if 8 <= b // (32 * w) <= 32
        }  # fmt: skip
        table.tune(f"dropout(GELU) {name}, {M} × {N}", moved * M * N * 2, variants, ring)


if __name__ == "__main__":
    sys.exit(run(__doc__, "python -m bench.fusion", measure, tune))
