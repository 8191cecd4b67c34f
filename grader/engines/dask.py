"""The engine on dask.distributed: a cluster on this machine, or the address of a scheduler that runs already.

Submissions are handed out through a window as large as the slots. A worker that dies is blamed for all that it was
given, and a submission that would wait on it might be blamed three times without ever having run. What students wrote
runs in a process below the worker, so that workers do not die of it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Iterable, Iterator

import dask
from distributed import Client, KilledWorker, LocalCluster, as_completed, get_worker

from grader.engines import ATTEMPTS, WORK, NoEngine, tls
from grader.engines.local import pinned, shares
from grader.engines.worker_process import ROOT, WorkerProcess
from grader.judge.gpulock import visible_gpus

_worker_processes: dict[tuple, WorkerProcess] = {}
_opening = threading.Lock()


START_LIMIT = 30
"""Seconds for a scheduler to answer, and for its first worker to be there."""


def open_engine(
    workers: int | None,
    work: str = WORK,
    scheduler: str | None = None,
    gpus: int | None = None,
    encrypted: bool = True,
    **_,
) -> Dask:
    """`workers`: jobs at a time. None, with a `scheduler`: as many as its cluster has cores, also when it grows."""
    if scheduler:
        if encrypted:
            tls.require(scheduler)
        return _joined(scheduler, workers, work)
    names = visible_gpus()[:gpus]
    parts = shares(workers, names)
    # A process for each part; the work itself happens in a process below, which has the slots.
    with forgiving():
        cluster = LocalCluster(
            n_workers=len(parts),
            threads_per_worker=max(slots for slots, _ in parts),
            dashboard_address=None,
            host="127.0.0.1",
            memory_limit=None,
        )
    return Dask(Client(cluster), [cluster], workers, work, names)


def _joined(scheduler: str, workers: int | None, work: str) -> Dask:
    """The cluster of a scheduler that runs already."""
    try:
        client = Client(scheduler, timeout=START_LIMIT)
    except (OSError, ValueError) as problem:
        raise NoEngine(f"No Dask scheduler answers at {scheduler}: {problem}") from None
    try:
        client.wait_for_workers(1, timeout=START_LIMIT)
    except TimeoutError:
        client.close()
        raise NoEngine(f"The Dask scheduler at {scheduler} has no workers.") from None
    return Dask(client, [], workers, work, None)


def forgiving():
    """For a scheduler that starts inside: the deaths of workers that a submission survives before it is given up."""
    return dask.config.set({"distributed.scheduler.allowed-failures": ATTEMPTS - 1})


class Dask:
    """Jobs on a Dask cluster. `gpus`: this machine's, for workers that are all on it; elsewhere the site pins them."""

    def __init__(self, client: Client, closing: list, workers: int | None, work: str, gpus: list[str] | None):
        self._asked, self._client, self._closing = workers, client, closing
        self._work, self._gpus = work, gpus
        self._since: dict[str, float] = {}

    @property
    def workers(self) -> int:
        """Jobs at a time: so many as were asked for, or one for each core that the cluster has now."""
        return self._asked or max(1, sum(self._client.nthreads().values()))

    def run(self, jobs: Iterable[dict]) -> Iterator[tuple[str, dict]]:
        jobs, keys, count = iter(jobs), {}, itertools.count()
        results, errand = as_completed(), _errand(str(ROOT))

        def refill() -> None:
            room = self.workers
            while len(keys) < room and (job := next(jobs, None)) is not None:
                name = f"grade-{next(count)}"
                future = self._client.submit(errand, job, self._work, self._gpus, pure=False, key=name)
                keys[future.key] = job["key"]
                self._since[job["key"]] = time.monotonic()
                results.add(future)

        refill()
        for future in results:
            key = keys.pop(future.key)
            self._since.pop(key)
            if (problem := future.exception()) is None:
                result = future.result()
            elif isinstance(problem, KilledWorker):
                result = {"lost": "the worker that graded it died (KilledWorker)"}
            else:  # the cluster's, not the submission's: nobody may get marks for it
                raise NoEngine(
                    f"Dask's workers cannot grade ({type(problem).__name__}: {str(problem)[:200]}). They need the "
                    f"packages of requirements.lock, and this folder under the same path: {ROOT}."
                )
            future.release()
            refill()
            yield key, result

    def running(self) -> dict[str, float]:
        now = time.monotonic()
        return {key: now - since for key, since in list(self._since.items())}

    def close(self) -> None:
        with contextlib.suppress(Exception):  # what is gone already
            self._client.close(timeout=5)
        for one in self._closing:
            with contextlib.suppress(Exception):
                one.close(timeout=20)


def _errand(root: str):
    """What is sent to the cluster: a nested function goes as a whole, so that a scheduler and workers that were started
    elsewhere need not know the grader; a worker finds it where this one lies."""

    def errand(job: dict, work: str, gpus: list[str] | None) -> dict:
        import sys

        if root not in sys.path:
            sys.path.insert(0, root)
        from grader.engines.dask import do

        return do(job, work, gpus)

    return errand


def do(job: dict, work: str, gpus: list[str] | None) -> dict:
    """On a Dask worker: hand the job to the process below it."""
    worker = get_worker()
    env = {} if not gpus else pinned(gpus, worker.name if isinstance(worker.name, int) else os.getpid())
    with _opening:
        mark = (worker.name, work)
        if mark not in _worker_processes:
            _worker_processes[mark] = WorkerProcess(worker.state.nthreads, env, work)
    return _worker_processes[mark].persist(job)
