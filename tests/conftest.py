"""Kernels of the tests run in Triton's interpreter, on a machine with a GPU too. `pytest -m gpu` leaves it off."""

import os


def pytest_configure(config):
    if config.option.markexpr != "gpu":
        os.environ["TRITON_INTERPRET"] = "1"
