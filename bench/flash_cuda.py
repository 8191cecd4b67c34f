"""Attention of unit 20 in CUDA C++ beside FlashAttention-2, cuDNN and unit 17's Triton: TFLOP/s of the forward pass.

python -m bench.flash_cuda [--json FILE]
python -m bench.flash_cuda --tune [--json FILE]     warps, pieces of 16 queries for each, keys of a tile, blocks an SM

fp16. FLOPs are counted as papers do: 4·B·H·N²·D.
"""

import functools
import itertools
import sys
from collections.abc import Callable

from bench.attention import Shape, close, flat, outputs, rates, tflops
from bench.common import Table, run, solution
from bench.precompile import share_of
from labutils.lessons.attention import backends

UNIT, TRITON = "20_flash_cuda", "17_flash_attention"

SHAPES = (
    Shape(4, 32, 4096, 128, False, (0.5, 0.0)),
    Shape(2, 16, 16384, 128, False, (0.5, 0.0)),
    Shape(4, 32, 4096, 64, False, (0.5, 0.0)),
)
"""With what we want to reach: half of FlashAttention-2."""


def inputs(shape: Shape) -> list:
    import torch

    size = (shape.B, shape.H, shape.N, shape.D)
    return [torch.randn(size, device="cuda", dtype=torch.float16) for _ in range(3)]


def measure(table: Table) -> None:
    unit, triton = solution(UNIT), solution(TRITON)
    for shape in SHAPES:
        rings: dict[str, list[Callable]] = {}
        for _ in range(2):
            q, k, v = inputs(shape)
            theirs = backends(q, k, v)
            expected = next(iter(theirs.values()))().flatten(0, 1)
            for name, fn in (("tensor", unit.tensor), ("scalar", unit.scalar)):
                out, lse = outputs(q)
                fn(*flat(q, k, v), out, lse)
                close(name, out, expected)
                rings.setdefault(name, []).append(functools.partial(fn, *flat(q, k, v), out, lse))
            for name, call in theirs.items():
                rings.setdefault(name, []).append(call)
            out, lse = outputs(q)
            rings.setdefault("Triton, unit 17", []).append(
                functools.partial(triton.flash, *flat(q, k, v), out, lse, False)
            )
        found = rates(table, f"forward {shape.name} fp16", shape.flops, rings)
        if "FlashAttention-2" in found:
            share = found["tensor"] / found["FlashAttention-2"]
            print(f"  {'reached' if share >= 0.5 else 'MISSED '} {share:.2f} of 0.50 × FlashAttention-2")
        del rings, q, k, v, out, lse, theirs, expected


# --- variants ------------------------------------------------------------------------------------------------------


def configs(D: int) -> list[tuple[int, int, int]]:
    """(WARPS, TILES, BLOCK_N) whose copies come out even and whose tiles fit into shared memory."""
    found = []
    for warps, tiles, keys in itertools.product((2, 4, 8, 12), (1, 2, 3), (32, 64, 96, 128)):
        rows = 16 * tiles * warps
        even = keys * D // 8 % (32 * warps) == 0 and rows * D // 8 % (32 * warps) == 0
        if even and keys % 16 == 0 and 2 * (rows + 4 * keys) * (D + 8) <= 227 * 1024 and tiles * D <= 256:
            found.append((warps, tiles, keys))
    return found


BLOCKS = ("", ", 2", ", 3", ", 4")
"""What follows the threads in `__launch_bounds__`: blocks that an SM should have room for."""


def tune(table: Table) -> None:
    from labutils import cuda
    from labutils.cuda import cubin

    unit = solution(UNIT)
    source = unit.flash_tensor.module.source
    for shape in SHAPES[:1] + SHAPES[2:]:
        D, scale = shape.D, 1.4426950408889634 * shape.D**-0.5
        ring = [(*flat(*inputs(shape)), *outputs(inputs(shape)[0])) for _ in range(2)]
        expected = next(iter(backends(*(x.view(shape.B, shape.H, -1, D) for x in ring[0][:3])).values()))()
        variants: dict[str, Callable] = {}
        for config, blocks in share_of(itertools.product(configs(D), BLOCKS)):
            warps, tiles, keys = config
            name = f"flash_tensor<{D},{warps},{tiles},{keys}>"
            rows, shared = 16 * warps * tiles, 2 * (16 * warps * tiles + 4 * keys) * (D + 8)
            if blocks and int(blocks[2:]) * (shared + 1024) > 228 * 1024:
                continue
            text = source.replace("__launch_bounds__(32 * WARPS)", f"__launch_bounds__(32 * WARPS{blocks})")
            kernel = cuda.compile(text, name)
            used = cubin.of(kernel)
            if used.stack > 512:  # most of it would be spilled
                continue

            def go(q, k, v, out, lse, kernel=kernel, rows=rows, warps=warps, shared=shared, scale=scale):
                grid = (-(-q.shape[1] // rows), len(q))
                kernel[grid, 32 * warps, shared](q, k, v, out, lse, q.shape[1], k.shape[1], scale)

            label = f"warps {warps}, pieces {tiles}, keys {keys}{blocks and f', {blocks[2:]} blocks'}"
            try:
                go(*ring[0])
            except Exception as e:  # a variant that does not fit this GPU is a finding
                print(f"  {label}: {type(e).__name__}: {str(e)[:90]}")
                continue
            close(label, ring[0][3], expected.flatten(0, 1))
            variants[f"{label}; {used.registers} registers, {used.stack} B stack"] = go
        tflops(table, f"forward {shape.name}", shape.flops, variants, ring, best=16)


if __name__ == "__main__":
    sys.exit(run(__doc__, "python -m bench.flash_cuda", measure, tune))
