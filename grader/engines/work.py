"""The work on one submission: run its notebook for the feedback, judge its exercises. A pure function of the job.

A job: `key`, names it · `notebook`, sanitized, as text · `seed`, draws its hidden cases · `exercises`, the ids to
judge, or none where the notebook's own checks give the marks · `limits` of the notebook (`execute.notebook.Limits`) ·
`run`, false if the notebook ran before and is only judged again.
A result: `notebook`, executed, as text · `log` · `verdicts` by exercise · `record`, to judge it again. If the machine
could not do it: `defect`, a sentence; with `full`, because a disk is full.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

# jsonschema loads this grammar, which takes two seconds, to check a format that no notebook uses.
sys.modules.setdefault("rfc3987_syntax", None)

import nbformat  # noqa: E402

from grader.execute import warm  # noqa: E402
from grader.execute.notebook import NotebookLimits, run_notebook  # noqa: E402

_FULL = (errno.ENOSPC, errno.EDQUOT)
_judging = threading.Lock()
_judge_pool = None


def prepare() -> None:
    """Start importing, in all the sandboxes at once, what the first job will need."""
    from grader.judge import sandbox

    warm.zygote()
    sandbox.warm_up("launch", "replay", "compile")


def do(job: dict) -> dict:
    """The result of a job. Raises nothing."""
    try:
        with ThreadPoolExecutor(1) as beside:
            judging = beside.submit(_judged, job) if job["exercises"] else None
            executed = _executed(job) if job.get("run", True) else {}
            return executed | (judging.result() if judging else {"verdicts": {}, "record": {}})
    except Exception as problem:
        message = f"{type(problem).__name__}: {problem}"
        if isinstance(problem, OSError) and problem.errno in _FULL:
            return {"defect": message, "full": True}
        print(traceback.format_exc(), file=sys.stderr, flush=True)
        return {"defect": message[:500]}


def _executed(job: dict) -> dict:
    notebook = nbformat.reads(job["notebook"], as_version=4)
    env, gpu = {"NBGRADER_EXECUTION": "autograde"}, False
    if job["exercises"]:
        env["GPULAB_JUDGED"] = "1"
    else:
        from labutils.gpu import device

        env["GPULAB_SEED"], gpu = str(job["seed"]), device.has_gpu()
    log = asyncio.run(run_notebook(notebook, env, NotebookLimits(**job["limits"]), gpu))
    # A cell may show half a surrogate pair, which no file can hold.
    text = nbformat.writes(notebook).encode("utf-8", "replace").decode()
    return {"notebook": text, "log": log.to_json()}


def _judged(job: dict) -> dict:
    global _judge_pool
    with _judging:
        if _judge_pool is None:
            from grader.judge.judge_pool import JudgePool

            _judge_pool = JudgePool(os.environ.get("CUDA_VISIBLE_DEVICES"))
    return _judge_pool.judge(job["notebook"], job["seed"], job["exercises"])
