"""What the stages of judging hand on: an exercise's cases, then its plans."""

from __future__ import annotations

import json
from dataclasses import dataclass

from grader.judge import plan
from labutils.backends import Problem
from labutils.check.diagnose import NEEDS_GPU
from labutils.spec.exercise import Case, Exercise, KernelExercise
from labutils.spec.inputs import Run
from labutils.spec.serialize import NotSerializable, encode
from labutils.spec.verdict import Diagnosis, Verdict


@dataclass(frozen=True)
class Task:
    """One exercise of a submission, and what it is judged on."""

    exercise: Exercise
    cases: list[tuple[Case, bool]]
    timed: Case | None = None
    """The case at the benchmark's size, on a GPU only: timed where speed earns points, else only compared."""
    runs: tuple[Run, ...] = ()
    """Of a kernel: the arrays of each case, in the judge's own memory."""

    @property
    def is_kernel(self) -> bool:
        return isinstance(self.exercise, KernelExercise)

    @property
    def is_live(self) -> bool:
        """Does the learner's function get objects that cannot be serialized?"""
        if self.is_kernel:
            return False
        try:
            encode(list(self.exercise.arguments(self.cases[0][0]).values()))
        except NotSerializable:
            return True
        return False


@dataclass(frozen=True)
class PlannedTask:
    """A kernel's task with what the submission's launcher launches. `refusal`: why no case needs to be tried."""

    task: Task
    plans: tuple[plan.Plan | Problem, ...] = ()
    timed_plan: plan.Plan | Problem | None = None
    refusal: Diagnosis | None = None
    turns: tuple[int, ...] = ()
    """For each case, which configuration of an autotuned kernel runs in it (`turns.py`); empty: none is autotuned."""

    def turn(self, number: int) -> int:
        """The turn of a case."""
        return self.turns[number] if self.turns else number

    @property
    def exercise(self) -> Exercise:
        return self.task.exercise

    def specs(self) -> list[dict]:
        """The kernels of all its plans, by text."""
        return [s for p in (*self.plans, self.timed_plan) if isinstance(p, plan.Plan) for s in p.specs]

    def planned(self) -> list[int]:
        """Numbers of the cases that have a plan to be run."""
        return [k for k, p in enumerate(self.plans) if isinstance(p, plan.Plan)]


def passes(task: Task, verdict: Verdict) -> bool:
    """Has every case been tried, and none been refused?"""
    return verdict.passed and len(verdict.results) == len(task.cases)


def runs_on(task: Task, verdict: Verdict) -> bool:
    """Has every case been tried, and none been refused, but for those that only a GPU can run?"""
    tried = verdict.headline is None and len(verdict.results) == len(task.cases)
    return tried and all(r.passed or r.diagnosis.kind == NEEDS_GPU for r in verdict.results)


def key_of(spec: dict) -> str:
    """What two equal kernels share."""
    return json.dumps(spec, sort_keys=True)
