"""A worker process: `python -m grader.engines.worker SLOTS MODULE`. Jobs come as lines on standard input, results go as
lines to standard output. Ended by the end of its input, as when the process that started it is gone."""

from __future__ import annotations

import atexit
import importlib
import json
import os
import queue
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TextIO

from grader.engines.importing import without_collections


def main(slots: int, module: str) -> None:
    # Nothing that is printed while a job is done, here or in a child, may be taken for a result.
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    jobs = os.fdopen(os.dup(0), "r", encoding="utf-8")
    os.dup2(null, 0)
    results_queue: queue.SimpleQueue[dict] = queue.SimpleQueue()
    threading.Thread(target=listen, args=(jobs, results_queue, results.fileno()), daemon=True).start()
    # In this thread, which is there to the end: sandboxes die with the thread that started them.
    with without_collections():
        work = importlib.import_module(module)
        work.prepare()
    writing = threading.Lock()

    def one(number: int, job: dict) -> None:
        line = json.dumps({"number": number, "result": work.do(job)})
        with writing:
            results.write(line + "\n")
            results.flush()

    pool = ThreadPoolExecutor(slots)
    while True:
        pool.submit(one, **results_queue.get())


def listen(jobs: TextIO, results_queue: queue.SimpleQueue, results: int) -> None:
    """Hand on the jobs; at the end of the input, whatever is being done or imported, end this process."""
    for line in jobs:
        results_queue.put(json.loads(line))
    # Nobody is left to tell: what a job finds while its sandbox is taken away is no result. Python's own end would wait
    # for the jobs.
    os.dup2(os.open(os.devnull, os.O_WRONLY), results)
    atexit._run_exitfuncs()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
