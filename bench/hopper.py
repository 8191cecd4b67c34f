"""The levels of unit 16 beside cuBLAS on a Hopper GPU; which of them are right, and which constants are fastest.

    python -m bench.hopper --probe             every level on small shapes, each watched: run this first
    python -m bench.hopper [--json FILE]       the ladder at four shapes, with units 14 and 15 beside it
    python -m bench.hopper --tune              stages, clusters and groups of level 4

fp16, random normal. The probe runs in a process of its own: a kernel that hangs is stopped, and the others go on.
"""

import argparse
import functools
import itertools
import json
import re
import sys
from pathlib import Path

from bench.common import check, operands, quick, solution, turns
from bench.machine import versions
from bench.precompile import share_of, stopwatch
from bench.watched import Stopped, follow
from grader.course.solutions import solution_text
from labutils.gpu import device
from labutils.lessons import ring_gluon, tiles_kernel

UNITS, SM = ("16_matmul_hopper", "16_matmul_ring"), 90
SHAPES = ((1, 1, 1), (128, 256, 64), (64, 40, 16), (300, 520, 328), (513, 1000, 777), (1024, 1024, 4096))
"""M, N, K of the probe: less than a tile, one, several, ragged ones, more steps than stages."""

SPIN = "#define SPIN_LIMIT 3000000000ul"
"""Stops a kernel that waits at an mbarrier for three seconds."""

PATIENCE_S = 90.0
"""Seconds for one level of the probe; the first also loads PyTorch."""

TIMED = ((4096, 4096, 4096), (8192, 8192, 8192), (5120, 6144, 4096), (7168, 3072, 8192))
"""M, N, K. Level 4 leaves the last wave of the last two almost empty."""

SIZES = (4096, 8192)
STAGES, CLUSTERS, GROUPS = (3, 4), (1, 2), (2, 4, 8, 16)


def turned(level):
    """The level for b (K, N)."""
    return lambda a, b, c: level(a, b.T, c)


def levels(unit, ring) -> dict:
    """Calls (a, b (K, N), c) by name."""

    found = {"tile": unit.tile, "ring": ring.ring, "Gluon": ring_gluon.ring, "persistent": ring.persistent}
    found |= {"ping-pong": ring.ping_pong, "chosen": ring.fastest}
    found |= {f"tiles of {tile}": functools.partial(ring.tiled, tile) for tile in ring.TILES}
    found |= {f"ring, {n} stages": functools.partial(ring.ring, stages=n) for n in (2, 3)}
    for stages, cluster in itertools.product(STAGES, CLUSTERS):
        call = functools.partial(ring.persistent, stages=stages, cluster=cluster)
        found[f"persistent, {stages} stages, clusters of {cluster}"] = call
    return {name: turned(level) for name, level in found.items()}


def both_layouts(name: str) -> bool:
    """Does the level of this name also take B stored (K, N)?"""
    return name.startswith(("persistent", "ping-pong", "chosen", "tiles of"))


# --- the probe -----------------------------------------------------------------------------------------------------


def probe() -> dict[str, str]:
    """What each level does on small shapes, "right" or what is wrong, in the order in which they are tried."""
    names = list(levels(*map(solution, UNITS)))
    plan, found = [(n, kn) for n in names for kn in (False, True) if not kn or both_layouts(n)], {}
    while len(found) < len(plan):
        for index, said in watched(len(found)):
            name, across = plan[index]
            found[f"{name}, B {'K × N' if across else 'N × K'}"] = said
            print(f"{name}, B {'K × N' if across else 'N × K'}: {said}", flush=True)
    return found


def watched(first: int):
    """(number, verdict) of each trial from `first` on, until a child ends or has to be stopped."""
    number = first
    try:
        for line in follow([sys.executable, "-m", "bench.hopper", "--trials", str(first)], PATIENCE_S):
            if line.startswith("TRIAL "):
                yield number, line.removeprefix("TRIAL ").strip()
                number += 1
                if "CUDA" in line:  # after a crash nothing more runs in that process
                    return
        if number == first:
            yield number, "its process ended without a word"
    except Stopped as problem:
        yield number, str(problem)


def trials(first: int) -> None:
    """In the child: one line for each trial."""
    import torch

    first_line = re.compile(r"^\w+ = lab\.cuda\.compile\('\\n#include <lab/hopper\.cuh>", re.MULTILINE)
    units = []
    for name in UNITS:
        lines = first_line.findall(solution_text(name))
        units.append(solution(name, *((line, line.replace("#include", f"{SPIN}\\n#include")) for line in lines)))
    tiles_kernel.SOURCE = f"{SPIN}\n{tiles_kernel.SOURCE}"
    calls = levels(*units)
    plan = [(n, kn) for n in calls for kn in (False, True) if not kn or both_layouts(n)]
    for name, across in plan[first:]:
        try:
            worst, said = 0.0, "right"
            for M, N, K in SHAPES:
                if name == "Gluon" and (N % 8 or K % 8):
                    continue
                a = torch.randn(M, K, device="cuda", dtype=torch.float16)
                b = torch.randn(N, K, device="cuda", dtype=torch.float16).T
                b = b.contiguous() if across else b
                c = torch.full((M, N), torch.nan, device="cuda", dtype=torch.float16)
                calls[name](a, b, c)
                torch.cuda.synchronize()
                expected = a.double() @ b.double()
                error = ((c.double() - expected).abs() / (expected.abs() * 2**-11 + 2**-12 * K**0.5)).max().item()
                worst = max(worst, error)
                if not error <= 2:
                    bad = int((~((c.double() - expected).abs() <= expected.abs() * 2**-10 + 2**-11 * K**0.5)).sum())
                    said = f"WRONG at {M} × {N}, K = {K}: {bad} of {M * N} elements"
                    break
            else:
                said = f"right, error at most {worst:.2f} of what is allowed"
        except Exception as e:
            said = f"{type(e).__name__}: {' '.join(str(e).split())[:150]}"
        print("TRIAL", said, flush=True)


# --- times ---------------------------------------------------------------------------------------------------------


def measure(watch) -> list[dict]:
    """The ladder, in turns with cuBLAS, at each shape and both ways in which B can lie."""
    import torch

    triton, before = solution("14_matmul_triton_persistent"), solution("15_matmul_tensor_cores")
    found, rows = levels(*map(solution, UNITS)), []
    ours = {n: found[n] for n in ("tile", "ring", "Gluon", "persistent", "ping-pong", "chosen")}
    beside = {
        "cuBLAS": lambda a, b, c: torch.matmul(a, b, out=c),
        "unit 14, persistent": functools.partial(triton.persistent, relu=False),
    }
    for (M, N, K), by_columns in itertools.product(TIMED, (True, False)):
        calls = beside | {n: f for n, f in ours.items() if by_columns or both_layouts(n)}
        if not by_columns:
            calls["unit 15, pipelined"] = before.pipelined
        seconds = turns(watch, M, N, K, by_columns, calls)
        rates = {name: 2 * M * N * K / s / 1e12 for name, s in seconds.items()}
        print(f"{M} × {N}, K = {K}, B stored {'N × K' if by_columns else 'K × N'}")
        for name, rate in sorted(rates.items(), key=lambda row: row[1]):
            print(f"  {name:22} {rate:6.0f} TFLOP/s  {rate / rates['cuBLAS']:.3f} × cuBLAS", flush=True)
        rows.append({"shape": [M, N, K], "b": "NK" if by_columns else "KN", "tflops": rates})
    return rows


def levels_here(watch) -> list[dict]:
    """As `measure`, where there is a Hopper GPU."""
    if device.runs(SM):
        return measure(watch)
    print("no Hopper GPU")
    return []


def tune(watch) -> dict:
    """Level 4 with each choice of its constants."""
    import torch

    unit, table = solution(UNITS[1]), {}
    for n, by_columns in itertools.product(SIZES, (True, False)):
        pairs, c = operands(n, n, n, by_columns)
        calls = {"cuBLAS": functools.partial(torch.matmul, out=c)}
        for stages, cluster, group in share_of(itertools.product(STAGES, CLUSTERS, GROUPS)):
            call = turned(functools.partial(unit.persistent, stages=stages, cluster=cluster, group=group))
            name = f"{stages} stages, clusters of {cluster}, groups of {group}"
            try:
                said = check(name, call, *pairs[0], c, False)
            except Exception as e:
                said = f"{name}: {type(e).__name__}: {str(e)[:100]}"
            if said:
                print(f"  left out: {said}")
            else:
                calls[name] = functools.partial(call, c=c)
        rates = quick(watch, {k: [functools.partial(f, *p) for p in pairs] for k, f in calls.items()}, 2 * n**3)
        label = f"{n} {'NK' if by_columns else 'KN'}"
        table[label] = rates
        print(f"\n{label}: cuBLAS {rates['cuBLAS']:.0f} TFLOP/s")
        for name, rate in sorted(rates.items(), key=lambda row: -row[1]):
            print(f"  {name:40} {rate:6.0f}  {rate / rates['cuBLAS']:.3f}", flush=True)
    return table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.hopper", description=__doc__.splitlines()[0])
    parser.add_argument("--probe", action="store_true", help="try every level on small shapes, each watched")
    parser.add_argument("--tune", action="store_true", help="time choices of level 4's constants")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--trials", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not device.runs(SM):
        print("There is no Hopper GPU here: these kernels run on compute capability 9.0 only.")
        return 0
    if arguments.trials is not None:
        trials(arguments.trials)
        return 0
    print(device.card(), versions(), sep="\n", end="\n\n")
    figures = {"versions": versions()}
    if arguments.probe:
        figures["probe"] = probe()
    elif arguments.tune:
        figures["tune"] = tune(stopwatch())
    else:
        figures["ladder"] = measure(stopwatch())
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    wrong = [name for name, said in figures.get("probe", {}).items() if not said.startswith("right")]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
