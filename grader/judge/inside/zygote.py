"""In the sandbox: one process that has imported all that a program needs, and forks a fresh one for each job.

Importing PyTorch and Triton takes longer than most submissions. So `python -m gpulab_inside.zygote PROGRAM FD` imports
the program once and waits at the socket FD for jobs: a message with a number and open files (job, answer, errors, and
shared memory where there is some), or the number of a job that is to be killed. Every job gets namespaces of its own,
inside those of the sandbox: it reaches no process but its own, and has an empty /scratch and /tmp.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import resource
import selectors
import shutil
import signal
import socket
import sys

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x08000000, 0x10000000, 0x20000000
MS_NOSUID, MS_NODEV = 2, 4
PR_SET_PDEATHSIG = 1
CAPABILITY_VERSION = 0x20080522

FIRST_FD = 400
"""Where a job's files are put while 0, 1 and 2 are replaced: above anything the imports have opened."""

libc = ctypes.CDLL(None, use_errno=True)


def call(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def leave() -> None:
    """Into namespaces of one's own; the next child is the first process in them."""
    uid, gid = os.getuid(), os.getgid()
    call(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as f:
            f.write(text)


def settle() -> None:
    """Empty folders to write to, with the warm cache; everything else is read-only. Then give up every right to mount.

    /proc stays the sandbox's: it names the processes of other jobs, but the kernel lets nobody look into a process of
    a user namespace that is not below one's own.
    """
    folders = [b"/scratch", b"/dev/shm"]
    if os.environ["TMPDIR"] == "/tmp":  # else the course itself lies below /tmp, and must stay in sight
        folders.append(b"/tmp")
    for folder in folders:
        call(libc.mount(b"tmpfs", folder, b"tmpfs", MS_NOSUID | MS_NODEV, b"size=1g"), "mount a scratch folder")
    shutil.copytree("/warm", os.environ["GPULAB_CACHE"])
    os.chdir("/scratch")
    call(libc.capset((ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()), "drop capabilities")


def serve(program: str, channel: socket.socket) -> None:
    gc.disable()  # nothing of what is imported is garbage
    module = importlib.import_module(f"{__package__}.{program}")
    module.prepare()
    gc.collect()
    gc.freeze()  # a collection in a job would touch, and so copy, every page of what is shared
    gc.enable()
    monitors: dict[int, int] = {}
    wake, awake = os.pipe()
    os.set_blocking(awake, False)
    signal.set_wakeup_fd(awake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    channel.send(b"ready")
    with selectors.DefaultSelector() as selector:
        selector.register(channel, selectors.EVENT_READ)
        selector.register(wake, selectors.EVENT_READ)
        while True:
            ready = [key.fileobj for key, _ in selector.select()]
            if wake in ready:
                os.read(wake, 512)
            while monitors:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                monitors = {n: p for n, p in monitors.items() if p != pid}
            if channel in ready:
                message, fds, _, _ = socket.recv_fds(channel, 4096, 4)
                if not message:
                    return
                payload = json.loads(message)
                if "kill" in payload:
                    if payload["kill"] in monitors:
                        os.kill(monitors[payload["kill"]], signal.SIGKILL)
                    continue
                monitors[payload["job"]] = _start(module, payload, fds, channel)
                for fd in fds:
                    os.close(fd)


def _start(module, payload: dict, fds: list[int], channel: socket.socket) -> int:
    """Fork a monitor, which makes the namespaces and waits for the job in them. Returns its process."""
    pid = os.fork()
    if pid:
        return pid
    try:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        high = [os.dup2(fd, FIRST_FD + n) for n, fd in enumerate(fds)]
        for n in range(3):
            os.dup2(high[n], n)
        os.closerange(3, FIRST_FD + 3)  # the channel among them
        leave()
        job = os.fork()
        if job == 0:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            settle()
            for what, most in payload["limits"]:
                resource.setrlimit(what, (most, most))
            module.main(high[3] if len(high) > 3 else None)
            os._exit(0)
        for n in (0, 1):
            os.close(n)
        _, status = os.waitpid(job, 0)
        if os.WIFSIGNALED(status):
            os.write(2, f"killed by signal {os.WTERMSIG(status)}\n".encode())
    except BaseException as e:
        os.write(2, f"{type(e).__name__}: {e}\n".encode())
    finally:
        os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1], socket.socket(fileno=int(sys.argv[2])))
