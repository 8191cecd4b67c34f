"""A job's monitor: the process that starts it, watches what all its processes hold together, and ends them.

Limits of the kernel's (`resource`) hold for each process alone, so a job of many could hold many times as much. Where
the judge can give a job a cgroup of its own, the kernel counts too (`grader/judge/cgroups.py`).
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from .namespaces import PR_SET_PDEATHSIG, libc

LOOK_EVERY = 0.1
"""Seconds between two looks. A core fills about a gigabyte in a second, so a job is caught within about 100 MB."""

OWN_FOLDERS = ("/scratch", "/tmp", "/dev/shm")
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
FIRST_TO_GO = "900"
"""oom_score_adj: where the machine runs out of memory, the kernel ends a job before anything of ours."""


@dataclass(frozen=True)
class Bounds:
    """Limits of a job. `each`: RLIMIT_… and most, of each process. `beyond`: bytes of address space that a process may
    take beyond what the program has when it starts (0: no such limit). `memory` and `tasks`: bytes, and processes with
    their threads, of all together. `seconds`: of CPU time of all together, and of sleep (see `Clock`)."""

    each: tuple[tuple[int, int], ...]
    beyond: int
    memory: int
    tasks: int
    seconds: float

    @classmethod
    def from_json(cls, payload: dict) -> Bounds:
        return cls(**{**payload, "each": tuple((what, most) for what, most in payload["each"])})

    def bind(self) -> None:
        """Bind this process and its children."""
        for what, most in self.each:
            resource.setrlimit(what, (most, most))

    def bind_beyond(self) -> None:
        """Bind its address space, beyond what it has now. Reads /proc."""
        if self.beyond:
            with open("/proc/self/statm") as f:
                soft = int(f.read().split()[0]) * PAGE + self.beyond
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (soft if hard < 0 else min(soft, hard), hard))


@dataclass(frozen=True)
class Process:
    """One process of a job. `own` and `children`: seconds of CPU time that it used, and that those used which it has
    waited for. `awake`: one of its threads runs, or would if it had a core."""

    pid: int
    began: int
    threads: int
    own: float
    children: float
    awake: bool


class Clock:
    """A job's own time, from looks at its processes: what they used of the CPUs, and how long all of them slept.

    The time in which one waits for a core is the machine's, and the time in which the job waits for the judge is the
    judge's: neither counts, so that no mark depends on what else the machine has to do.
    """

    def __init__(self):
        self.cpu = self.asleep = 0.0
        self._own: dict[tuple[int, int], float] = {}
        self._gone, self._at = 0.0, time.monotonic()

    def look(self, found: list[Process], owed: bool) -> None:
        """Count the time since the last look. `owed`: it is the judge's turn."""
        own = {(p.pid, p.began): p.own for p in found}
        self._gone += sum(seconds for one, seconds in self._own.items() if one not in own)
        self._own = own
        # who ignores its children is told of no CPU time of theirs, and who is born and ends between two looks is seen
        # by nobody but its parent
        seen, told = self._gone + sum(own.values()), sum(p.own + p.children for p in found)
        used, self.cpu = self.cpu, max(self.cpu, seen, told)
        used = self.cpu - used
        now = time.monotonic()
        passed = min(now - self._at, 2 * LOOK_EVERY)  # a look that comes late waited for a core itself
        self._at = now
        if not owed and not any(p.awake for p in found):
            self.asleep += max(0.0, passed - used)


class Turn:
    """Whose turn it is, by a job's input and output: the judge's until it has sent all of the job, and while answers
    wait to be read."""

    def __init__(self, job: int, answers: int):
        self._job, self._answers, self.begun = job, answers, False

    def judges(self) -> bool:
        if not self.begun:
            self.begun = _ready(self._job, select.POLLRDHUP)
        return not self.begun or not _ready(self._answers, select.POLLOUT)


def _ready(fd: int, event: int) -> bool:
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(0))


def run(work: Callable[[], None], bounds: Bounds, in_own_folders: bool) -> None:
    """Fork a process that does the work, wait for it, and tell on standard error how it ended, unless by itself."""
    processes = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)  # the job may put another /proc in its place
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as f:
        f.write(FIRST_TO_GO)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    job = os.fork()
    if job == 0:
        os.close(processes)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        bounds.bind()
        work()
        os._exit(0)
    # the answers stay open here: their end is not heard before why they end
    why = _watch(job, bounds, processes, OWN_FOLDERS if in_own_folders else ())
    if why:
        os.write(2, f"{why}\n".encode())


def _watch(job: int, bounds: Bounds, processes: int, folders: tuple[str, ...]) -> str:
    """Why the job ended, if not by itself."""
    clock, turn = Clock(), Turn(0, 1)
    while True:
        signal.sigtimedwait([signal.SIGCHLD], LOOK_EVERY)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)  # without namespaces orphans come here too
            except ChildProcessError:
                return ""
            if pid == job:
                return f"killed by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else ""
            if pid == 0:
                break
        found = below(processes, job)
        owed = turn.judges()
        if not turn.begun:
            clock = Clock()
        clock.look(found, owed)
        if why := overtime(clock, bounds) or excess(found, bounds, processes, folders):
            _end(job, processes)
            return why


def overtime(clock: Clock, bounds: Bounds) -> str:
    """Which of its times the job has spent, in words."""
    if clock.cpu > bounds.seconds:
        return f"it used more than {bounds.seconds:.0f} s of CPU time"
    if clock.asleep > bounds.seconds:
        return f"it slept for more than {bounds.seconds:.0f} s"
    return ""


def excess(found: list[Process], bounds: Bounds, processes: int, folders: tuple[str, ...]) -> str:
    """What the job has too much of, in words."""
    tasks = sum(p.threads for p in found)
    if tasks > bounds.tasks:
        return f"it started more than {bounds.tasks} processes and threads"
    files = sum(_used(folder) for folder in folders)
    if files + sum(_resident(processes, p.pid) for p in found) > bounds.memory:
        held = files + sum(_held(processes, p.pid) for p in found)  # takes longer, and counts nothing twice
        if held > bounds.memory:
            return f"all its processes together held more than {bounds.memory >> 20} MB of memory"
    return ""


def below(processes: int, root: int) -> list[Process]:
    """A process and all that came from it, read from the folder /proc that is open."""
    children: dict[int, list[Process]] = {}
    found: list[Process] = []
    for name in os.listdir(processes):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = _text(processes, f"{name}/stat").rpartition(")")[2].split()
                own, waited_for = (sum(map(int, fields[k : k + 2])) / TICKS for k in (11, 13))
                threads, began = int(fields[17]), int(fields[19])
                one = Process(int(name), began, threads, own, waited_for, fields[0] == "R")
                children.setdefault(int(fields[1]), []).append(one)
                if one.pid == root:
                    found = [one]
    for one in found:  # grows meanwhile
        found += children.get(one.pid, ())
    return [replace(p, awake=p.awake or p.threads > 1 and _a_thread_runs(processes, p.pid)) for p in found]


def _a_thread_runs(processes: int, pid: int) -> bool:
    with contextlib.suppress(OSError, IndexError):
        folder = os.open(f"{pid}/task", os.O_RDONLY | os.O_DIRECTORY, dir_fd=processes)
        try:
            return any(
                _text(folder, f"{name}/stat").rpartition(")")[2].split()[0] == "R" for name in os.listdir(folder)
            )
        finally:
            os.close(folder)
    return False


def _end(job: int, processes: int) -> None:
    """In a PID namespace the death of the first process ends all; elsewhere each is ended, until none is left."""
    living = below(processes, job)
    while living:
        for one in living:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        living = [one for one in below(processes, os.getpid()) if one.pid != os.getpid()]


def _resident(processes: int, pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return _numbers(processes, f"{pid}/statm")[1] * PAGE
    return 0


def _held(processes: int, pid: int) -> int:
    """Bytes that a process holds, its share of those that it has with others; without what files on disk lend it."""
    try:
        lines = dict(line.split(":", 1) for line in _text(processes, f"{pid}/smaps_rollup").splitlines()[1:])
        return 1024 * sum(int(lines[k].split()[0]) for k in ("Pss_Anon", "Pss_Shmem"))
    except (OSError, ValueError, KeyError):
        return _resident(processes, pid)


def _used(folder: str) -> int:
    with contextlib.suppress(OSError):
        found = os.statvfs(folder)
        return (found.f_blocks - found.f_bfree) * found.f_frsize
    return 0


def _numbers(processes: int, path: str) -> list[int]:
    return [int(n) for n in _text(processes, path).split()]


def _text(processes: int, path: str) -> str:
    fd = os.open(path, os.O_RDONLY, dir_fd=processes)
    with open(fd, encoding="ascii", errors="replace") as f:
        return f.read()
