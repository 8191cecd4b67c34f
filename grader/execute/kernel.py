"""A Jupyter kernel on this Python, and a client that holds every cell to a time and an amount of output."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_output

from grader.execute import warm

ROOT = Path(__file__).resolve().parents[2]

CELL_TIMEOUT = "CellTimeout"
"""Name of the error in the output of a cell that was stopped."""


def fail(cell: NotebookNode, name: str, why: str) -> None:
    """Add an error to what a cell has shown."""
    cell.outputs.append(new_output("error", ename=name, evalue=why, traceback=[f"{name}: {why}"]))


class Stuck(Exception):
    """The kernel did not come back after its cell was interrupted."""


class _ThisPython(KernelSpecManager):
    """Whatever kernels are installed, and whatever the notebook asks for: the Python that runs the grader."""

    def get_kernel_spec(self, kernel_name):
        command = [sys.executable, "-m", "grader.execute.inside.deep_cells", "-f", "{connection_file}"]
        return KernelSpec(argv=command, language="python", display_name="Python 3")


@contextlib.asynccontextmanager
async def kernel(env: dict[str, str], output: int, gpu: bool = False) -> AsyncIterator[Client]:
    """A client of a fresh kernel with `env` added to its environment. Raises RuntimeError if none comes up.

    Where bubblewrap works the kernel is forked in a sandbox (`warm.py`); elsewhere it is a plain child process with a
    folder of its own. It and whatever it started are killed in the end. Sockets are files, not ports, so that kernels
    started at the same time cannot meet.
    """
    zygote = warm.zygote(gpu)
    with contextlib.ExitStack() as stack:
        # a socket's path has at most 107 characters
        parent = zygote.folder if zygote else "/tmp" if os.path.isdir("/tmp") else None
        sockets = tempfile.mkdtemp(prefix="k", dir=parent)
        stack.callback(shutil.rmtree, sockets, ignore_errors=True)
        manager = AsyncKernelManager(
            kernel_spec_manager=_ThisPython(),
            transport="ipc",
            ip=os.path.join(sockets, "s"),
            connection_file=os.path.join(sockets, "k.json"),
        )
        how = {}
        if zygote:
            manager.provisioner = warm.Provisioner(parent=manager)
            manager.provisioner.zygote = zygote
        else:
            scratch = tempfile.mkdtemp(prefix="submission-")
            stack.callback(shutil.rmtree, scratch, ignore_errors=True)
            env, how = plain_environment(scratch, env), {"cwd": os.path.join(scratch, "notebook")}
            os.mkdir(how["cwd"])
            how |= dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        client = Client(NotebookNode(cells=[], metadata={}), km=manager, output=output)
        try:
            await client.async_start_new_kernel(env=env, **how)
            client.group = getattr(manager.provisioner, "pgid", None)
            await client.async_start_new_kernel_client()
            yield client
        finally:
            await client.end()


def plain_environment(scratch: str, env: dict[str, str]) -> dict[str, str]:
    """The environment of a kernel without a sandbox: this one's, with nobody's settings, history and compiled kernels
    but the submission's own."""
    path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH")) if p)
    own = {"IPYTHONDIR": "ipython", "TRITON_CACHE_DIR": "triton", "GPULAB_CACHE": "gpulab"}
    return {
        "OMP_NUM_THREADS": "1",
        **os.environ,
        "PYTHONPATH": path,
        **{variable: f"{scratch}/{name}" for variable, name in own.items()},
        **env,
    }


MOST_CELLS_FULL = 20
"""So many cells of a notebook may show as much text as one cell may."""

DEEPEST = 50
"""Levels of lists and tables in what a cell shows."""


def _is_deep(content) -> bool:
    """Whether JSON has more levels than any reader of the notebook should meet."""
    level = [content]
    for _ in range(DEEPEST):
        inner = (v.values() if isinstance(v, dict) else v for v in level)
        level = [w for v in inner for w in v if isinstance(w, (dict, list))]
    return bool(level)


class Client(NotebookClient):
    """nbclient for one kernel. `run` raises DeadKernelError or Stuck if the kernel is of no use afterwards.

    Two methods of nbclient's own are used or extended by their private names; nbclient is pinned, and
    tests/grader/execute/test_execute.py would notice a change.
    """

    def __init__(self, notebook, *, output: int, **options):
        super().__init__(
            notebook,
            allow_errors=True,
            interrupt_on_timeout=True,
            raise_on_iopub_timeout=False,
            store_widget_state=False,
            record_timing=False,
            shutdown_kernel="immediate",
            **options,
        )
        # With a reply to fall back on, nbclient interrupts a cell once; without, it waits for the cell's own forever.
        self.error_on_timeout = {"ename": CELL_TIMEOUT, "evalue": "", "traceback": [], "execution_count": None}
        self.group: int | None = None
        self._most = {"stream": output, "display_data": 10 * output, "execute_result": output, "error": output}
        self._room, self._interrupted = dict(self._most), False
        self._left = dict.fromkeys(self._most, MOST_CELLS_FULL * output)

    async def run(self, cell: NotebookNode, seconds: float) -> None:
        """Execute one cell. What goes wrong in the cell itself becomes an output of it."""
        self.timeout = max(1, round(seconds))
        self._room, self._interrupted = dict(self._most), False
        self.nb.cells[:] = [cell]
        self._display_id_map.clear()  # a later cell cannot change what an earlier one shows
        await self.async_execute_cell(cell, 0)
        if self._interrupted:
            fail(cell, CELL_TIMEOUT, f"this cell ran longer than {self.timeout} s and was stopped")
            await self._expect_answer()

    async def end(self) -> None:
        """Kill the kernel, politely or not, with all that it started."""
        with contextlib.suppress(Exception):
            await self._async_cleanup_kernel()
        if self.group:
            with contextlib.suppress(OSError):
                os.killpg(self.group, signal.SIGKILL)

    async def cause_of_death(self) -> str:
        provisioner = self.km.provisioner if self.km else None
        code = await provisioner.poll() if provisioner else None
        if isinstance(provisioner, warm.Provisioner) and (why := provisioner.zygote.why(provisioner.number)):
            return why
        if code is None:
            return "its process is gone"
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    async def _async_handle_timeout(self, timeout, cell=None):
        self._interrupted = True
        return await super()._async_handle_timeout(timeout, cell)

    async def _expect_answer(self) -> None:
        try:
            await self.kc.execute_interactive("pass", silent=True, store_history=False, timeout=5)
        except (TimeoutError, RuntimeError, DeadKernelError):
            raise Stuck from None

    def process_message(self, msg, cell, cell_index):
        """As nbclient does, but a flood of output ends in a note. Each type has its own limit: prints cannot crowd out
        the verdict or the points that come after them."""
        kind = msg["msg_type"]
        if kind in self._room:
            left = min(self._room[kind], self._left[kind])
            deep = _is_deep(msg["content"])
            size = 1 + left if deep else len(json.dumps(msg["content"], default=str))
            self._room[kind] -= size
            self._left[kind] -= min(size, max(left, 0))
            if left <= 0:
                return None
            if size > left:
                text = str(msg["content"].get("text", ""))[:left] + "\n… (the rest of the output was dropped)\n"
                header = {**msg["header"], "msg_type": "stream"}
                msg = {**msg, "header": header, "msg_type": "stream", "content": {"name": "stdout", "text": text}}
        return super().process_message(msg, cell, cell_index)
