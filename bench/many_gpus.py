"""The all-reduce of unit 23: predicted, measured, and beside the library; and a step of its split MLP.

python -m bench.many_gpus [--json FILE]

NCCL where there are two GPUs or more, with 2, 4 and 8 of them; else gloo, with processes on the CPU. The prediction
takes latency and bandwidth from exchanges between neighbors in the same run.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from bench.common import solution
from bench.machine import versions
from labutils.gpu import device
from labutils.lessons import distributed

UNIT = "23_many_gpus"


def worlds() -> tuple[str, list[int]]:
    """The backend, and the numbers of ranks to measure with."""
    backend, most = distributed.backend_and_world()
    return backend, [world for world in (2, 4, 8) if world <= most]


def measure() -> dict:
    unit, (backend, counts) = solution(UNIT), worlds()
    found: dict = {"backend": backend, "all_reduce": [], "mlp": []}
    for world in counts:
        figures = distributed.race_us(unit.ring_all_reduce, unit.all_reduce_us, backend, world)
        found["all_reduce"].append(figures)
        print(f"{backend}, {world} ranks: an exchange takes {figures['latency_us']:.1f} µs, {figures['gbs']:.3g} GB/s")
        for row in figures["rows"]:
            print(_line(row, world), flush=True)
        step = distributed.mlp_figures(unit.shard, unit.mlp, unit.mlp_backward, backend, world)
        found["mlp"].append(step)
        print(
            f"  MLP: whole {step['whole_ms']:.2f} ms, split {step['split_ms']:.2f} ms, of which all-reduces "
            f"{step['all_reduces_ms']:.2f} ms; error {step['error']:.1e}",
            flush=True,
        )
    return found


def _line(row: dict, world: int) -> str:
    """Times of one size; bus bandwidth as in NCCL's tests: 2(p − 1)/p · bytes / time."""
    ring, library = (2 * (world - 1) / world * row["bytes"] / row[name] / 1e3 for name in ("ring_us", "library_us"))
    times = f"predicted {row['predicted_us']:9.1f}, ring {row['ring_us']:9.1f}, library {row['library_us']:9.1f} µs"
    ratio = f"predicted / measured {row['predicted_us'] / row['ring_us']:.2f}"
    return f"  {row['bytes']:11,} bytes: {times}; {ratio}; bus {ring:.3g} and {library:.3g} GB/s; " + (
        "right" if row["right"] else "WRONG"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.many_gpus", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    print(device.card() if device.has_gpu() else "CPU", versions(), sep="\n")
    found = measure()
    if arguments.json:
        arguments.json.write_text(json.dumps({"versions": versions(), **found}, indent=1), encoding="utf-8")
    return 0 if all(row["right"] for figures in found["all_reduce"] for row in figures["rows"]) else 1


if __name__ == "__main__":
    sys.exit(main())
