"""Reading what a submission holds without parsing it here: a limited child reads, and this side takes a small answer.

A parser can be brought down by the text that it reads: by deep nesting, by a pattern that takes quadratic time, by more
than the memory holds. So notebooks, launch plans and kernels' texts are read in a sandbox (`inside/read.py`), with
little time and memory, and an answer has at most MOST_ANSWER bytes of JSON in a form that is checked here.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grader.judge import isolation
from grader.judge.isolation import PACKAGE
from grader.judge.sandbox import Died, Sandbox, SandboxLimits, allowed, bubblewrap

PROGRAMS = {"grader.judge.reading": "launch", "grader.intake.reading": "read"}
"""In which program's sandbox a reader works: in one that has imported what it needs."""

LIMITS = SandboxLimits(seconds=30, cpu_seconds=6)
"""An honest notebook takes a tenth of a second."""

MOST_ANSWER = 12 << 20
"""Bytes of JSON in an answer."""


MOST_LINE = 4 << 20
"""Bytes of one answer of a sandbox that ran a submission's kernels."""

DEEPEST = 40
"""Levels of lists and tables in an answer; honest ones have ten."""


class Unread(ValueError):
    """What a submission holds could not be read within the limits; the message says why, as half a sentence."""


def read(reader: str, payload: dict, content: int, limits: SandboxLimits = LIMITS) -> Iterator[Any]:
    """What the reader, a module's name, says of an open file. Raises Unread; `payload` is JSON for the reader."""
    total, box = 0, (Sandbox if bubblewrap() else _InChild)(PROGRAMS[reader], limits, content)
    box.reader = reader
    try:
        for line in box.answers(json.dumps({"reader": reader, **payload}).encode()):
            if (total := total + len(line)) > MOST_ANSWER:
                raise Unread(f"it holds more than {MOST_ANSWER >> 20} MB of text")
            yield parsed(line, MOST_ANSWER)
    except Died as e:
        raise Unread(f"it could not be read within {limits.cpu_seconds} s and 1 GB ({str(e)[:100]})") from None
    except (json.JSONDecodeError, RecursionError):
        raise Unread("it could not be read") from None
    finally:
        box.close()


def parsed(line: bytes, most: int = MOST_LINE) -> Any:
    """JSON from a sandbox. JSONDecodeError for what is longer or deeper than any answer; time and memory are linear in
    `most`, since what is deep ends the parser."""
    if len(line) > most:
        raise json.JSONDecodeError("too long", "", 0)
    value = json.loads(line)
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(DEEPEST):
        inner = [v.values() if isinstance(v, dict) else v for v in level]
        level = [w for v in inner for w in v if isinstance(w, (dict, list))]
    if level:
        raise json.JSONDecodeError("too deep", "", 0)
    return value


@contextlib.contextmanager
def in_memory(content: bytes = b"") -> Iterator[int]:
    """A file in memory, not on a disk, with this content; by its number."""
    fd = os.memfd_create("content")
    try:
        append(fd, content)
        yield fd
    finally:
        os.close(fd)


def append(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


class _InChild(Sandbox):
    """Where there are no namespaces: a forked child with limits. It runs nothing of a submission."""

    reader = ""

    def _spawn(self, program: str, files: list[int]) -> None:
        self._files = [os.dup(fd) for fd in files]  # until the job is sent, with the reader's name

    def answers(self, job: bytes) -> Iterator[bytes]:
        _server().start(self.reader, self._files, self.limits)
        self._drop()
        yield from super().answers(job)

    def close(self) -> None:
        self._drop()
        super().close()

    def _drop(self) -> None:
        while self._files:
            os.close(self._files.pop())


class _Server:
    """The process that forks readers (`inside/read.py`)."""

    def __init__(self):
        course = isolation.course()  # it takes longest, and may be stopped: nothing of this has begun yet
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        self._folder = Path(tempfile.mkdtemp(prefix="gpulab-reader-"))
        self._process = subprocess.Popen(
            [sys.executable, "-B", "-m", f"{PACKAGE}.read", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=isolation.environment(str(self._folder), str(course), {}),
            cwd=self._folder,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        atexit.register(self.close)

    def start(self, reader: str, files: list[int], limits: SandboxLimits) -> None:
        bounds = allowed([(resource.RLIMIT_CPU, limits.cpu_seconds), (resource.RLIMIT_CORE, 0)])
        payload = {"reader": reader, "limits": bounds, "seconds": math.ceil(limits.by_the_clock)}
        with self._lock, contextlib.suppress(OSError):  # if it has ended, the job's answer ends too
            socket.send_fds(self._channel, [json.dumps(payload).encode()], files)

    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._channel.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        atexit.unregister(self.close)


_serving: _Server | None = None
_starting = threading.Lock()


def _server() -> _Server:
    global _serving
    with _starting:
        if _serving is None or not _serving.alive():
            _serving = _Server()
        return _serving
