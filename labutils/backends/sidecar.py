"""The interpreter beside a GPU: a second process checks the same kernel with every address recorded.

On a machine with a GPU the notebook's process cannot interpret kernels. So the text of the learner's function goes to a
process without a GPU, which evaluates the exercise as a laptop would and sends its verdict back.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from ..source import load, module_parts
from ..verdict import Verdict

TIME_LIMIT = 120.0
"""Seconds until a sidecar's silence is taken for an answer of its own."""


class Sidecar:
    """Started at once, asked later. `NotExtractable` is raised when the function cannot travel as text."""

    def __init__(self, exercise_id: str, fn, seed: int, hidden: int):
        job = {
            "exercise": exercise_id,
            "entry": fn.__name__,
            "module": module_parts(fn),
            "seed": seed,
            "hidden": hidden,
        }
        package = Path(__file__).resolve().parents[1]
        paths = [str(package.parent), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {
            "TRITON_INTERPRET": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONPATH": os.pathsep.join(p for p in paths if p),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "labutils.backends.sidecar"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._job = json.dumps(job)

    def verdict(self) -> Verdict | str:
        """The verdict with recorded accesses, or a sentence on why there is none."""
        try:
            answer, noise = self._process.communicate(self._job, timeout=TIME_LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            return "the recording process took too long"
        try:
            return Verdict.from_json(json.loads(answer.splitlines()[-1]))
        except (ValueError, KeyError, IndexError, TypeError):
            return f"the recording process failed: {noise.strip().splitlines()[-1:] or ['no message']}"


def main() -> None:
    job = json.load(sys.stdin)
    from .. import exercise
    from ..evaluate import evaluate

    fn = load(job["module"])[job["entry"]]
    verdict = evaluate(exercise.get(job["exercise"]), fn, seed=job["seed"], hidden=job["hidden"])
    print("\n" + json.dumps(verdict.to_json()))


if __name__ == "__main__":
    main()
