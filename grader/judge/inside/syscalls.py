"""Numbers of the system calls that a cage may allow, on the two architectures that are known here.

From Linux's arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h (arm64). What is not in this
table is never allowed.
"""

from __future__ import annotations

import functools
import os
import struct
import sys
from dataclasses import dataclass

_TABLE = """
read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, pwrite64 18 68, lseek 8 62, close 3 57,
close_range 436 436, fstat 5 80, newfstatat 262 79, mmap 9 222, mprotect 10 226, munmap 11 215, mremap 25 216,
madvise 28 233, brk 12 214, mincore 27 232, msync 26 227, rt_sigaction 13 134, rt_sigprocmask 14 135,
rt_sigreturn 15 139, rt_sigtimedwait 128 137, sigaltstack 131 132, pause 34 -, poll 7 -, ppoll 271 73, select 23 -,
pselect6 270 72, epoll_create1 291 20, epoll_ctl 233 21, epoll_wait 232 -, epoll_pwait 281 22, eventfd2 290 19,
pipe 22 -, pipe2 293 59, dup 32 23, dup2 33 -, dup3 292 24, fcntl 72 25, ioctl 16 29, flock 73 32, getpid 39 172,
getppid 110 173, gettid 186 178, getuid 102 174, geteuid 107 175, getgid 104 176, getegid 108 177, getpgrp 111 -,
getpgid 121 155, getsid 124 156, getgroups 115 158, getresuid 118 148, getresgid 120 150, clock_gettime 228 113,
clock_getres 229 114, clock_nanosleep 230 115, nanosleep 35 101, gettimeofday 96 169, time 201 -, times 100 153,
getrusage 98 165, setitimer 38 103, getitimer 36 102, alarm 37 -, getrlimit 97 163, prlimit64 302 261,
setrlimit 160 164, sched_yield 24 124, sched_getaffinity 204 123, sched_getparam 143 121,
sched_getscheduler 145 120, getcpu 309 168, getpriority 140 141, futex 202 98, set_robust_list 273 99,
rseq 334 293, set_tid_address 218 96, membarrier 324 283, restart_syscall 219 128, clone 56 220, clone3 435 435,
fork 57 -, vfork 58 -, wait4 61 260, waitid 247 95, exit 60 93, exit_group 231 94, getrandom 318 278, uname 63 160,
sysinfo 99 179, prctl 157 167, arch_prctl 158 -, open 2 -, openat 257 56, openat2 437 437, creat 85 -, stat 4 -,
lstat 6 -, statx 332 291, access 21 -, faccessat 269 48, faccessat2 439 439, readlink 89 -, readlinkat 267 78,
getdents 78 -, getdents64 217 61, getcwd 79 17, chdir 80 49, fchdir 81 50, statfs 137 43, fstatfs 138 44,
umask 95 166, mkdir 83 -, mkdirat 258 34, rmdir 84 -, unlink 87 -, unlinkat 263 35, rename 82 -, renameat 264 38,
renameat2 316 276, link 86 -, linkat 265 37, symlink 88 -, symlinkat 266 36, chmod 90 -, fchmod 91 52,
fchmodat 268 53, chown 92 -, fchown 93 55, lchown 94 -, fchownat 260 54, utimensat 280 88, utime 132 -,
utimes 235 -, futimesat 261 -, truncate 76 45, ftruncate 77 46, fallocate 285 47, fsync 74 82, fdatasync 75 83,
fadvise64 221 223, copy_file_range 326 285, sendfile 40 71, execve 59 221, kill 62 129, tgkill 234 131,
tkill 200 130, setsid 112 157, setpgid 109 154, sched_setaffinity 203 122, sched_setscheduler 144 119,
seccomp 317 277, landlock_create_ruleset 444 444, landlock_add_rule 445 445, landlock_restrict_self 446 446,
getxattr 191 8, lgetxattr 192 9, fgetxattr 193 10, mlock 149 228, munlock 150 229
"""
"""Name, number on x86_64, number on arm64 (-: not there)."""


@dataclass(frozen=True)
class Architecture:
    """The number by which the kernel tells a seccomp filter the architecture of a call (linux/audit.h), and the
    numbers of the calls by name."""

    name: str
    audit: int
    numbers: dict[str, int]


def _numbers(column: int) -> dict[str, int]:
    rows = [entry.split() for entry in _TABLE.replace("\n", " ").split(",")]
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


@functools.cache
def here() -> Architecture | None:
    """The architecture of this process; None if it is not known, or if Python is not the machine's own."""
    if sys.platform != "linux" or struct.calcsize("P") != 8:
        return None
    if (machine := os.uname().machine) == "x86_64":
        return Architecture(machine, 0xC000003E, _numbers(1))
    if machine == "aarch64":
        return Architecture(machine, 0xC00000B7, _numbers(2))
    return None
