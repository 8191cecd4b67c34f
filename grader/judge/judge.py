"""From a submission's text to verdicts: plans, kernels, memory, comparison. Nothing of the submission runs here."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from grader.judge import compilers, gpu, speed, wire
from grader.judge.gpu_runs import GpuRuns
from grader.judge.sandbox import Died, Memory, Sandbox, SandboxLimits
from grader.judge.submission import Submission
from grader.judge.task import Task, key_of, passes, specs_of
from labutils import exercises
from labutils.backends import Outcome, Problem, child, offline
from labutils.backends.interpreter import TARGETS
from labutils.check import diagnose
from labutils.check.evaluate import add_case, cases_of, conclude
from labutils.gpu import device
from labutils.spec.exercise import Exercise, PlainExercise
from labutils.spec.inputs import generator, make_run
from labutils.spec.verdict import Verdict

HIDDEN_CASES = 4

TIME_LIMIT = 10.0
"""Seconds of CPU time for one case in the sandbox; an honest one needs about one."""


class Judge:
    """Judges submissions on this machine. `seed` draws inputs and hidden cases: secret, and drawn after the freeze.

    `beside` is a judge with another seed, with which this one shares what no seed decides: compiled kernels, the
    references' plans for a race, and the lock that is held while the GPU is used (`gpu_lock`). Without `race` nothing
    is timed and memory traffic stands in for time, as without a GPU; what passes runs once at a large size.
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

    def judge(self, submission: Submission, ids: Iterable[str]) -> dict[str, Verdict]:
        """The verdict of each exercise. Raises nothing for what a submission holds."""
        everything = [self._task(exercises.get(i)) for i in ids]
        live = [t for t in everything if t.is_live]
        tasks = [t for t in everything if t not in live]
        kernels = [t for t in tasks if t.is_kernel]
        memory = Memory() if kernels else None
        self._judge_live(live, submission)
        with contextlib.ExitStack() as stack:
            if memory:
                stack.callback(memory.close)
            launch, replay, boxes = self.open(stack, tasks, memory)
            for t in kernels:
                t.runs = [make_run(t.exercise, c, self.seed, allocate=wire.plain_bytes) for c, _ in t.cases]
            spare = None
            if on_gpu := [t for t in kernels if self.runs(t.exercise)]:  # both start while the sandboxes work
                spare = gpu.Runner()
                stack.callback(spare.close)
                stack.enter_context(ThreadPoolExecutor(1)).submit(self.gpu.prepare, on_gpu)
            with self._spending("plans"):
                self.tell_plans(tasks, submission, launch)
            launch.close()
            for t in tasks:
                if not t.is_kernel:
                    conclude(t.exercise, t.verdict)
            if kernels:
                with self._spending("compiling and recorded runs"):
                    self._record(kernels, replay, boxes, memory)
                with self._spending("GPU"):
                    if spare:
                        self.gpu.run([t for t in on_gpu if passes(t)], spare)
            for t in kernels:
                conclude(t.exercise, t.verdict)
        return {t.exercise.id: t.verdict for t in everything}

    @contextlib.contextmanager
    def _spending(self, on: str):
        begin = time.perf_counter()
        yield
        self.spent[on] += time.perf_counter() - begin

    def _judge_live(self, tasks: list[Task], submission: Submission) -> None:
        """Exercises on objects are checked as a whole beside the learner's code: see docs/judging.md for what that is
        worth."""
        if not tasks:
            return
        # Code that sees a seed can tell it: this one says nothing of the seed of the other exercises.
        seed = generator(self.seed, "live").initial_seed()
        job = {"cells": submission.cells, "time_limit": 4 * self.time_limit}
        job["tasks"] = [
            {"id": t.exercise.id, "entry": t.exercise.entry, "seed": seed, "hidden": self.hidden} for t in tasks
        ]
        found, why = {}, "died: nothing was told of it"
        box = Sandbox("objects", SandboxLimits(60 + 60 * len(tasks)))
        try:
            for line in box.answers(json.dumps(job).encode()):
                answer = json.loads(line)
                found[answer["task"]] = answer
        except Died as e:
            why = f"died: {e}"
        except (ValueError, KeyError, TypeError, RecursionError):
            why = wire.FORGED
        finally:
            box.close()
        for t in tasks:
            answer = found.get(t.exercise.id, {"ended": why})
            try:
                told = Verdict.from_json(wire.shown(answer["verdict"]))
                told.text()
                t.verdict.results, t.verdict.headline, t.verdict.printed = told.results, told.headline, told.printed
            except (KeyError, TypeError, AttributeError, ValueError):
                said = child.end(wire.clean(answer.get("ended", wire.FORGED), 500))
                t.verdict.headline = diagnose.from_problem(said)
            conclude(t.exercise, t.verdict)

    def open(self, stack, tasks: list[Task], memory: Memory | None):
        """The sandboxes that these tasks need, started at once; the one that runs kernels if there is memory for it."""
        limits = SandboxLimits(30 + 45 * len(tasks), int(60 + len(tasks) * 4 * self.time_limit))

        def opened(program: str, *more) -> Sandbox:
            box = Sandbox(program, limits, *more)
            stack.callback(box.close)
            return box

        languages = {t.exercise.language for t in tasks if t.is_kernel}
        boxes = {}
        if "triton" in languages:
            boxes["triton"] = opened("compile")
        if "cuda" in languages and self.on_gpu:
            boxes["cuda"] = opened("nvrtc")
        return opened("launch"), opened("replay", memory.fd) if memory else None, boxes

    def _task(self, exercise: Exercise) -> Task:
        verdict = Verdict(exercise.id, self.describe(exercise), points=exercise.points.total)
        task = Task(exercise, cases_of(exercise, self.seed, self.hidden), verdict=verdict)
        if task.is_kernel and self.runs(exercise):
            timed = self.race and exercise.points.speed
            task.timed = speed.timed_case(exercise) if timed else speed.large_case(exercise)
        return task

    # --- the submission's own Python ----------------------------------------------------------------------------------

    def tell_plans(self, tasks: list[Task], submission: Submission, box: Sandbox) -> None:
        """What the launchers launch, and what plain functions answer."""
        job = {
            "cells": submission.cells,
            "tasks": [wire.told(t, self.seed) for t in tasks],
            "time_limit": self.time_limit,
        }
        found: dict[str, dict[int, dict]] = {t.exercise.id: {} for t in tasks}
        why = "died: nothing was told of it"
        try:
            for line in box.answers(json.dumps(job).encode()):
                answer = wire.heard(line)
                found[answer["task"]][answer["case"]] = answer
        except Died as e:
            why = f"died: {e}"
        except (ValueError, KeyError, RecursionError):
            why = wire.FORGED
        for t in tasks:
            answers = found[t.exercise.id]
            for number in range(len(t.cases)):
                answer = answers.get(number, {"ended": why})
                if self._refused_at_once(t, answer):
                    break
                if t.is_kernel:
                    t.plans.append(wire.plan_in(wire.arguments_of(t.runs[number]), answer))
                else:
                    wire.add_answer(t, number, answer)
                last = t.plans[-1] if t.is_kernel else t.verdict.results[-1].diagnosis
                if getattr(last, "kind", "") in ("unfilled", "timeout", "died"):
                    break
            if t.timed and not t.verdict.headline:
                arguments = wire.timed_arguments(t.exercise, t.timed, self.seed)
                t.timed_plan = wire.plan_in(arguments, answers.get(len(t.cases), {"ended": why}))

    def _refused_at_once(self, task: Task, answer: dict) -> bool:
        """A function that is not there, or cannot be called: no case needs to be tried."""
        said = None
        if "missing" in answer:
            symptom = f"there is no function called {task.exercise.entry} in this notebook"
            for p in [p for p in answer.get("cells", []) if isinstance(p, dict)][:1]:
                if p.get("kind") == "unfilled":
                    said = diagnose.from_problem(wire.problem_in(p))
                symptom += f"; cell {wire.clean(p.get('cell'), 60)} failed: {wire.clean(p.get('message'), 300)}"
            said = said or diagnose.diagnosis("missing-function", symptom)
        elif "signature" in answer:
            said = diagnose.diagnosis("signature", wire.clean(answer["signature"], 500))
        if said:
            task.verdict.headline = said
        return said is not None

    # --- kernels, recorded on the CPU ------------------------------------------------------------------------------

    def _record(self, tasks: list[Task], replay: Sandbox, boxes: dict[str, Sandbox], memory: Memory) -> None:
        """Compile every kernel, run every case with its accesses recorded, and examine what it left."""
        arrays = wire.placed(tasks, memory)
        arrays.put()
        job = {
            "size": memory.size,
            "time_limit": self.time_limit,
            "tasks": [t for t in (wire.replayed(t, arrays) for t in tasks) if t["cases"]],
        }
        with ThreadPoolExecutor(2) as beside:
            compiling = [beside.submit(self.compile, tasks, name, box) for name, box in boxes.items()]
            outcomes = wire.outcomes_in(replay, job)
            for c in compiling:
                c.result()
        arrays.take()
        for t in tasks:
            ran = dict(zip(wire.planned(t), range(len(t.plans)), strict=False))
            theirs = outcomes.get(t.exercise.id, {})
            self._examine(t, {k: theirs[n] for k, n in ran.items() if n in theirs}, outcomes["why"])

    def compile(self, tasks: list[Task], name: str, box: Sandbox) -> None:
        here = [t for t in tasks if not self.on_gpu or self.runs(t.exercise)]
        specs = [s for t in here for s in specs_of(t) if s["language"] == name]
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

    def _examine(self, task: Task, outcomes: dict[int, Outcome], why: Problem) -> None:
        for number, (told, run, (_, hidden)) in enumerate(zip(task.plans, task.runs, task.cases, strict=False)):
            outcome = outcomes.get(number) or Outcome(why)
            if isinstance(told, Problem):
                outcome = Outcome(told)
            else:
                outcome.printed = wire.clean(told.printed + outcome.printed, child.PRINT_LIMIT)
                outcome.returned = told.returned
                if not told.launches():
                    outcome.launches = 0
            if not add_case(task.verdict, task.exercise, run, outcome, hidden):
                break
        for compiled in (self.compiled.get(key_of(s)) for s in specs_of(task)):
            if isinstance(compiled, Problem) and not task.verdict.unfilled:
                task.verdict.headline = diagnose.from_problem(compiled)
                break
            if isinstance(compiled, str):
                task.verdict.notes.append(f"The kernel was not compiled for a GPU: {compiled}.")
                break
