"""From a submission's text to verdicts: plans, kernels, memory, comparison. Nothing of the submission runs here."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from grader.judge import compilers, copies, gpu, plan, reader, speed, wire
from grader.judge.gpu_runs import GpuRuns
from grader.judge.sandbox import Died, Memory, Sandbox, SandboxLimits
from grader.judge.submission import Submission
from grader.judge.task import PlannedTask, Task, key_of, runs_on
from grader.judge.turns import with_turns
from labutils import exercises
from labutils.backends import Outcome, Problem, child, offline
from labutils.backends.interpreter import TARGETS
from labutils.check import diagnose
from labutils.check.evaluate import add_case, cases_of, conclude
from labutils.gpu import device
from labutils.spec.exercise import Exercise, PlainExercise
from labutils.spec.inputs import generator, make_run
from labutils.spec.verdict import Diagnosis, Verdict

HIDDEN_CASES = 4

TIME_LIMIT = 10.0
"""Seconds of CPU time for one case in the sandbox; an honest one needs about one."""


@dataclass(frozen=True)
class Sandboxes:
    """Where a submission's Python runs (`launch`), its plans on the CPU (`replay`), and compilers, by language."""

    launch: Sandbox
    replay: Sandbox | None
    compilers: dict[str, Sandbox]


@dataclass(frozen=True)
class LaunchAnswers:
    """What the launch sandbox reported by exercise and case. `why` stands for every case that it did not report."""

    found: dict[str, dict[int, dict]]
    why: str

    def of(self, task: Task, number: int) -> dict:
        return self.found[task.exercise.id].get(number, {"ended": self.why})


class Judge:
    """Judges submissions on this machine. `seed` draws inputs and hidden cases: secret, and drawn after the freeze.

    `beside` is a judge with another seed, with which this one shares what no seed decides: compiled kernels, the
    references' plans for a race, and the lock that is held while the GPU is used (`gpu_lock`). Without `race` nothing
    is timed and memory traffic stands in for time, as without a GPU; what passes runs once at a large size.

    `judge` is the whole way from top to bottom; each stage takes data and returns data. Only `compiled` is shared by
    the stages: a cache of machine code by the kernel's text.
    """

    def __init__(
        self,
        seed: int,
        hidden: int = HIDDEN_CASES,
        time_limit: float = TIME_LIMIT,
        on_gpu: bool | None = None,
        gpu_lock=None,
        beside: Judge | None = None,
        race: bool = True,
    ):
        self.seed, self.hidden, self.time_limit = seed, hidden, time_limit
        self.on_gpu = device.has_gpu() if on_gpu is None else on_gpu
        self.race = race
        self.targets = (device.current().sm,) if self.on_gpu else TARGETS
        self.compiled: dict[str, compilers.Compiled] = beside.compiled if beside else {}
        self.gpu = GpuRuns(self, beside and beside.gpu, gpu_lock) if self.on_gpu else None
        self.spent: Counter[str] = Counter()
        """Seconds by what they were spent on, of all submissions together."""

    def runs(self, exercise: Exercise) -> bool:
        """Do this exercise's kernels run on the GPU here, if there is one?"""
        return self.on_gpu and exercise.only in (None, *self.targets)

    def describe(self, exercise: Exercise) -> str:
        if isinstance(exercise, PlainExercise):
            return "plain Python"
        if self.runs(exercise):
            return device.current().name
        run = "Triton's interpreter" if exercise.language == "triton" else "the CUDA C++ emulator"
        return f"{run} on the CPU"

    def prepare(self, ids: Iterable[str]) -> None:
        """Make what the first submission of these exercises would wait for: GPU context, references' machine code."""
        tasks = [self._task(exercises.get(i)) for i in ids]
        if ours := [t for t in tasks if t.is_kernel and self.runs(t.exercise)]:
            self.gpu.prepare(ours)

    def judge(self, submission: Submission, ids: Iterable[str]) -> dict[str, Verdict]:
        """The verdict of each exercise. Raises nothing for what a submission holds."""
        asked = [self._task(exercises.get(i)) for i in dict.fromkeys(ids)]
        live = [t.is_live for t in asked]
        tasks = [t for t, is_live in zip(asked, live, strict=True) if not is_live]
        kernels = [t for t in tasks if t.is_kernel]

        verdicts = self._judge_live([t for t, is_live in zip(asked, live, strict=True) if is_live], submission)
        with self._memory(kernels) as memory, self.sandboxes(tasks, memory) as boxes:
            # The sandboxes start while the arrays are drawn; runner and references while plans are made.
            tasks = [self._with_runs(t) for t in tasks]
            with self._prepared_runner([t for t in tasks if t.is_kernel and self.runs(t.exercise)]) as runner:
                with self._spending("plans"):
                    answers = self.answers(tasks, submission, boxes.launch)
                    verdicts |= {t.exercise.id: self._plain_verdict(t, answers) for t in tasks if not t.is_kernel}
                    planned = [self._planned(t, answers) for t in tasks if t.is_kernel]
                boxes.launch.close()
                if planned:
                    with self._spending("compiling and recorded runs"):
                        outcomes = self._compile_and_replay(planned, boxes, memory)
                        verdicts |= {p.exercise.id: self._recorded_verdict(p, outcomes) for p in planned}
                    with self._spending("GPU"):
                        if runner:
                            verdicts |= self.gpu.run(self._for_gpu(planned, verdicts), verdicts, runner)
        return {t.exercise.id: conclude(t.exercise, verdicts[t.exercise.id]) for t in asked}

    @contextlib.contextmanager
    def _spending(self, on: str):
        begin = time.perf_counter()
        yield
        self.spent[on] += time.perf_counter() - begin

    # --- what the stages work on --------------------------------------------------------------------------------------

    def _task(self, exercise: Exercise) -> Task:
        task = Task(exercise, cases_of(exercise, self.seed, self.hidden))
        if not task.is_kernel or not self.runs(exercise):
            return task
        timed = self.race and exercise.points.speed
        return replace(task, timed=speed.timed_case(exercise) if timed else speed.large_case(exercise))

    def _with_runs(self, task: Task) -> Task:
        """A kernel's task with arrays drawn for its cases; any other as it is."""
        if not task.is_kernel:
            return task
        return replace(
            task, runs=tuple(make_run(task.exercise, c, self.seed, allocate=wire.plain_bytes) for c, _ in task.cases)
        )

    def _verdict(self, exercise: Exercise) -> Verdict:
        """A verdict with nothing in it yet."""
        return Verdict(exercise.id, self.describe(exercise), points=exercise.points.total)

    # --- where the stages work: opened at once, closed in the opposite order ------------------------------------------

    @staticmethod
    @contextlib.contextmanager
    def _memory(kernels: list[Task]) -> Iterator[Memory | None]:
        """Memory for the arrays of kernels, if there are any."""
        if not kernels:
            yield None
            return
        with contextlib.closing(Memory()) as memory:
            yield memory

    @contextlib.contextmanager
    def sandboxes(self, tasks: list[Task], memory: Memory | None) -> Iterator[Sandboxes]:
        """The sandboxes that these tasks need, started at once; the one that runs kernels if there is memory for it."""
        limits = SandboxLimits(30 + 45 * len(tasks), int(60 + len(tasks) * 4 * self.time_limit))
        languages = {t.exercise.language for t in tasks if t.is_kernel}
        with contextlib.ExitStack() as stack:

            def opened(program: str, *more) -> Sandbox:
                return stack.enter_context(contextlib.closing(Sandbox(program, limits, *more)))

            compilers = {}
            if "triton" in languages:
                compilers["triton"] = opened("compile")
            if "cuda" in languages and self.on_gpu:
                compilers["cuda"] = opened("nvrtc")
            yield Sandboxes(opened("launch"), opened("replay", memory.fd) if memory else None, compilers)

    @contextlib.contextmanager
    def _prepared_runner(self, tasks: list[Task]) -> Iterator[gpu.Runner | None]:
        """A runner for tasks that run on the GPU, and what their races need, while the sandboxes work."""
        if not tasks:
            yield None
            return
        with contextlib.closing(gpu.Runner()) as runner, ThreadPoolExecutor(1) as beside:
            beside.submit(self.gpu.prepare, tasks)
            yield runner

    # --- exercises on objects -----------------------------------------------------------------------------------------

    def _judge_live(self, tasks: list[Task], submission: Submission) -> dict[str, Verdict]:
        """Exercises on objects are checked as a whole beside the learner's code: see docs/judging.md for what that is
        worth."""
        if not tasks:
            return {}
        # Code that sees a seed can tell it: this one says nothing of the seed of the other exercises.
        seed = generator(self.seed, "live").initial_seed()
        job = {"cells": submission.cells, "time_limit": 4 * self.time_limit}
        job["tasks"] = [
            {"id": t.exercise.id, "entry": t.exercise.entry, "seed": seed, "hidden": self.hidden} for t in tasks
        ]
        found, why = {}, wire.NOTHING
        box = Sandbox("objects", SandboxLimits(60 + 60 * len(tasks)))
        try:
            for line in box.answers(json.dumps(job).encode()):
                answer = reader.parsed(line)
                found[answer["task"]] = answer
        except Died as e:
            why = f"died: {e}"
        except (ValueError, KeyError, TypeError, RecursionError):
            why = wire.FORGED
        finally:
            box.close()
        return {t.exercise.id: self._live_verdict(t, found.get(t.exercise.id, {"ended": why})) for t in tasks}

    def _live_verdict(self, task: Task, answer: dict) -> Verdict:
        """Of what was found beside the learner's code, only results, diagnosis and prints are taken over."""
        verdict = self._verdict(task.exercise)
        try:
            reported = Verdict.from_json(wire.shown(answer["verdict"]))
            reported.text()
            verdict.results, verdict.headline = reported.results, reported.headline
            verdict.printed = reported.printed
        except (KeyError, TypeError, AttributeError, ValueError):
            ended = child.end(wire.clean(answer.get("ended", wire.FORGED), 500))
            verdict.headline = diagnose.from_problem(ended)
        return verdict

    # --- stage 1: the submission's own Python → launch plans, and what plain functions answer -------------------------

    def answers(self, tasks: list[Task], submission: Submission, box: Sandbox) -> LaunchAnswers:
        """What the submission's functions did in each case, as the launch sandbox reports it."""
        job = {
            "cells": submission.cells,
            "tasks": [wire.task_payload(t, self.seed) for t in tasks],
            "time_limit": self.time_limit,
        }
        with reader.in_memory() as content:
            why = wire.collected(box, job, content)
            return LaunchAnswers(*wire.answers_in(content, job["tasks"], why))

    def _plain_verdict(self, task: Task, answers: LaunchAnswers) -> Verdict:
        verdict = self._verdict(task.exercise)
        for number in range(len(task.cases)):
            answer = answers.of(task, number)
            if refusal := _refusal(task, answer):
                verdict.headline = refusal
                break
            verdict.results.append(wire.plain_result(task, number, answer))
            verdict.printed = verdict.printed or wire.clean(answer.get("printed", ""), child.PRINT_LIMIT)
            if _ends_all(verdict.results[-1].diagnosis):
                break
        return verdict

    def _planned(self, task: Task, answers: LaunchAnswers) -> PlannedTask:
        plans: list[plan.Plan | Problem] = []
        for number in range(len(task.cases)):
            answer = answers.of(task, number)
            if refusal := _refusal(task, answer):
                return PlannedTask(task, tuple(plans), refusal=refusal)
            plans.append(wire.plan_in(wire.arguments_of(task.runs[number]), answer))
            if _ends_all(plans[-1]):
                break
        timed_plan = self.timed_plan(task, answers) if task.timed else None
        return with_turns(PlannedTask(task, tuple(plans), timed_plan), self.seed)

    def timed_plan(self, task: Task, answers: LaunchAnswers) -> plan.Plan | Problem:
        """The plan of the timed case, which comes after the others."""
        arguments = wire.timed_arguments(task.exercise, task.timed, self.seed)
        return wire.plan_in(arguments, answers.of(task, len(task.cases)))

    # --- stage 2: kernels → machine code, and beside it: plans → recorded runs on the CPU -----------------------------

    def _compile_and_replay(self, planned: list[PlannedTask], boxes: Sandboxes, memory: Memory) -> dict:
        """Compile every kernel into `compiled`, and run every case with its accesses recorded; the outcomes."""
        arrays = wire.placed(planned, memory)
        arrays.put()
        job = {
            "size": memory.size,
            "time_limit": self.time_limit,
            "tasks": [t for t in (wire.replayed(p, arrays) for p in planned) if t["cases"]],
        }
        with ThreadPoolExecutor(2) as beside:
            compiling = [beside.submit(self.compile, planned, name, box) for name, box in boxes.compilers.items()]
            outcomes = wire.outcomes_in(boxes.replay, job)
            for c in compiling:
                c.result()
        arrays.take()
        return outcomes

    def compile(self, planned: list[PlannedTask], name: str, box: Sandbox) -> None:
        """Put the machine code of all kernels in one language into `compiled`, where it is not there yet."""
        here = [p for p in planned if not self.on_gpu or self.runs(p.exercise)]
        specs = [s for p in here for s in p.specs() if s["language"] == name]
        if not self.on_gpu:
            specs = offline.best_aligned(specs)
        new = {k: s for s in specs if (k := key_of(s)) not in self.compiled}
        if not new:
            return
        if self.on_gpu:
            made = getattr(compilers, name)(box, list(new.values()), self.targets[0])
        else:
            made = compilers.checked(box, list(new.values()), self.targets)
        self.compiled.update(zip(new, made, strict=True))

    def _recorded_verdict(self, planned: PlannedTask, outcomes: dict) -> Verdict:
        """What the recorded runs and the compiler say of one exercise."""
        task, verdict = planned.task, self._verdict(planned.exercise)
        verdict.headline = planned.refusal
        ran, theirs = planned.planned(), outcomes.get(task.exercise.id, {})
        found = {number: theirs[n] for n, number in enumerate(ran) if n in theirs}
        for number, (made, run, (_, hidden)) in enumerate(zip(planned.plans, task.runs, task.cases, strict=False)):
            outcome = found.get(number) or Outcome(outcomes["why"])
            if isinstance(made, Problem):
                outcome = Outcome(made)
            else:
                outcome.printed = wire.clean(made.printed + outcome.printed, child.PRINT_LIMIT)
                outcome.returned = made.returned
                if not made.launches():
                    outcome.launches = 0
                _believed(outcome.problem, made)
                if outcome.counts and (needless := copies.needless_sectors(made.copies(), wire.arguments_of(run))):
                    outcome.counts = {**outcome.counts, "copied_sectors": needless}
            if not add_case(verdict, task.exercise, run, outcome, hidden):
                break
        for compiled in (self.compiled.get(key_of(s)) for s in planned.specs()):
            if isinstance(compiled, Problem) and not verdict.unfilled:
                verdict.headline = diagnose.from_problem(compiled)
                break
            if isinstance(compiled, str):
                verdict.notes.append(f"The kernel was not compiled for a GPU: {compiled}.")
                break
        return verdict

    # --- stage 3: on the GPU, see gpu_runs.py -------------------------------------------------------------------------

    def _for_gpu(self, planned: list[PlannedTask], verdicts: dict[str, Verdict]) -> list[PlannedTask]:
        """What passed the recorded runs or can have none, and runs on the GPU here."""
        return [p for p in planned if self.runs(p.exercise) and runs_on(p.task, verdicts[p.exercise.id])]


def _believed(problem: Problem | None, made: plan.Plan) -> None:
    """That only a GPU can run it is believed of kernels whose text says so, too."""
    if problem and problem.kind == diagnose.NEEDS_GPU and not made.needs_gpu:
        problem.kind = "error"


def _refusal(task: Task, answer: dict) -> Diagnosis | None:
    """A function that is not there, or cannot be called: no case needs to be tried."""
    if "missing" in answer:
        symptom = f"there is no function called {task.exercise.entry} in this notebook"
        for p in [p for p in answer.get("cells", []) if isinstance(p, dict)][:1]:
            if p.get("kind") == "unfilled":
                return diagnose.from_problem(wire.problem_in(p))
            symptom += f"; cell {wire.clean(p.get('cell'), 60)} failed: {wire.clean(p.get('message'), 300)}"
        return diagnose.diagnosis("missing-function", symptom)
    if "signature" in answer:
        return diagnose.diagnosis("signature", wire.clean(answer["signature"], 500))
    return None


def _ends_all(found: plan.Plan | Problem | Diagnosis | None) -> bool:
    """Would the other cases only repeat it, slowly?"""
    return getattr(found, "kind", "") in ("unfilled", "timeout", "died")
