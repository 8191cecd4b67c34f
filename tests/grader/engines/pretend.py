"""Work that costs nothing, for tests of engines and journals: right answers are recognised by their text.

Students whose names say so misbehave: "kills" ends the worker process every time, "kills once" the first time,
"slow" takes a second, "GPU" has its worker's GPU for a tenth of one, "leaves" has something to remove in the end, which
may take "long", "thread" asks whether the thread that prepared the worker is alive. Started with PRETEND_SECONDS, every
job takes so long, with PRETEND_PREPARE a worker's own start; with PRETEND_CASES, every verdict has so many cases.
"""

import atexit
import json
import os
import threading
import time
from pathlib import Path

from grader.judge.gpulock import GpuLock


def prepare():
    global _preparer
    _preparer = threading.current_thread()
    time.sleep(float(os.environ.get("PRETEND_PREPARE", 0)))


def do(job):
    time.sleep(float(os.environ.get("PRETEND_SECONDS", 0)) + ("slow" in job["key"]))
    if "leaves" in job["key"]:
        atexit.register(_tidy, "long" in job["key"])
    if "GPU" in job["key"]:
        with GpuLock(os.environ["CUDA_VISIBLE_DEVICES"]):
            time.sleep(0.1)
    if "kills" in job["key"] and not ("once" in job["key"] and _before(job["key"])):
        os._exit(9)
    if "thread" in job["key"]:
        return {"alive": _preparer.is_alive()}
    notebook = json.loads(job["notebook"])
    for cell in notebook["cells"]:
        if cell["id"].startswith("check-"):
            cell["outputs"] = []
    right = "3 * n" in job["notebook"]
    case = {"case": f"seed {job['seed']}", "diagnosis": None, "error": None, "seconds": 0.0, "hidden": True}
    more = [
        case | {"case": f"n = {n}, a case of this size"} for n in range(int(os.environ.get("PRETEND_CASES", 1)) - 1)
    ]
    headline = {"kind": "wrong-values", "symptom": "wrong", "advice": "try again", "details": "", "guess": False}
    verdict = {"backend": "pretended", "results": [case, *more], "headline": None if right else headline}
    verdict |= {"counts": {}, "timing": {}, "notes": [], "printed": "", "marks": float(right), "points": 1.0}
    return {
        "notebook": json.dumps(notebook),
        "log": {"events": [], "cells": {}, "seconds": 0.1},
        "verdicts": {i: {"exercise": i, **verdict} for i in job["exercises"]},
        "record": {"seed": job["seed"]},
    }


def _tidy(long):
    time.sleep(60 * long)
    Path(os.environ["PRETEND_FOLDER"], "tidied").touch()


def _before(key):
    """Whether this is not the first time."""
    mark = Path(os.environ["PRETEND_FOLDER"], key.replace(" ", "_"))
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return True
    return False
