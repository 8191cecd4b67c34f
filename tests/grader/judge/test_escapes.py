"""What native code can still do once replay has locked itself in: each way out is tried, and each layer alone."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from grader.judge import isolation, sandbox
from grader.judge.inside import landlock, seccomp
from grader.judge.sandbox import Memory, Sandbox, SandboxLimits
from labutils.backends import child

PROGRAM = "caged_program"
HEAD = """
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)

def denied(call, *arguments):
    try:
        result = call(*arguments)
    except OSError as e:
        return "denied: " + errno.errorcode[e.errno]
    if isinstance(result, int) and result < 0:
        return "denied: " + errno.errorcode[ctypes.get_errno()]
    return "done"

def system_call(number, *arguments):
    return libc.syscall(*(ctypes.c_long(a) for a in (number, *arguments)))

def run_program():
    if (pid := os.fork()) == 0:
        try:
            os.execv("/bin/true", ["true"])
        except OSError as e:
            os._exit(e.errno)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status:
        raise OSError(status, "execv")

def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(2)
        s.connect(address)
"""

BOTH = {"seccomp", "landlock"}
ATTEMPTS = {
    # what is tried, and the layers that deny it alone
    "start a program": ("denied(run_program)", BOTH),
    "read a file of the system": ("denied(open, '/usr/bin/env', 'rb')", BOTH),
    "write a file of its own": ("denied(open, os.environ['HOME'] + '/x', 'w')", BOTH),
    "list a folder": ("denied(os.listdir, '/usr')", BOTH),
    "look at processes": ("denied(os.listdir, '/proc')", BOTH),
    "signal the process that started it": ("denied(os.kill, os.getppid(), 0)", BOTH),
    "signal all processes": ("denied(os.kill, -1, 0)", BOTH),
    "mount": ("denied(libc.mount, b'tmpfs', b'/tmp', b'tmpfs', 0, None)", BOTH),
    "make a file's memory smaller": ("denied(os.ftruncate, MEMORY, 1)", {"seccomp", "seal"}),
    "make a file's memory larger": ("denied(os.ftruncate, MEMORY, 1 << 20)", {"seccomp", "seal"}),
    "an internet socket": ("denied(socket.socket, socket.AF_INET)", {"seccomp"}),
    "a local socket": ("denied(socket.socket, socket.AF_UNIX)", {"seccomp"}),
    "a pair of sockets": ("denied(socket.socketpair)", {"seccomp"}),
    "memory with new code": ("denied(__import__('mmap').mmap, -1, 4096, 34, 7)", {"seccomp"}),
    "make memory code": ("denied(libc.mprotect, ctypes.c_void_p(id(libc) & ~4095), 4096, 7)", {"seccomp"}),
    "a file in memory": ("denied(os.memfd_create, 'x')", {"seccomp"}),
    "new namespaces": ("denied(libc.unshare, 0x10000000)", {"seccomp"}),
    "raise a limit": ("denied(libc.setrlimit, 9, (ctypes.c_uint64 * 2)(16 << 30, 16 << 30))", {"seccomp"}),
    "look at paths": ("denied(os.stat, '/usr')", {"seccomp"}),
}
FORBIDDEN = {
    "x86_64": {
        "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "pidfd_open": 434, "pidfd_send_signal": 424,
        "pidfd_getfd": 438, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "tkill": 200, "execveat": 322,
        "creat": 85, "openat2": 437, "clone3": 435, "setns": 308, "unshare": 272, "mount": 165, "umount2": 166,
        "pivot_root": 155, "chroot": 161, "open_tree": 428, "move_mount": 429, "fsopen": 430, "io_uring_setup": 425,
        "bpf": 321, "perf_event_open": 298, "keyctl": 250, "add_key": 248, "request_key": 249, "userfaultfd": 323,
        "memfd_create": 319, "memfd_secret": 447, "personality": 135, "seccomp": 317, "shmget": 29, "msgget": 68,
        "semget": 64, "mq_open": 240, "kexec_load": 246, "init_module": 175, "name_to_handle_at": 303,
        "open_by_handle_at": 304, "fanotify_init": 300, "inotify_init1": 294, "process_madvise": 440, "kcmp": 312,
        "setuid": 105, "setgid": 106, "capset": 126, "setpgid": 109, "setsid": 112, "vmsplice": 278, "ioperm": 173,
        "modify_ldt": 154, "arch_prctl": 158, "pkey_mprotect": 329, "remap_file_pages": 216, "bind": 49, "accept": 43,
        "connect": 42, "sendto": 44, "recvfrom": 45, "link": 86, "symlink": 88, "chmod": 90, "unlink": 87, "rename": 82,
    }
}  # fmt: skip
"""Calls by number; what matters is that the filter denies them whatever their arguments are."""

limits = SandboxLimits(120, 60)
machine = pytest.mark.skipif(not seccomp.available(), reason="this kernel takes no seccomp filters")


@pytest.fixture(scope="module", autouse=True)
def program():
    """The program in the folder that sandboxes see, and what it wants to find in its environment."""
    target = isolation.course(False) / isolation.PACKAGE / f"{PROGRAM}.py"
    shutil.copy(Path(__file__).with_name(target.name), target)
    sandbox.ENVIRONMENT[PROGRAM] = sandbox.ENVIRONMENT["replay"]
    sandbox.BEYOND[PROGRAM] = child.MEMORY_LIMIT
    yield
    del sandbox.ENVIRONMENT[PROGRAM], sandbox.BEYOND[PROGRAM]


PLACES = [
    "bubblewrap",
    pytest.param("namespaces alone", marks=pytest.mark.slow),  # without bubblewrap each job imports PyTorch anew
    pytest.param("no namespaces", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module", params=PLACES)
def place(request):
    """Where the sandboxes of these tests are: with bubblewrap, and without it with and without namespaces."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param != "bubblewrap":
            patch.setenv("GPULAB_NO_BWRAP", "1")
        if request.param == "no namespaces":
            patch.setenv("GPULAB_NO_NAMESPACES", "1")
        sandbox.bubblewrap.cache_clear()
        if request.param == "bubblewrap" and not sandbox.bubblewrap():
            pytest.skip("bubblewrap does not work here")
        if request.param == "namespaces alone" and not isolation.available()["namespaces"]:
            pytest.skip("this user may make no namespaces")
        yield request.param
    sandbox.bubblewrap.cache_clear()


def tried(attempts: dict[str, str], layers=BOTH, limits=limits) -> dict[str, str]:
    """What came of each expression, one after another in the one process that replay has for a task's cases."""
    cases = [{"plan": {"specs": []}, "text": f"{HEAD}\ndef attempt():\n    return {e}\n"} for e in attempts.values()]
    job = {"size": 4096, "time_limit": 20.0, "layers": sorted(layers)}
    job["tasks"] = [{"id": "t", "language": "triton", "cases": cases}]
    with contextlib.closing(Memory()) as memory:
        memory.extend(4096)
        box = Sandbox(PROGRAM, limits, memory.fd)
        try:
            answers = [json.loads(line) for line in box.answers(json.dumps(job).encode())]
        finally:
            box.close()
    return {name: a.get("found", a.get("ended")) for name, a in zip(attempts, answers, strict=False)}


def _denied(found: dict[str, str]) -> set[str]:
    return {name for name, what in found.items() if what.startswith("denied")}


TCP = {
    "connect": "denied(connect, socket.AF_INET, ('127.0.0.1', 1))",
    "bind": "denied(socket.socket(socket.AF_INET, socket.SOCK_STREAM).bind, ('127.0.0.1', 0))",
}
"""Landlock denies these with EACCES; an empty network, which needs no Landlock, denies the first with another error."""


@machine
def test_whatever_is_tried_is_denied(place):
    found = tried({name: what for name, (what, _) in ATTEMPTS.items()})
    assert found.keys() == ATTEMPTS.keys() and _denied(found) == ATTEMPTS.keys(), found


@machine
@pytest.mark.parametrize("layer", ["seccomp", "landlock"])
def test_each_layer_denies_alone(place, layer):
    if layer == "landlock" and landlock.version() < 6:
        pytest.skip("this kernel's Landlock does not bind signals, or there is none")
    attempts = {name: what for name, (what, by) in ATTEMPTS.items() if layer in by}
    found = tried(attempts, {layer})
    assert found.keys() == attempts.keys() and _denied(found) == attempts.keys(), found


@machine
def test_no_tcp_even_where_sockets_can_be_made(place):
    if landlock.version() < 4:
        pytest.skip("this kernel's Landlock does not bind TCP, or there is none")
    assert set(tried(TCP, {"landlock"}).values()) == {"denied: EACCES"}
    assert "denied: EACCES" not in tried(TCP, ()).values()


def test_without_the_two_layers_most_is_possible(place):
    """Else the tests above would prove nothing."""
    attempts = {name: what for name, (what, by) in ATTEMPTS.items() if by & BOTH}
    found = tried(attempts, ())
    possible = {"start a program", "read a file of the system", "write a file of its own", "list a folder",
                "signal the process that started it", "an internet socket", "a local socket", "a pair of sockets",
                "memory with new code", "a file in memory", "raise a limit", "look at paths"}  # fmt: skip
    assert possible <= attempts.keys() - _denied(found), found


def test_shared_memory_keeps_its_size_without_a_filter(place):
    found = tried({name: what for name, (what, by) in ATTEMPTS.items() if "seal" in by}, ())
    assert set(found.values()) == {"denied: EPERM"}


@machine
@pytest.mark.skipif(os.uname().machine not in FORBIDDEN, reason="the numbers of another architecture")
def test_no_other_system_call_is_made(place):
    numbers = FORBIDDEN[os.uname().machine]
    found = tried({name: f"denied(system_call, {number}, -1, -1, -1, -1, -1)" for name, number in numbers.items()})
    assert found == {name: "denied: ENOSYS" if name == "clone3" else "denied: EPERM" for name in numbers}


@machine
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="x32 is a way to call an x86-64 kernel")
def test_calls_under_another_number_end_the_process(place):
    assert tried({"x32": "system_call(0x40000000 | 39)"}) == {"x32": "died: SIGSYS"}


@machine
@pytest.mark.parametrize("layer", ["seccomp", "landlock", "namespaces"])
def test_nobody_outside_is_reached_or_seen(place, layer):
    """Through an abstract socket, by a signal, in /proc: by each layer alone."""
    if layer == "namespaces" and place == "no namespaces":
        pytest.skip("there are none")
    if layer == "landlock" and landlock.version() < 6:
        pytest.skip("this kernel's Landlock does not bind signals and sockets, or there is none")
    name = f"gpulab-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as ours, subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1) as other:
        ours.bind("\0" + name)
        ours.listen()
        attempts = {
            "socket": f"denied(connect, socket.AF_UNIX, chr(0) + {name!r})",
            "signal": f"denied(os.kill, {other.pid}, {signal.SIGKILL})",
            "sight": f"denied(open, '/proc/{other.pid}/cmdline')",
        }
        assert _denied(found := tried(attempts, {layer} - {"namespaces"})) == attempts.keys(), found
        assert other.poll() is None
        other.communicate(b"\n")


def test_a_job_without_a_filter_sees_only_its_own_processes_and_has_no_rights(place):
    if place == "no namespaces":
        pytest.skip("there are none")
    attempts = {
        "processes": "sum(name.isdigit() for name in os.listdir('/proc'))",
        "networks": "denied(connect, socket.AF_INET, ('127.0.0.1', 1))",
        "mount": "denied(libc.mount, b'tmpfs', b'/tmp', b'tmpfs', 0, None)",
        "name": "denied(libc.sethostname, b'x', 1)",
        "scores": "denied(open, '/proc/1/oom_score_adj', 'w')",
    }
    found = tried(attempts, ())
    assert found.pop("processes") <= 2
    assert found.pop("networks") in ("denied: ENETUNREACH", "denied: EADDRNOTAVAIL")
    assert _denied(found) == found.keys(), found


def test_memory_is_counted_over_the_whole_job(place, monkeypatch):
    monkeypatch.setattr(sandbox, "JOB_MEMORY", 1200 << 20)
    hold = "[os.fork() or (bytearray(os.urandom(1 << 20)) * 300, __import__('time').sleep(60)) for _ in range(6)]"
    begin = time.monotonic()
    with pytest.raises(sandbox.Died, match="processes together held more than 1200 MB"):
        tried({"hold": f"{hold} and __import__('time').sleep(60)"})
    assert time.monotonic() - begin < 45
    assert tried({"next": "7"}) == {"next": 7}


def test_processes_are_counted_over_the_whole_job(place, monkeypatch):
    monkeypatch.setattr(sandbox, "JOB_TASKS", 40)
    fork = "[os.fork() or __import__('time').sleep(60) for _ in range(200)]"
    with pytest.raises(sandbox.Died, match="more than 40 processes"):
        tried({"fork": fork})
    assert tried({"next": "7"}) == {"next": 7}


def test_the_judge_survives_whoever_shortens_its_memory():
    with contextlib.closing(Memory()) as memory:
        memory.extend(8192)
        with pytest.raises(PermissionError):
            os.ftruncate(memory.fd, 4096)
        assert memory.bytes[8191] == 0
        assert memory.extend(4096) == 8192  # the judge itself makes it larger until replay has sealed it


@pytest.fixture
def open_folder():
    """A folder that every user can enter; above pytest's own there is one for its owner alone."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="only root can become somebody else")
def test_an_ordinary_user_is_caged_too(open_folder):
    """The cage itself, by the user and with the rights of nobody in particular."""
    shutil.copytree(isolation.INSIDE, folder := open_folder / isolation.PACKAGE)
    for path in [folder, *folder.iterdir()]:
        path.chmod(path.stat().st_mode | 0o055)
    program = (
        f"import os, socket\nos.environ.update(GPULAB_READABLE={str(open_folder)!r}, GPULAB_WRITABLE='')\n"
        "from gpulab_inside import cage\ncage.lock('parent')\ncage.lock('kernels')\nfound = []\n"
        "for name, attempt in (('open', lambda: open('/etc/passwd')), ('exec', lambda: os.execv('/bin/true', ['x'])),"
        " ('socket', socket.socket), ('kill', lambda: os.kill(os.getppid(), 0))):\n"
        "    try:\n        attempt()\n        found.append(name)\n    except PermissionError:\n        pass\n"
        "print(found, os.getuid())\n"
    )
    user = ["setpriv", "--reuid=1234", "--regid=1234", "--clear-groups"]
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")  # this one may lie where only root can read
    if python is None:
        pytest.skip("there is no Python that everybody can run")
    done = subprocess.run([*user, python, "-c", program], cwd=open_folder, capture_output=True, text=True)
    assert done.stdout == "[] 1234\n", done.stderr
