"""Kernels on the GPU: what passed the recorded run is run there, and timed where speed earns points."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import torch

from grader.judge import gpu, plan, speed, wire
from grader.judge.arrays import Placed
from grader.judge.submission import Submission
from grader.judge.task import PlannedTask, Task, key_of, passes
from labutils.backends import Outcome, Problem
from labutils.check import diagnose
from labutils.check.evaluate import add_case
from labutils.gpu import device
from labutils.spec.exercise import Case, KernelExercise
from labutils.spec.inputs import Run
from labutils.spec.verdict import Diagnosis, Verdict

READY = 2
"""Submissions of one process whose arrays are drawn, one that has the GPU among them: each may take two gigabytes."""

SPARE_TRIES = 1
"""Of a submission, for the first exercise whose runner is lost: a machine may stumble, and what a kernel does it does
again."""

GPU_LIMIT = 3.0
"""Seconds for one case on the GPU; an honest one takes milliseconds, and what never ends holds the GPU up."""


class GpuSession:
    """What one submission has on the GPU: a runner, what lies in its memory by exercise, and its tries."""

    def __init__(self, runner: gpu.Runner, cases: dict[str, Placed], rings: dict[str, Placed | None]):
        self.runner: gpu.Runner | None = runner
        self.cases, self.rings, self.spare_tries = cases, rings, SPARE_TRIES

    def begin(self) -> None:
        """Have the runner make its context, and map its memory. One that cannot is dropped."""
        try:
            self.runner.begin()
        except gpu.RunnerLost:
            self.drop()

    def take(self) -> gpu.Runner:
        """The runner, or a fresh one with nothing in its memory."""
        self.runner = self.runner or gpu.Runner()
        return self.runner

    def drop(self) -> None:
        """End the runner, and forget what lay in its memory."""
        if self.runner:
            self.runner.close()
        self.runner, self.cases, self.rings = None, {}, {}


class GpuRuns:
    """The GPU's part of judging: one submission at a time, each in a context of its own."""

    def __init__(self, judge, beside: GpuRuns | None = None, lock=None):
        """`lock` is held while the GPU is used; with `beside`, another judge's part, that one's, and its references."""
        self._judge = judge
        self._references: dict[str, PlannedTask] = beside._references if beside else {}
        self._making = beside._making if beside else threading.Lock()
        self._one_at_a_time = beside._one_at_a_time if beside else lock or threading.Lock()
        self._room = beside._room if beside else threading.BoundedSemaphore(READY)

    def run(self, tasks: list[PlannedTask], recorded: dict[str, Verdict], runner: gpu.Runner) -> dict[str, Verdict]:
        """Run again on the GPU what passed, and time it where speed earns points. `runner` is closed at the end.

        `recorded`: the verdicts of the recorded runs, by exercise. Returns those that take their place.
        """
        if not tasks:
            return {}
        self._make_references([p.task for p in tasks])
        with self._room:
            cases = {t.exercise.id: self._cases(t, runner) for t in tasks}
            session = GpuSession(runner, cases, {t.exercise.id: self._ring(t, runner) for t in tasks})
            try:
                # Contexts are made and ended while another submission has the GPU: with several GPUs in use each takes
                # a third of a second.
                session.begin()
                with self._one_at_a_time:
                    return {t.exercise.id: self._tried(t, recorded[t.exercise.id], session) for t in tasks}
            finally:
                session.drop()

    def _tried(self, planned: PlannedTask, verdict: Verdict, session: GpuSession) -> Verdict:
        """Run one exercise; once more if the runner is lost and this submission has a try left."""
        while True:
            runner, name = session.take(), planned.exercise.id
            try:
                verdict = self._run(planned, verdict, runner, session.cases.get(name) or self._cases(planned, runner))
                if planned.task.timed and passes(planned.task, verdict):
                    verdict = self._at_full_size(
                        planned, verdict, runner, session.rings.get(name) or self._ring(planned, runner)
                    )
                return verdict
            except gpu.RunnerLost as lost:
                session.drop()
                if session.spare_tries == 0:
                    return replace(verdict, headline=diagnose.diagnosis(lost.kind, lost.why))
                session.spare_tries -= 1

    def _races(self, task: Task) -> bool:
        return bool(self._judge.race and task.timed and task.exercise.points.speed)

    @staticmethod
    def _cases(planned: PlannedTask, runner: gpu.Runner) -> Placed:
        """The arrays of a task's cases, as they were before the recorded run, in the runner's memory."""
        for run in planned.task.runs:
            for b in run.buffers.values():
                b.reset()
        arrays = wire.placed([planned], runner.memory)
        arrays.put()
        return arrays

    def _run(self, planned: PlannedTask, verdict: Verdict, runner: gpu.Runner, arrays: Placed) -> Verdict:
        """The verdict with results from the GPU in place of the recorded ones."""
        kernels, places = self.kernels(planned.plans)
        task, exercise, cases = planned.task, planned.exercise, []
        for number, (made, run) in enumerate(zip(planned.plans, task.runs, strict=True)):
            arguments = arrays.for_runner((exercise.id, number))
            twice = run.case.exact or not _bits_may_vary(exercise, made)
            plan_ = gpu.for_runner(made, places[number])
            cases.append({"arguments": arguments, "plan": plan_, "twice": twice, "turn": planned.turn(number)})
        answers = list(runner.run({"kernels": kernels, "cases": cases, "time_limit": GPU_LIMIT}))
        arrays.take()
        recorded, verdict = verdict.results, _afresh(verdict)
        for answer, made, run, (_, hidden), before in zip(
            answers, planned.plans, task.runs, task.cases, recorded, strict=True
        ):
            outcome = Outcome(launches=len(made.launches()), returned=made.returned, seconds=before.seconds)
            outcome.unstable = bool(answer.get("unstable"))
            if "refused" in answer:
                outcome = Outcome(Problem("error", answer["refused"]))
            add_case(verdict, exercise, run, outcome, hidden)
        return verdict

    def kernels(self, plans: Sequence[plan.Plan]) -> tuple[list[dict], list[dict[int, int]]]:
        """The machine code that plans need, each once, and for each plan where its kernels stand in that list."""
        keys: dict[str, int] = {}
        places = [{k: keys.setdefault(key_of(s), len(keys)) for k, s in enumerate(p.specs)} for p in plans]
        kernels = [self._judge.compiled[k] for k in keys]
        if missing := [k for k in kernels if not isinstance(k, dict)]:
            raise gpu.RunnerLost("died", f"there is no machine code to run: {missing[0]}")
        return kernels, places

    def prepare(self, tasks: list[Task]) -> None:
        """Make what the first submission would have to wait for: this process's own context, and the references."""
        torch.empty(1, device=speed.DEVICE)
        self._make_references(tasks)

    def _make_references(self, tasks: list[Task]) -> None:
        """The reference solutions' plans at the timed size, compiled; each is made once."""
        for exercise in (t.exercise for t in tasks if self._races(t)):
            with self._making:
                if exercise.id not in self._references:
                    self._references[exercise.id] = self.plan_reference(exercise, speed.timed_case(exercise))

    def plan_reference(self, exercise: KernelExercise, timed: Case) -> PlannedTask:
        """The solution's plan for a timed case; that plan's kernels are compiled."""
        from grader.course.sources import ROOT, source_notebook  # jupytext; nobody needs it who does not race

        solution = Submission.of(source_notebook(ROOT / "solutions" / exercise.unit))
        task = Task(exercise, [], timed)
        with self._judge.sandboxes([task], None) as boxes:
            found = self._judge.timed_plan(task, self._judge.answers([task], solution, boxes.launch))
            if not isinstance(found, plan.Plan):
                raise RuntimeError(f"{exercise.id}: the solution has no plan: {found}")
            planned = PlannedTask(task, timed_plan=found)
            for name, box in boxes.compilers.items():
                self._judge.compile([planned], name, box)
        return planned

    def _ring(self, planned: PlannedTask, runner: gpu.Runner) -> Placed | None:
        """What a task is timed on or run on at a large size, drawn before the GPU's turn comes: that takes as long as
        the timing. None where there is nothing to run."""
        task = planned.task
        if not task.timed or not isinstance(planned.timed_plan, plan.Plan):
            return None
        exercise, case, l2_bytes = task.exercise, task.timed, device.current().l2_mb * 2**20
        count = speed.ring_size(exercise, case, l2_bytes) if self._races(task) else 1
        return self.drawn(runner, exercise, case, self._judge.seed, count)

    @staticmethod
    def drawn(runner: gpu.Runner, exercise: KernelExercise, case: Case, seed: int, count: int) -> Placed:
        """A ring of runs whose arrays lie in the runner's memory."""
        arrays = Placed(runner.memory, {k: speed.blank(exercise, case, seed) for k in range(count)})
        arrays.adopt()
        with ThreadPoolExecutor(count) as pool:  # PyTorch draws with one thread each
            list(pool.map(lambda number: speed.fill(arrays.runs[number], seed, number), arrays.runs))
        return arrays

    def _at_full_size(
        self, planned: PlannedTask, verdict: Verdict, runner: gpu.Runner, arrays: Placed | None
    ) -> Verdict:
        if arrays is None:
            return replace(verdict, headline=diagnose.from_problem(planned.timed_plan))
        if not self._races(planned.task):
            found = self._large(planned, runner, arrays)
            return replace(verdict, headline=found) if found else verdict
        reference = self._references[planned.exercise.id].timed_plan
        measured = self.race(runner, arrays, planned.timed_plan, reference)
        return self._judge_race(planned, verdict, measured, list(arrays.runs.values())[:-1])

    def _large(self, planned: PlannedTask, runner: gpu.Runner, arrays: Placed) -> Diagnosis | None:
        """One run at a size that no recorded run could have. Its output is compared, and nothing is timed."""
        run = arrays.runs[0]
        speed.poison(run)
        kernels, places = self.kernels([planned.timed_plan])
        case = {"arguments": arrays.for_runner(0), "plan": gpu.for_runner(planned.timed_plan, places[0])}
        job = {"kernels": kernels, "cases": [case | {"twice": False, "turn": 0}], "time_limit": GPU_LIMIT}
        (answer,) = runner.run(job)
        sizes = ", ".join(f"{k} = {v:,}" for k, v in planned.task.timed.sizes.items())
        if "refused" in answer:
            return diagnose.diagnosis("error", f"at {sizes}: {answer['refused']}")
        if wrong := speed.wrong(run):
            return diagnose.diagnosis("wrong-values", f"at {sizes}, {wrong} are wrong")
        return None

    def race(self, runner: gpu.Runner, arrays: Placed, a: plan.Plan, b: plan.Plan) -> dict:
        """Time plan `a` beside plan `b` on a ring of inputs; what the runner tells, with all samples in seconds."""
        job = {"time_limit": self._judge.time_limit, "ring": [arrays.for_runner(key) for key in arrays.runs]}
        for side, launch_plan in (("a", a), ("b", b)):
            kernels, places = self.kernels([launch_plan])
            job[side] = {"kernels": kernels, "plan": gpu.for_runner(launch_plan, places[0])}
        return runner.race(job, speed.StopRule())

    def _judge_race(self, planned: PlannedTask, verdict: Verdict, measured: dict, runs: list[Run]) -> Verdict:
        """The verdict with the time in it, which counts only if every timed run did the whole work."""
        task, verdict = planned.task, replace(verdict, notes=[*verdict.notes])
        if not measured["inputs_kept"]:
            verdict.headline = diagnose.diagnosis(
                "input-overwritten", "an input was changed while the kernel was timed"
            )
        elif max(measured["distinct"]) > 1 and not _bits_may_vary(task.exercise, planned.timed_plan):
            verdict.headline = diagnose.diagnosis("race", "timed runs on the same input left different results")
        elif wrong := next((w for run in runs if (w := speed.wrong(run))), None):
            verdict.headline = diagnose.diagnosis("wrong-values", f"at the timed size, {wrong} are wrong")
        if verdict.headline:
            return verdict
        verdict.timing = timing = speed.summary(measured, task.exercise, task.timed)
        if timing["of_least"] > 1 / speed.REFUSED_UNDER:
            verdict.headline = diagnose.diagnosis(
                "wrong-values",
                f"the kernel took {timing['yours_s'] * 1e6:.1f} µs, less than the work itself takes "
                f"({timing['floor_why']}) and less than the reference solution's {timing['reference_s'] * 1e6:.1f} µs",
            )
        elif timing["of_least"] > 1 / speed.FLAGGED_UNDER:
            verdict.notes.append(f"Faster than the floor, which is worth a look: {timing['floor_why']}.")
        return verdict


def _bits_may_vary(exercise: KernelExercise, made: plan.Plan) -> bool:
    """May two correct runs on the same input differ in their last bits? Atomics add in whichever order threads come."""
    return exercise.contract.any_order or made.atomics


def _afresh(verdict: Verdict) -> Verdict:
    """A verdict without results. Counts of a recorded run that some cases could not have decide nothing."""
    unrecorded = next((r.diagnosis for r in verdict.results if not r.passed), None)
    if unrecorded is None:
        return replace(verdict, results=[])
    note = f"Judged on the GPU alone, without recorded accesses: {unrecorded.symptom}."
    return replace(verdict, results=[], counts={}, notes=[*verdict.notes, note])
