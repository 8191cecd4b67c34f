"""Kernels on the GPU: what passed the recorded run is run there, and timed where speed earns points."""

from __future__ import annotations

import contextlib
import threading

from grader.judge import gpu, plan, speed, wire
from grader.judge.arrays import Placed
from grader.judge.submission import Submission
from grader.judge.task import Task, key_of, passes
from labutils import device, diagnose
from labutils.backends import Outcome, Problem
from labutils.evaluate import add_case
from labutils.exercise import KernelExercise
from labutils.inputs import Run
from labutils.verdict import Verdict

GPU_LIMIT = 3.0
"""Seconds for one case on the GPU; an honest one takes milliseconds, and what never ends holds the GPU up."""


class OnGpu:
    """The GPU's part of judging: one submission at a time, each in a context of its own."""

    def __init__(self, judge, beside: OnGpu | None = None, lock=None):
        """`lock` is held while the GPU is used; with `beside`, another judge's part, that one's, and its references."""
        self._judge = judge
        self._references: dict[str, Task] = beside._references if beside else {}
        self._making = beside._making if beside else threading.Lock()
        self._one_at_a_time = beside._one_at_a_time if beside else lock or threading.Lock()

    def run(self, tasks: list[Task], runner: gpu.Runner | None) -> None:
        """Run again on the GPU what passed, and time it where speed earns points. `runner` is one that was started
        before, and is closed here."""
        for t in tasks:
            if self._races(t):
                self._reference(t.exercise)
        with self._one_at_a_time:
            try:
                for t in tasks:
                    runner = runner or gpu.Runner()
                    try:
                        self._run(t, runner)
                        if t.timed and passes(t):
                            self._at_full_size(t, runner)
                    except gpu.RunnerLost as lost:
                        runner.close()
                        runner = None
                        t.verdict.headline = diagnose.diagnosis(lost.kind, lost.why)
            finally:
                if runner:
                    runner.close()

    def _races(self, task: Task) -> bool:
        return bool(self._judge.race and task.timed and task.exercise.points.speed)

    def _run(self, task: Task, runner: gpu.Runner) -> None:
        kernels, places = self.kernels(task.plans)
        for run in task.runs:
            for b in run.buffers.values():
                b.reset()
        arrays = wire.placed([task], runner.memory)
        arrays.put()
        exercise, cases = task.exercise, []
        for number, (told, run) in enumerate(zip(task.plans, task.runs, strict=True)):
            arguments = arrays.for_runner((exercise.id, number))
            twice = run.case.exact or not exercise.contract.any_order
            plan_ = gpu.for_runner(told, places[number])
            cases.append({"arguments": arguments, "plan": plan_, "twice": twice, "turn": number})
        answers = list(runner.run({"kernels": kernels, "cases": cases, "time_limit": GPU_LIMIT}))
        arrays.take()
        recorded, task.verdict.results = task.verdict.results, []
        for answer, told, run, (_, hidden), before in zip(
            answers, task.plans, task.runs, task.cases, recorded, strict=True
        ):
            outcome = Outcome(launches=len(told.launches()), returned=told.returned, seconds=before.seconds)
            outcome.unstable = bool(answer.get("unstable"))
            if "refused" in answer:
                outcome = Outcome(Problem("error", answer["refused"]))
            add_case(task.verdict, exercise, run, outcome, hidden)

    def kernels(self, plans: list[plan.Plan]) -> tuple[list[dict], list[dict[int, int]]]:
        """The machine code that plans need, each once, and for each plan where its kernels stand in that list."""
        keys: dict[str, int] = {}
        places = [{k: keys.setdefault(key_of(s), len(keys)) for k, s in enumerate(p.specs)} for p in plans]
        kernels = [self._judge.compiled[k] for k in keys]
        if missing := [k for k in kernels if not isinstance(k, dict)]:
            raise gpu.RunnerLost("died", f"there is no machine code to run: {missing[0]}")
        return kernels, places

    def _reference(self, exercise: KernelExercise) -> Task:
        """The reference solution's plan at the timed size, compiled; made once."""
        with self._making:
            if exercise.id not in self._references:
                task = Task(exercise, [], verdict=Verdict(exercise.id, ""), timed=speed.timed_case(exercise))
                self.plan_reference(task)
                self._references[exercise.id] = task
        return self._references[exercise.id]

    def plan_reference(self, task: Task) -> None:
        """Give a task the solution's plan for its timed case, and compile that plan's kernels."""
        from grader.sources import ROOT, source_notebook  # jupytext; nobody needs it who does not race

        solution = Submission.of(source_notebook(ROOT / "solutions" / task.exercise.unit))
        with contextlib.ExitStack() as stack:
            launch, _, boxes = self._judge.open(stack, [task], None)
            self._judge.tell_plans([task], solution, launch)
            if not isinstance(task.timed_plan, plan.Plan):
                raise RuntimeError(f"{task.exercise.id}: the solution has no plan: {task.timed_plan or task.verdict}")
            for name, box in boxes.items():
                self._judge.compile([task], name, box)

    @staticmethod
    def load(runner: gpu.Runner, runs: list[Run]) -> Placed:
        """Put the arrays of a ring of runs into the runner's memory."""
        arrays = Placed(runner.memory, dict(enumerate(runs)))
        arrays.put()
        return arrays

    def _at_full_size(self, task: Task, runner: gpu.Runner) -> None:
        if not isinstance(task.timed_plan, plan.Plan):
            task.verdict.headline = diagnose.from_problem(task.timed_plan)
        elif self._races(task):
            self._race(task, runner)
        else:
            self._large(task, runner)

    def _large(self, task: Task, runner: gpu.Runner) -> None:
        """One run at a size that no recorded run could have. Its output is compared, and nothing is timed."""
        run = speed.draw(task.exercise, task.timed, self._judge.seed, 0)
        speed.poison(run)
        arrays = self.load(runner, [run])
        kernels, places = self.kernels([task.timed_plan])
        case = {"arguments": arrays.for_runner(0), "plan": gpu.for_runner(task.timed_plan, places[0])}
        job = {"kernels": kernels, "cases": [case | {"twice": False, "turn": 0}], "time_limit": GPU_LIMIT}
        (answer,) = runner.run(job)
        arrays.take(outputs_only=True)
        sizes = ", ".join(f"{k} = {v:,}" for k, v in task.timed.sizes.items())
        if "refused" in answer:
            task.verdict.headline = diagnose.diagnosis("error", f"at {sizes}: {answer['refused']}")
        elif said := speed.wrong(run):
            task.verdict.headline = diagnose.diagnosis("wrong-values", f"at {sizes}, {said} are wrong")

    def _race(self, task: Task, runner: gpu.Runner) -> None:
        exercise, case = task.exercise, task.timed
        runs = [
            speed.draw(exercise, case, self._judge.seed, k)
            for k in range(speed.ring_size(exercise, case, device.current().l2_mb * 2**20))
        ]
        arrays = self.load(runner, runs)
        told = self.race(runner, arrays, task.timed_plan, self._references[exercise.id].timed_plan)
        arrays.take(outputs_only=True)
        self._judge_race(task, told, runs[:-1])

    def race(self, runner: gpu.Runner, arrays: Placed, a: plan.Plan, b: plan.Plan) -> dict:
        """Time plan `a` beside plan `b` on a ring of inputs; what the runner tells, with all samples in seconds."""
        job = {"time_limit": self._judge.time_limit, "ring": [arrays.for_runner(key) for key in arrays.runs]}
        for side, told in (("a", a), ("b", b)):
            kernels, places = self.kernels([told])
            job[side] = {"kernels": kernels, "plan": gpu.for_runner(told, places[0])}
        return runner.race(job, speed.StopRule())

    def _judge_race(self, task: Task, told: dict, runs: list[Run]) -> None:
        """A time counts only if every timed run did the whole work."""
        verdict, any_order = task.verdict, task.exercise.contract.any_order
        if not told["inputs_kept"]:
            verdict.headline = diagnose.diagnosis(
                "input-overwritten", "an input was changed while the kernel was timed"
            )
        elif not any_order and max(told["distinct"]) > 1:
            verdict.headline = diagnose.diagnosis("race", "timed runs on the same input left different results")
        elif said := next((w for run in runs if (w := speed.wrong(run))), None):
            verdict.headline = diagnose.diagnosis("wrong-values", f"at the timed size, {said} are wrong")
        if verdict.headline:
            return
        verdict.timing = speed.summary(told, task.exercise, task.timed)
        if verdict.timing["of_floor"] > 1 / speed.REFUSED_UNDER:
            verdict.headline = diagnose.diagnosis(
                "wrong-values",
                f"the kernel took {verdict.timing['yours_s'] * 1e6:.1f} µs, less than the work itself takes: "
                + verdict.timing["floor_why"],
            )
        elif verdict.timing["of_floor"] > 1 / speed.FLAGGED_UNDER:
            verdict.notes.append(f"Faster than the floor, which is worth a look: {verdict.timing['floor_why']}.")
