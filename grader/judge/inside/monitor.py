"""A job's monitor: the process that starts it, watches what all its processes hold together, and ends them.

Limits of the kernel's (`resource`) hold for each process alone, so a job of many could hold many times as much. Where
the judge can give a job a cgroup of its own, the kernel counts too (`grader/judge/cgroups.py`).
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass

from .namespaces import PR_SET_PDEATHSIG, libc

LOOK_EVERY = 0.1
"""Seconds between two looks. A core fills about a gigabyte in a second, so a job is caught within about 100 MB."""

OWN_FOLDERS = ("/scratch", "/tmp", "/dev/shm")
PAGE = os.sysconf("SC_PAGE_SIZE")
FIRST_TO_GO = "900"
"""oom_score_adj: where the machine runs out of memory, the kernel ends a job before anything of ours."""


@dataclass(frozen=True)
class Bounds:
    """Limits of a job. `each`: RLIMIT_… and most, of each process. `beyond`: bytes of address space that a process may
    take beyond what the program has when it starts (0: no such limit). `memory` and `tasks`: bytes, and processes with
    their threads, of all together."""

    each: tuple[tuple[int, int], ...]
    beyond: int
    memory: int
    tasks: int

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
    os.close(0)  # the answers stay open here: their end is not heard before why they end
    why = _watch(job, bounds, processes, OWN_FOLDERS if in_own_folders else ())
    if why:
        os.write(2, f"{why}\n".encode())


def _watch(job: int, bounds: Bounds, processes: int, folders: tuple[str, ...]) -> str:
    """Why the job ended, if not by itself."""
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
        if why := excess(job, bounds, processes, folders):
            _end(job, processes)
            return why


def excess(job: int, bounds: Bounds, processes: int, folders: tuple[str, ...]) -> str:
    """What the job has too much of, in words."""
    found = below(processes, job)
    tasks = sum(threads for _, threads in found)
    if tasks > bounds.tasks:
        return f"it started more than {bounds.tasks} processes and threads"
    files = sum(_used(folder) for folder in folders)
    if files + sum(_resident(processes, pid) for pid, _ in found) > bounds.memory:
        held = files + sum(_held(processes, pid) for pid, _ in found)  # takes longer, and counts nothing twice
        if held > bounds.memory:
            return f"all its processes together held more than {bounds.memory >> 20} MB of memory"
    return ""


def below(processes: int, root: int) -> list[tuple[int, int]]:
    """A process and all that came from it: (process, threads), read from the folder /proc that is open."""
    children: dict[int, list[tuple[int, int]]] = {}
    found = []
    for name in os.listdir(processes):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = _text(processes, f"{name}/stat").rpartition(")")[2].split()
                one = (int(name), int(fields[17]))
                children.setdefault(int(fields[1]), []).append(one)
                if one[0] == root:
                    found = [one]
    for pid, _ in found:  # grows meanwhile
        found += children.get(pid, ())
    return found


def _end(job: int, processes: int) -> None:
    """In a PID namespace the death of the first process ends all; elsewhere each is ended, until none is left."""
    living = below(processes, job)
    while living:
        for pid, _ in living:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        living = [one for one in below(processes, os.getpid()) if one[0] != os.getpid()]


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
