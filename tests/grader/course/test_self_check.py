"""The build refuses a solution that its own check refuses, and a reference that refuses its own solution."""

import pytest

from grader.course import self_check
from grader.course.build import build
from labutils import exercises
from tests.grader.small import EXERCISE, UNIT, write_unit

KERNEL = """\
# %% [markdown]
# # Add

# %% cell="setup"

# %% cell="given"
import triton
import triton.language as tl

# %% cell="solution" id="vector_add_kernel"
@triton.jit
def vector_add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    ### BEGIN SOLUTION
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, x + tl.load(y_ptr + offs, mask=mask), mask=mask)
    ### END SOLUTION

# %% cell="given" id="vector_add"
def vector_add(x, y, out):
    vector_add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)

# %% cell="check" exercise="06_elementwise_triton/vector_add"
lab.check("06_elementwise_triton/vector_add")
"""


@pytest.fixture
def unit(tmp_path, monkeypatch):
    monkeypatch.setenv("GPULAB_CACHE", str(tmp_path / "cache"))
    return write_unit(tmp_path / "solutions")


def changed(unit, old, new):
    path = unit / f"{UNIT}.py"
    path.write_text(path.read_text().replace(old, new))


def test_a_wrong_solution_is_refused_and_nothing_is_written(unit, tmp_path):
    message = []
    assert build(tmp_path, say=message.append) == [] and message[-1].startswith(f"{UNIT}: written")
    released = tmp_path / "notebooks" / UNIT / f"{UNIT}.ipynb"
    before = released.read_bytes()
    changed(unit, "return 3 * n * itemsize", "return 2 * n * itemsize")
    for check in (False, True):
        (problem,) = build(tmp_path, check=check, say=message.append)
        assert problem.startswith(f"{EXERCISE}: its own check rejects the solution (")
        assert problem.endswith("; the solution or the reference is wrong")
    assert released.read_bytes() == before


def test_a_wrong_reference_is_refused(unit, monkeypatch):
    assert self_check.check_unit(unit) == []
    monkeypatch.setitem(exercises.get(EXERCISE).__dict__, "reference", lambda n, itemsize: 2 * n * itemsize)
    (problem,) = self_check.check_unit(unit)
    assert problem.startswith(f"{EXERCISE}: its own check rejects the solution (")
    monkeypatch.setitem(exercises.get(EXERCISE).__dict__, "reference", lambda n, itemsize: 1 / 0)
    (problem,) = self_check.check_unit(unit)
    assert EXERCISE in problem and "ZeroDivisionError" in problem


def test_a_kernel_and_its_reference_are_checked_too(unit, monkeypatch):
    (unit / f"{UNIT}.py").write_text(KERNEL)
    assert self_check.check_unit(unit) == []
    known = exercises.get("06_elementwise_triton/vector_add")
    with monkeypatch.context() as patch:
        patch.setitem(known.__dict__, "reference", lambda x, y: x - y)
        (problem,) = self_check.check_unit(unit)
        assert problem.startswith(f"{known.id}: its own check rejects the solution (")
    changed(unit, "x + tl.load", "x * tl.load")
    (problem,) = self_check.check_unit(unit)
    assert problem.startswith(f"{known.id}: its own check rejects the solution (")


def test_cells_that_do_not_run_are_said(unit):
    changed(unit, "def add_bytes", "@nothing\ndef add_bytes")
    (problem,) = self_check.check_unit(unit)
    assert problem == f"{UNIT}.py: the solution's cells do not run: NameError: name 'nothing' is not defined"


def test_what_passed_is_not_run_again_until_something_changes(unit, monkeypatch):
    ran = []
    monkeypatch.setattr(self_check, "_in_processes", lambda units: ran.append(units) or {u.name: [] for u in units})
    for _ in range(2):
        assert self_check.problems_of([unit]) == {UNIT: []}
    assert ran == [[unit], []]
    changed(unit, "3 * n", "n * 3")
    self_check.problems_of([unit])
    monkeypatch.setattr(self_check, "_shared_hash", lambda: "labutils changed")
    self_check.problems_of([unit])
    assert ran[2:] == [[unit], [unit]]


def test_what_is_refused_is_run_again(unit, monkeypatch):
    monkeypatch.setattr(self_check, "_in_processes", lambda units: {u.name: ["wrong"] for u in units})
    assert [self_check.problems_of([unit]) for _ in range(2)] == [{UNIT: ["wrong"]}] * 2


def test_a_process_that_ends_early_is_a_problem(unit, monkeypatch):
    monkeypatch.setattr(self_check.sys, "executable", "false")
    ((problem,),) = self_check.problems_of([unit]).values()
    assert problem.startswith(f"{UNIT}.py: checking its solution ended early")
