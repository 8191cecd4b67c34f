"""Cells that failed, were skipped or renamed are named before anything is graded."""

from types import FunctionType, SimpleNamespace

import pytest

import labutils.exercises  # noqa: F401  (what the check imports when it is asked for)
from labutils.check import names


@pytest.fixture
def cells(monkeypatch):
    own = names.Cells()
    monkeypatch.setattr(names, "cells", own)
    return own


def kernel():
    return 1


def launcher():
    return kernel()


def test_a_launcher_reaches_its_kernel():
    assert "kernel" in names.reached(launcher)


def test_nothing_is_said_while_all_cells_ran(cells):
    cells.ran("a", "def kernel():\n    return 1", None)
    cells.ran("b", "def launcher():\n    return kernel()", None)
    assert names.outdated(launcher, "launcher") is None


def test_an_earlier_version_is_not_graded(cells):
    cells.ran("a", "def kernel():\n    return 1", None)
    cells.ran("a", "def kernel():\n    return (", SyntaxError("'(' was never closed", ("cell", 2, 12, "return (")))
    symptom, advice = names.outdated(launcher, "launcher")
    assert "latest version of kernel did not run: SyntaxError" in symptom and "(line 2)" in symptom
    assert "not graded" in advice
    cells.ran("a", "def kernel():\n    return 2", None)
    assert names.outdated(launcher, "launcher") is None


def test_a_function_above_the_line_that_fails_is_defined(cells):
    text = "def launcher():\n    return 1\nraise ValueError('later')\ndef kernel():\n    return 1"
    with pytest.raises(ValueError) as e:
        exec(compile(text, "<cell>", "exec"), {})
    error = e.value.with_traceback(e.value.__traceback__.tb_next)
    cells.ran("a", text, error)
    assert set(cells.failed) == {"kernel"}


def test_a_kernel_that_was_renamed(cells):
    cells.ran("a", "def kernel():\n    return 1", None)
    cells.ran("a", "def my_kernel():\n    return 1", None)
    symptom, advice = names.outdated(launcher, "launcher")
    assert symptom == "launcher still uses kernel, whose cell now defines my_kernel instead"
    assert "rename" in advice


def my_launcher():
    return kernel()


def test_a_launcher_that_was_renamed(cells):
    cells.ran("a", "def launcher():\n    return kernel()", None)
    cells.begins("a", "def my_launcher():\n    return kernel()\nlab.check('…')")  # a check in the same cell
    symptom, advice = names.outdated(launcher, "launcher")
    assert symptom == "the cell of launcher now defines my_launcher instead" and "not graded" in advice
    assert names.outdated(my_launcher, "launcher") is None, "the new one was given to the check"


def add_kernel(x_ptr, n):
    return 1


def my_add_kernel(x_ptr, n):
    return 2


def add_kernel_2(x_ptr):
    return 3


def add(x):
    return add_kernel(x, 1)


def test_a_later_kernel_that_is_not_used_is_named(cells):
    cells.ran("a", "def add_kernel(x_ptr, n):\n    return 1", None)
    cells.ran("b", "def add(x):\n    return add_kernel(x, 1)", None)
    cells.ran("c", "def add_kernel_2(x_ptr):\n    return 3", None)
    assert names.unused(add, "add") == "", "it takes other arguments"
    cells.ran("d", "def my_add_kernel(x_ptr, n):\n    return 2", None)
    assert names.unused(add, "add").startswith("add_kernel was checked. my_add_kernel was defined after it")
    cells.ran("a", "def add_kernel(x_ptr, n):\n    return 1", None)
    assert names.unused(add, "add") == "", "the one that is used is the latest"


def conv1d(x, n):
    return conv1d_kernel(x, n)  # noqa: F821


def conv1d_padded(x, n):
    return add_kernel(x, n)


class Kernel:
    """As Triton's kernels hold their function; tuned ones hold such a kernel."""

    def __init__(self, fn):
        self.fn = fn


tuned = Kernel(Kernel(launcher))


def test_a_function_of_another_exercise_is_not_meant(cells, monkeypatch):
    add_kernel, other_kernel = Kernel(globals()["add_kernel"]), Kernel(my_add_kernel)
    namespace = {"add_kernel": add_kernel, "my_add_kernel": other_kernel}
    ours = FunctionType(add.__code__, namespace, "add")
    theirs = FunctionType((lambda x: my_add_kernel(x, 1)).__code__, namespace, "theirs")
    namespace |= {"add": ours, "theirs": theirs}
    for name in namespace:
        cells.ran(name, f"def {name}():\n    return 1", None)
    assert "my_add_kernel was defined after it" in names.unused(ours, "add")
    exercises = {n: SimpleNamespace(entry=n) for n in ("add", "theirs")}
    monkeypatch.setattr("labutils.exercises.all_exercises", lambda: exercises)
    assert names.unused(ours, "add") == ""


def test_a_launcher_is_not_meant_by_the_name_of_its_kernel(cells):
    _, advice = names.missing("NameError: name 'conv1d_kernel' is not defined", conv1d)
    assert advice.startswith("Run the cell that defines conv1d_kernel")
    assert "Did you mean conv1d_padded" in names.missing("name 'conv1d_pad' is not defined", conv1d_padded)[1]


def test_a_tuned_kernel_is_looked_into():
    assert "kernel" in names.reached(tuned)
    fn = FunctionType((lambda: tuned).__code__, {"tuned": tuned}, "fn")
    assert "return kernel()" in names.texts(fn)[0][1]


def test_names_of_other_languages(cells):
    assert "tl.float32" in names.missing("NameError: name 'float32' is not defined", launcher)[1]
    assert "tl.program_id(0)" in names.missing("NameError: name 'blockIdx' is not defined", launcher)[1]
    assert names.missing("enumerate is not defined", launcher)[0] == "a kernel cannot use Python's enumerate"


def test_a_cuda_cell_that_does_not_compile(cells):
    class Refused(Exception):
        text = 'line 3: expected a ";"\n    y'
        advice = "Look for a missing ;."

    text = "%%cuda\n__global__ void __launch_bounds__(256) kernel(float *x) { }"
    cells.ran("a", text, Refused())
    assert names.defined(text) == ("kernel",)
    symptom, advice = names.missing("NameError: name 'kernel' is not defined", launcher)
    assert symptom.endswith('line 3: expected a ";"') and advice.startswith("Look for a missing ;. Correct")


def test_a_name_that_is_nearly_right(cells):
    symptom, advice = names.missing("NameError: name 'kernal' is not defined", launcher)
    assert symptom == "the name kernal is not defined" and "Did you mean kernel?" in advice
