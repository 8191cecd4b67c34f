"""Grade without running anything, as a process that can be killed: `python -m tests.grader.engines.grade_pretend UNIT
SUBMISSIONS OUT [EXECUTOR] [--resume]`. Prints the memory of this process at a tenth of the class and at the end."""

import sys
from pathlib import Path

from grader.grading.grade import exit_status, grade
from grader.grading.options import GradeOptions
from grader.grading.run import Watcher
from tests.grader.engines.conftest import WORK


def resident() -> int:
    """Megabytes of this process that are in memory."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096 >> 20


class Memory(Watcher):
    """Notes how much memory there was at a tenth of the class."""

    def begin(self, engine, total, done):
        self.total, self.done, self.early = total, done, 0

    def step(self, student):
        self.done += 1
        if self.done == self.total // 10:
            self.early = resident()


def main(unit, submissions, out, *options):
    watcher, out = Memory(), Path(out)
    executor = next((o for o in options if not o.startswith("--")), "local")
    asked = GradeOptions(seed=3, resume="--resume" in options, executor=executor, work=WORK, workers=2)
    status = exit_status(lambda: grade(Path(unit), Path(submissions), out, asked, watcher=watcher))
    print(f"memory: {watcher.early} MB, {resident()} MB")
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
