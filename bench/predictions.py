"""Predicted times beside measured ones: how far off is `lab.explain`?

    python -m bench --json FILE
    python -m bench.predictions FILE

The first command measures on this GPU, the second one needs none. Both are for the solutions, at the exercises'
benchmark sizes.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from labutils import exercises
from labutils.gpu import device
from labutils.gpu.roofline import units
from labutils.study import prediction, reference

WITHIN = 0.15


@dataclass(frozen=True)
class Row:
    """One solution: the prediction, and seconds measured."""

    exercise: str
    predicted: prediction.Prediction
    measured: float

    @property
    def error(self) -> float:
        """How far the measurement lies outside what was predicted, as a share of the measurement; 0 within a span."""
        nearest = min(max(self.measured, self.predicted.least), self.predicted.most)
        return nearest / self.measured - 1

    def __str__(self) -> str:
        return f"| {self.exercise} | {self.predicted} | {units(self.measured, 's')} | {self.error:+.0%} |"


def rows(figures: list[dict]) -> list[Row]:
    """A row for each measured exercise that memory bounds."""
    found = []
    for figure in figures:
        if not figure["rows"]:
            continue
        exercise, gpu = exercises.get(figure["exercise"]), device.find(figure["gpu"])
        made = prediction.predict(exercise, reference.of(exercise.id), gpu)
        if made.bound == "memory":
            found.append(Row(exercise.id, made, figure["rows"]["yours"]["us"] * 1e-6))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.predictions", description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="what `python -m bench --json FILE` wrote")
    found = rows(json.loads(parser.parse_args().file.read_text(encoding="utf-8"))["figures"])
    print("| memory-bound exercise | predicted | measured | error |\n|---|---|---|---|")
    print(*found, sep="\n")
    near = sum(abs(row.error) <= WITHIN for row in found)
    print(f"\n{near} of {len(found)} within {WITHIN:.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
