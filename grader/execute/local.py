"""Keep several workers busy on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import secrets
import selectors
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from grader.execute.notebook import Limits, Log

ROOT = Path(__file__).resolve().parents[2]
GRACE = 60
"""Seconds beyond a notebook's own limit, for kernels that start and stop, before its worker is given up."""


@dataclass(frozen=True)
class Executed:
    """A notebook that was run, or, with `problem`, why it could not be."""

    key: str
    notebook: NotebookNode | None
    log: Log
    problem: str = ""


def kernel_environment(seed: int, workers: int, judged: bool = False) -> dict[str, str]:
    """The environment of notebooks that are graded: this one's, with the secret seed of hidden cases, or with word that
    a judge decides elsewhere, so that checks need not."""
    path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH")) if p)
    # PyTorch's threads wait for each other by spinning: more of them than cores cost a fifth of all time.
    threads = str(max(1, (os.cpu_count() or 1) // workers))
    return {
        "OMP_NUM_THREADS": threads,
        **os.environ,
        "PYTHONPATH": path,
        **({"GPULAB_JUDGED": "1"} if judged else {"GPULAB_SEED": str(seed)}),
        "NBGRADER_EXECUTION": "autograde",
    }


def draw_seed() -> int:
    """A secret seed: drawn when the submissions are frozen, so that no submission can know its hidden cases."""
    return secrets.randbelow(2**31)


def run_all(
    jobs: Iterable[tuple[str, NotebookNode]],
    seed: int,
    workers: int = 2,
    limits: Limits | None = None,
    judged: bool = False,
) -> Iterator[Executed]:
    """Run notebooks, `workers` at a time, and yield each when it is done. Jobs start in the order given: put those
    that take longest first, so that no worker is left alone with one in the end."""
    limits = limits or Limits()
    waiting: queue.SimpleQueue = queue.SimpleQueue()
    done: queue.SimpleQueue = queue.SimpleQueue()
    count = 0
    for key, notebook in jobs:
        waiting.put((key, {"notebook": nbformat.writes(notebook), "limits": asdict(limits)}))
        count += 1
    env = kernel_environment(seed, workers, judged)
    stop = threading.Event()
    threads = [
        threading.Thread(target=_serve, args=(waiting, done, env, limits, stop), daemon=True)
        for _ in range(min(workers, count))
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in range(count):
            yield done.get()
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _serve(waiting, done, env, limits: Limits, stop: threading.Event) -> None:
    """One worker process at a time, as long as there are jobs; a new one after a death."""
    worker = None
    try:
        while not stop.is_set():
            try:
                key, job = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                worker = worker or _Worker()
                result = worker.ask({**job, "env": env}, limits.notebook + GRACE, stop)
            except (OSError, ValueError, _Lost) as problem:
                done.put(Executed(key, None, Log(), f"the process that ran the notebook {problem}"))
                if worker:
                    worker.kill()
                worker = None
                continue
            done.put(_executed(key, result))
    finally:
        if worker:
            worker.kill()


def _executed(key: str, result: dict) -> Executed:
    if "defect" in result:
        last = result["defect"].strip().splitlines()[-1]
        return Executed(key, None, Log(), f"the grader could not run the notebook: {last}")
    return Executed(key, nbformat.reads(result["notebook"], as_version=4), Log(**result["log"]))


class _Lost(Exception):
    """The worker is gone or took too long."""


class _Worker:
    def __init__(self):
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the worker)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "grader.execute.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            cwd=ROOT,
        )

    def ask(self, job: dict, seconds: float, stop: threading.Event) -> dict:
        try:
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise _Lost(f"ended: {self._last_words()}") from None
        line, fd = bytearray(), self.process.stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(fd, selectors.EVENT_READ)
            left = seconds
            while not line.endswith(b"\n"):
                if stop.is_set() or left <= 0:
                    raise _Lost(f"did not answer within {seconds:.0f} s")
                if not selector.select(timeout=1):
                    left -= 1
                    continue
                chunk = os.read(fd, 1 << 20)
                if not chunk:
                    raise _Lost(f"ended: {self._last_words()}")
                line += chunk
        return json.loads(bytes(line))

    def _last_words(self) -> str:
        code = self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return f"exit code {code}" + (f", {lines[-1]}" if lines else "")

    def kill(self) -> None:
        """End the process; kernels that it still has notice and end themselves."""
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(OSError):  # what it never read
            self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()
