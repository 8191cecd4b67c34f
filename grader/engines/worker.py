"""A worker process: `python -m grader.engines.worker SLOTS MODULE`. Jobs come as lines on standard input, results go as
lines to standard output. Ended by the end of its input, as when the process that started it is gone."""

from __future__ import annotations

import atexit
import importlib
import json
import os
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

from grader.importing import without_collections


def main(slots: int, module: str) -> None:
    # Nothing that is printed while a job is done, here or in a child, may be taken for a result.
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    jobs = os.fdopen(os.dup(0), "r", encoding="utf-8")
    os.dup2(null, 0)
    # Beside, so that the end of the input is seen at once; kept, since sandboxes die with the thread that started them.
    preparing = ThreadPoolExecutor(1)
    work = preparing.submit(prepared, module)
    writing = threading.Lock()

    def one(number: int, job: dict) -> None:
        line = json.dumps({"number": number, "result": work.result().do(job)})
        with writing:
            results.write(line + "\n")
            results.flush()

    pool = ThreadPoolExecutor(slots)
    for line in jobs:
        told = json.loads(line)
        pool.submit(one, told["number"], told["job"])
    # Nobody is left to tell: what a job finds while its sandbox is taken away is no result. Python's own end would wait
    # for the jobs.
    os.dup2(os.open(os.devnull, os.O_WRONLY), results.fileno())
    atexit._run_exitfuncs()
    os._exit(0)


def prepared(module: str) -> ModuleType:
    """The module that does the work, ready for it. What cannot be had ends this process."""
    try:
        with without_collections():
            work = importlib.import_module(module)
            work.prepare()
        return work
    except BaseException:
        traceback.print_exc()
        os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
