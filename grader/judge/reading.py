"""In a limited child (`inside/read.py`): a submission's cells as code, and what its launch sandbox wrote as plans.

The judge's own process sees of both only what is yielded here: cells with their Python, plans that passed `plan.read`
and whose kernels' texts were read by `language`, problems with text fit to be shown. Each piece has little time, so
that one that takes long costs itself alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import re
from collections.abc import Iterator
from types import SimpleNamespace

from grader.course.cells import exercise_of
from grader.course.solutions import code_cells
from grader.judge import language, plan
from labutils.backends import Problem, child
from labutils.backends.errors import TimeLimit
from labutils.cuda.signature import NUMBERS, Parameter, signatures

SECONDS = 1.5
"""CPU time for one cell, or for one plan with its kernels; an honest one takes a hundredth of it."""

MOST_CELL = 64 << 10
"""Bytes of one cell; the course's longest has a tenth."""

MOST_CELLS = 1000
MOST_LINE = 4 << 20
"""Bytes in which the launch sandbox describes one case."""

FORGED = "died: it wrote into the place of its answer"


def prepare() -> None:
    """What must be done before a job is known, when nothing can be opened any more: the first look at Triton's
    language, and what IPython imports when it is first used."""
    with contextlib.suppress(ImportError):
        language.triton.prepare()
    exercise_of("%time x\n!ls\ny?")


def read(payload: dict, content: bytes) -> Iterator[dict]:
    """The answers to one job: `{"what": "cells"}` of a notebook, or `{"what": "plans", "tasks"}` of a launch."""
    yield from (_cells(content) if payload["what"] == "cells" else _plans(payload["tasks"], content))


@contextlib.contextmanager
def limited():
    """A context that ends with a TimeoutError after SECONDS of CPU time."""
    try:
        with child.alarm(20 * SECONDS, SECONDS):
            yield
    except TimeLimit:
        raise TimeoutError(f"it takes more than {SECONDS:g} s to be read") from None


# --- cells -----------------------------------------------------------------------------------------------------------


def _cells(content: bytes) -> Iterator[dict]:
    """The code of a notebook, cell by cell, and the exercises that its checks name; or why it is no notebook."""
    try:
        notebook = _notebook(content)
        kept = code_cells(notebook, limited, MOST_CELL)
        checks = [exercise for cell in notebook.cells if (exercise := _checked(cell))]
    except Exception as e:
        yield {"failed": str(e) if isinstance(e, NotRead) else "it is no notebook"}
        return
    yield {"checks": checks, "cells": kept}


class NotRead(ValueError):
    """A notebook beyond the limits; the message says which."""


def _notebook(content: bytes) -> SimpleNamespace:
    """A notebook's bytes as far as code is taken from it. Raises some exception for what is none."""
    data = json.loads(content)
    if data["nbformat"] != 4:
        import nbformat

        data = nbformat.reads(content.decode(), as_version=4)
    if len(data["cells"]) > MOST_CELLS:
        raise NotRead(f"it holds {len(data['cells'])} cells, and at most {MOST_CELLS} are read")
    return SimpleNamespace(cells=[_cell(c) for c in data["cells"]])


def _cell(data: dict) -> SimpleNamespace:
    source, metadata = data["source"], data["metadata"]
    source = "".join(source) if isinstance(source, list) else source
    cell_id = data.get("id", "")
    if not all(isinstance(text, str) for text in (source, data["cell_type"], cell_id)):
        raise TypeError("no cell")
    grading = metadata.get("nbgrader")
    grading = grading if isinstance(grading, dict) else {}
    return SimpleNamespace(cell_type=data["cell_type"], source=source, id=cell_id[:100], metadata={"nbgrader": grading})


def _checked(cell: SimpleNamespace) -> str | None:
    """The exercise that a cell checks."""
    grading = cell.metadata["nbgrader"]
    if cell.cell_type != "code" or not grading.get("grade") or grading.get("solution") or len(cell.source) > MOST_CELL:
        return None
    with contextlib.suppress(Exception), limited():
        return exercise_of(cell.source)
    return None


# --- plans -----------------------------------------------------------------------------------------------------------


_FIELDS = {
    "ended": str,
    "problem": (dict, type(None)),
    "cells": list,
    "signature": str,
    "printed": str,
}


def heard(line: bytes) -> dict:
    """An answer of the launch sandbox. A submission can write there too: ValueError for what nobody else would."""
    answer = json.loads(line)
    if not isinstance(answer, dict) or not isinstance(answer.get("task"), str) or type(answer.get("case")) is not int:
        raise ValueError("no answer")
    if any(not isinstance(answer[k], kind) for k, kind in _FIELDS.items() if k in answer):
        raise ValueError("no answer")
    if not re.match(r"timeout$|died\b", answer.get("ended", "died")[:20]):
        raise ValueError("no answer")
    return answer


def _plans(tasks: list[dict], content: bytes) -> Iterator[dict]:
    """An answer for each line, `{"spec", …}` before the first plan that names a kernel, and the end of it if forged."""
    known, kernels = {t["id"]: t for t in tasks}, _Kernels()
    for line in content.split(b"\n")[:-1]:
        try:
            with limited():
                found = _answer(line, known, kernels)
        except TimeoutError as e:
            yield {"long": str(e)}
            continue
        except Exception:
            yield {"forged": True}
            return
        yield from kernels.new()
        yield found


def _answer(line: bytes, known: dict[str, dict], kernels: _Kernels) -> dict:
    """What one line of the launch sandbox says, in a form that is known. Raises for what only a submission writes."""
    if len(line) > MOST_LINE:
        raise ValueError("too long")
    answer = heard(line)
    task = known[answer["task"]]
    found = {"task": task["id"], "case": answer["case"]}
    if "ended" in answer:
        return found | {"ended": plan.text(answer["ended"], 500)}
    if "missing" in answer:
        cells = [c for c in answer.get("cells", []) if isinstance(c, dict)][:1]
        return found | {"missing": True, "cells": [_problem(c) | {"cell": _shown(c.get("cell"), 60)} for c in cells]}
    if "signature" in answer:
        return found | {"signature": plan.text(answer["signature"], 500)}
    printed = {"printed": plan.text(answer.get("printed", ""), 4000)}
    if answer.get("problem"):
        return found | printed | {"problem": _problem(answer["problem"])}
    if task["kind"] == "plain":
        value = answer.get("answer")
        small = isinstance(value, dict) and len(line) <= MOST_CELL
        return found | printed | {"answer": {k: value[k] for k in ("value", "type") if k in value} if small else {}}
    if not 0 <= answer["case"] < len(task["cases"]):
        raise ValueError("no such case")
    return found | _plan(answer, task["cases"][answer["case"]], kernels)


def _plan(answer: dict, arguments: list[dict], kernels: _Kernels) -> dict:
    """A kernel's plan for one case, with its kernels by number; or what is wrong with it."""
    try:
        found = plan.read(answer, arguments)
    except plan.BadPlan as e:
        return {"problem": {"kind": e.kind, "message": str(e)}}
    numbers = [kernels.number(spec) for spec in found.specs]
    if problem := next((p for n in numbers if (p := kernels.problems[n])), None):
        return {"problem": problem}
    return {"plan": found.to_json() | {"specs": numbers, "printed": found.printed, "returned": found.returned}}


class _Kernels:
    """The kernels of a submission's plans, each read once and reported once."""

    def __init__(self):
        self._numbers: dict[str, int] = {}
        self._new: list[dict] = []
        self.problems: list[dict | None] = []

    def number(self, spec: dict) -> int:
        key = json.dumps(spec, sort_keys=True)
        if key not in self._numbers:
            problem, abi, number = language.problem(spec), [], len(self.problems)
            if problem is None and spec["language"] == "cuda":
                try:
                    abi = _abi(spec)
                except LookupError:
                    problem = Problem("error", "the kernel's parameters cannot be read")
            self.problems.append(vars(problem) if problem else None)
            told = {"needs_gpu": language.needs_gpu(spec), "atomics": language.calls_atomics(spec)}
            self._new.append({"spec": number, "value": spec, "abi": abi, **told})
            self._numbers[key] = number
        return self._numbers[key]

    def new(self) -> Iterator[dict]:
        """Those that were not reported yet and can be used."""
        for told in self._new:
            if self.problems[told["spec"]] is None:
                yield told
        self._new = []


def _abi(spec: dict) -> list[list[str]]:
    """The parameters of a CUDA C++ kernel as the runner passes them: name, and "pointer", "float" or "as it is"."""
    found = signatures(spec["source"])[spec["name"].split("<")[0].strip()]
    return [[p.name, _kind(p)] for p in found.parameters]


def _kind(parameter: Parameter) -> str:
    if parameter.is_pointer:
        return "pointer"
    return "float" if NUMBERS.get(parameter.kind) in (ctypes.c_float, ctypes.c_double) else "as it is"


def _problem(payload: dict) -> dict:
    """A problem as the sandbox tells it, its text fit to be shown."""
    kind, line = payload.get("kind"), payload.get("line")
    return {
        "kind": kind if isinstance(kind, str) and len(kind) < 30 else "error",
        "message": _shown(payload.get("message"), 2000),
        "line": line if type(line) is int and 0 < line < 10**6 else None,
        "source": _shown(payload.get("source"), 500),
    }


def _shown(value, most: int) -> str:
    return plan.text(value, most) if isinstance(value, str) else ""
