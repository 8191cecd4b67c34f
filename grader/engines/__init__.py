"""Engines: where grading runs. They differ only in the place.

A job is JSON: a submission's sanitized notebook, its seed, and how to run it (`grader.engines.work` says which keys).
Its result is JSON that depends on nothing but the job. An engine takes jobs as it has room for them and yields results
as they come, so that a class of any size is never in memory at once.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Iterator
from typing import Protocol

from grader.judge.gpulock import visible_gpus

ATTEMPTS = 3
"""How often a job is begun if the process that does it dies; nothing that a submission does should end that process."""

WORK = "grader.engines.work"
"""The module whose `do(job)` does a job."""

NAMES = ("local", "dask", "slurm", "array")


MOST_WORKERS = 8
"""Submissions at a time on a machine with one GPU or none. Each takes about 1 GB."""

WORKERS_OF_A_GPU = 4
"""With several GPUs, for each. A submission with races has a GPU for 4 s and needs 4 to 8 s before that: more of them
only wait, and at the end of a class they wait while another GPU has nothing to do."""


def workers_for(name: str, asked: int | None, gpus: int | None, scheduler: str | None) -> int | None:
    """How many workers an engine is asked for; None where it counts the cores of a cluster that runs already."""
    return asked if name == "dask" and scheduler else workers_here(asked, gpus)


def workers_here(asked: int | None, gpus: int | None = None) -> int:
    """As many as were asked for; else one for each core of this machine, and no more than its GPUs, or the first `gpus`
    of them, have use for."""
    return asked or min(os.cpu_count() or 2, max(MOST_WORKERS, WORKERS_OF_A_GPU * len(visible_gpus()[:gpus])))


class Engine(Protocol):
    """What `grader.grading.grade` asks of an engine."""

    workers: int
    """Jobs at a time."""

    def run(self, jobs: Iterable[dict]) -> Iterator[tuple[str, dict]]:
        """Do jobs; yield each one's key and result. `jobs` is asked for the next one in the caller's thread, when there
        is room. A result is what `do` returns, or {"lost": why} if it never did."""

    def running(self) -> dict[str, float]:
        """The keys of the jobs that are being done, and for how many seconds."""

    def close(self) -> None:
        """End everything that it started, at once."""


class NoEngine(RuntimeError):
    """This engine cannot be had here; the message says why and what to do."""


def open_engine(name: str, workers: int | None, **options) -> Engine:
    """Start an engine; `workers` as `workers_for` says. Options that it has no use for are ignored. Raises NoEngine."""
    try:
        module = importlib.import_module(f"grader.engines.{name}")
    except ModuleNotFoundError as missing:
        raise NoEngine(
            f"The {name} engine needs the package {missing.name!r}, which is not installed: "
            "pip install -r requirements.lock."
        ) from None
    return module.open_engine(workers, **options)
