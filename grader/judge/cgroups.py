"""A cgroup for each job, where this process may make one: the kernel then bounds what all its processes hold together.

Needs version 2 of cgroups and a folder of them that was given to this user with the controllers for memory and
processes, as `systemd-run --user --scope -p Delegate=yes` gives one. Elsewhere the job's monitor watches alone
(`inside/monitor.py`). https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import time
from pathlib import Path

ROOT, WANTED = Path("/sys/fs/cgroup"), {"memory", "pids"}
_numbers = itertools.count()


class Group:
    """A cgroup of one job. `processes` is its list of processes, open: who writes "0" to it is in the group."""

    def __init__(self, folder: Path, limits: dict[str, int]):
        self.folder = folder
        folder.mkdir()
        try:
            for name, value in limits.items():
                (folder / name).write_text(str(value))
            self.processes = os.open(folder / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            folder.rmdir()
            raise

    def close(self) -> None:
        """End all that is in it, and remove it."""
        os.close(self.processes)
        with contextlib.suppress(OSError):
            (self.folder / "cgroup.kill").write_text("1")
        for _ in range(100):
            try:
                self.folder.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:  # not empty yet
                time.sleep(0.01)


@functools.cache
def home() -> Path | None:
    """The folder in which this process may make cgroups that bound memory and processes, or None.

    A group with processes in it can give no controllers to those below it, so they must have been given already, or be
    those of a group beside this process's own.
    """
    try:
        own = next(line[4:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::/"))
    except (OSError, StopIteration):
        return None
    for folder in (ROOT / own, (ROOT / own).parent):
        try:
            if ROOT not in (folder, *folder.parents):
                continue
            given = set((folder / "cgroup.subtree_control").read_text().split())
            if given >= WANTED and os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK):
                return folder
        except OSError:
            continue
    return None


def make(memory: int, tasks: int) -> Group | None:
    """A new cgroup with these limits: bytes, and processes with their threads. None where none can be had."""
    folder = home()
    if folder is None:
        return None
    try:
        group = Group(folder / f"gpulab-{os.getpid()}-{next(_numbers)}", {"memory.max": memory, "pids.max": tasks})
    except OSError:
        return None
    with contextlib.suppress(OSError):  # a kernel that does not count swap has no limit on it
        (group.folder / "memory.swap.max").write_text("0")
    return group
