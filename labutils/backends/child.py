"""Running learner's code in a forked child: whatever it does to memory or to time, the notebook stays alive.

The child inherits the learner's functions and the shared memory of the buffers; results come back line by line, so that
what was found before a crash is kept.
"""

from __future__ import annotations

import builtins
import contextlib
import faulthandler
import gc
import io
import json
import math
import os
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from . import Problem, errors
from .errors import TimeLimit

GRACE = 2.0
"""Seconds between asking learner's code to stop and killing its process."""

PATIENCE = 4
"""The limit is of CPU time, so that an honest kernel passes on a busy machine too; this many times of it by the clock
end what only waits."""

STARVED = 0.01
"""Who gets this share of the clock's time or more does not wait: the machine is busy with something else."""

WINDOWS = 10
"""How many times PATIENCE such a process has at most."""

PRINT_LIMIT = 2000
"""Characters kept of what learner's code prints."""

MEMORY_LIMIT = 4 * 2**30
"""Bytes that learner's code may allocate in the child; the cases of the course need a few hundred megabytes."""


class Window:
    """A span by the clock that begins anew, up to WINDOWS times, for a process that is starved and does not wait.

    `used` tells the process's CPU time in seconds, or None where the system does not say; at `limit` seconds of it
    nothing begins anew.
    """

    def __init__(self, seconds: float, used: Callable[[], float | None], limit: float = math.inf):
        self.seconds, self._used = seconds, used
        self._left, self._before = WINDOWS, used()
        self._end = limit + (self._before or 0.0)

    def begins_anew(self) -> bool:
        """Asked at the end of a window."""
        before, now = self._before, self._used()
        self._left, self._before = self._left - 1, now
        if before is None or now is None:
            return False
        return self._left > 0 and now < self._end and now - before >= STARVED * self.seconds


def _used_by(pid: int) -> float | None:
    """CPU time of another process in s."""
    try:
        return time.clock_gettime(~pid << 3 | 2)  # Linux's clock of a process, see clock_getcpuclockid(3)
    except (OSError, AttributeError, OverflowError):
        return None


@contextlib.contextmanager
def alarm(seconds: float, cpu_seconds: float | None = None):
    """Raise TimeLimit in this thread's Python code after `seconds`, or earlier after so many of CPU time. Rings once.

    With `cpu_seconds`, `seconds` is for who waits: a process that gets few cycles has longer. Only the main thread can
    take signals.
    """
    window = Window(seconds, time.process_time)

    def ring(signum, frame):
        if signum == signal.SIGALRM and cpu_seconds is not None and window.begins_anew():
            signal.setitimer(signal.ITIMER_REAL, seconds)
            return
        stop()
        raise TimeLimit

    def stop():
        for _, timer, _ in clocks:
            signal.setitimer(timer, 0)

    try:
        clocks = [(signal.SIGALRM, signal.ITIMER_REAL, seconds)]
        if cpu_seconds is not None:
            clocks.append((signal.SIGPROF, signal.ITIMER_PROF, cpu_seconds))
        before = [(number, signal.signal(number, ring)) for number, _, _ in clocks]
    except (ValueError, AttributeError):  # not the main thread, or Windows: no limit rather than no check
        yield
        return
    for _, timer, limit in clocks:
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        stop()
        for number, handler in before:
            signal.signal(number, handler)


class Printed(io.StringIO):
    """Keeps the first PRINT_LIMIT characters that learner's code prints."""

    cut = False

    def write(self, text):
        room = PRINT_LIMIT - self.tell()
        super().write(text[: max(room, 0)])
        if len(text) > room and not self.cut:
            self.cut = True
            super().write("\n… (more was printed)")
        return len(text)


@dataclass
class Attempt:
    """What a call of learner's code came to."""

    returned: Any = None
    problem: Problem | None = None
    printed: str = ""
    seconds: float = 0.0


def attempt(fn: Callable, arguments: Iterable) -> Attempt:
    """Call learner's code with its output captured and any exception explained."""
    result, printed, begin = Attempt(), Printed(), time.perf_counter()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            result.returned = fn(*arguments)
        except (Exception, TimeLimit, SystemExit) as e:
            result.problem = errors.explain(e)
    result.printed, result.seconds = printed.getvalue(), time.perf_counter() - begin
    return result


def run(jobs: list[Callable[[], dict]], time_limit: float) -> Iterator[dict | str]:
    """`fork` where the system can, else the jobs in this process: no protection rather than no check."""
    if sys.platform == "linux":
        yield from fork(jobs, time_limit)
        return
    for job in jobs:
        with alarm(time_limit):
            yield job()


def fork(jobs: list[Callable[[], dict]], time_limit: float) -> Iterator[dict | str]:
    """Run the jobs one after another in one child; yield the dict of each, or "timeout" / "died: why" and stop.

    A job must return a dict of plain JSON values. The child never returns from here.
    """
    receive, send = os.pipe()
    sys.stdout.flush()
    gc.freeze()  # copy-on-write: the child's collector must not touch the parent's pages
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of threads, which the child does not use
        pid = os.fork()
    if pid == 0:
        _work(jobs, send, receive, time_limit)
    gc.unfreeze()
    os.close(send)
    try:
        yield from _collect(pid, receive, len(jobs), time_limit)
    finally:
        os.close(receive)
        with contextlib.suppress(PermissionError):  # the judge's cage denies signals, and ends the child with the job
            os.kill(pid, signal.SIGKILL)  # not reaped yet, so the number is still its own
            os.waitpid(pid, 0)


def end(message: str) -> Problem:
    """The problem behind a "timeout" or a "died: why"."""
    kind, _, why = message.partition(": ")
    return Problem(kind, f"the process that ran your code died: {why}" if why else "the code did not come to an end")


def _work(jobs, send: int, receive: int, time_limit: float) -> None:
    status = 1
    try:
        os.close(receive)
        _prepare()
        for job in jobs:
            try:
                with alarm(PATIENCE * time_limit, time_limit):
                    result = job()
            except TimeLimit:  # rang outside the learner's code
                result = "timeout"
            os.write(send, json.dumps(result).encode() + b"\n")
        status = 0
    except Exception:  # learner's exceptions are results already: this one is ours
        os.write(send, json.dumps({"defect": traceback.format_exc()}).encode() + b"\n")
    finally:
        os._exit(status)


def _prepare() -> None:
    """Cut the child off from what it shares with the notebook, and bound its memory."""
    import resource

    import torch

    faulthandler.disable()  # a notebook's would write a crash to the parent's stderr
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):  # C code that prints must not write into the parent's streams
        os.dup2(null, fd)
    builtins.input = _no_input  # a notebook's own would talk to the browser over the parent's sockets
    torch.set_num_threads(1)  # OpenMP's worker threads did not survive the fork
    try:
        with open("/proc/self/statm") as f:
            size = int(f.read().split()[0]) * resource.getpagesize()
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = size + MEMORY_LIMIT if hard == resource.RLIM_INFINITY else min(size + MEMORY_LIMIT, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    except (OSError, ValueError):  # a sandbox that shows no processes, or lets nobody set limits, has set its own
        return


def _no_input(prompt: object = "") -> str:
    raise EOFError("input() waits for somebody to type; take everything from the arguments")


def _collect(pid: int, receive: int, count: int, time_limit: float) -> Iterator[dict | str]:
    def begin() -> Window:
        return Window(PATIENCE * time_limit + GRACE, lambda: _used_by(pid), time_limit + GRACE)

    pending, done, window = b"", 0, begin()
    deadline = time.monotonic() + window.seconds
    while done < count:
        ready, _, _ = select.select([receive], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            if window.begins_anew():
                deadline = time.monotonic() + window.seconds
                continue
            yield "timeout"
            return
        chunk = os.read(receive, 1 << 16)
        if not chunk:
            yield "died: " + _cause_of_death(os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT))
            return
        pending += chunk
        while b"\n" in pending:
            line, pending = pending.split(b"\n", 1)
            done += 1
            window = begin()
            deadline = time.monotonic() + window.seconds
            result = json.loads(line)
            if "defect" in result:
                why = result["defect"].rstrip().rpartition("\n")[2]
                raise RuntimeError(f"labutils failed in the child process: {why}\n{result['defect']}")
            yield result
            if isinstance(result, str):
                return


def _cause_of_death(info) -> str:
    if info.si_code == os.CLD_EXITED:
        return f"it ended itself with exit code {info.si_status}, as os._exit does"
    name = signal.Signals(info.si_status).name
    return {
        "SIGSEGV": "a wild memory access (SIGSEGV)",
        "SIGKILL": "it was killed, perhaps for memory (SIGKILL)",
    }.get(name, name)
