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
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=command, language="python", display_name="Python 3")


@contextlib.asynccontextmanager
async def kernel(folder: Path, env: dict[str, str], output: int) -> AsyncIterator[Client]:
    """A client of a fresh kernel that runs in `folder`. Raises RuntimeError if none comes up.

    The kernel and whatever it started in its process group are killed in the end. Sockets are files, not ports, so
    that kernels started at the same time cannot meet.
    """
    sockets = tempfile.mkdtemp(prefix="k", dir="/tmp" if os.path.isdir("/tmp") else None)  # a socket's path is short
    manager = AsyncKernelManager(
        kernel_spec_manager=_ThisPython(), transport="ipc", connection_file=os.path.join(sockets, "k.json")
    )
    client = Client(NotebookNode(cells=[], metadata={}), km=manager, output=output)
    null = subprocess.DEVNULL
    try:
        await client.async_start_new_kernel(cwd=str(folder), env=env, stdin=null, stdout=null, stderr=null)
        client.group = manager.provisioner.pgid
        await client.async_start_new_kernel_client()
        yield client
    finally:
        with contextlib.suppress(Exception):
            await client._async_cleanup_kernel()
        if client.group:
            with contextlib.suppress(OSError):
                os.killpg(client.group, signal.SIGKILL)
        shutil.rmtree(sockets, ignore_errors=True)


class Client(NotebookClient):
    """nbclient for one kernel. `run` raises DeadKernelError or Stuck if the kernel is of no use afterwards.

    Two methods of nbclient's own are used or extended by their private names; nbclient is pinned, and
    tests/grader/test_execute.py would notice a change.
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

    async def cause_of_death(self) -> str:
        code = await self.km.provisioner.poll() if self.km and self.km.provisioner else None
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
        """As nbclient does, but a flood of output ends in a note. Each type has its own room: prints cannot crowd out
        the verdict or the marks that come after them."""
        kind = msg["msg_type"]
        if kind in self._room:
            left, size = self._room[kind], len(json.dumps(msg["content"], default=str))
            self._room[kind] = left - size
            if left < 0:
                return None
            if size > left:
                text = str(msg["content"].get("text", ""))[:left] + "\n… (the rest of the output was dropped)\n"
                header = {**msg["header"], "msg_type": "stream"}
                msg = {**msg, "header": header, "msg_type": "stream", "content": {"name": "stdout", "text": text}}
        return super().process_message(msg, cell, cell_index)
