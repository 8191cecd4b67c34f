"""Which statements of a Triton solution the cases of its exercise execute.

Exercises of a unit share kernels and device functions. A statement that one exercise never reaches, such as the branch
of a constexpr that its launcher does not choose, cannot be tested by this exercise's check. A mutation of it belongs to
the exercise that executes it. A statement that no exercise of the unit executes belongs to each of them: there, a case
is missing.

The solution runs once under Triton's interpreter, with a trace function. Where the interpreter is off, because a GPU
runs the kernels, every statement counts as executed.
"""

from __future__ import annotations

import ast
import functools
import sys
import tempfile
from collections.abc import Callable

from grader.course.mutants import answer
from grader.course.solutions import load_text
from labutils import exercises
from labutils.backends import child, interpreter
from labutils.spec.exercise import KernelExercise
from labutils.spec.inputs import Run, make_run

SEED = 7
CASE_LIMIT = 60.0
"""Seconds of CPU time for one traced case; the slowest needs about ten."""

Statement = tuple[str, int]
"""The text of a function, and the first line of a statement in it: the same for all exercises with this function."""


def others_lines(exercise_id: str) -> frozenset[int]:
    """Lines of an exercise's answer that none of its cases executes, but those of another exercise of its unit do."""
    if not _can_trace(exercise_id):
        return frozenset()
    places = statements(answer(exercise_id))
    missing = set(places.values()) - executed(exercise_id)
    elsewhere: set[Statement] = set()
    for other in _neighbors(exercise_id) if missing else ():
        if missing & set(statements(answer(other)).values()):
            elsewhere |= executed(other)
    return frozenset(line for line, statement in places.items() if statement in missing & elsewhere)


def statements(text: str) -> dict[int, Statement]:
    """The innermost statement on each line inside of a function. Of a branch or a loop, only the first lines count: its
    body has statements of its own."""
    found: dict[int, Statement] = {}
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        segment = ast.get_source_segment(text, function)
        for node in ast.walk(function):
            docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if isinstance(node, ast.stmt) and not isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not docstring:
                body = getattr(node, "body", None)
                last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno
                for line in range(node.lineno, last + 1):
                    found[line] = segment, node.lineno - function.lineno
    return found


@functools.cache
def executed(exercise_id: str) -> frozenset[Statement]:
    """The statements of an exercise's answer that at least one of its cases executes."""
    task, text = exercises.get(exercise_id), answer(exercise_id)
    places = statements(text)
    with tempfile.TemporaryDirectory(prefix="grader-trace-") as folder:
        module = load_text(text, folder)
        fn = getattr(module, task.entry)
        jobs = [functools.partial(_lines, fn, make_run(task, case, SEED), module.__file__) for case in task.cases]
        lines: set[int] = set()
        for result in child.fork(jobs, CASE_LIMIT):
            if isinstance(result, str) or result["problem"]:
                why = result if isinstance(result, str) else result["problem"]["message"]
                raise RuntimeError(f"{exercise_id}: the solution does not run: {why}")
            lines.update(result["lines"])
    return frozenset(places[line] for line in lines if line in places)


def traced(run: Callable[[], dict], path: str) -> dict:
    """What `run` returns, and as "lines" the lines of the file that it executed."""
    lines: set[int] = set()

    def inside(frame, event, _):
        if event == "line":
            lines.add(frame.f_lineno)
        return inside

    before = sys.gettrace()
    sys.settrace(lambda frame, event, _: inside if frame.f_code.co_filename == path else None)
    try:
        result = run()
    finally:
        sys.settrace(before)
    return {**result, "lines": sorted(lines)}


def _lines(fn: Callable, run: Run, path: str) -> dict:
    """In a child: one case, traced."""
    result = traced(lambda: interpreter.one_case(fn, run, compiled=False), path)
    return {key: result[key] for key in ("problem", "lines")}


def _can_trace(exercise_id: str) -> bool:
    task = exercises.get(exercise_id)
    return isinstance(task, KernelExercise) and task.language == "triton" and interpreter.ready()


def _neighbors(exercise_id: str) -> list[str]:
    """The other exercises of its unit that can be traced."""
    unit = exercise_id.split("/")[0]
    return [i for i in exercises.all_exercises() if i != exercise_id and i.split("/")[0] == unit and _can_trace(i)]
