"""The engine for clusters that forbid open ports: plain `sbatch --array`, with a folder that all nodes see between.

The jobs are written into OUT/exchange, an array of workers takes them one by one (`array_worker.py`), and results are
picked up as they appear. When all workers of a round are gone and work is left, a new round does it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from grader.engines import ATTEMPTS, WORK, NoEngine
from grader.engines.array_worker import put

ROOT = Path(__file__).resolve().parents[2]
LOOK_EVERY, ASK_EVERY = 0.5, 5.0
"""Seconds between two looks for results, and between two questions to Slurm."""


def open_engine(workers: int, out: Path, work: str = WORK, slurm: list[str] | None = None, **_) -> ArrayEngine:
    if shutil.which("sbatch") is None:
        raise NoEngine("The array engine needs Slurm's sbatch command, which was not found.")
    return ArrayEngine(workers, out / "exchange", work, slurm or [])


class ArrayEngine:
    """`options`: further ones for sbatch, such as --partition=gpu or --gres=gpu:1."""

    def __init__(self, workers: int, folder: Path, work: str, options: list[str]):
        self.workers, self.folder, self.options, self._work = workers, folder.resolve(), options, work
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("jobs", "results", "claims", "log"):
            (self.folder / name).mkdir(mode=0o700, parents=True)
        self.folder.chmod(0o700)  # jobs hold hidden cases
        self._array: str | None = None
        self._keys: dict[str, str] = {}

    def run(self, jobs: Iterable[dict]) -> Iterator[tuple[str, dict]]:
        for number, job in enumerate(jobs):
            name = f"{number:05}-{hashlib.sha256(job['key'].encode()).hexdigest()[:8]}"
            self._keys[name] = job["key"]
            put(self.folder / "jobs" / f"{name}.json", job)
        for attempt in range(ATTEMPTS):
            if not self._keys:
                return
            last = attempt == ATTEMPTS - 1  # then each has a worker of its own: nobody dies of another's
            put(self.folder / "work.json", {"work": self._work, "most": 1 if last else None})
            self._submit(len(self._keys) if last else min(self.workers, len(self._keys)))
            yield from self._round()
        for name in list(self._keys):
            yield self._keys.pop(name), {"lost": f"the workers that graded it ended, {ATTEMPTS} times"}

    def running(self) -> dict[str, float]:
        now, found = time.time(), {}
        for name, key in list(self._keys.items()):
            try:
                claim = json.loads((self.folder / "claims" / name).read_text())
                found[key] = now - claim["since"]
            except (OSError, ValueError):
                continue
        return found

    def close(self) -> None:
        self._cancel()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _submit(self, count: int) -> None:
        shutil.rmtree(self.folder / "claims")
        (self.folder / "claims").mkdir(mode=0o700)
        command = [sys.executable, "-m", "grader", "worker", str(self.folder)]
        script = f"cd {shlex.quote(str(ROOT))} && exec {shlex.join(command)} $SLURM_ARRAY_TASK_ID"
        line = ["sbatch", "--parsable", f"--array=0-{count - 1}", "--job-name=grader"]
        line += [f"--output={self.folder}/log/%A_%a.txt", *self.options, f"--wrap={script}"]
        done = subprocess.run(line, capture_output=True, text=True, env=_environment())
        if done.returncode != 0:
            raise NoEngine(f"sbatch failed: {(done.stderr or done.stdout).strip()[-300:]}")
        self._array = done.stdout.strip().split(";")[0]

    def _round(self) -> Iterator[tuple[str, dict]]:
        asked, gone = time.monotonic(), False
        while self._keys:
            found = [name for name in self._keys if (self.folder / "results" / f"{name}.json").exists()]
            for name in found:
                path = self.folder / "results" / f"{name}.json"
                payload = json.loads(path.read_text(encoding="utf-8"))
                for used in (path, self.folder / "jobs" / f"{name}.json"):
                    used.unlink()  # the journal has it next; a large class would fill the disk twice
                yield self._keys.pop(name), payload["result"]
            if found:
                continue
            if gone:
                return
            time.sleep(LOOK_EVERY)
            if time.monotonic() - asked > ASK_EVERY:
                asked, gone = time.monotonic(), not self._lives()

    def _lives(self) -> bool:
        """Whether any worker of this round is still waiting or running."""
        line = ["squeue", "--noheader", "--jobs", self._array, "--format=%i"]
        done = subprocess.run(line, capture_output=True, text=True)
        # an id that Slurm has forgotten is an error; so is a controller that does not answer, and it may come back
        if done.returncode != 0:
            return "Invalid job id" not in done.stderr
        return bool(done.stdout.strip())

    def _cancel(self) -> None:
        if self._array and self._lives():
            subprocess.run(["scancel", self._array], capture_output=True)
        self._array = None


def _environment() -> dict[str, str]:
    """sbatch hands this on to the workers; those of a job that runs already would confuse them."""
    path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH")) if p)
    kept = {k: v for k, v in os.environ.items() if k == "SLURM_CONF" or not k.startswith("SLURM_")}
    return {"OMP_NUM_THREADS": "1", **kept, "PYTHONPATH": path}
