"""Run one notebook in a Jupyter kernel of its own, and keep going whatever its cells do.

A cell that raises costs only itself. After a cell that kills the kernel, or keeps it from answering, a fresh kernel
runs the cells before it again (not the checks: they are decided) and goes on behind it.
"""

from __future__ import annotations

import copy
import time
from dataclasses import asdict, dataclass, field

from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode

from grader.course.cells import too_many_commands
from grader.execute.kernel import CELL_TIMEOUT, Client, Stuck, fail, kernel

KERNEL_DIED = "KernelDied"
"""Name of the error in the output of a cell whose kernel died, or that was not run because of that."""

VERDICT_MIME = "application/vnd.gpu-kernel-lab.verdict+json"
"""labutils.check.check.VERDICT_MIME, without the two seconds that importing PyTorch takes."""

# What labutils' CUDA backend says when a check's process loses its GPU, and in each later check of that process.
_LOST_GPU, _LOST_BEFORE = "Kernel → Restart", "an earlier kernel"


@dataclass(frozen=True)
class NotebookLimits:
    """Seconds for a cell and for a notebook; fresh kernels after the first; characters of output kept of a cell."""

    cell: float = 90
    notebook: float = 600
    restarts: int = 3
    output: int = 200_000


@dataclass
class Log:
    """What happened in a run: sentences for people, seconds of each cell by id, seconds of the whole."""

    events: list[str] = field(default_factory=list)
    cells: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    def to_json(self) -> dict:
        return asdict(self)


async def run_notebook(notebook: NotebookNode, env: dict[str, str], limits: NotebookLimits, gpu: bool = False) -> Log:
    """Execute the code cells, in place; `env` is added to the kernel's environment. `gpu`: it may use one."""
    run = _Run(notebook, env, limits, gpu)
    begin = time.monotonic()
    await run.all_cells()
    run.log.seconds = round(time.monotonic() - begin, 2)
    return run.log


def is_check(cell: NotebookNode) -> bool:
    """Whether a cell is a test that gives points."""
    nbgrader = cell.metadata.get("nbgrader", {})
    return cell.cell_type == "code" and bool(nbgrader.get("grade")) and not nbgrader.get("solution")


class _Run:
    def __init__(self, notebook: NotebookNode, env: dict[str, str], limits: NotebookLimits, gpu: bool):
        self.env, self.limits, self.gpu = env, limits, gpu
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        runs = [(n, c) for n, c in enumerate(notebook.cells, start=1) if c.cell_type == "code" and c.source.strip()]
        self.cells = [c for _, c in runs]
        self.names = [f"Cell {n} (`{_first_line(c)}`)" for n, c in runs]
        self.done = 0
        self.killers: set[int] = set()
        self.deadline = time.monotonic() + limits.notebook
        self.log = Log()

    async def all_cells(self) -> None:
        for _ in range(1 + self.limits.restarts):
            try:
                async with kernel(self.env, self.limits.output, self.gpu) as client:
                    await self._until_it_dies(client)
            except RuntimeError as problem:
                self._give_up(KERNEL_DIED, f"no kernel started: {problem}")
            if self.done == len(self.cells):
                return
            if time.monotonic() >= self.deadline:
                self._give_up(CELL_TIMEOUT, f"the notebook ran longer than {self.limits.notebook:g} s and was stopped")
        self._give_up(KERNEL_DIED, "the kernel died too often, so the rest of the notebook was not run")

    async def _until_it_dies(self, client: Client) -> None:
        """Catch up with what other kernels did, then go on; return when all is done or this kernel is spent."""
        for index, cell in enumerate(self.cells[: self.done]):
            skip = index in self.killers or is_check(cell) or too_many_commands(cell.source)
            if not skip and not await self._repeat(client, index, copy.deepcopy(cell)):
                return
        while self.done < len(self.cells) and time.monotonic() < self.deadline:
            index, self.done = self.done, self.done + 1
            if not await self._run(client, index):
                return

    async def _run(self, client: Client, index: int) -> bool:
        """Run a cell for the first time; False if the kernel is spent."""
        cell, what = self.cells[index], self.names[index]
        begin, limit, usable = time.monotonic(), self._seconds(), True
        try:
            if problem := too_many_commands(cell.source):
                raise ValueError(problem)
            await client.run(cell, limit)
            if any(o.output_type == "error" and o.ename == CELL_TIMEOUT for o in cell.outputs):
                self.log.events.append(f"{what} ran longer than {limit:.0f} s and was stopped.")
            if is_check(cell) and _lost_gpu(cell, _LOST_GPU):
                usable = False
                if _lost_gpu(cell, _LOST_BEFORE):  # not by this check, so it has another try
                    self.done = index
                else:
                    self.log.events.append(f"{what} left its process without the GPU; a new kernel continued after it.")
        except DeadKernelError:
            usable = False
            self._killed(index, what, "killed the kernel", await client.cause_of_death())
        except Stuck:
            usable = False
            self._killed(index, what, "did not end", f"stopped after {time.monotonic() - begin:.0f} s")
        except Exception as problem:  # what nbclient cannot digest, or is spared, costs the cell
            fail(cell, type(problem).__name__, str(problem)[:300])
        self.log.cells[cell.id] = round(time.monotonic() - begin, 2)
        return usable

    async def _repeat(self, client: Client, index: int, cell: NotebookNode) -> bool:
        """Run a cell again for its effects only; False if the kernel did not survive it this time."""
        try:
            await client.run(cell, self._seconds())
        except (DeadKernelError, Stuck):
            self.killers.add(index)
            return False
        except Exception:
            return True
        return True

    def _seconds(self) -> float:
        return max(1.0, min(self.limits.cell, self.deadline - time.monotonic()))

    def _killed(self, index: int, what: str, did: str, how: str) -> None:
        self.killers.add(index)
        self.log.events.append(f"{what} {did} ({how}); a new kernel continued without it.")
        fail(self.cells[index], KERNEL_DIED, f"this cell {did} ({how})")

    def _give_up(self, name: str, why: str) -> None:
        rest, self.done = self.cells[self.done :], len(self.cells)
        for cell in rest:
            fail(cell, name, why)
        if rest:
            self.log.events.append(f"{why[0].upper()}{why[1:]}; {len(rest)} cells were not run.")


def _first_line(cell: NotebookNode) -> str:
    line = next(line.strip() for line in cell.source.split("\n") if line.strip())
    return line if len(line) <= 48 else line[:48] + "…"


def _lost_gpu(cell: NotebookNode, words: str) -> bool:
    """Whether the check's own verdict says, in these words, that its process has lost the GPU."""
    for output in cell.outputs:
        verdict = output.get("data", {}).get(VERDICT_MIME)
        results = verdict.get("results") if isinstance(verdict, dict) else None
        for result in results if isinstance(results, list) else ():
            diagnosis = result.get("diagnosis") if isinstance(result, dict) else None
            if isinstance(diagnosis, dict) and words in str(diagnosis.get("symptom")):
                return True
    return False
