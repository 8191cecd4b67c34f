"""Landlock: which files a process and its children may touch from now on, and whom they may signal. For good.

The kernel's own access control for ordinary users (linux/landlock.h). What a kernel's version of it cannot restrict is
left to the other layers; `version()` is 0 where there is none.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import struct
from collections.abc import Iterable

from . import seccomp, syscalls

libc = seccomp.libc

EXECUTE, WRITE, READ, LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""Rights on files that each version knows; later versions know no others."""

IOCTL = 1 << 15
FILE_RIGHTS = EXECUTE | WRITE | READ | 1 << 14 | IOCTL
"""Rights that a rule on a file, rather than on a folder, may give."""

CONNECT, SCOPES = 3, 3
"""Binding and connecting TCP sockets (version 4); abstract Unix sockets and signals (version 6)."""

READABLE, RUNNABLE = READ | LIST, READ | LIST | EXECUTE
"""What may be done below a folder of tools."""

_CREATE, _ADD, _RESTRICT = "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"


@functools.cache
def version() -> int:
    """The version of Landlock on this machine; 0 without it."""
    if syscalls.here() is None:
        return 0
    return max(0, _call(_CREATE, None, 0, 1))


def _all(found: int) -> int:
    return RIGHTS[max(v for v in RIGHTS if v <= found)]


def restrict(rules: Iterable[tuple[str, int]]) -> None:
    """Allow files below these paths with these rights and no others. Raises OSError.

    Signals and abstract sockets reach only processes that are bound by the same rules, and TCP nobody.
    """
    found = version()
    every = _all(found)
    wanted = struct.pack("<QQQ", every, CONNECT if found >= 4 else 0, SCOPES if found >= 6 else 0)
    wanted = wanted[: 24 if found >= 6 else 16 if found >= 4 else 8]
    ruleset = _checked(_call(_CREATE, wanted, len(wanted), 0), "landlock_create_ruleset")
    try:
        for path, rights in rules:
            with contextlib.suppress(FileNotFoundError, PermissionError):  # what cannot be opened need not be allowed
                _allow(ruleset, path, rights & every)
        seccomp.no_new_privileges()
        _checked(_call(_RESTRICT, ruleset, 0), "landlock_restrict_self")
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = struct.pack("<Qi", rights if os.path.isdir(path) else rights & FILE_RIGHTS, fd)
        _checked(_call(_ADD, ruleset, 1, rule, 0), f"landlock_add_rule {path}")
    finally:
        os.close(fd)


def _call(name: str, *arguments) -> int:
    number = syscalls.here().numbers[name]
    return libc.syscall(*(ctypes.c_long(a) if isinstance(a, int) else a for a in (number, *arguments)))


def _checked(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), what)
    return result
