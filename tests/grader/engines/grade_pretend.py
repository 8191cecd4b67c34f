"""Grade without running anything, as a process that can be killed: `python -m tests.grader.engines.grade_pretend UNIT
SUBMISSIONS OUT [EXECUTOR] [--resume] [--workers=N] [--quick]`, where nbgrader's converters are pretended, too. Prints
the memory of this process at a tenth of the class, at the end, and the most that it had."""

import sys
from pathlib import Path

from grader.gradebook.gradebook import Course
from grader.grading.grade import exit_status, grade
from grader.grading.options import GradeOptions
from grader.grading.run import Clock, Watcher
from tests.grader.engines.conftest import WORK
from tests.grader.grading.pretended import quick_feedback, quick_record, quick_sanitized


def resident(what: str = "VmRSS") -> int:
    """Megabytes of this process that are in memory; VmHWM: the most that were. (`ru_maxrss` begins with that of the
    process which started this one.)"""
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(what)) >> 10


class Memory(Watcher):
    """Notes how much memory there was at a tenth of the class."""

    def begin(self, engine, total, done):
        self.total, self.done, self.early = total, done, 0

    def step(self, student):
        self.done += 1
        if self.done == self.total // 10:
            self.early = resident()


def main(unit, submissions, out, *options):
    watcher, clock, out = Memory(), Clock(), Path(out)
    executor = next((o for o in options if not o.startswith("--")), "local")
    workers = next((int(o.partition("=")[2]) for o in options if o.startswith("--workers=")), 2)
    if "--quick" in options:
        Course.feedback, Course.record, Course.sanitized = quick_feedback, quick_record, quick_sanitized
    asked = GradeOptions(seed=3, resume="--resume" in options, executor=executor, work=WORK, workers=workers)
    status = exit_status(lambda: grade(Path(unit), Path(submissions), out, asked, watcher=watcher, clock=clock))
    print("seconds:", ", ".join(f"{step} {seconds:.0f}" for step, seconds in clock.steps.items()))
    print(f"memory: {watcher.early} MB, {resident()} MB, {resident('VmHWM')} MB")
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
