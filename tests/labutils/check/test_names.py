"""Cells that failed, were skipped or renamed are named before anything is graded."""

import pytest

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


def test_a_cuda_cell_that_does_not_compile(cells):
    class Refused(Exception):
        text = 'line 3: expected a ";"\n    y'

    text = "%%cuda\n__global__ void __launch_bounds__(256) kernel(float *x) { }"
    cells.ran("a", text, Refused())
    assert names.defined(text) == ("kernel",)
    assert names.missing("NameError: name 'kernel' is not defined", launcher)[0].endswith('line 3: expected a ";"')


def test_a_name_that_is_nearly_right(cells):
    symptom, advice = names.missing("NameError: name 'kernal' is not defined", launcher)
    assert symptom == "the name kernal is not defined" and "Did you mean kernel?" in advice
