"""Bounds of exercises: what the reference solution counts is what they say that it counts, and it meets them all."""

from dataclasses import replace

import pytest

from grader.course.solutions import ROOT, load_text, module_text
from grader.course.sources import source_notebook
from labutils import exercises
from labutils.backends.emulator import Emulator
from labutils.backends.interpreter import Interpreter
from labutils.check.evaluate import evaluate
from labutils.spec.exercise import with_atomics

QUICK = {"07_elementwise_cuda", "08_coalescing"}
"""Units that are tried in every run; `pytest -m slow` tries the rest."""
TOTALS = [e for e in exercises.all_exercises().values() if any(b.diluted_by or b.also for b in e.points.bounds)]
PARAMETERS = [pytest.param(e, id=e.id, marks=[] if e.unit in QUICK else [pytest.mark.slow]) for e in TOTALS]


@pytest.fixture(scope="module")
def solution(tmp_path_factory):
    """The modules of the units' solutions."""
    made = {}

    def of(unit: str):
        if unit not in made:
            made[unit] = load_text(
                module_text(source_notebook(ROOT / "solutions" / unit)), tmp_path_factory.mktemp(unit)
            )
        return made[unit]

    return of


@pytest.mark.parametrize("exercise", PARAMETERS)
def test_the_solution_has_the_totals_that_its_bounds_name(exercise, solution):
    counted = max(exercise.cases, key=lambda case: exercise.cost(case.sizes, 4).bytes)
    backend = Interpreter(targets=()) if exercise.language == "triton" else Emulator(exercise.only)
    function = getattr(solution(exercise.unit), exercise.entry)
    verdict = evaluate(replace(exercise, cases=(counted,)), function, backend=backend, time_limit=120)
    assert verdict.passed, verdict.text()
    for bound in exercise.points.bounds:
        assert bound.met(verdict.counts), bound.line(verdict.counts)
        if bound.diluted_by and bound.diluted_by not in BY_COMPILER:
            assert with_atomics(verdict.counts, bound.diluted_by) == pytest.approx(bound.reference, rel=0.03)


BY_COMPILER = {"lanes", "branches"}
"""Counts of basic blocks: they differ between compilers, so they have a wide margin."""
