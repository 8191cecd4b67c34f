"""What the judge tells its sandboxes, and how it hears them: bytes, JSON of a known form, and nothing else."""

from __future__ import annotations

import contextlib
import json
import re

import torch

from grader.judge import language, plan
from grader.judge.sandbox import Died, Sandbox
from grader.judge.task import Task
from labutils import diagnose
from labutils.access import Finding
from labutils.backends import Outcome, Problem, child, offline
from labutils.backends import emulator as emulated
from labutils.evaluate import compare_plain
from labutils.exercise import Case, KernelExercise, PlainExercise
from labutils.inputs import Run, numbers_of
from labutils.telling import hear, tell
from labutils.verdict import CaseResult

ALIGNMENT = 256
"""Bytes: where arrays may begin in the shared memory, as on a GPU."""

# --- telling the sandbox ---------------------------------------------------------------------------------------------


def plain_bytes(count: int) -> torch.Tensor:
    return torch.empty(count, dtype=torch.uint8)


def told(task: Task, seed: int) -> dict:
    """What the launch sandbox is told of an exercise: names, shapes and types; no values, no answers."""
    exercise = task.exercise
    told = {"id": exercise.id, "entry": exercise.entry, "parameters": exercise.parameters}
    if not task.is_kernel:
        cases = [[tell(v) for v in exercise.arguments(c).values()] for c, _ in task.cases]
        return told | {"kind": "plain", "cases": cases}
    cases = [arguments_of(run) for run in task.runs]
    if task.timed:
        cases.append(timed_arguments(exercise, task.timed, seed))
    return told | {"kind": "kernel", "cases": cases}


def timed_arguments(exercise: KernelExercise, case: Case, seed: int) -> list[dict]:
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


def for_runner(run: Run, at: dict[str, int]) -> list[dict]:
    """The arguments of a case as the runner reads them: where the bytes lie, and which of them are outputs."""
    told = []
    for name in run.exercise.arguments:
        if name in run.numbers:
            told.append({"number": run.numbers[name]})
            continue
        b = run.buffers[name]
        told.append({"at": at[name], "bytes": b.storage.numel() * b.storage.element_size(), "output": b.is_output})
    return told


def arguments_of(run: Run) -> list[dict]:
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


def layout(tasks: list[Task]) -> tuple[dict, int]:
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


def copy(memory, offset: int, storage: torch.Tensor, into_memory: bool) -> None:
    ours = storage.view(torch.uint8)
    if not ours.numel():
        return
    theirs = torch.frombuffer(memory, dtype=torch.uint8, count=ours.numel(), offset=offset)
    (theirs if into_memory else ours).copy_(ours if into_memory else theirs)


def planned(task: Task) -> list[int]:
    """Numbers of the cases that have a plan to be run."""
    return [k for k, told in enumerate(task.plans) if isinstance(told, plan.Plan)]


def replayed(task: Task, at: dict) -> dict:
    cases = []
    for number in planned(task):
        told = task.plans[number]
        arguments = arguments_of(task.runs[number])
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


def heard(line: bytes) -> dict:
    """An answer of the launch sandbox. A submission can write there too: ValueError for what nobody else would."""
    answer = json.loads(line)
    if not isinstance(answer, dict) or not isinstance(answer.get("task"), str) or type(answer.get("case")) is not int:
        raise ValueError("no answer")
    if any(not isinstance(answer[k], kind) for k, kind in _FIELDS.items() if k in answer):
        raise ValueError("no answer")
    if not re.match(r"timeout$|died\b", answer.get("ended", "died")):
        raise ValueError("no answer")
    return answer


def shown(value):
    """JSON from a sandbox with every text fit to be shown."""
    if isinstance(value, dict):
        return {k: shown(v) for k, v in value.items()}
    if isinstance(value, list):
        return [shown(v) for v in value[:100]]
    return clean(value, 4000) if isinstance(value, str) else value


def clean(value, most: int) -> str:
    """Text that a submission may have written, fit to be shown; nothing where it is no text."""
    return plan.text(value, most) if isinstance(value, str) else ""


def plan_in(arguments: list[dict], answer: dict) -> plan.Plan | Problem:
    """The plan of one case for a launcher of these arguments, its kernels' text read too, or what is wrong with it."""
    if "ended" in answer:
        return child.end(clean(answer["ended"], 500))
    if answer.get("problem"):
        return _computed(problem_in(answer["problem"]))
    try:
        told = plan.read(answer, arguments)
    except plan.BadPlan as e:
        return Problem(e.kind, str(e))
    return next((p for s in told.specs if (p := language.problem(s))), None) or told


def problem_in(told: dict) -> Problem:
    """A problem as the sandbox tells it; any of its fields may be forged, so only text is taken over."""
    kind, line = told.get("kind"), told.get("line")
    return Problem(
        kind if kind in ("unfilled", "error", "timeout", "died", "does-not-compile") else "error",
        clean(told.get("message"), 2000) or "the sandbox did not say what went wrong",
        line if type(line) is int and 0 < line < 10**6 else None,
        clean(told.get("source"), 500),
    )


def _computed(problem: Problem) -> Problem:
    """A launcher that lets PyTorch do the work has no kernel to show for it."""
    if problem.message.startswith("Computed: "):
        problem.kind, problem.message = "no-kernel", f"your launcher {problem.message.removeprefix('Computed: ')}"
    return problem


def add_answer(task: Task, number: int, answer: dict) -> None:
    case, hidden = task.cases[number]
    if "ended" in answer:
        said = diagnose.from_problem(child.end(clean(answer["ended"], 500)))
    elif answer.get("problem"):
        said = diagnose.from_problem(problem_in(answer["problem"]))
    else:
        said = compared(task.exercise, case, value_in(answer.get("answer")))
    task.verdict.results.append(CaseResult(case.name, said, hidden=hidden))
    task.verdict.printed = task.verdict.printed or clean(answer.get("printed", ""), child.PRINT_LIMIT)


def compared(exercise: PlainExercise, case: Case, yours) -> diagnose.Diagnosis | None:
    """What is wrong with a plain function's answer. A reader that stumbles over a value has met none that is right."""
    try:
        return compare_plain(exercise, case, yours, exercise.arguments(case))
    except Exception as e:
        said = f"{exercise.entry} returned what cannot be compared ({type(e).__name__})"
        return diagnose.diagnosis("wrong-values", said, "", "Return what the exercise asks for.")


def value_in(told):
    """What a plain function returned, or for what cannot be told an object that is known by its type's name only."""
    if isinstance(told, dict) and "value" in told:
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            return hear(told["value"])
    name = told.get("type") if isinstance(told, dict) else None
    return type(name if isinstance(name, str) and name.isidentifier() else "value", (), {})()


def outcomes_in(box: Sandbox, job: dict) -> dict:
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
        told["problem"] = problem_in(told["problem"])
    return Outcome(**told)


# --- compiling -------------------------------------------------------------------------------------------------------


def compiled_for(box: Sandbox | None, specs: list[dict], targets) -> list[Problem | str | None]:
    """For each launch a refusal, a sentence on why there is no answer, or None."""
    said: list[Problem | str | None] = []
    if not specs:
        return said
    results = []
    try:
        job = json.dumps({"specs": specs, "targets": list(targets)}).encode()
        results += [json.loads(line) for line in box.answers(job)]
    except Died as e:  # a kernel that no compiler can finish is none for a GPU, however it runs in an interpreter
        why = Problem("does-not-compile", f"the compiler came to no end with this kernel: {clean(str(e), 300)}")
    else:
        why = "the compiler said nothing"
    for number in range(len(specs)):
        try:
            said.append(offline.problem_of(results[number], box.noise()) if number < len(results) else why)
        except offline.CompilerFailed as e:
            said.append(str(e))
    return said
