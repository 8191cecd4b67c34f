"""From a submission's text to verdicts: plans, kernels, memory, comparison. Nothing of the submission runs here."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import torch

from grader.build import ROOT, source_notebook
from grader.judge import gpu, language, plan, speed
from grader.judge.sandbox import Died, Limits, Memory, Sandbox
from grader.judge.submission import Submission
from labutils import device, diagnose
from labutils import exercise as exercises
from labutils.access import Finding
from labutils.backends import Outcome, Problem, child, offline
from labutils.backends import emulator as emulated
from labutils.backends.interpreter import TARGETS
from labutils.evaluate import add_case, cases_of, compare_plain, conclude
from labutils.exercise import Case, Exercise, KernelExercise, PlainExercise
from labutils.inputs import Run, generator, make_run, numbers_of
from labutils.telling import Untold, hear, tell
from labutils.verdict import CaseResult, Verdict

HIDDEN_CASES = 4

TIME_LIMIT = 10.0
"""Seconds of CPU time for one case in the sandbox; an honest one needs about one."""

ALIGNMENT = 256
"""Bytes: where arrays may begin in the shared memory, as on a GPU."""


@dataclass
class Task:
    """One exercise of a submission on its way to a verdict."""

    exercise: Exercise
    cases: list[tuple[Case, bool]]
    runs: list[Run] = field(default_factory=list)
    plans: list[plan.Plan | Problem] = field(default_factory=list)
    verdict: Verdict = None
    timed: Case | None = None
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
            tell(list(self.exercise.arguments(self.cases[0][0]).values()))
        except Untold:
            return True
        return False


class Judge:
    """Judges submissions on this machine. `seed` draws inputs and hidden cases: secret, and drawn after the freeze."""

    def __init__(
        self, seed: int, hidden: int = HIDDEN_CASES, time_limit: float = TIME_LIMIT, on_gpu: bool | None = None
    ):
        self.seed, self.hidden, self.time_limit = seed, hidden, time_limit
        self.on_gpu = device.has_gpu() if on_gpu is None else on_gpu
        self.targets = (gpu.capability(),) if self.on_gpu else TARGETS
        self._compiled: dict[str, Compiled] = {}
        self._references: dict[str, Task] = {}
        self._one_at_a_time = threading.Lock()

    def describe(self, exercise: Exercise) -> str:
        if isinstance(exercise, PlainExercise):
            return "plain Python"
        if self.on_gpu:
            return device.current().name
        run = "Triton's interpreter" if exercise.language == "triton" else "CUDA C++ emulator"
        return f"judge without a GPU: {run} on the CPU"

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
            launch, replay, compilers = self._open(stack, tasks, memory)
            for t in kernels:
                t.runs = [make_run(t.exercise, c, self.seed, allocate=_bytes) for c, _ in t.cases]
            self._tell_plans(tasks, submission, launch)
            launch.close()
            for t in tasks:
                if not t.is_kernel:
                    conclude(t.exercise, t.verdict)
            if kernels:
                self._record(kernels, replay, compilers, memory)
                if self.on_gpu:
                    self._on_gpu([t for t in kernels if _passes(t)])
            for t in kernels:
                self._conclude(t)
        return {t.exercise.id: t.verdict for t in everything}

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
        box = Sandbox("objects", Limits(60 + 60 * len(tasks)))
        try:
            for line in box.answers(json.dumps(job).encode()):
                answer = json.loads(line)
                found[answer["task"]] = answer
        except Died as e:
            why = f"died: {e}"
        except (ValueError, KeyError, TypeError, RecursionError):
            why = FORGED
        finally:
            box.close()
        for t in tasks:
            answer = found.get(t.exercise.id, {"ended": why})
            try:
                told = Verdict.from_json(_shown(answer["verdict"]))
                told.text()
                t.verdict.results, t.verdict.headline, t.verdict.printed = told.results, told.headline, told.printed
            except (KeyError, TypeError, AttributeError, ValueError):
                said = child.end(_text(answer.get("ended", FORGED), 500))
                t.verdict.headline = diagnose.from_problem(said)
            conclude(t.exercise, t.verdict)

    def _open(self, stack, tasks: list[Task], memory: Memory | None):
        """The sandboxes that these tasks need, started at once."""
        limits = Limits(30 + 45 * len(tasks), int(60 + len(tasks) * 4 * self.time_limit))

        def opened(program: str, *more) -> Sandbox:
            box = Sandbox(program, limits, *more)
            stack.callback(box.close)
            return box

        languages = {t.exercise.language for t in tasks if t.is_kernel}
        compilers = {}
        if "triton" in languages:
            compilers["triton"] = opened("compile")
        if "cuda" in languages and self.on_gpu:
            compilers["cuda"] = opened("nvrtc")
        return opened("launch"), opened("replay", memory.fd) if languages else None, compilers

    def _task(self, exercise: Exercise) -> Task:
        verdict = Verdict(exercise.id, self.describe(exercise), points=exercise.points.total)
        task = Task(exercise, cases_of(exercise, self.seed, self.hidden), verdict=verdict)
        if self.on_gpu and task.is_kernel and exercise.points.speed:
            task.timed = speed.timed_case(exercise)
        return task

    # --- the submission's own Python ----------------------------------------------------------------------------------

    def _tell_plans(self, tasks: list[Task], submission: Submission, box: Sandbox) -> None:
        """What the launchers launch, and what plain functions answer."""
        job = {
            "cells": submission.cells,
            "tasks": [_told(t, self.seed) for t in tasks],
            "time_limit": self.time_limit,
        }
        found: dict[str, dict[int, dict]] = {t.exercise.id: {} for t in tasks}
        why = "died: nothing was told of it"
        try:
            for line in box.answers(json.dumps(job).encode()):
                answer = _heard(line)
                found[answer["task"]][answer["case"]] = answer
        except Died as e:
            why = f"died: {e}"
        except (ValueError, KeyError, RecursionError):
            why = FORGED
        for t in tasks:
            answers = found[t.exercise.id]
            for number in range(len(t.cases)):
                answer = answers.get(number, {"ended": why})
                if self._refused_at_once(t, answer):
                    break
                if t.is_kernel:
                    t.plans.append(_plan(_arguments(t.runs[number]), answer))
                else:
                    _add_answer(t, number, answer)
                last = t.plans[-1] if t.is_kernel else t.verdict.results[-1].diagnosis
                if getattr(last, "kind", "") in ("unfilled", "timeout", "died"):
                    break
            if t.timed and not t.verdict.headline:
                arguments = _timed_arguments(t.exercise, t.timed, self.seed)
                t.timed_plan = _plan(arguments, answers.get(len(t.cases), {"ended": why}))

    def _refused_at_once(self, task: Task, answer: dict) -> bool:
        """A function that is not there, or cannot be called: no case needs to be tried."""
        said = None
        if "missing" in answer:
            symptom = f"there is no function called {task.exercise.entry} in this notebook"
            for p in [p for p in answer.get("cells", []) if isinstance(p, dict)][:1]:
                if p.get("kind") == "unfilled":
                    said = diagnose.from_problem(_problem(p))
                symptom += f"; cell {_text(p.get('cell'), 60)} failed: {_text(p.get('message'), 300)}"
            said = said or diagnose.diagnosis("missing-function", symptom)
        elif "signature" in answer:
            said = diagnose.diagnosis("signature", _text(answer["signature"], 500))
        if said:
            task.verdict.headline = said
        return said is not None

    # --- kernels, recorded on the CPU ------------------------------------------------------------------------------

    def _record(self, tasks: list[Task], replay: Sandbox, compilers: dict[str, Sandbox], memory: Memory) -> None:
        """Compile every kernel, run every case with its accesses recorded, and examine what it left."""
        at, size = _layout(tasks)
        memory.resize(size)
        for buffer, offset in at.values():
            _copy(memory.bytes, offset, buffer.storage, into_memory=True)
        job = {
            "size": memory.size,
            "time_limit": self.time_limit,
            "tasks": [t for t in (_replayed(t, at) for t in tasks) if t["cases"]],
        }
        with ThreadPoolExecutor(2) as beside:
            compiling = [beside.submit(self._compile, tasks, name, box) for name, box in compilers.items()]
            outcomes = _outcomes(replay, job)
            for c in compiling:
                c.result()
        for buffer, offset in at.values():
            _copy(memory.bytes, offset, buffer.storage, into_memory=False)
        for t in tasks:
            ran = dict(zip(_planned(t), range(len(t.plans)), strict=False))
            theirs = outcomes.get(t.exercise.id, {})
            self._examine(t, {k: theirs[n] for k, n in ran.items() if n in theirs}, outcomes["why"])

    def _compile(self, tasks: list[Task], name: str, box: Sandbox) -> None:
        specs = {_key(s): s for t in tasks for s in _specs(t) if s["language"] == name}
        new = {k: s for k, s in specs.items() if k not in self._compiled}
        if not new:
            return
        if self.on_gpu:
            how = gpu.compiled_triton if name == "triton" else gpu.compiled_cuda
            made = how(box, list(new.values()), self.targets[0])
        else:
            made = _compile(box, list(new.values()), self.targets)
        self._compiled.update(zip(new, made, strict=True))

    def _examine(self, task: Task, outcomes: dict[int, Outcome], why: Problem) -> None:
        for number, (told, run, (_, hidden)) in enumerate(zip(task.plans, task.runs, task.cases, strict=False)):
            outcome = outcomes.get(number) or Outcome(why)
            if isinstance(told, Problem):
                outcome = Outcome(told)
            else:
                outcome.printed = _text(told.printed + outcome.printed, child.PRINT_LIMIT)
                outcome.returned = told.returned
                if not told.launches():
                    outcome.launches = 0
            if not add_case(task.verdict, task.exercise, run, outcome, hidden):
                break
        for compiled in (self._compiled.get(_key(s)) for s in _specs(task)):
            if isinstance(compiled, Problem) and not task.verdict.unfilled:
                task.verdict.headline = diagnose.from_problem(compiled)
                break
            if isinstance(compiled, str):
                task.verdict.notes.append(f"The kernel was not compiled for a GPU: {compiled}.")
                break

    def _conclude(self, task: Task) -> None:
        conclude(task.exercise, task.verdict)

    # --- kernels, on the GPU ---------------------------------------------------------------------------------------

    def _on_gpu(self, tasks: list[Task]) -> None:
        """Run again on the GPU what passed, and time it where speed earns points."""
        for t in tasks:
            if t.timed:
                self._reference(t.exercise)
        runner = None
        with self._one_at_a_time:
            try:
                for t in tasks:
                    runner = runner or gpu.Runner()
                    try:
                        self._run(t, runner)
                        if t.timed and _passes(t):
                            self._race(t, runner)
                    except gpu.RunnerLost as lost:
                        runner.close()
                        runner = None
                        t.verdict.headline = diagnose.diagnosis(lost.kind, lost.why)
            finally:
                if runner:
                    runner.close()

    def _run(self, task: Task, runner: gpu.Runner) -> None:
        kernels, places = self._kernels(task.plans)
        for run in task.runs:
            for b in run.buffers.values():
                b.reset()
        at, size = _layout([task])
        runner.memory.resize(size)
        for buffer, offset in at.values():
            _copy(runner.memory.bytes, offset, buffer.storage, into_memory=True)
        exercise, cases = task.exercise, []
        for number, (told, run) in enumerate(zip(task.plans, task.runs, strict=True)):
            arguments = _for_runner(run, {n: at[exercise.id, number, n][1] for n in run.buffers})
            twice = run.case.exact or not exercise.contract.any_order
            plan_ = gpu.for_runner(told, places[number])
            cases.append({"arguments": arguments, "plan": plan_, "twice": twice, "turn": number})
        answers = list(runner.run({"kernels": kernels, "cases": cases, "time_limit": self.time_limit}))
        for buffer, offset in at.values():
            _copy(runner.memory.bytes, offset, buffer.storage, into_memory=False)
        recorded, task.verdict.results = task.verdict.results, []
        for answer, told, run, (_, hidden), before in zip(
            answers, task.plans, task.runs, task.cases, recorded, strict=True
        ):
            outcome = Outcome(launches=len(told.launches()), returned=told.returned, seconds=before.seconds)
            outcome.unstable = bool(answer.get("unstable"))
            if "refused" in answer:
                outcome = Outcome(Problem("error", answer["refused"]))
            add_case(task.verdict, exercise, run, outcome, hidden)

    def _kernels(self, plans: list[plan.Plan]) -> tuple[list[dict], list[dict[int, int]]]:
        """The machine code that plans need, each once, and for each plan where its kernels stand in that list."""
        keys: dict[str, int] = {}
        places = [{k: keys.setdefault(_key(s), len(keys)) for k, s in enumerate(p.specs)} for p in plans]
        kernels = [self._compiled[k] for k in keys]
        if missing := [k for k in kernels if not isinstance(k, dict)]:
            raise gpu.RunnerLost("died", f"there is no machine code to run: {missing[0]}")
        return kernels, places

    def _reference(self, exercise: KernelExercise) -> Task:
        """The reference solution's plan at the timed size, compiled; made once."""
        if exercise.id not in self._references:
            task = Task(exercise, [], verdict=Verdict(exercise.id, ""), timed=speed.timed_case(exercise))
            self.plan_reference(task)
            self._references[exercise.id] = task
        return self._references[exercise.id]

    def plan_reference(self, task: Task) -> None:
        """Give a task the solution's plan for its timed case, and compile that plan's kernels."""
        solution = Submission.of(source_notebook(ROOT / "solutions" / task.exercise.unit))
        with contextlib.ExitStack() as stack:
            memory = Memory()
            stack.callback(memory.close)
            launch, _, compilers = self._open(stack, [task], memory)
            self._tell_plans([task], solution, launch)
            if not isinstance(task.timed_plan, plan.Plan):
                raise RuntimeError(f"{task.exercise.id}: the solution has no plan: {task.timed_plan or task.verdict}")
            for name, box in compilers.items():
                self._compile([task], name, box)

    def load(self, runner: gpu.Runner, runs: list[Run]) -> tuple[dict, int]:
        """Put the arrays of runs into the runner's memory; says where they lie, by run and name."""
        at, size = {}, 0
        for k, run in enumerate(runs):
            for name, buffer in run.buffers.items():
                at[k, name] = buffer, size
                size += -(-buffer.storage.numel() * buffer.storage.element_size() // ALIGNMENT) * ALIGNMENT
        runner.memory.resize(size)
        for buffer, offset in at.values():
            _copy(runner.memory.bytes, offset, buffer.storage, into_memory=True)
        return at, size

    def _race(self, task: Task, runner: gpu.Runner) -> None:
        if not isinstance(task.timed_plan, plan.Plan):
            task.verdict.headline = diagnose.from_problem(task.timed_plan)
            return
        exercise, case = task.exercise, task.timed
        runs = [
            speed.draw(exercise, case, self.seed, k)
            for k in range(speed.ring_size(exercise, case, device.current().l2_mb * 2**20))
        ]
        at, _ = self.load(runner, runs)
        job = {"time_limit": self.time_limit, "ring": []}
        for k, run in enumerate(runs):
            job["ring"].append(_for_runner(run, {n: at[k, n][1] for n in run.buffers}))
        for side, told in (("a", task.timed_plan), ("b", self._references[exercise.id].timed_plan)):
            kernels, places = self._kernels([told])
            job[side] = {"kernels": kernels, "plan": gpu.for_runner(told, places[0])}
        told = runner.race(job, speed.StopRule())
        for buffer, offset in at.values():
            if buffer.is_output:
                _copy(runner.memory.bytes, offset, buffer.storage, into_memory=False)
        self._judge_race(task, told, runs[:-1])

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


Compiled = dict | Problem | str | None
"""A kernel for the runner, a refusal, a sentence on why there is neither; None where compiling was all to be done."""


def _passes(task: Task) -> bool:
    return task.verdict.passed and len(task.verdict.results) == len(task.cases)


# --- telling the sandbox ---------------------------------------------------------------------------------------------


def _bytes(count: int) -> torch.Tensor:
    return torch.empty(count, dtype=torch.uint8)


def _told(task: Task, seed: int) -> dict:
    """What the launch sandbox is told of an exercise: names, shapes and types; no values, no answers."""
    exercise = task.exercise
    told = {"id": exercise.id, "entry": exercise.entry, "parameters": exercise.parameters}
    if not task.is_kernel:
        cases = [[tell(v) for v in exercise.arguments(c).values()] for c, _ in task.cases]
        return told | {"kind": "plain", "cases": cases}
    cases = [_arguments(run) for run in task.runs]
    if task.timed:
        cases.append(_timed_arguments(exercise, task.timed, seed))
    return told | {"kind": "kernel", "cases": cases}


def _timed_arguments(exercise: KernelExercise, case: Case, seed: int) -> list[dict]:
    """Like `_arguments`, for arrays that are large and not drawn yet."""
    told, numbers = [], numbers_of(exercise, case, seed)
    for name, a in exercise.arguments.items():
        if name in numbers:
            told.append({"name": name, "number": numbers[name]})
            continue
        empty = torch.empty(a.shape(case.sizes), device="meta")
        shape = {"shape": list(empty.shape), "strides": list(empty.stride()), "length": empty.numel(), "start": 0}
        told.append({"name": name, "dtype": exercise.dtype(case, name), **shape})
    return told


def _for_runner(run: Run, at: dict[str, int]) -> list[dict]:
    """The arguments of a case as the runner reads them: where the bytes lie, and which of them are outputs."""
    told = []
    for name in run.exercise.arguments:
        if name in run.numbers:
            told.append({"number": run.numbers[name]})
            continue
        b = run.buffers[name]
        told.append({"at": at[name], "bytes": b.storage.numel() * b.storage.element_size(), "output": b.is_output})
    return told


def _arguments(run: Run) -> list[dict]:
    told = []
    for name in run.exercise.arguments:
        if name in run.numbers:
            told.append({"name": name, "number": run.numbers[name]})
            continue
        b = run.buffers[name]
        told.append(
            {
                "name": name,
                "dtype": str(b.storage.dtype).removeprefix("torch."),
                "length": b.storage.numel(),
                "shape": list(b.view.shape),
                "strides": list(b.view.stride()),
                "start": b.start,
            }
        )
    return told


def _layout(tasks: list[Task]) -> tuple[dict, int]:
    """Where each array of each case lies in the shared memory: {(task, case, name): (buffer, offset)}, and its size."""
    at, size = {}, 0
    for t in tasks:
        for number, told in enumerate(t.plans):
            if isinstance(told, Problem):
                continue
            for name, buffer in t.runs[number].buffers.items():
                at[t.exercise.id, number, name] = buffer, size
                size += -(-buffer.storage.numel() * buffer.storage.element_size() // ALIGNMENT) * ALIGNMENT
    return at, size


def _copy(memory, offset: int, storage: torch.Tensor, into_memory: bool) -> None:
    ours = storage.view(torch.uint8)
    if not ours.numel():
        return
    theirs = torch.frombuffer(memory, dtype=torch.uint8, count=ours.numel(), offset=offset)
    (theirs if into_memory else ours).copy_(ours if into_memory else theirs)


def _planned(task: Task) -> list[int]:
    """Numbers of the cases that have a plan to be run."""
    return [k for k, told in enumerate(task.plans) if isinstance(told, plan.Plan)]


def _replayed(task: Task, at: dict) -> dict:
    cases = []
    for number in _planned(task):
        told = task.plans[number]
        arguments = _arguments(task.runs[number])
        for a in arguments:
            if "number" not in a:
                a["at"] = at[task.exercise.id, number, a["name"]][1]
        cases.append({"arguments": arguments, "plan": told.to_json()})
    return {"id": task.exercise.id, "language": task.exercise.language, "cases": cases}


# --- hearing from the sandbox ----------------------------------------------------------------------------------------


FORGED = "died: it wrote into the place of its answer"

_FIELDS = {
    "ended": str,
    "problem": (dict, type(None)),
    "cells": list,
    "signature": str,
    "printed": str,
}


def _heard(line: bytes) -> dict:
    """An answer of the launch sandbox. A submission can write there too: ValueError for what nobody else would."""
    answer = json.loads(line)
    if not isinstance(answer, dict) or not isinstance(answer.get("task"), str) or type(answer.get("case")) is not int:
        raise ValueError("no answer")
    if any(not isinstance(answer[k], kind) for k, kind in _FIELDS.items() if k in answer):
        raise ValueError("no answer")
    if not re.match(r"timeout$|died\b", answer.get("ended", "died")):
        raise ValueError("no answer")
    return answer


def _shown(value):
    """JSON from a sandbox with every text fit to be shown."""
    if isinstance(value, dict):
        return {k: _shown(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_shown(v) for v in value[:100]]
    return _text(value, 4000) if isinstance(value, str) else value


def _text(value, most: int) -> str:
    """Text that a submission may have written, fit to be shown; nothing where it is no text."""
    return plan.text(value, most) if isinstance(value, str) else ""


def _plan(arguments: list[dict], answer: dict) -> plan.Plan | Problem:
    """The plan of one case for a launcher of these arguments, its kernels' text read too, or what is wrong with it."""
    if "ended" in answer:
        return child.end(_text(answer["ended"], 500))
    if answer.get("problem"):
        return _computed(_problem(answer["problem"]))
    try:
        told = plan.read(answer, arguments)
    except plan.BadPlan as e:
        return Problem(e.kind, str(e))
    return next((p for s in told.specs if (p := language.problem(s))), None) or told


def _problem(told: dict) -> Problem:
    """A problem as the sandbox tells it; any of its fields may be forged, so only text is taken over."""
    kind, line = told.get("kind"), told.get("line")
    return Problem(
        kind if kind in ("unfilled", "error", "timeout", "died", "does-not-compile") else "error",
        _text(told.get("message"), 2000) or "the sandbox did not say what went wrong",
        line if type(line) is int and 0 < line < 10**6 else None,
        _text(told.get("source"), 500),
    )


def _computed(problem: Problem) -> Problem:
    """A launcher that lets PyTorch do the work has no kernel to show for it."""
    if problem.message.startswith("Computed: "):
        problem.kind, problem.message = "no-kernel", f"your launcher {problem.message.removeprefix('Computed: ')}"
    return problem


def _add_answer(task: Task, number: int, answer: dict) -> None:
    case, hidden = task.cases[number]
    if "ended" in answer:
        said = diagnose.from_problem(child.end(_text(answer["ended"], 500)))
    elif answer.get("problem"):
        said = diagnose.from_problem(_problem(answer["problem"]))
    else:
        said = _compared(task.exercise, case, _value(answer.get("answer")))
    task.verdict.results.append(CaseResult(case.name, said, hidden=hidden))
    task.verdict.printed = task.verdict.printed or _text(answer.get("printed", ""), child.PRINT_LIMIT)


def _compared(exercise: PlainExercise, case: Case, yours) -> diagnose.Diagnosis | None:
    """What is wrong with a plain function's answer. A reader that stumbles over a value has met none that is right."""
    try:
        return compare_plain(exercise, case, yours, exercise.arguments(case))
    except Exception as e:
        said = f"{exercise.entry} returned what cannot be compared ({type(e).__name__})"
        return diagnose.diagnosis("wrong-values", said, "", "Return what the exercise asks for.")


def _value(told):
    """What a plain function returned, or for what cannot be told an object that is known by its type's name only."""
    if isinstance(told, dict) and "value" in told:
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            return hear(told["value"])
    name = told.get("type") if isinstance(told, dict) else None
    return type(name if isinstance(name, str) and name.isidentifier() else "value", (), {})()


def _outcomes(box: Sandbox, job: dict) -> dict:
    """Outcomes by task and case; under "why" what is said of those that are missing."""
    found: dict = {"why": Problem("died", "the process that ran your kernels died")}
    if not job["tasks"]:
        return found
    try:
        for line in box.answers(json.dumps(job).encode()):
            answer = json.loads(line)
            task, case = answer.pop("task"), answer.pop("case")
            found.setdefault(task, {})[case] = _outcome(answer)
    except Died as e:
        found["why"] = Problem("died", f"the process that ran your kernels died: {e}")
    return found


def _outcome(told: dict) -> Outcome:
    if "ended" in told:
        return Outcome(child.end(told["ended"]))
    cuda = told["findings"] and "message" in told["findings"][0]
    kind = emulated.Finding if cuda else Finding
    told["findings"] = [
        kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in f.items()}) for f in told["findings"]
    ]
    if told["problem"]:
        told["problem"] = _problem(told["problem"])
    return Outcome(**told)


# --- compiling -------------------------------------------------------------------------------------------------------


def _specs(task: Task) -> list[dict]:
    return [s for p in (*task.plans, task.timed_plan) if isinstance(p, plan.Plan) for s in p.specs]


def _key(spec: dict) -> str:
    return json.dumps(spec, sort_keys=True)


def _compile(box: Sandbox | None, specs: list[dict], targets) -> list[Problem | str | None]:
    """For each launch a refusal, a sentence on why there is no answer, or None."""
    said: list[Problem | str | None] = []
    if not specs:
        return said
    results = []
    try:
        job = json.dumps({"specs": specs, "targets": list(targets)}).encode()
        results += [json.loads(line) for line in box.answers(job)]
    except Died as e:  # a kernel that no compiler can finish is none for a GPU, however it runs in an interpreter
        why = Problem("does-not-compile", f"the compiler came to no end with this kernel: {_text(str(e), 300)}")
    else:
        why = "the compiler said nothing"
    for number in range(len(specs)):
        try:
            said.append(offline.problem_of(results[number], box.noise()) if number < len(results) else why)
        except offline.CompilerFailed as e:
            said.append(str(e))
    return said
