"""A worker process seen from outside: jobs go in from any thread, results come back, and a death is noticed."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLong
from pathlib import Path

from grader.engines import ATTEMPTS, WORK

ROOT = Path(__file__).resolve().parents[2]

LONGEST = 3600.0
"""Seconds after which a job is given up: far more than all the limits inside a job add up to."""

END_LIMIT = 2.0
"""Seconds for a process to remove its folders when it is asked to end; a tenth of a second is typical."""

KEPT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 27), "MALLOC_TRIM_THRESHOLD_": str(1 << 29)}
"""For glibc: the arrays of one job leave their memory to the next. Else each begins with a fault for every page, which
is an eighth of what a worker costs."""


class Lost(RuntimeError):
    """The worker process ended, or gave no answer; the message says which."""


class WorkerProcess:
    """A worker process that does `slots` jobs at a time; a new one is started when it has ended.

    `env`: added to its environment, such as the GPU it is pinned to.
    """

    def __init__(self, slots: int = 1, env: dict[str, str] | None = None, work: str = WORK):
        self.slots, self.env, self.work = slots, env or {}, work
        self._lock, self._closed, self._told = threading.Lock(), False, 0.0
        self._process: subprocess.Popen | None = None
        self._waiting: dict[int, Future] = {}
        self._count = 0

    def start(self) -> None:
        """Start the process now, so that it imports while there is nothing to do yet."""
        with self._lock:
            self._living()

    def do(self, job: dict) -> dict:
        """The result of a job. Raises Lost."""
        answer: Future = Future()
        with self._lock:
            process = self._living()
            self._count += 1
            number = self._count
            self._waiting[number] = answer
            with contextlib.suppress(OSError):  # the reader of its answers tells of its death
                process.stdin.write(json.dumps({"number": number, "job": job}).encode() + b"\n")
                process.stdin.flush()
        try:
            return answer.result(timeout=LONGEST)
        except TooLong:
            process.kill()
            raise Lost(f"did not answer within {LONGEST:.0f} s") from None

    def persist(self, job: dict) -> dict:
        """The result of a job, tried again after a crash: alone, because another job may have been the cause."""
        try:
            return self.do(job)
        except Lost as lost:
            why = lost
        for _ in range(ATTEMPTS - 1):
            if self._closed:
                break
            with contextlib.closing(WorkerProcess(1, self.env, self.work)) as alone:
                try:
                    return alone.do(job)
                except Lost as lost:
                    why = lost
        return {"lost": f"the process that graded it {why}, {ATTEMPTS} times"}

    def end(self) -> None:
        """Tell the process to end, whatever it is doing, and do not wait for that."""
        with self._lock:
            if not self._closed:
                self._closed, self._told = True, time.monotonic()
                if self._process:
                    with contextlib.suppress(OSError):
                        self._process.stdin.close()

    def close(self) -> None:
        """End the process: by the end of its input, so that it leaves nothing behind, or a moment later by force."""
        self.end()
        if self._process:
            try:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(max(0.0, self._told + END_LIMIT - time.monotonic()))
            finally:
                self._process.kill()
                self._process.wait()

    def _living(self) -> subprocess.Popen:
        if self._closed:
            raise Lost("was ended")
        if self._process is None or self._process.poll() is not None:
            errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by the reader)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "grader.engines.worker", str(self.slots), self.work],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                env=_environment(self.env),
                start_new_session=True,  # Ctrl-C is for the process that grades, which ends this one
            )
            waiting = self._waiting = {}
            reader = threading.Thread(target=_read, args=(self._process, errors, waiting), daemon=True)
            reader.start()
        return self._process


def _environment(more: dict[str, str]) -> dict[str, str]:
    # PyTorch's threads wait for each other by spinning: more of them than cores cost a fifth of all time.
    path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH")) if p)
    return {"OMP_NUM_THREADS": "1", **KEPT_MEMORY, **os.environ, "PYTHONPATH": path, **more}


def _read(process: subprocess.Popen, errors, waiting: dict[int, Future]) -> None:
    """Hand out results until the process ends, then tell everybody who still waits."""
    with process.stdout, errors:
        for line in process.stdout:
            try:
                payload = json.loads(line)
            except ValueError:  # it died in the middle of a line
                break
            waiting.pop(payload["number"]).set_result(payload["result"])
        code = process.wait()
        errors.seek(0, os.SEEK_END)
        errors.seek(max(0, errors.tell() - 2000))
        lines = errors.read().decode(errors="replace").strip().splitlines()
        with contextlib.suppress(OSError):
            process.stdin.close()
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    for number in list(waiting):
        waiting.pop(number).set_exception(Lost(how + (f" ({lines[-1][:200]})" if code > 0 and lines else "")))
