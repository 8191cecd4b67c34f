"""Judging submissions side by side, each with a seed of its own, on one machine and at most one GPU."""

from __future__ import annotations

from grader.judge import record
from grader.judge.gpulock import GpuLock
from grader.judge.judge import Judge
from grader.judge.submission import NotJudged, Submission
from labutils import exercises
from labutils.check import diagnose
from labutils.spec.verdict import Verdict


class JudgePool:
    """Judges that share what no seed decides: compiled kernels, and the reference's plans for a race."""

    def __init__(self, gpu: str | None = None):
        """`gpu`: the value of CUDA_VISIBLE_DEVICES, of which the first is used."""
        self._first = Judge(0, gpu_lock=GpuLock(gpu))

    def judge(self, notebook: str, seed: int, ids: list[str]) -> dict:
        """The verdicts and the record of a notebook that nbgrader has sanitized, given as its text, as JSON."""
        try:
            submission = Submission.read(notebook.encode("utf-8", "replace"))
        except NotJudged as why:
            diagnosis = diagnose.diagnosis("error", f"this submission cannot be judged: {why}")
            none = {i: Verdict(i, "", headline=diagnosis, points=exercises.get(i).points.total) for i in ids}
            return {"verdicts": {i: v.to_json() for i, v in none.items()}, "record": {}}
        judge = Judge(seed, beside=self._first)
        verdicts = judge.judge(submission, ids)
        report = record.of(submission, judge, verdicts)
        return {"verdicts": report["verdicts"], "record": report}
