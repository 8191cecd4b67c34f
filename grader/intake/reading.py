"""In a limited child (`grader/judge/inside/read.py`): a submitted file as a repaired notebook, or why it is not one."""

from __future__ import annotations

import codecs
import contextlib
from collections.abc import Iterator
from dataclasses import asdict

from nbformat import NotebookNode, from_dict

from grader.course.cells import exercise_of
from grader.course.submitted import WINDOWS, NotANotebook, notebook_of
from grader.intake.choice import Fit
from grader.intake.repair import NotThisUnit, repaired


def prepare() -> None:
    """What must be done before a file is known, when nothing can be opened any more: the schemas that notebooks are
    checked with are loaded, and what IPython and the codecs import when they are first used."""
    for version, cells in ((3, ""), (4, '"cells": [],')):
        for minor in range(6):
            text = f'{{{cells} "metadata": {{}}, "nbformat": {version}, "nbformat_minor": {minor}, "worksheets": []}}'
            with contextlib.suppress(NotANotebook):
                notebook_of(text.encode("utf-16"))
    for encoding in ("utf-8-sig", "utf-16", "utf-32", "latin-1", "ascii", "unicode-escape", "idna", WINDOWS):
        codecs.lookup(encoding)
    exercise_of("%time x\n!ls\ny?")


def read(payload: dict, content: bytes) -> Iterator[dict]:
    """One answer: the file's notebook, repaired for `payload["release"]`, the repairs, and what tells it from other
    notebooks of the same student; or why it `failed`."""
    try:
        notebook, repairs, fit = *notebook_of(content), Fit()
        if payload["release"]:
            more, fit = repaired(notebook, _parsed(payload["release"]))
            repairs += more
        yield {"notebook": notebook, "repairs": repairs, "fit": asdict(fit)}
    except (NotANotebook, NotThisUnit) as problem:
        yield {"failed": str(problem)}
    except RecursionError:
        yield {"failed": "it is nested too deeply to be read"}
    except Exception as problem:  # whatever a strange file does to us
        yield {"failed": f"it cannot be repaired ({type(problem).__name__}: {str(problem)[:200]})"}


def _parsed(release: dict) -> NotebookNode:
    return from_dict(release)
