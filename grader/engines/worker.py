"""A worker process: `python -m grader.engines.worker SLOTS MODULE`. Jobs come as lines on standard input, results go as
lines to standard output. Ended by the end of its input, as when the process that started it is gone."""

from __future__ import annotations

import atexit
import importlib
import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from grader.importing import without_collections


def main(slots: int, module: str) -> None:
    # Nothing that is printed while a job is done, here or in a child, may be taken for a result.
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    jobs = os.fdopen(os.dup(0), "r", encoding="utf-8")
    os.dup2(null, 0)
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
    for line in jobs:
        told = json.loads(line)
        pool.submit(one, told["number"], told["job"])
    # Nobody is left to tell. Sandboxes are ended and folders removed, but no job is waited for, as Python's end would.
    atexit._run_exitfuncs()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
