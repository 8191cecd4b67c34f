"""Seccomp: a list of the system calls that a process and its children may make from now on. For good.

The list becomes a program of the kernel's classic BPF (linux/seccomp.h, linux/filter.h), which looks at the
architecture, the number and the arguments of every call. What is not allowed fails with EPERM; calls of another
architecture, 32-bit and x32 ones among them, end the process.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from dataclasses import dataclass

from . import syscalls

LOAD, EQUAL, AT_LEAST, AND, RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
"""BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_JMP|JGE|K, BPF_ALU|AND|K, BPF_RET|K."""

ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000, 0x80000000
"""SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO (with the error in the low bits), SECCOMP_RET_KILL_PROCESS."""

NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
"""Offsets in struct seccomp_data; each argument has eight bytes, the low half first."""

X32 = 0x40000000
PR_SET_NO_NEW_PRIVS, SET_FILTER, GET_ACTION_AVAIL, ALL_THREADS = 38, 1, 2, 1

libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Where:
    """A condition on one half of an argument: `half & mask` is one of `values`. The kernel reads most arguments as
    32-bit numbers, which are the low half; a pointer is null only if both halves are."""

    argument: int
    values: tuple[int, ...]
    mask: int = 0xFFFFFFFF
    high: bool = False


Rules = dict[str, tuple[Where, ...]]
"""Calls that are allowed, by name: without conditions, or where all of them hold."""


def program(rules: Rules, machine: syscalls.Architecture, missing: tuple[str, ...] = ()) -> bytes:
    """The BPF program for these rules. Calls named in `missing` fail as if the kernel did not have them."""
    code = [_step(LOAD, ARCHITECTURE), _step(EQUAL, machine.audit, 1, 0), _step(RETURN, KILL), _step(LOAD, NUMBER)]
    if machine.name == "x86_64":
        code += [_step(AT_LEAST, X32, 0, 1), _step(RETURN, KILL)]
    for name, conditions in rules.items():
        if name in machine.numbers:
            block = _block(conditions)
            code += [_step(EQUAL, machine.numbers[name], 0, len(block)), *block]
    for name in missing:
        code += [_step(EQUAL, machine.numbers[name], 0, 1), _step(RETURN, REFUSE | errno.ENOSYS)]
    return b"".join([*code, _step(RETURN, REFUSE | errno.EPERM)])


def _block(conditions: tuple[Where, ...]) -> list[bytes]:
    """Instructions that end the program for one call."""
    if not conditions:
        return [_step(RETURN, ALLOW)]
    block = [_step(RETURN, ALLOW), _step(RETURN, REFUSE | errno.EPERM)]
    for c in reversed(conditions):
        refuse = len(block) - 1  # instructions between the last comparison and the refusal
        tests = [_step(LOAD, ARGUMENTS + 8 * c.argument + 4 * c.high), _step(AND, c.mask)]
        for left, value in zip(range(len(c.values) - 1, -1, -1), c.values, strict=True):
            tests.append(_step(EQUAL, value, left, 0 if left else refuse))
        block = tests + block
    return block


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def available() -> bool:
    """Does this kernel take filters, and are the numbers of its calls known here?"""
    machine = syscalls.here()
    if machine is None:
        return False
    action = ctypes.c_uint32(REFUSE)
    return _seccomp(machine, GET_ACTION_AVAIL, 0, ctypes.byref(action)) == 0


def install(rules: Rules, missing: tuple[str, ...] = ()) -> None:
    """Allow this process, with all its threads and children, nothing but these calls. Raises OSError."""
    machine = syscalls.here()
    if machine is None:
        raise OSError(errno.ENOSYS, "the numbers of this architecture's system calls are not known")
    no_new_privileges()
    code = program(rules, machine, missing)
    buffer = ctypes.create_string_buffer(code, len(code))
    filled = _Program(len(code) // 8, ctypes.addressof(buffer))
    if (result := _seccomp(machine, SET_FILTER, ALL_THREADS, ctypes.byref(filled))) != 0:
        raise OSError(ctypes.get_errno() if result < 0 else errno.EBUSY, "seccomp takes no filter")


def no_new_privileges() -> None:
    """From now on no program that is started has more rights than this process. Raises OSError."""
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")


def _seccomp(machine: syscalls.Architecture, operation: int, flags: int, argument) -> int:
    call = [ctypes.c_long(n) for n in (machine.numbers["seccomp"], operation, flags)]
    return libc.syscall(*call, argument)
