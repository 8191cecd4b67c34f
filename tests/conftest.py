"""What all tests share: the interpreter for Triton, and what a machine without a C++ compiler cannot run.

Kernels of the tests run in Triton's interpreter, on a machine with a GPU too. `pytest -m gpu` leaves it off.
"""

import functools
import os
import shutil
import tempfile

import pytest


def pytest_configure(config):
    if config.option.markexpr != "gpu":
        os.environ["TRITON_INTERPRET"] = "1"
    # the checks of a test are nobody's progress; processes that a test starts inherit this
    folder = tempfile.mkdtemp(prefix="progress-")
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    os.environ["GPULAB_PROGRESS"] = os.path.join(folder, "progress.json")


@functools.cache
def without_compiler() -> str | None:
    """Why CUDA C++ cannot run on this machine, or None."""
    from labutils.backends import simt
    from labutils.gpu import device

    return None if device.has_gpu() else simt.available()


def pytest_runtest_setup(item):
    if item.get_closest_marker("compiler") and (reason := without_compiler()):
        pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A test that meets the sentence on the missing compiler needed one, and is skipped; with a compiler it fails."""
    report = yield
    if report.failed and call.excinfo is not None:
        from labutils.backends.interpreter import Unavailable
        from labutils.backends.simt import NoCompiler

        if call.excinfo.errisinstance((Unavailable, NoCompiler)) and without_compiler():
            report.outcome = "skipped"
            report.longrepr = (str(item.path), item.location[1], str(call.excinfo.value))
    return report
