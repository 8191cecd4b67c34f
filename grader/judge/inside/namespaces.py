"""Namespaces of a job's own: processes, files, network, shared memory, names."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import os
import shutil
import socket
import struct

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
ALL = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
    1,
    2,
    4,
    8,
    32,
    4096,
    16384,
    1 << 18,
)
PR_SET_PDEATHSIG = 1
CAPABILITY_VERSION = 0x20080522
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1

libc = ctypes.CDLL(None, use_errno=True)
libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def call(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def leave() -> None:
    """Into namespaces of one's own; the next child is the first process in them. Raises OSError."""
    uid, gid = os.getuid(), os.getgid()
    call(libc.unshare(ALL), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as f:
            f.write(text)


def possible() -> bool:
    """May this process make namespaces? Tried in a child."""
    if (pid := os.fork()) == 0:
        try:
            leave()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def mount(kind: str, folder: str, options: str = "", flags: int = MS_NOSUID | MS_NODEV) -> None:
    call(libc.mount(kind.encode(), folder.encode(), kind.encode(), flags, options.encode()), f"mount {folder}")


def own_processes() -> bool:
    """Put a /proc in place that shows this PID namespace alone and that nobody can write to. False where the kernel
    refuses one, because parts of the /proc around it are hidden, as bubblewrap and containers do it for root."""
    flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
    return libc.mount(b"proc", b"/proc", b"proc", flags, None) == 0


@functools.cache
def machine_facts() -> dict[str, str]:
    """What libraries read of /proc about the machine, and nobody's processes."""
    found = {}
    for name in ("cpuinfo", "meminfo"):
        with contextlib.suppress(OSError), open(f"/proc/{name}") as f:
            found[name] = f.read()
    return found


def no_processes() -> None:
    """A /proc that tells of the machine and of no process but this one, how large it is now. Raises OSError."""
    facts = machine_facts()
    with open("/proc/self/statm") as f:
        facts = facts | {"self/statm": f.read()}
    mount("tmpfs", "/proc", "size=2m,mode=555")
    os.mkdir("/proc/self")
    for name, text in facts.items():
        with open(f"/proc/{name}", "w") as f:
            f.write(text)
    flags = MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
    call(libc.mount(None, b"/proc", None, flags, None), "make /proc read-only")


def loopback() -> None:
    """Let processes of this network namespace talk to each other on 127.0.0.1."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        (flags,) = struct.unpack_from("<16xH", fcntl.ioctl(s, SIOCGIFFLAGS, struct.pack("<16sH14x", b"lo", 0)))
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("<16sH14x", b"lo", flags | IFF_UP))


def read_only_processes() -> None:
    """Keep the /proc that is there, and let nobody write to it. Raises OSError."""
    flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
    call(libc.mount(b"/proc", b"/proc", None, MS_BIND | MS_REC, None), "bind /proc")
    call(libc.mount(None, b"/proc", None, MS_REMOUNT | MS_BIND | flags, None), "make /proc read-only")


def settle() -> None:
    """Empty folders to write to, with the warm cache; all else is read-only. Then give up every right to mount."""
    folders = ["/scratch", "/dev/shm"]
    if os.environ["TMPDIR"] == "/tmp":  # else the course itself lies below /tmp, and must stay in sight
        folders.append("/tmp")
    for folder in folders:
        mount("tmpfs", folder, "size=1g")
    shutil.copytree("/warm", os.environ["GPULAB_CACHE"])
    os.chdir("/scratch")
    drop_capabilities()


def drop_capabilities() -> None:
    call(libc.capset((ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()), "drop capabilities")
