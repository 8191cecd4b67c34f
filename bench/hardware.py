"""Latency and bandwidth of every level of memory, launch cost, clocks and the occupancy sweep of the GPU at hand.

    python -m bench.hardware [--json FILE]

On an H200, `--json labutils/lessons/hardware_h200.json` refreshes what readers without a GPU are shown.
"""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from bench.machine import versions
from labutils.gpu import device
from labutils.lessons import hardware


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.hardware", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    if not device.has_gpu():
        print("There is no GPU here to measure. Stored:", hardware.stored(), sep="\n")
        return 0
    found = replace(hardware.measure(), source=f"stored measurement, {versions()}")
    print(found)
    for row in found.occupancy:
        print(f"  copy, {row['loads']} loads a thread, occupancy {row['occupancy']:.1%}: {row['gbs']:.0f} GB/s")
    if arguments.json:
        rounded = json.loads(json.dumps(found.to_json()), parse_float=lambda text: float(f"{float(text):.5g}"))
        arguments.json.write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
