"""A process that counts what kernels cost, where no kernel's code can write.

The requests of a checked launch go through a pipe to this process, which was forked before any kernel ran. It alone can
write to the pipe by which totals come back. Neither side opens a file, starts a program or sends a signal, so all of
this works under a seccomp filter that allows pipes and forks.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import json
import os
import select
import struct
import time
import warnings
from dataclasses import dataclass

from . import build, counters
from .module import load_runtime

_CASE_END = 66
"""`record_case_end` in runtime/stream.cpp."""

PIPE_BYTES = 1 << 20


class NotCounted(RuntimeError):
    """The stream of requests ended early or made no sense; the message says which."""


@dataclass(frozen=True)
class CaseCounts:
    """What the launches of one case cost. `shared_bytes` is the most that a block of any of them had."""

    total: counters.Counters
    launches: int
    shared_bytes: int


@functools.cache
def library() -> ctypes.CDLL:
    """The runtime, loaded. Call this before giving up the right to open files or start a compiler."""
    return load_runtime(str(build.runtime(build.compiler())))


def end_case(trace: int, number: int) -> None:
    """In the process of the kernels: case `number` (from 0) is over."""
    with contextlib.suppress(BrokenPipeError):  # the counter's process has said why it gave up
        os.write(trace, struct.pack("<IIBBBBB3x", number, 0, _CASE_END, 0, 0, 0, 0))


class Counter:
    """The process that counts, and the ends of its two pipes that belong here.

    `trace` is where a launch writes (`LaunchOptions.trace`). Whatever forks the process of the kernels calls
    `only_totals` afterwards, and that process itself `only_trace`.
    """

    def __init__(self):
        runtime = library()
        requests, self.trace = os.pipe()
        self._totals, totals = os.pipe()
        stop, self._running = os.pipe()
        with contextlib.suppress(OSError, AttributeError):  # a larger pipe is faster, and not always granted
            fcntl.fcntl(self.trace, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python 3.12 warns of threads, which the child does not use
            self._pid = os.fork()
        if self._pid == 0:
            _count(runtime, (requests, totals, stop), (self.trace, self._totals, self._running))
        for fd in (requests, totals, stop):
            os.close(fd)
        self._pending = b""

    def only_trace(self) -> None:
        """In the process of the kernels: the totals are not for it."""
        os.close(self._totals)
        os.close(self._running)

    def only_totals(self) -> None:
        """In this process, when that of the kernels has been forked: its end must be the end of the stream."""
        if self.trace >= 0:
            os.close(self.trace)
            self.trace = -1

    def case(self, seconds: float) -> CaseCounts:
        """The counts of the next case. Raises NotCounted, also if they have not come after so many seconds."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._pending:
            ready, _, _ = select.select([self._totals], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise NotCounted("it did not come to an end")
            piece = os.read(self._totals, 1 << 16)
            if not piece:
                raise NotCounted("it ends early")
            self._pending += piece
        line, self._pending = self._pending.split(b"\n", 1)
        raw = json.loads(line)
        if "malformed" in raw:
            raise NotCounted(raw["malformed"])
        total = counters.collect(raw, {}, lambda number: "").total
        return CaseCounts(total, raw["launches"], raw["shared_bytes"])

    def close(self) -> None:
        """End the process, even if another process still holds the pipe to it."""
        self.only_totals()
        os.close(self._running)
        os.close(self._totals)
        os.waitpid(self._pid, 0)


def _count(runtime, ends: tuple[int, int, int], others: tuple[int, ...]) -> None:
    """The forked process. Never returns."""
    status = 1
    try:
        for fd in others:
            os.close(fd)
        runtime.simt_count(*ends)
        status = 0
    finally:
        os._exit(status)
