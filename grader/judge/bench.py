"""Judges side by side: a class's submissions judged while their notebooks run for the feedback."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from nbformat import NotebookNode

from grader.judge import record, sandbox
from grader.judge.judge import Judge
from grader.judge.submission import NotJudged, Submission
from labutils import diagnose
from labutils import exercise as exercises
from labutils.verdict import Verdict


class Bench:
    """Judges the submissions of one unit, `workers` at a time."""

    def __init__(self, seed: int, workers: int, ids: list[str]):
        self._judge, self._ids = Judge(seed), ids
        self._pool = ThreadPoolExecutor(workers)
        self._jobs: dict[str, Future[tuple[dict[str, Verdict], dict]]] = {}
        sandbox.warm_up("launch", "replay")

    def judge_all(self, jobs: list[tuple[str, NotebookNode]]) -> None:
        """Start judging these submissions, each a student and a notebook that nbgrader has sanitized."""
        for student, notebook in jobs:
            self._jobs[student] = self._pool.submit(self._one, notebook)

    def _one(self, notebook: NotebookNode) -> tuple[dict[str, Verdict], dict]:
        try:
            submission = Submission.of(notebook)
        except NotJudged as why:
            said = diagnose.diagnosis("error", f"this submission cannot be judged: {why}")
            none = {i: Verdict(i, "", headline=said, points=exercises.get(i).points.total) for i in self._ids}
            return none, {}
        verdicts = self._judge.judge(submission, self._ids)
        return verdicts, record.of(submission, self._judge, verdicts)

    def verdicts(self, student: str) -> dict[str, Verdict]:
        """The verdict of each exercise, when they are there."""
        return self._jobs[student].result()[0]

    def record(self, student: str) -> dict:
        return self._jobs[student].result()[1]

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_) -> None:
        self._pool.shutdown(cancel_futures=True)
