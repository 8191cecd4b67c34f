"""In the sandbox: one process that has imported what notebooks import, and forks a Jupyter kernel for each.

Importing PyTorch, Triton and labutils takes longer than most notebooks. So `python -m gpulab_kernels.zygote FD` imports
them once, without touching a GPU, and waits at the socket FD for messages, each JSON in one packet:

    {"start": N, "folder": NAME, "env": {…}}    a kernel, whose sockets and connection file lie in /kernels/NAME
    {"signal": N, "number": S}                  a signal to the kernel and what it started; 9 ends all of it

It answers {"ready": true}, and {"ended": N, "status": exit code or -signal, "why": text} for each kernel.

A kernel gets namespaces of its own, inside those of the sandbox: no process but its own, empty folders to write to, and
of /kernels only its own sockets. It is process 2 there: a process 1 could not be killed by its own hand.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import os
import resource
import selectors
import signal
import socket
import sys

from gpulab_inside import huge_pages
from gpulab_inside.namespaces import (
    MS_BIND,
    MS_NODEV,
    MS_NOSUID,
    PR_SET_PDEATHSIG,
    call,
    leave,
    libc,
    loopback,
    own_processes,
    read_only_processes,
    settle,
)
from gpulab_kernels import deep_cells

PAGE = os.sysconf("SC_PAGE_SIZE")
NICE = 5
"""An endless loop that nobody's marks wait for leaves the machine to the others."""
LOOK_EVERY = 0.5
"""Seconds between two looks at the memory of the kernels."""

IMPORTS = (
    "ipykernel.kernelapp",
    "ipykernel.ipkernel",
    "ipykernel.zmqshell",
    "ipykernel.debugger",
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.extensions.storemagic",
    "psutil",
    "sqlite3",
    "tornado.platform.asyncio",
    "matplotlib_inline.backend_inline",
    "matplotlib.pyplot",
    "ipywidgets",
    "torch",
    "triton.language",
    "labutils",
    "labutils.exercises",
    "labutils.check.evaluate",
    "labutils.plots",
    "labutils.lessons.widgets",
    "labutils.backends.recording",
    "labutils.cuda.nvrtc",
    "labutils.backends.emulator",
)


class JupyterKernel:
    """A running kernel as the zygote knows it: the monitor outside its namespaces and the pipe to its process 1."""

    def __init__(self, monitor: int, status: int):
        self.monitor, self.status, self.why = monitor, status, ""


def prepare() -> None:
    """Import everything that helps, and do once what every notebook begins with; what is not there on this machine, a
    notebook will miss in its own words."""
    gc.disable()  # nothing of what is imported is garbage
    import labutils

    for name in IMPORTS:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.suppress(Exception):
        labutils.setup()
        labutils.cuda.nvrtc.version()
        labutils.cuda.nvrtc.compile_by(compile_in_a_child)
    gc.collect()
    gc.freeze()  # a collection in a kernel would touch, and so copy, every page of what is shared
    huge_pages.collapse()
    gc.enable()


def compile_in_a_child(job: dict) -> dict:
    """What NVRTC makes of a cell. It is loaded here already: a fork has it ten times as fast as a new process."""
    from labutils.backends import child
    from labutils.cuda import compiler, compiler_process

    result = next(child.fork([functools.partial(compiler.compile_job, job)], compiler_process.TIME_LIMIT))
    if isinstance(result, str):
        raise compiler_process.Died(result.removeprefix("died: "))
    return result


class Zygote:
    def __init__(self, channel: socket.socket, most_memory: int):
        self.channel, self.most_memory = channel, most_memory
        self.kernels: dict[int, JupyterKernel] = {}

    def serve(self) -> None:
        wake, awake = os.pipe()
        os.set_blocking(awake, False)
        signal.set_wakeup_fd(awake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.channel.send(b'{"ready": true}')
        with selectors.DefaultSelector() as selector:
            selector.register(self.channel, selectors.EVENT_READ)
            selector.register(wake, selectors.EVENT_READ)
            while True:
                found = selector.select(LOOK_EVERY if self.kernels else None)
                ready = [key.fileobj for key, _ in found]
                if wake in ready:
                    os.read(wake, 512)
                self._bury()
                if self.channel in ready:
                    message = self.channel.recv(1 << 16)
                    if not message:
                        return
                    self._do(json.loads(message))
                if not ready:
                    self._look_at_memory()

    def _do(self, payload: dict) -> None:
        if "start" in payload:
            self.kernels[payload["start"]] = self._start(payload)
        elif kernel := self.kernels.get(payload["signal"]):
            # the monitor passes it on; its own death ends everything below it
            os.kill(kernel.monitor, signal.SIGKILL if payload["number"] == signal.SIGKILL else signal.SIGINT)

    def _bury(self) -> None:
        """Tell of the kernels whose monitors have ended."""
        while self.kernels:
            pid, monitored = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            for number, kernel in [(n, k) for n, k in self.kernels.items() if k.monitor == pid]:
                text = os.read(kernel.status, 4096).decode(errors="replace")
                os.close(kernel.status)
                status, _, why = text.partition(" ")
                status = int(status) if status.lstrip("-").isdigit() else -signal.SIGKILL
                del self.kernels[number]
                ended = {"ended": number, "status": status, "why": kernel.why or why}
                with contextlib.suppress(OSError):
                    self.channel.send(json.dumps(ended).encode())

    def _look_at_memory(self) -> None:
        """End kernels that hold too much, with all processes they started counted."""
        below: dict[int, list[tuple[int, int]]] = {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    with open(f"/proc/{name}/stat") as f:
                        fields = f.read().rpartition(")")[2].split()
                    below.setdefault(int(fields[1]), []).append((int(name), int(fields[21]) * PAGE))
        for kernel in self.kernels.values():
            total, parents = 0, [kernel.monitor]
            while parents:
                children = [c for p in parents for c in below.get(p, ())]
                total += sum(size for _, size in children)
                parents = [pid for pid, _ in children]
            if total > self.most_memory and not kernel.why:
                kernel.why = f"it used more than {self.most_memory >> 30} GB of memory"
                os.kill(kernel.monitor, signal.SIGKILL)

    def _start(self, payload: dict) -> JupyterKernel:
        """Fork a monitor, which makes the namespaces and waits for the processes in them."""
        mine, theirs = os.pipe()
        pid = os.fork()
        if pid:
            os.close(theirs)
            return JupyterKernel(pid, mine)
        try:
            die_with_parent()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            status = os.dup2(theirs, 3)
            os.closerange(4, 4096)
            leave()
            first = os.fork()
            if first == 0:
                die_with_parent()
                os._exit(first_process(payload, status))
            os.close(status)
            signal.signal(signal.SIGINT, lambda *_: os.kill(first, signal.SIGINT))
            wait_for(first)
        except BaseException as problem:
            with contextlib.suppress(OSError):
                os.write(3, f"1 {type(problem).__name__}: {problem}".encode()[:4000])
        finally:
            os._exit(0)


def die_with_parent() -> None:
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def wait_for(pid: int) -> int:
    """Wait for one child, burying every other; returns its exit code, or the signal that ended it as -signal."""
    while True:
        found, status = os.wait()
        if found == pid:
            return os.waitstatus_to_exitcode(status)


def first_process(payload: dict, status: int) -> int:
    """Process 1: make the place, start the kernel, wait for it, tell how it ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        own = f"/kernels/{payload['folder']}".encode()
        call(libc.mount(own, b"/connection", None, MS_BIND, None), "show the kernel's sockets")
        call(libc.mount(b"tmpfs", b"/kernels", b"tmpfs", MS_NOSUID | MS_NODEV, b"size=4k"), "hide those of others")
        loopback()
        if not own_processes():
            read_only_processes()
        settle()
        kernel = os.fork()
    except BaseException as problem:
        os.write(status, f"1 {type(problem).__name__}: {problem}".encode()[:4000])
        return 1
    if kernel == 0:
        os.close(status)
        os.setpgid(0, 0)
        die_with_parent()
        run_kernel(payload)
    with contextlib.suppress(OSError):
        os.setpgid(kernel, kernel)
    signal.signal(signal.SIGINT, lambda *_: os.killpg(kernel, signal.SIGINT))
    os.write(status, str(wait_for(kernel)).encode())
    return 0


def run_kernel(payload: dict) -> None:
    """Be the kernel. Never returns."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = 1
    try:
        os.environ.update(payload["env"])
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as f:
            f.write("900")  # if the machine runs out of memory, this goes before the grader
        os.nice(NICE)
        for what, most in payload["limits"]:
            resource.setrlimit(what, (most, most))
        os.makedirs("/scratch/notebook")
        os.chdir("/scratch/notebook")
        sys.path[0] = ""  # as in any kernel: the notebook's folder, not the zygote's
        # nobody comes back to this session: no database and no thread for its history
        sys.argv = ["ipykernel_launcher", "-f", "/connection/kernel.json", "--HistoryManager.enabled=False"]
        deep_cells.run()
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 0
    except BaseException as problem:
        print(f"{type(problem).__name__}: {problem}", file=sys.stderr)
    finally:
        os._exit(code)


if __name__ == "__main__":
    prepare()
    Zygote(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])).serve()
