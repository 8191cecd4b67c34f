"""A place in which untrusted code may run: no network, no files but the tools, limits on time, memory and processes.

Where bubblewrap works the place is a set of namespaces of its own; elsewhere it is a child process with the limits
alone, and `warning()` says so. Whatever runs in it reads its job from standard input and writes its answer to standard
output; bytes go no other way, but for memory that both sides share (`memory`).
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import functools
import json
import mmap
import os
import resource
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grader.judge import cgroups, isolation
from grader.judge.isolation import PACKAGE, bubblewrap, warning
from labutils.backends import child

__all__ = ["Died", "SandboxLimits", "Memory", "Sandbox", "allowed", "bubblewrap", "end", "end_of", "warm_up", "warning"]

MOST_OUTPUT = 64 << 20
MEMORY = 16 << 30
"""Bytes of address space of a sandboxed process; PyTorch and Triton map several gigabytes without using them."""

PROCESSES = 512
"""Processes and threads of one user, counted in the sandbox's own user namespace."""


JOB_MEMORY, JOB_TASKS = 6 << 30, 256
"""Bytes, and processes with their threads, of all that a job runs together."""

PATIENCE = 20
"""Times as long by the clock a job may take as it may use: on a core that so many share it still ends by itself."""

BEYOND = {"launch": child.MEMORY_LIMIT, "objects": child.MEMORY_LIMIT, "replay": child.MEMORY_LIMIT}
"""Bytes of address space that a process of these programs may take beyond what the program has when it starts."""

PR_SET_CHILD_SUBREAPER = 36


class Died(RuntimeError):
    """What ran in the sandbox ended, or was ended, before its answer was complete; the message says why."""


@dataclass(frozen=True)
class SandboxLimits:
    """Seconds of CPU time that all processes of a job have together, and of CPU time of one process.

    `seconds` is also how long a job may sleep. What it waits for a core or for the judge does not count
    (`inside/monitor.py`), so no job ends because the machine is busy.
    """

    seconds: float = 120.0
    cpu_seconds: int = 120

    @property
    def by_the_clock(self) -> float:
        """Seconds after which a job is ended in any case, as if its monitor were gone."""
        return PATIENCE * self.seconds


WITH_EXERCISES = ("objects",)
"""Programs that see the exercises, whose references are answers."""


ENVIRONMENT = {"replay": {"TRITON_INTERPRET": "1"}}
"""What the programs of `inside` want to find in their environment."""


class _Zygote:
    """A sandbox whose one process has imported a program and forks for each job (`inside/zygote.py`)."""

    def __init__(self, program: str):
        self.program = program
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock, self._jobs = threading.Lock(), 0
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the process)
        python = [sys.executable, "-B", "-m", f"{PACKAGE}.zygote", program, str(theirs.fileno())]
        self._process = subprocess.Popen(
            [*isolation.command(isolation.course(program in WITH_EXERCISES)), *python],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self.errors,
            env=isolation.environment("/scratch", "/course", ENVIRONMENT.get(program, {})),
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        atexit.register(self.close)

    def start(self, fds: list[int], limits: SandboxLimits, group: int | None) -> int:
        """Start a job with these files as its input, output, errors and shared memory, and the list of the processes of
        its cgroup, if it has one; returns its number."""
        with self._lock:
            self._jobs += 1
            payload = {"job": self._jobs, "bounds": _bounds(self.program, limits), "cgroup": group is not None}
            fds = fds if group is None else [*fds, group]
            socket.send_fds(self._channel, [json.dumps(payload).encode()], fds)
            return self._jobs

    def kill(self, job: int) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._channel.send(json.dumps({"kill": job}).encode())

    def last_words(self) -> str:
        """What it wrote before it ended; nothing while it lives."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
            return end_of(self.errors, 300).strip()
        return ""

    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        end(self._process)


_zygotes: dict[str, _Zygote] = {}
_starting = threading.Lock()


def _zygote(program: str) -> _Zygote | None:
    """The zygote of a program, started on first use; None where namespaces cannot be had."""
    if not bubblewrap():
        return None
    with _starting:
        if program not in _zygotes or not _zygotes[program].alive():
            _zygotes[program] = _Zygote(program)
        return _zygotes[program]


def warm_up(*programs: str) -> None:
    """Start importing now what will be needed."""
    for program in programs:
        _zygote(program)


class Sandbox:
    """One job of a program in a sandbox of its own."""

    def __init__(self, program: str, limits: SandboxLimits | None = None, memory: int | None = None):
        self.limits = limits or SandboxLimits()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the sandbox)
        # a socket: unlike a pipe nobody can open its end again, so the monitor knows when all of the job is told
        theirs, self._in = socket.socketpair()
        theirs_in = theirs.detach()
        self._out, theirs_out = os.pipe()
        files = [theirs_in, theirs_out, self._errors.fileno(), *([memory] if memory is not None else [])]
        self._process = self._scratch = None
        self._zygote = _zygote(program)
        self._group = cgroups.make(JOB_MEMORY, JOB_TASKS)
        try:
            if self._zygote:
                self._job = self._zygote.start(files, self.limits, self._group and self._group.processes)
            else:
                self._spawn(program, files)
        finally:
            os.close(theirs_in)
            os.close(theirs_out)

    def _spawn(self, program: str, files: list[int]) -> None:
        """Where there are no namespaces: a child process with limits, and a folder to write to."""
        memory, course = files[3:], isolation.course(program in WITH_EXERCISES)
        warm = isolation.warm_cache()
        self._scratch = Path(tempfile.mkdtemp(prefix="gpulab-sandbox-"))
        shutil.copytree(warm, self._scratch / "gpulab")
        bounds = _bounds(program, self.limits, without=(resource.RLIMIT_NPROC,))  # would count all of this user's
        env = isolation.environment(str(self._scratch), str(course), ENVIRONMENT.get(program, {}))
        self._process = subprocess.Popen(
            [sys.executable, "-B", "-m", f"{PACKAGE}.plain", program, json.dumps(bounds), *map(str, memory)],
            stdin=files[0],
            stdout=files[1],
            stderr=files[2],
            env=env,
            cwd=self._scratch,
            pass_fds=memory,
            preexec_fn=functools.partial(_begin, self._group),
            start_new_session=True,
        )

    def answers(self, job: bytes) -> Iterator[bytes]:
        """Send the job; yield the lines of the answer as they come. Raises Died where they end without the last one.

        The last line is `{"done": true}` and is not yielded.
        """
        deadline = time.monotonic() + self.limits.by_the_clock
        self._send(job, deadline)
        pending, total = [], 0
        with selectors.DefaultSelector() as selector:
            selector.register(self._out, selectors.EVENT_READ)
            while True:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise Died(f"it took longer than {self.limits.by_the_clock:.0f} s")
                chunk = os.read(self._out, 1 << 20)
                if not chunk:
                    message = self.noise().strip()[-300:] or (self._zygote.last_words() if self._zygote else "")
                    raise Died("it ended before its answer was complete" + (f": {message}" if message else ""))
                total += len(chunk)
                if total > MOST_OUTPUT:
                    raise Died("it wrote more than any answer can hold")
                pending.append(chunk)
                if b"\n" not in chunk:  # to join what there is with each chunk would take quadratic time
                    continue
                *lines, rest = b"".join(pending).split(b"\n")
                pending = [rest]
                for line in lines:
                    if line == b'{"done": true}':
                        return
                    yield line

    def _send(self, job: bytes, deadline: float) -> None:
        self._in.setblocking(False)
        with contextlib.suppress(ConnectionError), selectors.DefaultSelector() as selector:
            selector.register(self._in, selectors.EVENT_WRITE)
            while job:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise Died("it never read its job")
                job = job[self._in.send(job[: 1 << 16]) :]
        self._in.close()

    def noise(self) -> str:
        """The end of what it wrote to stderr."""
        return end_of(self._errors, 20_000)

    def close(self) -> None:
        """End everything that runs in it, and remove what it wrote."""
        if self._errors.closed:
            return
        if self._zygote:
            self._zygote.kill(self._job)
        elif self._process:
            _kill_below(self._process.pid)
            self._process.kill()
            self._process.wait()
            shutil.rmtree(self._scratch, ignore_errors=True)
        if self._group:
            self._group.close()
        self._in.close()
        os.close(self._out)
        self._errors.close()


def end(process: subprocess.Popen) -> None:
    """End a bubblewrap with all that is in it. A mere kill in its first moments, after it has forked and before it has
    set up the namespaces, would leave a child that waits for that for ever."""
    if process.poll() is None:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        _kill_below(process.pid)
        process.kill()
    process.wait()


def end_of(file, most: int) -> str:
    """The last bytes of a file that a process writes to, as text."""
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), most, max(0, size - most)).decode(errors="replace")


def allowed(wanted: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Limits of a process (RLIMIT_…, most), lowered to what this process may set."""
    hard = {what: resource.getrlimit(what)[1] for what, _ in wanted}
    return [(what, most if hard[what] == resource.RLIM_INFINITY else min(most, hard[what])) for what, most in wanted]


def _bounds(program: str, limits: SandboxLimits, without: tuple[int, ...] = ()) -> dict:
    """What binds a job, as `inside/monitor.py` reads it."""
    wanted = [
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, 1 << 30),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 512),
        (resource.RLIMIT_NPROC, PROCESSES),
    ]
    each = allowed([(what, most) for what, most in wanted if what not in without])
    return {
        "each": each,
        "beyond": BEYOND.get(program, 0),
        "memory": JOB_MEMORY,
        "tasks": JOB_TASKS,
        "seconds": limits.seconds,
    }


def _kill_below(pid: int) -> None:
    """End every descendant of a process that is the heir of its orphans, as `_begin` and bubblewrap make it."""
    quiet = 0
    for _ in range(200):
        living = _descendants(pid)
        for one in living:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(one, signal.SIGKILL)
        quiet = 0 if living else quiet + 1
        if quiet == 3:  # one look may miss what is being born or is changing its parent
            break
        time.sleep(0.002)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    """Processes below this one that still live."""
    below: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                below.setdefault(int(parent), []).append(int(path.parent.name))
    found, new = [], [pid]
    while new:
        new = [child for p in new for child in below.get(p, ())]
        found += new
    return found


def _begin(group: cgroups.Group | None) -> None:
    """In a new process: inherit what it orphans, and be in the job's cgroup with all that comes from here."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    if group:
        with contextlib.suppress(OSError):  # the monitor watches in any case
            os.write(group.processes, b"0")


class Memory:
    """Memory that the judge shares with one sandboxed process, by the number of an open file.

    Nobody can make it smaller: to read what was cut off would end the judge (SIGBUS). Replay ends its growth too.
    """

    def __init__(self):
        fd = os.memfd_create("judge", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        self.fd, self.size, self.bytes = fd, 0, None

    def extend(self, size: int) -> int:
        """Make room for `size` more bytes, all zero; returns where they begin. What lies there already stays."""
        begin, self.size = self.size, self.size + size
        if size:
            os.ftruncate(self.fd, self.size)
            self.bytes = mmap.mmap(self.fd, self.size)
        return begin

    def close(self) -> None:
        """Give up the file; the mapping goes with its last view. More than once does no harm."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
