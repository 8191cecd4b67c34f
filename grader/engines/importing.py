"""Imports without the collector."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Import heavy modules in here. They make a million objects that stay: looking for garbage among them, again and
    again while they come and in every full collection later, took a fifth of what grading a class costs this process.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
