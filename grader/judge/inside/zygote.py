"""In the sandbox: one process that has imported all that a program needs, and forks a fresh one for each job.

Importing PyTorch and Triton takes longer than most submissions. So `python -m gpulab_inside.zygote PROGRAM FD` imports
the program once and waits at the socket FD for jobs: a message with a number and open files (job, answer, errors,
shared memory where there is some, and a cgroup's list of processes where there is one), or the number of a job that is
to be killed. Every job gets namespaces of its own, inside those of the sandbox: it reaches and sees no process but its
own, has no network, and an empty /scratch and /tmp.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys

from . import huge_pages, monitor, namespaces
from .namespaces import PR_SET_PDEATHSIG, libc

FIRST_FD = 400
"""Where a job's files are put while 0, 1 and 2 are replaced: above anything the imports have opened."""


def serve(program: str, channel: socket.socket) -> None:
    gc.disable()  # nothing of what is imported is garbage
    module = importlib.import_module(f"{__package__}.{program}")
    module.prepare()
    namespaces.machine_facts()
    gc.collect()
    gc.freeze()  # a collection in a job would touch, and so copy, every page of what is shared
    huge_pages.collapse()
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
                message, fds, _, _ = socket.recv_fds(channel, 4096, 5)
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
        more = high[3:]
        if payload["cgroup"]:
            group = more.pop()
            with contextlib.suppress(OSError):  # the monitor watches in any case
                os.write(group, b"0")  # into the job's own, with all that comes from here
            os.close(group)
        namespaces.leave()

        bounds = monitor.Bounds.from_json(payload["bounds"])

        def work() -> None:
            bounds.bind_beyond()
            if not namespaces.own_processes():
                namespaces.no_processes()
            namespaces.settle()
            module.main(more[0] if more else None)

        monitor.run(work, bounds, in_own_folders=True)
    except BaseException as e:
        os.write(2, f"{type(e).__name__}: {e}\n".encode())
    finally:
        os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1], socket.socket(fileno=int(sys.argv[2])))
