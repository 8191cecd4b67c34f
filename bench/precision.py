"""Fewer bits of unit 22 beside the library: rows to E4M3, products in fp8, weights of 4 bits.

python -m bench.precision [--json FILE]
python -m bench.precision --tune [--json FILE]     tiles and pipelines of the kernel for weights of 4 bits

Rates of products count 2·M·N·K FLOPs; bytes of weights are those of codes and scales, and their times stand beside that
of a kernel that only reads as many bytes.
"""

import functools
import itertools
import sys

from bench.common import Table, run, solution
from labutils.lessons import fewer_bits

UNIT, SUB_BYTE = "22_low_precision", "22_sub_byte"

ROWS = ((32768, 4096), (16384, 8192))
WEIGHTS = ((28672, 8192), (53248, 16384))
"""N × K of the first matrix in the feed-forward layers of models with 70 and 405 billion weights."""

SIZE = 8192


def verdict(what: str, reached: float, goal: float) -> None:
    print(f"  {'reached' if reached >= goal else 'MISSED '} {reached:.3f} of {goal} × {what}", flush=True)


def measure(table: Table) -> None:
    quantized(table)
    products(table)
    weights(table)


def quantized(table: Table) -> None:
    import torch

    unit = solution(UNIT)
    for M, N in ROWS:
        ring = []
        for _ in range(2):
            x, q = torch.randn(M, N, device="cuda").half(), torch.empty(M, N, dtype=torch.uint8, device="cuda")
            ring.append(functools.partial(unit.quantize_rows, x, q, torch.empty(M, device="cuda")))
        fewer_bits.beside_casts(unit.quantize_rows)
        times = table.compare(f"quantize_rows, {M} × {N}", 3 * M * N + 4 * M, {"ours": ring})
        verdict("the copy", times["copy"] / times["ours"], 0.92)


def products(table: Table) -> None:
    unit, fp16 = solution(UNIT), solution("14_matmul_triton_persistent")
    more = {"fp16, unit 14": functools.partial(fp16.persistent, relu=False)}
    rates = fewer_bits.fp8_rates(unit.fp8_matmul, SIZE, more)
    print(f"products of {SIZE}³, TFLOP/s: " + ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items()))
    table.rows.append({"name": f"fp8, {SIZE}³", "tflops": rates})
    if {"Gluon", "fp16, unit 14"} <= rates.keys():
        verdict("unit 14's fp16", rates["Gluon"] / rates["fp16, unit 14"], 1.5)
    for name in ("fp8, blocks of 128", "fp8, one scale"):
        if name in rates and "Gluon" in rates:
            verdict(f"torch._scaled_mm, {name.removeprefix('fp8, ')}", rates["Gluon"] / rates[name], 0.9)


def weights(table: Table) -> None:
    unit = solution(SUB_BYTE)
    for N, K in WEIGHTS:
        moved = N * K // 2 + 2 * N * K // 128
        print(f"w4a16, {N} × {K}: {moved / 1e6:.0f} MB")
        for M, times in fewer_bits.w4_times(unit.w4a16, N, K).items():
            for who, seconds in times.items():
                told = "" if who == "fp16" else f" {moved / seconds / 1e9:6.0f} GB/s, {times['reading'] / seconds:5.1%}"
                print(
                    f"  M = {M:2} {who:15} {seconds * 1e6:7.1f} µs {times['fp16'] / seconds:5.2f} ×{told}", flush=True
                )
            table.rows.append({"name": f"w4a16, {N} × {K}, M = {M}", "bytes": moved, "seconds": times})
            fast = times.get("fragment order")
            if fast and M == 1:
                verdict("fp16", times["fp16"] / fast, 3.3)
                verdict("reading", times["reading"] / fast, 0.8)
            elif fast and M == 16:
                verdict("fp16", times["fp16"] / fast, 2.5)


# --- variants ------------------------------------------------------------------------------------------------------


def tune(table: Table) -> None:
    from labutils.lessons.fewer_bits_kernels import in_fragments, w4a16

    loops = [dict(UNROLL=u, num_stages=s) for u, s in itertools.product((1, 2, 4), (2, 3, 4, 5))]
    for (N, K), M in itertools.product(WEIGHTS, (1, 16)):
        (a, words, scales, out), _ = fewer_bits.w4_arguments(M, N, K)
        for rows, split in itertools.product((16, 32), (2, 4)) if M == 1 else ((64, None),):
            how = {"SPLIT": split} if split else {}
            variants = {
                f"{rows} rows, " + ", ".join(f"{k} {v}" for k, v in c.items()): functools.partial(w4a16, config=c)
                for c in (how | loop for loop in loops)
            }
            ring = [(a, *in_fragments(words, scales, rows), out)]
            name = f"w4a16, {N} × {K}, M = {M}, {rows} rows" + (f", split {split}" if split else "")
            table.tune(name, N * K // 2 + 2 * N * K // 128, variants, ring, best=4)


if __name__ == "__main__":
    sys.exit(run(__doc__, "python -m bench.precision", measure, tune))
