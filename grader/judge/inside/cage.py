"""The cage around a job: `lock(profile)` gives up, for good, what the code that comes next does not need.

A profile is an allow-list of system calls (`seccomp`) and a set of files (`landlock`); each of the two denies alone
what it can. Profiles only ever get narrower, so a job locks itself step by step: what a compiler needs goes first, and
before a submission's code runs all that it must not have is gone.

    build     compilers of ours on a submission's text: they start programs, write to the job's own folders
    parent    a job's first process: reads files, loads libraries, ends its own children; starts no program
    python    a submission's Python: files of the tools and its own folders; no program, no signal, no socket
    kernels   a submission's kernels: memory, clocks, children, and the files that are open; nothing else
    reader    text of a submission that is only read: as `kernels`, without children
"""

from __future__ import annotations

import json
import os
import re
import sys

from . import landlock, seccomp, syscalls
from .seccomp import Where

READABLE, WRITABLE, LISTED = "GPULAB_READABLE", "GPULAB_WRITABLE", "GPULAB_LISTED"
"""Environment variables: folders that a job may read and run programs from, folders of its own, and folders in which it
may read names alone."""

layers = {"seccomp", "landlock"}
"""What `lock` uses. Tests take one away, to see that the other denies alone."""

NAMESPACES = 0x7E020000 | 0x00008000 | 0x00002000
"""CLONE_NEW…, CLONE_PARENT (a child that signals another process than its parent) and CLONE_PTRACE."""

CLONE_THREAD = 0x00010000
PROT_EXEC = 4
GET_AND_DUPLICATE = (0, 1, 2, 3, 4, 1030, 1032)
"""fcntl: F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC, F_GETPIPE_SZ. Others lock, seal or signal."""

LOCKS, SIZES = (5, 6, 7, 36, 37, 38), (1031, 1033, 1034)
"""fcntl: locks of files; F_SETPIPE_SZ, F_ADD_SEALS and F_GET_SEALS."""

TERMINAL_AND_CLOSE = (0x5401, 0x5450, 0x5451, 0x541B)
"""ioctl: TCGETS (is it a terminal?), FIONCLEX, FIOCLEX, FIONREAD."""

OWN_STATE = (1, 15, 16, 0x53564D41)
"""prctl: PR_SET_PDEATHSIG, PR_SET_NAME, PR_GET_NAME, PR_SET_VMA (names of mappings)."""

NARROWER = (21, 22, 38, 39)
"""prctl: PR_GET_SECCOMP, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS."""

AT_EMPTY_PATH = 0x1000


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


_ALONE = _words("""
read write readv writev pread64 pwrite64 lseek close close_range fstat munmap mremap madvise brk mincore msync
rt_sigaction rt_sigprocmask rt_sigreturn rt_sigtimedwait sigaltstack pause poll ppoll select pselect6 epoll_create1
epoll_ctl epoll_wait epoll_pwait eventfd2 dup dup2 dup3 getpid getppid gettid getuid geteuid getgid getegid getpgrp
getpgid getsid getgroups getresuid getresgid clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time
times getrusage setitimer getitimer alarm getrlimit sched_yield sched_getaffinity sched_getparam sched_getscheduler
getcpu getpriority futex set_robust_list rseq set_tid_address membarrier restart_syscall exit exit_group getrandom
uname sysinfo
""")
_CHILDREN = _words("fork vfork wait4 waitid pipe pipe2")
_FILES = _words("""
open openat openat2 creat stat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat getdents
getdents64 getcwd chdir fchdir statfs fstatfs umask mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link
linkat symlink symlinkat chmod fchmod fchmodat utimensat utime utimes futimesat truncate ftruncate fallocate fsync
fdatasync fadvise64 copy_file_range sendfile flock getxattr lgetxattr fgetxattr mmap mprotect mlock munlock
""")
_PARENT = _words("""
kill tgkill setrlimit prlimit64 setsid setpgid seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self
""")
_BUILD = _words("execve arch_prctl chown fchown lchown fchownat sched_setaffinity sched_setscheduler tkill setpriority")


def _rules(profile: str) -> seccomp.Rules:
    """The calls that a profile allows."""
    order = ("reader", "kernels", "python", "parent", "build")
    rank = order.index(profile)
    rules: seccomp.Rules = dict.fromkeys(_ALONE, ())
    no_code = (Where(2, (0,), PROT_EXEC),)
    rules |= {
        "mmap": no_code,
        "mprotect": no_code,
        "fcntl": (Where(1, GET_AND_DUPLICATE + (LOCKS if rank >= 2 else ()) + (SIZES if rank >= 3 else ())),),
        "ioctl": (Where(1, TERMINAL_AND_CLOSE),),
        "prctl": (Where(0, OWN_STATE + (NARROWER if rank >= 3 else ())),),
        # limits can be read, not set: a process that is not bound could raise its own up to the hard ones
        "prlimit64": (Where(2, (0,)), Where(2, (0,), high=True)),
        "newfstatat": (Where(3, (AT_EMPTY_PATH,), AT_EMPTY_PATH),),  # glibc's fstat
        "tgkill": (Where(0, (os.getpid(),)),),  # the emulator's clock interrupts its own threads
        "clone": (Where(0, (0,), NAMESPACES),),  # threads too
    }
    for step, names in enumerate((_CHILDREN, _FILES, _PARENT, _BUILD), 1):
        if rank >= step:
            rules |= dict.fromkeys(names, ())
    if rank == 0:
        rules["clone"] = (Where(0, (CLONE_THREAD,), CLONE_THREAD), Where(0, (0,), NAMESPACES))
    return rules


def _files(profile: str) -> list[tuple[str, int]]:
    """The files that a profile allows: none, or the tools' to read and the job's own. Devices that hold nothing."""
    if profile in ("reader", "kernels"):
        return []
    below = landlock.RUNNABLE if profile == "build" else landlock.READABLE
    readable = os.environ.get(READABLE, "/").split(os.pathsep)
    writable = os.environ.get(WRITABLE, "").split(os.pathsep)
    devices = [f"/dev/{name}" for name in ("null", "zero", "random", "urandom", "full", "tty")]
    rules = [(path, below) for path in [*readable, "/proc/cpuinfo", "/proc/meminfo"] if path]
    rules += [(path, ~landlock.EXECUTE) for path in writable if path]
    rules += [(path, landlock.LIST) for path in os.environ.get(LISTED, "").split(os.pathsep) if path]
    return rules + [(path, landlock.READ | landlock.WRITE | landlock.IOCTL) for path in devices]


def lock(profile: str) -> None:
    """From now on this process and its children may do only what the profile allows; from a profile to a wider one
    there is no way. Raises OSError if the kernel has a layer and refuses it: then nothing untrusted may run."""
    if "landlock" in layers and landlock.version():
        landlock.restrict(_files(profile))
    if "seccomp" in layers and seccomp.available():
        # a libc that is told that clone3 is not there uses clone, whose flags can be looked at
        seccomp.install(_rules(profile), missing=("clone3",))


def available() -> dict:
    """What this kernel has of the cage's layers."""
    machine = syscalls.here()
    found = {"architecture": machine and machine.name, "seccomp": seccomp.available(), "landlock": landlock.version()}
    from . import namespaces

    return found | {"namespaces": namespaces.possible()}


if __name__ == "__main__":
    json.dump(available(), sys.stdout)
