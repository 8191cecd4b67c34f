"""Grading in this process, without running anything: an engine that can end at any job, and quick pages."""

from tests.grader.engines import pretend


class PowerCut(BaseException):
    """Nothing may catch it, as nothing would be left to."""


def quick_feedback(self, student=None):
    """Pages like nbgrader's, which takes seconds."""
    for one in [student] if student else self.without_feedback():
        self.page(one).parent.mkdir(parents=True, exist_ok=True)
        self.page(one).write_text("<html></html>")


class Here:
    """An engine in this process, which pretends; `fails` may end it, or give another result, at any job."""

    workers = 1

    def __init__(self, fails=lambda done, result: result, do=pretend.do):
        self.fails, self.do, self.asked = fails, do, []

    def run(self, jobs):
        for job in jobs:
            self.asked.append(job["key"])
            yield job["key"], self.fails(len(self.asked), self.do(job))

    def running(self):
        return {}

    def close(self):
        pass


def marks_of(results):
    return {s.student: s.marks for s in results.students}
