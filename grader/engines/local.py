"""The engine that works on this machine: worker processes, each for some of the slots, each pinned to a GPU."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from grader.engines import WORK
from grader.engines.worker_process import WorkerProcess
from grader.judge.gpulock import visible_gpus

SLOTS = 5
"""Jobs that one process does at a time. Its sandboxes, a gigabyte in all, are shared by them."""

BESIDE = 1
"""Jobs that a process does beyond its slots where it has several: each waits for a third of its time, for its kernel to
start and to end."""

AHEAD = 2
"""Jobs that wait ready beyond those being done."""


def open_engine(workers: int, work: str = WORK, gpus: int | None = None, **_) -> Local:
    return Local(workers, work, visible_gpus()[:gpus])


def shares(workers: int, gpus: list[str]) -> list[tuple[int, dict[str, str]]]:
    """The slots and the environment of each worker process: GPUs in turns, each with as many processes as the
    others if there are workers enough."""
    each = len(gpus) or 1
    count = min(-(-workers // (SLOTS * each)) * each, workers)
    slots = [workers // count + (k < workers % count) for k in range(count)]
    return [(n, pinned(gpus, k)) for k, n in enumerate(slots)]


def pinned(gpus: list[str], number: int) -> dict[str, str]:
    """The environment that shows worker `number` one GPU alone."""
    if not gpus:
        return {}
    return {"CUDA_VISIBLE_DEVICES": gpus[number % len(gpus)], "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


class Local:
    def __init__(self, workers: int, work: str, gpus: list[str]):
        self.workers = workers
        self.worker_processes = [
            WorkerProcess(n + BESIDE if n > 1 else n, env, work) for n, env in shares(workers, gpus)
        ]
        for process in self.worker_processes:
            process.start()
        self._free: queue.SimpleQueue[WorkerProcess] = queue.SimpleQueue()
        for round_ in range(max(s.slots for s in self.worker_processes)):  # in turns, so that a small class is spread
            for process in self.worker_processes:
                if process.slots > round_:
                    self._free.put(process)
        self._since: dict[str, float] = {}
        self._slots = sum(process.slots for process in self.worker_processes)
        self._pool = ThreadPoolExecutor(self._slots)

    def run(self, jobs: Iterable[dict]) -> Iterator[tuple[str, dict]]:
        yield from windowed(jobs, lambda job: self._pool.submit(self._one, job), self._slots + AHEAD)

    def running(self) -> dict[str, float]:
        now = time.monotonic()
        return {key: now - since for key, since in list(self._since.items())}

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in self.worker_processes:  # all at the same time
            process.end()
        for process in self.worker_processes:
            process.close()

    def _one(self, job: dict) -> dict:
        process = self._free.get()
        self._since[job["key"]] = time.monotonic()
        try:
            return process.persist(job)
        finally:
            del self._since[job["key"]]
            self._free.put(process)


def windowed(jobs: Iterable[dict], submit: Callable[[dict], Future], window: int) -> Iterator[tuple[str, dict]]:
    """Keep at most `window` jobs submitted; yield results in the order in which they come."""
    jobs, keys = iter(jobs), {}
    while True:
        while len(keys) < window and (job := next(jobs, None)) is not None:
            keys[submit(job)] = job["key"]
        if not keys:
            return
        done, _ = wait(keys, return_when=FIRST_COMPLETED)
        for future in done:
            yield keys.pop(future), future.result()
