"""One exercise of a submission on its way to a verdict."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from grader.judge import plan
from labutils.backends import Problem
from labutils.spec.exercise import Case, Exercise, KernelExercise
from labutils.spec.inputs import Run
from labutils.spec.serialize import NotSerializable, encode
from labutils.spec.verdict import Verdict


@dataclass
class Task:
    """One exercise of a submission on its way to a verdict."""

    exercise: Exercise
    cases: list[tuple[Case, bool]]
    runs: list[Run] = field(default_factory=list)
    plans: list[plan.Plan | Problem] = field(default_factory=list)
    verdict: Verdict = None
    timed: Case | None = None
    """The case at the benchmark's size, on a GPU only: timed where speed earns points, else only compared."""
    timed_plan: plan.Plan | Problem | None = None

    @property
    def is_kernel(self) -> bool:
        return isinstance(self.exercise, KernelExercise)

    @property
    def is_live(self) -> bool:
        """Does the learner's function get objects that cannot be told as data?"""
        if self.is_kernel:
            return False
        try:
            encode(list(self.exercise.arguments(self.cases[0][0]).values()))
        except NotSerializable:
            return True
        return False


def passes(task: Task) -> bool:
    """Has every case been tried, and none been refused?"""
    return task.verdict.passed and len(task.verdict.results) == len(task.cases)


def specs_of(task: Task) -> list[dict]:
    """The kernels of all its plans, by text."""
    return [s for p in (*task.plans, task.timed_plan) if isinstance(p, plan.Plan) for s in p.specs]


def key_of(spec: dict) -> str:
    """What two equal kernels share."""
    return json.dumps(spec, sort_keys=True)
