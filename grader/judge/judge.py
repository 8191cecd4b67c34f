"""From a submission's text to verdicts: plans, kernels, memory, comparison. Nothing of the submission runs here."""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import torch

from grader.judge import language, plan
from grader.judge.sandbox import Died, Limits, Memory, Sandbox
from grader.judge.submission import Submission
from labutils import diagnose
from labutils import exercise as exercises
from labutils.access import Finding
from labutils.backends import Outcome, Problem, child, offline
from labutils.backends import emulator as emulated
from labutils.backends.interpreter import TARGETS
from labutils.evaluate import add_case, cases_of, compare_plain, conclude
from labutils.exercise import Case, Exercise, KernelExercise, PlainExercise
from labutils.inputs import Run, make_run
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

    @property
    def is_kernel(self) -> bool:
        return isinstance(self.exercise, KernelExercise)


class Judge:
    """Judges submissions on this machine. `seed` draws inputs and hidden cases: secret, and drawn after the freeze."""

    def __init__(self, seed: int, hidden: int = HIDDEN_CASES, time_limit: float = TIME_LIMIT):
        self.seed, self.hidden, self.time_limit = seed, hidden, time_limit
        self.targets = TARGETS
        self._compiled: dict[str, Problem | str | None] = {}

    def describe(self, exercise: Exercise) -> str:
        if isinstance(exercise, PlainExercise):
            return "plain Python"
        run = "Triton's interpreter" if exercise.language == "triton" else "CUDA C++ emulator"
        return f"judge without a GPU: {run} on the CPU"

    def judge(self, submission: Submission, ids: Iterable[str]) -> dict[str, Verdict]:
        """The verdict of each exercise. Raises nothing for what a submission holds."""
        tasks = [self._task(exercises.get(i)) for i in ids]
        kernels = [t for t in tasks if t.is_kernel]
        limits = Limits(30 + 45 * len(tasks), int(60 + len(tasks) * 4 * self.time_limit))
        memory = Memory() if kernels else None
        boxes = {"launch": Sandbox("launch", limits)}
        try:
            if kernels:
                boxes["replay"] = Sandbox("replay", limits, memory.fd)
            if any(t.exercise.language == "triton" for t in kernels):
                boxes["compile"] = Sandbox("compile", limits)
            for t in kernels:
                t.runs = [make_run(t.exercise, c, self.seed, allocate=_bytes) for c, _ in t.cases]
            self._tell_plans(tasks, submission, boxes["launch"])
            boxes["launch"].close()
            for t in tasks:
                if not t.is_kernel:
                    conclude(t.exercise, t.verdict)
            if kernels:
                self._judge_kernels(kernels, boxes, memory)
        finally:
            for box in boxes.values():
                box.close()
            if memory:
                memory.close()
        return {t.exercise.id: t.verdict for t in tasks}

    def _task(self, exercise: Exercise) -> Task:
        verdict = Verdict(exercise.id, self.describe(exercise), points=exercise.points.total)
        return Task(exercise, cases_of(exercise, self.seed, self.hidden), verdict=verdict)

    # --- the submission's own Python ----------------------------------------------------------------------------------

    def _tell_plans(self, tasks: list[Task], submission: Submission, box: Sandbox) -> None:
        """What the launchers launch, and what plain functions answer."""
        job = {"cells": submission.cells, "tasks": [_told(t) for t in tasks], "time_limit": self.time_limit}
        found: dict[str, dict[int, dict]] = {t.exercise.id: {} for t in tasks}
        why = "died: nothing was told of it"
        try:
            for line in box.answers(json.dumps(job).encode()):
                answer = json.loads(line)
                found[answer["task"]][int(answer["case"])] = answer
        except Died as e:
            why = f"died: {e}"
        except (ValueError, KeyError, TypeError, RecursionError):
            why = "died: it wrote into the place of its answer"
        for t in tasks:
            for number in range(len(t.cases)):
                answer = found[t.exercise.id].get(number, {"ended": why})
                if self._refused_at_once(t, answer):
                    break
                (self._add_plan if t.is_kernel else _add_answer)(t, number, answer)
                last = t.plans[-1] if t.is_kernel else t.verdict.results[-1].diagnosis
                if getattr(last, "kind", "") in ("unfilled", "timeout", "died"):
                    break

    def _refused_at_once(self, task: Task, answer: dict) -> bool:
        """A function that is not there, or cannot be called: no case needs to be tried."""
        said = None
        if "missing" in answer:
            symptom = f"there is no function called {task.exercise.entry} in this notebook"
            for p in [p for p in answer.get("cells", []) if isinstance(p, dict)][:1]:
                if p.get("kind") == "unfilled":
                    said = diagnose.from_problem(_problem(p))
                symptom += f"; cell {str(p.get('cell'))[:60]} failed: {str(p.get('message'))[:300]}"
            said = said or diagnose.diagnosis("missing-function", symptom)
        elif "signature" in answer:
            said = diagnose.diagnosis("signature", str(answer["signature"])[:500])
        if said:
            task.verdict.headline = said
        return said is not None

    def _add_plan(self, task: Task, number: int, answer: dict) -> None:
        if "ended" in answer:
            task.plans.append(child.end(str(answer["ended"])[:500]))
            return
        if answer.get("problem"):
            task.plans.append(_computed(_problem(answer["problem"])))
            return
        try:
            told = plan.read(answer, len(task.exercise.arguments))
        except plan.BadPlan as e:
            task.plans.append(Problem("error", str(e)))
            return
        refused = next((p for s in told.specs if (p := language.problem(s))), None)
        task.plans.append(refused or told)

    # --- kernels ------------------------------------------------------------------------------------------------------

    def _judge_kernels(self, tasks: list[Task], boxes: dict[str, Sandbox], memory: Memory) -> None:
        at, size = _layout(tasks)
        memory.resize(size)
        for buffer, offset in at.values():
            _copy(memory.bytes, offset, buffer.storage, into_memory=True)
        job = {
            "size": memory.size,
            "time_limit": self.time_limit,
            "tasks": [t for t in (_replayed(t, at) for t in tasks) if t["cases"]],
        }
        specs = {_key(s): s for t in tasks if t.exercise.language == "triton" for s in _specs(t)}
        new = {k: s for k, s in specs.items() if k not in self._compiled}
        with ThreadPoolExecutor(1) as beside:
            compiling = beside.submit(_compile, boxes.get("compile"), list(new.values()), self.targets)
            outcomes = _outcomes(boxes["replay"], job)
            self._compiled.update(zip(new, compiling.result(), strict=True))
        for buffer, offset in at.values():
            _copy(memory.bytes, offset, buffer.storage, into_memory=False)
        for t in tasks:
            self._conclude(t, outcomes.get(t.exercise.id, {}), outcomes["why"])

    def _conclude(self, task: Task, outcomes: dict[int, Outcome], why: Problem) -> None:
        for number, (told, run, (_, hidden)) in enumerate(zip(task.plans, task.runs, task.cases, strict=False)):
            outcome = outcomes.get(number) or Outcome(why)
            if isinstance(told, Problem):
                outcome = Outcome(told)
            else:
                outcome.printed = (told.printed + outcome.printed)[: child.PRINT_LIMIT]
                outcome.returned = told.returned
                if not told.launches():
                    outcome.launches = 0
            if not add_case(task.verdict, task.exercise, run, outcome, hidden):
                break
        refusals = [self._compiled.get(_key(s)) for s in _specs(task)]
        for problem in refusals:
            if isinstance(problem, Problem) and not task.verdict.unfilled:
                task.verdict.headline = diagnose.from_problem(problem)
                break
            if isinstance(problem, str):
                task.verdict.notes.append(f"The kernel was not compiled for a GPU: {problem}.")
                break
        conclude(task.exercise, task.verdict)


# --- telling the sandbox ---------------------------------------------------------------------------------------------


def _bytes(count: int) -> torch.Tensor:
    return torch.empty(count, dtype=torch.uint8)


def _told(task: Task) -> dict:
    """What the launch sandbox is told of an exercise: names, shapes and types; no values, no answers."""
    exercise = task.exercise
    told = {"id": exercise.id, "entry": exercise.entry, "parameters": exercise.parameters}
    if not task.is_kernel:
        return told | {"kind": "plain", "cases": [dict(c.sizes) for c, _ in task.cases]}
    return told | {"kind": "kernel", "cases": [_arguments(run) for run in task.runs]}


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


def _replayed(task: Task, at: dict) -> dict:
    cases = []
    for number, told in enumerate(task.plans):
        if isinstance(told, Problem):
            break
        arguments = _arguments(task.runs[number])
        for a in arguments:
            if "number" not in a:
                a["at"] = at[task.exercise.id, number, a["name"]][1]
        cases.append({"arguments": arguments, "plan": told.to_json()})
    return {"id": task.exercise.id, "language": task.exercise.language, "cases": cases}


# --- hearing from the sandbox ----------------------------------------------------------------------------------------


def _problem(told: dict) -> Problem:
    """A problem as the sandbox tells it; any of its fields may be forged, so only text is taken over."""
    kind, line = told.get("kind"), told.get("line")
    return Problem(
        kind if kind in ("unfilled", "error", "timeout", "died", "does-not-compile") else "error",
        str(told.get("message"))[:2000],
        line if isinstance(line, int) else None,
        str(told.get("source") or "")[:500],
    )


def _computed(problem: Problem) -> Problem:
    """A launcher that lets PyTorch do the work has no kernel to show for it."""
    if problem.message.startswith("Computed: "):
        problem.kind, problem.message = "no-kernel", f"your launcher {problem.message.removeprefix('Computed: ')}"
    return problem


def _add_answer(task: Task, number: int, answer: dict) -> None:
    case, hidden = task.cases[number]
    if "ended" in answer:
        said = diagnose.from_problem(child.end(str(answer["ended"])[:500]))
    elif answer.get("problem"):
        said = diagnose.from_problem(_problem(answer["problem"]))
    else:
        said = compare_plain(task.exercise, case, _value(answer.get("answer")), task.exercise.arguments(case))
    task.verdict.results.append(CaseResult(case.name, said, hidden=hidden))
    task.verdict.printed = task.verdict.printed or str(answer.get("printed", ""))[: child.PRINT_LIMIT]


def _value(told):
    """What a plain function returned: a number, text, None, or an object that is known by its type's name only."""
    if isinstance(told, dict) and isinstance(told.get("value"), (bool, int, float, str, type(None))):
        return told.get("value")
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
        told["problem"] = Problem(**told["problem"])
    return Outcome(**told)


# --- compiling -------------------------------------------------------------------------------------------------------


def _specs(task: Task) -> list[dict]:
    return [s for p in task.plans if isinstance(p, plan.Plan) for s in p.specs]


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
    except Died as e:
        why = f"the compiler died: {e}"
    else:
        why = "the compiler said nothing"
    for number in range(len(specs)):
        try:
            said.append(offline.problem_of(results[number], box.noise()) if number < len(results) else why)
        except offline.CompilerFailed as e:
            said.append(str(e))
    return said
