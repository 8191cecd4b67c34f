"""Running learner's code in a forked child: whatever it does to memory or to time, the notebook stays alive.

The child inherits the learner's functions and the shared memory of the buffers; results come back line by line, so that
what was found before a crash is kept.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator

from .errors import TimeLimit

GRACE = 2.0
"""Seconds between asking learner's code to stop and killing its process."""

PRINT_LIMIT = 2000


@contextlib.contextmanager
def alarm(seconds: float):
    """Raise TimeLimit in this thread's Python code after `seconds`. Only the main thread can take signals."""

    def ring(signum, frame):
        raise TimeLimit

    try:
        old = signal.signal(signal.SIGALRM, ring)
    except (ValueError, AttributeError):  # not the main thread, or Windows: no limit rather than no check
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


class Printed(io.StringIO):
    """Keeps the first PRINT_LIMIT characters that learner's code prints."""

    def write(self, text):
        room = PRINT_LIMIT - self.tell()
        if room > 0:
            super().write(text[:room] + ("\n… (more was printed)" if len(text) > room else ""))
        return len(text)


def fork(jobs: list[Callable[[], dict]], time_limit: float) -> Iterator[dict | str]:
    """Run the jobs one after another in one child; yield the dict of each, or "timeout" / "died: why" and stop.

    A job must return a dict of plain JSON values. The child never returns from here.
    """
    receive, send = os.pipe()
    sys.stdout.flush()
    gc.freeze()  # copy-on-write: the child's collector must not touch the parent's pages
    pid = os.fork()
    if pid == 0:
        _work(jobs, send, receive, time_limit)
    gc.unfreeze()
    os.close(send)
    try:
        yield from _collect(pid, receive, len(jobs), time_limit)
    finally:
        os.close(receive)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _work(jobs, send: int, receive: int, time_limit: float) -> None:
    status = 1
    try:
        os.close(receive)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):  # C code that prints must not write into the parent's streams
            os.dup2(null, fd)
        import torch

        torch.set_num_threads(1)  # OpenMP's worker threads did not survive the fork
        for job in jobs:
            with alarm(time_limit):
                result = job()
            os.write(send, json.dumps(result).encode() + b"\n")
        status = 0
    except Exception:  # learner's exceptions are results already: this one is ours
        os.write(send, json.dumps({"defect": traceback.format_exc()}).encode() + b"\n")
    finally:
        os._exit(status)


def _collect(pid: int, receive: int, count: int, time_limit: float) -> Iterator[dict | str]:
    pending, done = b"", 0
    deadline = time.monotonic() + time_limit + GRACE
    while done < count:
        ready, _, _ = select.select([receive], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            yield "timeout"
            return
        chunk = os.read(receive, 1 << 16)
        if not chunk:
            _, status = os.waitpid(pid, 0)
            yield "died: " + _cause_of_death(status)
            return
        pending += chunk
        while b"\n" in pending:
            line, pending = pending.split(b"\n", 1)
            done += 1
            deadline = time.monotonic() + time_limit + GRACE
            result = json.loads(line)
            if "defect" in result:
                raise RuntimeError(f"labutils failed in the child process:\n{result['defect']}")
            yield result


def _cause_of_death(status: int) -> str:
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return {
            "SIGSEGV": "a wild memory access (SIGSEGV)",
            "SIGKILL": "it was killed, perhaps for memory (SIGKILL)",
        }.get(name, name)
    return f"it left with exit code {os.WEXITSTATUS(status)}"
