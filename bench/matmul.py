"""The matrix products of units 14 and 15 beside cuBLAS, in the same run.

    python -m bench.matmul [--tune] [--only squares,ragged,relu,ladder,hopper] [--json FILE]

fp16, random normal; `hopper` is unit 16, where it runs (see bench.hopper). --tune times configurations of the
persistent kernel and of the CUDA pipeline instead.
"""

import argparse
import functools
import itertools
import json
import statistics
import sys
from pathlib import Path

from bench import hopper
from bench.common import operands, quick, solution, turns
from bench.machine import present, versions
from bench.precompile import share_of, stopwatch
from labutils.lessons import ladder

SQUARES = (2048, 4096, 8192, 16384)
RAGGED = (
    (1000, 777, 333),
    (1023, 1025, 1024),
    (4095, 4097, 4099),
    (8191, 1000, 2048),
    (5000, 120, 4096),
    (16, 4096, 4096),
    (16, 8192, 8192),
    (64, 8192, 4096),
    (128, 4096, 11008),
    (512, 512, 16384),
    (2304, 2304, 2304),
    (4096, 4096, 64),
)
"""M, N, K: sizes that fill no tile, few rows or columns, a long K, a short one, a wave nearly empty."""

FUSED = (
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (8192, 8192, 1024),
    (5120, 3072, 6144),
    (7168, 3072, 8192),
    (3072, 3072, 3072),
    (3000, 7000, 5000),
)
"""M, N, K with a fused ReLU: full waves, a short K, waves that other tiles fill better, rows that are not aligned."""

PERSISTENT = "14_matmul_triton_persistent"

BASE = dict(BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, GROUP_M=8, num_warps=8, num_stages=3, FLATTEN=True)
OWN_WARP = dict(on_device=True, SPECIALIZE=True, FLATTEN=False, num_warps=4)
TUNED = {
    "base": {},
    "groups of 4": dict(GROUP_M=4),
    "groups of 16": dict(GROUP_M=16),
    "not flat": dict(FLATTEN=False),
    "halves": dict(HALVES=True),
    "halves, 4 stages": dict(HALVES=True, num_stages=4),
    "halves, 4 stages, groups of 16": dict(HALVES=True, num_stages=4, GROUP_M=16),
    "halves, 4 stages, not flat": dict(HALVES=True, num_stages=4, FLATTEN=False),
    "halves, K 32, 6 stages": dict(HALVES=True, BLOCK_K=32, num_stages=6),
    "halves, K 128, 2 stages": dict(HALVES=True, BLOCK_K=128, num_stages=2),
    "256 × 128": dict(BLOCK_M=256, BLOCK_N=128),
    "256 × 128, halves, 4 stages": dict(BLOCK_M=256, BLOCK_N=128, HALVES=True, num_stages=4),
    "128 × 128, 4 stages": dict(BLOCK_N=128, num_stages=4),
    "128 × 128, 4 warps, 4 stages": dict(BLOCK_N=128, num_stages=4, num_warps=4),
    "128 × 128, K 128, 3 stages": dict(BLOCK_N=128, BLOCK_K=128),
    "64 × 256, 4 warps, 4 stages": dict(BLOCK_M=64, num_warps=4, num_stages=4),
    "own descriptors": dict(on_device=True),
    "own descriptors, halves, 4 stages": dict(on_device=True, HALVES=True, num_stages=4),
    "own warp": OWN_WARP,
    "own warp, groups of 4": OWN_WARP | dict(GROUP_M=4),
    "own warp, groups of 16": OWN_WARP | dict(GROUP_M=16),
    "own warp, 2 stages": OWN_WARP | dict(num_stages=2),
    "own warp, 128 × 128, 4 stages": OWN_WARP | dict(BLOCK_N=128, num_stages=4),
    "own warp, 128 × 128, 5 stages": OWN_WARP | dict(BLOCK_N=128, num_stages=5),
    "own warp, halves, 4 stages": OWN_WARP | dict(HALVES=True, num_stages=4),
}
"""What each configuration changes in BASE."""

PIPELINES = (
    (2, 2, 32, 3),
    (2, 2, 32, 4),
    (2, 2, 32, 5),
    (2, 2, 64, 3),
    (2, 4, 32, 4),
    (2, 4, 64, 3),
    (4, 2, 32, 4),
    (4, 2, 64, 3),
    (4, 2, 64, 4),
)
"""Warps along M, warps along N, depth of a tile, stages."""


def squares(watch) -> list[dict]:
    import torch

    tiles, unit, rows = solution("14_matmul_triton"), solution(PERSISTENT), []
    zeros = torch.zeros(max(SQUARES), device="cuda", dtype=torch.float16)

    def grouped(a, b, c):
        tiles.linear(a[None], b[None], zeros[: b.shape[1]], 1.0, c[None], activation=0)

    calls = {
        "cuBLAS": lambda a, b, c: torch.matmul(a, b, out=c),
        "level 1": tiles.matmul_relu,
        "level 2": grouped,
        "level 3": functools.partial(unit.persistent, relu=False),
    }
    for n, by_columns in itertools.product(SQUARES, (False, True)):
        seconds = turns(watch, n, n, n, by_columns, calls, relu=("level 1",))
        rates = {name: 2 * n**3 / s / 1e12 for name, s in seconds.items()}
        said = ", ".join(f"{name} {r:.0f} ({r / rates['cuBLAS']:.2f})" for name, r in rates.items())
        print(f"{n:6}³, B {'N × K' if by_columns else 'K × N'}: {said} TFLOP/s", flush=True)
        rows.append({"n": n, "b": "NK" if by_columns else "KN", "tflops": rates})
    return rows


def ragged(watch) -> dict:
    import torch

    unit, rows, ratios = solution(PERSISTENT), [], []
    calls = {
        "cuBLAS": lambda a, b, c: torch.relu_(torch.matmul(a, b, out=c)),
        "ours": unit.matmul,
        "persistent": unit.persistent,
        "split K": unit.split_k,
    }
    plain = {"cuBLAS alone": lambda a, b, c: torch.matmul(a, b, out=c)}
    for M, N, K in RAGGED:
        seconds = turns(watch, M, N, K, False, calls | plain, relu=tuple(calls))
        if "ours" not in seconds:
            continue
        against = {k: s / seconds["ours"] for k, s in seconds.items()}
        ratios.append(against["cuBLAS alone"])
        said = ", ".join(f"{k} {s * 1e6:.1f} µs" for k, s in seconds.items())
        print(f"{M:5} × {N:5}, K {K:5}: {against['cuBLAS alone']:.2f} × cuBLAS without ReLU; {said}", flush=True)
        rows.append({"shape": [M, N, K], "us": {k: s * 1e6 for k, s in seconds.items()}})
    mean = statistics.geometric_mean(ratios) if ratios else None
    print(f"geometric mean of {len(ratios)} shapes: {mean:.3f} × cuBLAS without ReLU" if mean else "no figure")
    return {"rows": rows, "geometric_mean": mean}


def relu(watch) -> list[dict]:
    import torch

    unit, rows = solution(PERSISTENT), []
    calls = {
        "matmul, relu": lambda a, b, c: torch.relu_(torch.matmul(a, b, out=c)),
        "level 3": unit.persistent,
        "planned": unit.matmul,
    }
    for (M, N, K), by_columns in itertools.product(FUSED, (False, True)):
        seconds = turns(watch, M, N, K, by_columns, calls, relu=tuple(calls))
        factors = {name: seconds["matmul, relu"] / s for name, s in seconds.items()} if len(seconds) == 3 else {}
        layout = "NK" if by_columns else "KN"
        said = ", ".join(f"{name} {factor:.3f}" for name, factor in factors.items())
        print(f"{M} × {N}, K {K}, B stored {layout}, relative to cuBLAS and a ReLU: {said}", flush=True)
        rows.append({"shape": [M, N, K], "b": layout, "factors": factors})
    return rows


def levels() -> tuple[dict, dict]:
    """The ladder of unit 15: fp32 levels, fp16 levels."""
    u, v, t = (solution(unit) for unit in ("15_matmul_cuda", "15_matmul_cuda_vector", "15_matmul_tensor_cores"))
    fp32 = {"by columns": u.by_columns, "naive": u.naive, "shared": u.shared, "register column": u.register_column}
    fp32 |= {"register": u.register, "vector": v.vector, "double": v.double}
    return fp32, {"tensor": t.tensor, "pipelined": t.pipelined}


def climb() -> dict[str, float]:
    found = ladder.rates(*levels(), seconds=0.4)
    for name, rate in found.items():
        half = name in ("tensor", "pipelined", "cuBLAS fp16")
        print(f"{name:16} {rate:8.2f} TFLOP/s, {rate / found['cuBLAS fp16' if half else 'cuBLAS fp32']:6.1%} of cuBLAS")
    return found


# --- tuning --------------------------------------------------------------------------------------------------------


def tune(watch) -> dict:
    import torch

    pipes = tune_pipelines(watch)
    unit, table = solution(PERSISTENT), {}
    for n, by_columns in itertools.product((2048, 4096, 8192), (True, False)):
        pairs, c = operands(n, n, n, by_columns)
        expected = pairs[0][0][:256].float() @ pairs[0][1].float()
        calls = {"cuBLAS": functools.partial(torch.matmul, out=c)}
        for name, changes in share_of(TUNED.items()):
            calls[name] = functools.partial(unit.persistent, c=c, relu=False, config=BASE | changes)
        for name in list(calls):
            try:
                c.fill_(torch.nan)
                calls[name](*pairs[0])
                torch.cuda.synchronize()
                if not bool(((c[:256].float() - expected).abs() < 0.5).all()):
                    raise RuntimeError("wrong result")
            except Exception as problem:
                print(f"  left out: {name}: {type(problem).__name__}: {str(problem)[:80]!r}")
                del calls[name]
        rates = quick(watch, {k: [functools.partial(f, *p) for p in pairs] for k, f in calls.items()}, 2 * n**3)
        label = f"{n} {'NK' if by_columns else 'KN'}"
        table[label] = rates
        print(f"\n{label}: cuBLAS {rates['cuBLAS']:.0f} TFLOP/s")
        for name, rate in sorted(rates.items(), key=lambda row: -row[1]):
            print(f"  {name:36} {rate:6.0f}  {rate / rates['cuBLAS']:.3f}", flush=True)
        del pairs, calls
        torch.cuda.empty_cache()
    return {"persistent": table, "pipelines": pipes}


def tune_pipelines(watch, n: int = 4096) -> dict[str, float]:
    """The CUDA pipeline's shapes, and the depth of the FP32 tiles, beside cuBLAS."""
    import torch

    from labutils import cuda

    unit, buffers = solution("15_matmul_tensor_cores"), solution("15_matmul_cuda_vector")
    pairs, c = operands(n, n, n, False)
    calls = {"cuBLAS fp16": lambda a, b: torch.matmul(a, b, out=c)}
    for config in share_of(PIPELINES):
        m, w, depth, stages = config
        name = f"{64 * m} × {64 * w}, K {depth}, {stages} stages"
        calls[name] = functools.partial(unit.pipelined, c=c, config=config)
    found = quick(watch, {k: [functools.partial(f, *p) for p in pairs] for k, f in calls.items()}, 2 * n**3)
    full = [tuple(x.float() for x in p) for p in pairs]
    out, source = c.float(), buffers.matmul_double.module.source
    calls = {"cuBLAS fp32": lambda a, b: torch.matmul(a, b, out=out)}
    for depth, resident in ((8, 2), (16, 1), (16, 2)):
        text = changed(source, {"BK = 8;": f"BK = {depth};", "(256, 2)": f"(256, {resident})"})
        kernel = cuda.compile(text, "matmul_double")
        calls[f"two buffers, K {depth}, {resident} blocks"] = lambda a, b, kernel=kernel: buffers.in_vectors(
            a, b, out, kernel[buffers.grid_of(out), 256]
        )
    found |= quick(watch, {k: [functools.partial(f, *p) for p in full] for k, f in calls.items()}, 2 * n**3)
    for name, rate in found.items():
        print(f"{name:32} {rate:7.1f} TFLOP/s", flush=True)
    return found


def changed(source: str, pairs: dict[str, str]) -> str:
    """A kernel's text with other numbers in it. Raises ValueError where it no longer holds what is to be replaced."""
    for old, new in pairs.items():
        if source.count(old) != 1:
            raise ValueError(f"{old!r} stands {source.count(old)} times in the kernel, not once")
        source = source.replace(old, new)
    return source


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.matmul", description=__doc__.splitlines()[0])
    parser.add_argument("--tune", action="store_true", help="time configurations instead")
    parser.add_argument("--only", default="squares,ragged,relu,ladder,hopper", help="which parts, with commas")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    if not present():
        return 0
    watch, figures = stopwatch(), {"versions": versions()}
    if arguments.tune:
        figures["tune"] = tune(watch)
    else:
        parts = {
            "squares": squares,
            "ragged": ragged,
            "relu": relu,
            "ladder": lambda _: climb(),
            "hopper": hopper.levels_here,
        }
        for name in arguments.only.split(","):
            print(f"--- {name}")
            figures[name] = parts[name](watch)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
