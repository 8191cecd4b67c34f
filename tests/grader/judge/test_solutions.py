"""The judge gives every solution all marks, hidden cases included: no launcher of ours does what it forbids."""

import pytest

from grader.course.sources import ROOT, source_notebook
from grader.judge.judge import Judge
from grader.judge.submission import Submission
from labutils import exercises

UNITS = sorted({task.unit for task in exercises.all_exercises().values()})


@pytest.fixture(scope="module")
def judge():
    return Judge(seed=7)


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_a_solution_gets_all_marks(judge, unit):
    tasks = [task for task in exercises.all_exercises().values() if task.unit == unit]
    verdicts = judge.judge(Submission.of(source_notebook(ROOT / "solutions" / unit)), [t.id for t in tasks])
    payload = {name: v.text()[-400:] for name, v in verdicts.items() if not v.passed}
    assert not payload
    assert {n: v.marks for n, v in verdicts.items()} == {t.id: pytest.approx(t.points.total) for t in tasks}
