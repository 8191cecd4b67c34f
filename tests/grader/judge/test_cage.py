"""The cage's parts by themselves: the filter's program, limits over a whole job, and what the instructor is told."""

import os
import struct
import subprocess
import sys
import time

import pytest

from grader.judge import isolation, sandbox
from grader.judge.inside import cage, monitor, seccomp, syscalls

X86, ARM = (
    syscalls.Architecture("x86_64", 0xC000003E, syscalls._numbers(1)),
    syscalls.Architecture("aarch64", 0xC00000B7, syscalls._numbers(2)),
)
PROFILES = ("build", "parent", "python", "kernels", "reader")


def verdict(program: bytes, audit: int, number: int, *arguments: int) -> str:
    """What the kernel's BPF machine makes of a system call (linux/bpf_common.h)."""
    data = struct.pack("<iIQ6Q", number, audit, 0, *arguments, *[0] * (6 - len(arguments)))
    at = accumulator = 0
    while True:
        code, if_true, if_false, value = struct.unpack_from("<HBBI", program, 8 * at)
        at += 1
        if code == seccomp.LOAD:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif code == seccomp.AND:
            accumulator &= value
        elif code == seccomp.EQUAL:
            at += if_true if accumulator == value else if_false
        elif code == seccomp.AT_LEAST:
            at += if_true if accumulator >= value else if_false
        else:
            assert code == seccomp.RETURN
            return {seccomp.ALLOW: "allow", seccomp.KILL: "kill", seccomp.REFUSE | 1: "EPERM"}.get(value, "ENOSYS")


@pytest.fixture(params=[X86, ARM], ids=["x86_64", "aarch64"])
def machine(request):
    return request.param


def ask(machine, profile, name, *arguments):
    program = seccomp.program(cage._rules(profile), machine, ("clone3",))
    assert len(program) // 8 < 4096  # BPF_MAXINSNS
    return verdict(program, machine.audit, machine.numbers[name], *arguments)


def test_known_calls_have_the_numbers_of_this_machine():
    here = syscalls.here()
    if here is None:
        pytest.skip("an architecture that is not known")
    text = "import ctypes; print(ctypes.CDLL(None).syscall({}))".format(here.numbers["getppid"])
    assert int(subprocess.run([sys.executable, "-c", text], capture_output=True).stdout) == os.getpid()
    assert len(set(here.numbers.values())) == len(here.numbers)


@pytest.mark.parametrize("profile", PROFILES)
def test_memory_clocks_and_open_files_stay(machine, profile):
    for name in ("read", "write", "close", "futex", "exit_group", "clock_gettime", "rt_sigreturn", "brk", "munmap"):
        assert ask(machine, profile, name) == "allow"
    assert ask(machine, profile, "mmap", 0, 4096, 3) == "allow"
    assert ask(machine, profile, "clone", 0x50F00) == "allow"  # a thread
    assert ask(machine, profile, "clone3") == "ENOSYS"


def test_profiles_get_narrower(machine):
    for wide, narrow in zip(PROFILES, PROFILES[1:], strict=False):
        assert cage._rules(narrow).keys() <= cage._rules(wide).keys()
    names = ("execve", "kill", "openat", "wait4")
    allowed = {p: [ask(machine, p, name) == "allow" for name in names] for p in PROFILES}
    assert allowed == {
        "build": [True, True, True, True],
        "parent": [False, True, True, True],
        "python": [False, False, True, True],
        "kernels": [False, False, False, True],
        "reader": [False, False, False, False],
    }


def test_arguments_are_looked_at(machine):
    for prot in (4, 5, 7):
        assert (
            ask(machine, "kernels", "mmap", 0, 4096, prot) == ask(machine, "kernels", "mprotect", 0, 1, prot) == "EPERM"
        )
        assert ask(machine, "python", "mmap", 0, 4096, prot) == "allow"  # Python loads libraries
    assert ask(machine, "kernels", "clone", 17) == "allow"
    assert ask(machine, "reader", "clone", 17) == "EPERM"
    for flag in (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000, 0x8000, 0x2000):
        assert {ask(machine, p, "clone", flag | 17) for p in PROFILES} == {"EPERM"}
    assert ask(machine, "kernels", "prlimit64", 0, 9, 0) == "allow"
    assert ask(machine, "kernels", "prlimit64", 0, 9, 1 << 40) == "EPERM"  # a pointer whose low half is zero
    assert ask(machine, "kernels", "tgkill", os.getpid(), 1, 9) == "allow"
    assert ask(machine, "kernels", "tgkill", os.getpid() + 1, 1, 9) == "EPERM"
    assert ask(machine, "kernels", "fcntl", 3, 3) == "allow"
    assert {ask(machine, "kernels", "fcntl", 3, c) for c in (5, 8, 10, 15, 1031, 1033)} == {"EPERM"}
    assert ask(machine, "kernels", "ioctl", 0, 0x5401) == "allow"
    assert ask(machine, "kernels", "ioctl", 0, 0x5412) == "EPERM"  # TIOCSTI
    assert ask(machine, "kernels", "prctl", 15) == "allow"
    assert {ask(machine, "kernels", "prctl", option) for option in (4, 22, 36, 38, 0x59616D61)} == {"EPERM"}


def test_other_architectures_and_numbers_end_the_process(machine):
    program = seccomp.program(cage._rules("kernels"), machine)
    other = ARM if machine is X86 else X86
    assert verdict(program, other.audit, machine.numbers["read"]) == "kill"
    assert verdict(program, 0x40000003, 3) == "kill"  # AUDIT_ARCH_I386
    x32 = verdict(program, machine.audit, machine.numbers["read"] | 0x40000000)
    assert x32 == ("kill" if machine is X86 else "EPERM")
    assert verdict(program, machine.audit, 5000) == "EPERM"


def bounds(**changes):
    return monitor.Bounds(**{"each": (), "beyond": 0, "memory": 1 << 40, "tasks": 1 << 20, "seconds": 60.0, **changes})


def test_a_jobs_processes_are_counted_with_all_that_came_from_them():
    program = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'input()']).wait()"
    processes = os.open("/proc", os.O_RDONLY)
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as job:
        while len(found := monitor.below(processes, job.pid)) < 2:
            assert job.poll() is None
        assert found[0].pid == job.pid and all(process.threads == 1 for process in found)
        assert monitor.excess(found, bounds(), processes, ()) == ""
        assert "more than 1 processes" in monitor.excess(found, bounds(tasks=1), processes, ())
        assert "more than 1 MB" in monitor.excess(found, bounds(memory=1 << 20), processes, ())
        job.communicate(b"\n")
    os.close(processes)


def test_a_job_spends_cpu_time_or_sleeps_but_never_waits_for_a_core():
    def used(cpu, awake):
        return [monitor.Process(1, 1, 1, cpu, 0.0, awake)]

    clock = monitor.Clock()
    clock.look(used(0.5, awake=True), owed=False)
    time.sleep(0.02)
    clock.look(used(0.5, awake=True), owed=False)  # it would run, if it had a core
    clock.look(used(0.5, awake=False), owed=True)  # it waits for the judge
    assert (clock.cpu, clock.asleep) == (0.5, 0.0)
    time.sleep(0.02)
    clock.look(used(0.5, awake=False), owed=False)
    assert clock.asleep >= 0.015
    assert monitor.overtime(clock, bounds()) == ""
    assert "of CPU time" in monitor.overtime(clock, bounds(seconds=0.4))
    clock.look([], owed=False)  # what ended has used what it used
    assert clock.cpu == 0.5


ALL = {"architecture": "x86_64", "seccomp": True, "landlock": 7, "namespaces": True}


@pytest.mark.parametrize(
    "bubblewrap, found, words",
    [
        (True, {}, None),
        (True, {"seccomp": False}, "this kernel takes none"),
        (True, {"seccomp": False, "architecture": None}, "are not known here"),
        (False, {}, "which folders this machine has"),
        (False, {"landlock": 0}, "read and change this user's files"),
        (False, {"landlock": 3}, "does not bind signals"),
        (False, {"namespaces": False}, "share processes and network"),
    ],
)
def test_the_warning_says_what_is_missing(monkeypatch, bubblewrap, found, words):
    monkeypatch.setattr(isolation, "bubblewrap", lambda: "/usr/bin/bwrap" if bubblewrap else None)
    monkeypatch.setattr(isolation, "available", lambda: ALL | found)
    message = sandbox.warning()
    assert (message is None) == (words is None) and (words is None or words in message)


def test_what_this_machine_has_is_found_out_where_the_cage_will_be():
    assert isolation.available()["seccomp"] == seccomp.available()
