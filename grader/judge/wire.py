"""What the judge tells its sandboxes, and how it hears them: bytes, JSON of a known form, and nothing else."""

from __future__ import annotations

import contextlib
import json

import torch

from grader.judge import plan, reader
from grader.judge.arrays import Placed
from grader.judge.reading import FORGED
from grader.judge.sandbox import Died, Memory, Sandbox
from grader.judge.task import PlannedTask, Task
from labutils.backends import Outcome, Problem, child, emulator, interpreter
from labutils.check import diagnose
from labutils.check.evaluate import compare_plain
from labutils.spec.exercise import Case, KernelExercise, PlainExercise
from labutils.spec.inputs import Run, numbers_of
from labutils.spec.serialize import decode, encode
from labutils.spec.verdict import CaseResult

# --- telling the sandbox ---------------------------------------------------------------------------------------------


def plain_bytes(count: int) -> torch.Tensor:
    return torch.empty(count, dtype=torch.uint8)


def task_payload(task: Task, seed: int) -> dict:
    """What the launch sandbox gets of an exercise: names, shapes and types; no values, no answers."""
    exercise = task.exercise
    payload = {"id": exercise.id, "entry": exercise.entry, "parameters": exercise.parameters}
    if not task.is_kernel:
        cases = [[encode(v) for v in exercise.arguments(c).values()] for c, _ in task.cases]
        return payload | {"kind": "plain", "cases": cases}
    cases = [arguments_of(run) for run in task.runs]
    if task.timed:
        cases.append(timed_arguments(exercise, task.timed, seed))
    return payload | {"kind": "kernel", "cases": cases}


def timed_arguments(exercise: KernelExercise, case: Case, seed: int) -> list[dict]:
    """Like `arguments_of`, for arrays that are large and not drawn yet."""
    payload, numbers = [], numbers_of(exercise, case, seed)
    for name, a in exercise.arguments.items():
        if name in numbers:
            payload.append({"name": name, "number": numbers[name]})
            continue
        empty = torch.empty(a.shape(case.sizes), device="meta")
        shape = {"shape": list(empty.shape), "strides": list(empty.stride()), "length": empty.numel(), "start": 0}
        payload.append({"name": name, "dtype": exercise.dtype(case, name), **shape})
    return payload


def arguments_of(run: Run) -> list[dict]:
    payload = []
    for name in run.exercise.arguments:
        if name in run.numbers:
            payload.append({"name": name, "number": run.numbers[name]})
            continue
        b = run.buffers[name]
        payload.append(
            {
                "name": name,
                "dtype": str(b.storage.dtype).removeprefix("torch."),
                "length": b.storage.numel(),
                "shape": list(b.view.shape),
                "strides": list(b.view.stride()),
                "start": b.start,
            }
        )
    return payload


def placed(tasks: list[PlannedTask], memory: Memory) -> Placed:
    """A place in the shared memory for the arrays of every case that has a plan."""
    return Placed(memory, {(p.exercise.id, k): p.task.runs[k] for p in tasks for k in p.planned()})


def replayed(planned: PlannedTask, at: Placed) -> dict:
    """What the replay sandbox gets of an exercise: its plans, and where their arrays lie."""
    exercise, cases = planned.exercise, []
    for number in planned.planned():
        arguments = arguments_of(planned.task.runs[number])
        for a in arguments:
            if "number" not in a:
                a["at"] = at.at((exercise.id, number), a["name"])
                a["apart"] = planned.task.runs[number].buffers[a["name"]].apart
        cases.append({"arguments": arguments, "plan": planned.plans[number].to_json(), "turn": planned.turn(number)})
    return {"id": exercise.id, "language": exercise.language, "cases": cases}


# --- hearing from the sandbox ----------------------------------------------------------------------------------------


MOST_ANSWERS = 16 << 20
"""Bytes that a launch sandbox may write about one submission; the course's own solutions take a hundredth."""

NOTHING = "died: nothing was reported"


def collected(box: Sandbox, job: dict, content: int) -> str:
    """Put what a launch sandbox writes into the file `content`, unread; returns the report for what is missing."""
    total = 0
    try:
        for line in box.answers(json.dumps(job).encode()):
            if (total := total + len(line)) > MOST_ANSWERS:
                return "died: it wrote more than any answer can hold"
            reader.append(content, line + b"\n")
    except Died as e:
        return f"died: {e}"
    return NOTHING


def answers_in(content: int, tasks: list[dict], why: str) -> tuple[dict[str, dict[int, dict]], str]:
    """What a limited child finds in a launch sandbox's answers, by task and case, and the report for the others.

    `why` is what was reported of them before.
    """
    found: dict[str, dict[int, dict]] = {t["id"]: {} for t in tasks}
    known = [{"id": t["id"], "kind": t["kind"], "cases": t["cases"] if t["kind"] == "kernel" else []} for t in tasks]
    kernels: dict[int, dict] = {}
    try:
        for answer in reader.read("grader.judge.reading", {"what": "plans", "tasks": known}, content):
            if "spec" in answer:
                kernels[answer["spec"]] = answer
            elif "forged" in answer:
                return found, FORGED
            elif "long" in answer:
                why = f"died: {answer['long']}"
            else:
                if "plan" in answer:
                    answer["specs"] = [kernels[n] for n in answer["plan"]["specs"]]
                found[answer["task"]][answer["case"]] = answer
    except reader.Unread as e:
        why = f"died: {e}"
    return found, why


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
    """The plan of one case for a launcher of these arguments, or what is wrong with it. Its kernels' text was read by
    the child that read the plan (`grader.judge.reading`); the plan itself is checked once more."""
    if "ended" in answer:
        return child.end(clean(answer["ended"], 500))
    if answer.get("problem"):
        return _computed(problem_in(answer["problem"]))
    specs = answer["specs"]
    try:
        found = plan.read(answer["plan"] | {"specs": [s["value"] for s in specs]}, arguments)
    except plan.BadPlan as e:
        return Problem(e.kind, str(e))
    for spec, told in zip(found.specs, specs, strict=True):
        if spec["language"] == "cuda":
            spec["abi"] = told["abi"]
    found.needs_gpu = any(told["needs_gpu"] for told in specs)
    found.atomics = any(told["atomics"] for told in specs)
    return found


KINDS = ("unfilled", "error", "timeout", "died", "does-not-compile", "no-kernel")
"""Kinds of problems, of which a submission may claim any: none of them passes. A forged one is only compared with
these."""


def problem_in(payload: dict, kinds: tuple[str, ...] = KINDS) -> Problem:
    """A problem as the sandbox tells it; any of its fields may be forged, so only text is taken over."""
    kind, line = payload.get("kind"), payload.get("line")
    return Problem(
        kind if kind in kinds else "error",
        clean(payload.get("message"), 2000) or "the sandbox did not say what went wrong",
        line if type(line) is int and 0 < line < 10**6 else None,
        clean(payload.get("source"), 500),
    )


def _computed(problem: Problem) -> Problem:
    """A launcher that lets PyTorch do the work has no kernel to show for it."""
    if problem.message.startswith("Computed: "):
        problem.kind, problem.message = "no-kernel", f"your launcher {problem.message.removeprefix('Computed: ')}"
    return problem


def plain_result(task: Task, number: int, answer: dict) -> CaseResult:
    """What is wrong with a plain function's answer in one case, if anything."""
    case, hidden = task.cases[number]
    if "ended" in answer:
        found = diagnose.from_problem(child.end(clean(answer["ended"], 500)))
    elif answer.get("problem"):
        found = diagnose.from_problem(problem_in(answer["problem"]))
    else:
        found = compared(task.exercise, case, value_in(answer.get("answer")))
    return CaseResult(case.name, found, hidden=hidden)


def compared(exercise: PlainExercise, case: Case, yours) -> diagnose.Diagnosis | None:
    """What is wrong with a plain function's answer. A reader that stumbles over a value has met none that is right."""
    try:
        return compare_plain(exercise, case, yours, exercise.arguments(case))
    except Exception as e:
        message = f"{exercise.entry} returned what cannot be compared ({type(e).__name__})"
        return diagnose.diagnosis("wrong-values", message, "", "Return what the exercise asks for.")


def value_in(payload):
    """What a plain function returned, or for what cannot be sent an object that is known by its type's name only."""
    if isinstance(payload, dict) and "value" in payload:
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            return decode(payload["value"])
    name = payload.get("type") if isinstance(payload, dict) else None
    return type(name if isinstance(name, str) and name.isidentifier() else "value", (), {})()


def outcomes_in(box: Sandbox, job: dict) -> dict:
    """Outcomes by task and case; under "why" the report for those that are missing."""
    found: dict = {"why": Problem("died", "the process that ran your kernels died")}
    if not job["tasks"]:
        return found
    languages = {t["id"]: t["language"] for t in job["tasks"]}
    try:
        for line in box.answers(json.dumps(job).encode()):
            answer = reader.parsed(line)
            task, case = answer.pop("task"), answer.pop("case")
            found.setdefault(task, {})[case] = _outcome(answer, languages[task])
    except Died as e:
        found["why"] = Problem("died", f"the process that ran your kernels died: {e}")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        found["why"] = child.end(FORGED)
    return found


def _outcome(payload: dict, language: str) -> Outcome:
    if "ended" in payload:
        return Outcome(child.end(payload["ended"]))
    problem = problem_in(payload["problem"], (*KINDS, diagnose.NEEDS_GPU)) if payload["problem"] else None
    outcome = (emulator if language == "cuda" else interpreter).outcome({**payload, "problem": None})
    outcome.problem = problem
    return outcome
