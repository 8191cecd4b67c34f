"""Notebook kernels in a sandbox: forked from one process that has imported everything (`inside/zygote.py`).

The client stays outside. The two meet in sockets that are files in a folder, which both sides see under other names.
A kernel sees the tools, labutils and its own sockets: no network, no course, no gradebook, no other submission.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from jupyter_client.provisioning import KernelProvisionerBase

from grader.judge import isolation, sandbox

PACKAGE = "gpulab_kernels"
START_LIMIT = 120.0
MOST_MEMORY = 8 << 30
"""Bytes that a kernel and the processes it starts may hold together, shared pages counted for each."""

GPU_DEVICES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")


class NoKernels(RuntimeError):
    """The zygote cannot be started or has ended; the message says why."""


class Zygote:
    """The sandbox with the process that forks kernels. Threads may share it.

    `gpu`: show the GPU of CUDA_VISIBLE_DEVICES inside, for notebooks whose own checks decide the points.
    """

    def __init__(self, gpu: bool = False):
        # These take longest, and may be stopped: nothing of the rest has begun yet.
        isolation.course(True)
        _inside()
        # A socket's path has at most 107 characters, so the folder is not below a long TMPDIR.
        self.folder = Path(tempfile.mkdtemp(prefix="gk", dir="/tmp" if os.path.isdir("/tmp") else None))
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock, self._started = threading.Lock(), 0
        self._ended: dict[int, tuple[int, str]] = {}
        self._ready = False
        self.limits = _limits(gpu)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the process)
        python = [sys.executable, "-B", "-m", f"{PACKAGE}.zygote", str(theirs.fileno()), str(MOST_MEMORY)]
        try:
            self._process = subprocess.Popen(
                [*_bwrap(self.folder, gpu), *python],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env=_environment(gpu),
                pass_fds=[theirs.fileno()],
            )
        finally:
            theirs.close()
        self._channel.settimeout(START_LIMIT)
        atexit.register(self.close)

    def wait(self) -> None:
        """Until it has imported everything. Raises NoKernels."""
        with self._lock:
            if not self._ready:
                try:
                    received = self._channel.recv(1 << 16)
                except TimeoutError:
                    received = b""
                if not received:
                    raise NoKernels(f"the sandbox for notebooks does not start: {self._last_words()}")
                self._channel.setblocking(False)
                self._ready = True

    def start(self, folder: str, env: dict[str, str]) -> int:
        """Start a kernel on the connection file in `folder`; returns its number."""
        self.wait()
        with self._lock:
            self._started += 1
            self._tell({"start": self._started, "folder": folder, "env": env, "limits": self.limits})
            return self._started

    def signal(self, number: int, signum: int) -> None:
        with self._lock, contextlib.suppress(NoKernels):
            self._tell({"signal": number, "number": int(signum)})

    def status(self, number: int) -> int | None:
        """None while the kernel runs; then its exit code, or -signal."""
        with self._lock:
            self._listen()
            if number in self._ended:
                return self._ended[number][0]
            return None if self._process.poll() is None else -signal.SIGKILL

    def why(self, number: int) -> str:
        """What else is known of the end of a kernel."""
        return self._ended.get(number, (0, ""))[1]

    def forget(self, number: int) -> None:
        self._ended.pop(number, None)

    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End it and every kernel."""
        sandbox.end(self._process)
        self._channel.close()
        self._errors.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.close)

    def _tell(self, message: dict) -> None:
        try:
            self._channel.send(json.dumps(message).encode())
        except OSError:
            raise NoKernels(f"the sandbox for notebooks ended: {self._last_words()}") from None

    def _listen(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):
            while message := self._channel.recv(1 << 16):
                payload = json.loads(message)
                self._ended[payload["ended"]] = payload["status"], payload["why"]

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        return sandbox.end_of(self._errors, 400).strip()


_zygotes: dict[bool, Zygote] = {}
_starting = threading.Lock()


def zygote(gpu: bool = False) -> Zygote | None:
    """This process's zygote, started on first use; None where namespaces cannot be had."""
    if not isolation.bubblewrap():
        return None
    with _starting:
        if gpu not in _zygotes or not _zygotes[gpu].alive():
            _zygotes[gpu] = Zygote(gpu)
        return _zygotes[gpu]


class Provisioner(KernelProvisionerBase):
    """Starts, signals and buries a forked kernel for jupyter_client."""

    zygote: Zygote = None
    number: int | None = None
    status: int | None = None

    @property
    def has_process(self) -> bool:
        return self.number is not None

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        return {"cmd": [], "env": kwargs.get("env") or {}}  # not, as others do, the environment of this process

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> dict:
        manager = self.parent
        manager.write_connection_file()
        info = manager.get_connection_info()
        folder = Path(manager.connection_file).parent
        inside = {k: v.decode() if isinstance(v, bytes) else v for k, v in info.items()} | {"ip": "/connection/s"}
        (folder / "kernel.json").write_text(json.dumps(inside), encoding="utf-8")
        loop = asyncio.get_running_loop()  # the first kernel waits for the imports
        self.number = await loop.run_in_executor(None, self.zygote.start, folder.name, kwargs.get("env") or {})
        return info

    async def poll(self) -> int | None:
        if self.status is None and self.number is not None:
            self.status = self.zygote.status(self.number)
        return self.status

    async def wait(self) -> int | None:
        while await self.poll() is None:
            await asyncio.sleep(0.05)
        return self.status

    async def send_signal(self, signum: int) -> None:
        if self.number is not None and self.status is None:
            self.zygote.signal(self.number, signum)

    async def kill(self, restart: bool = False) -> None:
        await self.send_signal(signal.SIGKILL)

    async def terminate(self, restart: bool = False) -> None:
        await self.kill()

    async def cleanup(self, restart: bool = False) -> None:
        if self.number is not None:
            self.zygote.forget(self.number)


def _limits(gpu: bool) -> list[tuple[int, int]]:
    """Limits of each process. CUDA reserves more address space than any limit on that would allow."""
    wanted = [
        (resource.RLIMIT_FSIZE, 1 << 30),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 1024),
        (resource.RLIMIT_NPROC, sandbox.PROCESSES),
    ]
    if not gpu:
        wanted.append((resource.RLIMIT_AS, sandbox.MEMORY))
    return sandbox.allowed(wanted)


def _bwrap(folder: Path, gpu: bool) -> list[str]:
    course = isolation.course(True)  # the checks read the exercises, which every learner has
    line = [*isolation.namespaces(course), "--die-with-parent", "--ro-bind", str(_inside()), "/inside"]
    line += ["--bind", str(folder), "/kernels", "--dir", "/connection", "--tmpfs", _environment(gpu)["TMPDIR"]]
    if gpu:
        names = [p.name for p in Path("/dev").glob("nvidia[0-9]*")] + list(GPU_DEVICES)
        for device in (f"/dev/{name}" for name in names if os.path.exists(f"/dev/{name}")):
            line += ["--dev-bind", device, device]
        line += ["--ro-bind", "/sys", "/sys"]
    return [*line, "--chdir", "/", "--remount-ro", "/dev", "--remount-ro", "/"]


@functools.cache
def _inside() -> Path:
    """A folder with the zygote as a package, and nothing else of the grader."""
    source, ignored = Path(__file__).with_name("inside"), shutil.ignore_patterns("__pycache__")
    return isolation.until_the_end(
        "gpulab-kernels-",
        lambda folder: shutil.copytree(source, folder / PACKAGE, ignore=ignored, copy_function=isolation.copy),
    )


def _environment(gpu: bool) -> dict[str, str]:
    env = isolation.environment("/scratch", f"/course{os.pathsep}/inside", {})
    env |= {
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "MPLCONFIGDIR": f"{env['TMPDIR']}/matplotlib",
        "IPYTHONDIR": "/scratch/ipython",
        "NBGRADER_EXECUTION": "autograde",
    }
    if gpu:
        env["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    return env
