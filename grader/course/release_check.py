"""What a released notebook must hold to: nothing of the answers in it, and code that compiles."""

import re

from nbformat import NotebookNode

from grader.course.cells import compile_cell, is_cuda
from grader.course.regions import BuildError, find_regions, located, looks_like_marker, outside

MAX_CELLS, MAX_LINES = 24, 300

# Shorter lines, such as `return y` or `else:`, say too little to be a secret.
_DISTINCTIVE = 12
# A kernel shares lines with the kernels that are given around it (`pid = …`, `mask = …`). An answer counts as
# given away where this part of its lines stands together in one released cell.
_GIVEN_AWAY = 0.75


def check_release(release: NotebookNode, source: NotebookNode) -> None:
    """Raise BuildError unless the release is fit for learners. `source` is the notebook with its answers."""
    for cell in release.cells:
        with located(f"released cell {cell.id}"):
            code = cell.cell_type == "code"
            for line in cell.source.split("\n"):
                if looks_like_marker(line, code):
                    raise BuildError(f"a marker is left: {line.strip()!r}")
            if code and (cell.outputs or cell.execution_count is not None):
                raise BuildError("the cell contains outputs or an execution count")
            if code:
                compile_cell(cell.source)
    _check_secrets(release, source)


def size_warnings(release: NotebookNode) -> list[str]:
    """What makes the unit too long for one sitting, in sentences."""
    lines = sum(cell.source.count("\n") + 1 for cell in release.cells)
    found = [(len(release.cells), MAX_CELLS, "cells"), (lines, MAX_LINES, "lines")]
    return [f"{count} {what} are more than {most}" for count, most, what in found if count > most]


def _check_secrets(release: NotebookNode, source: NotebookNode) -> None:
    """Compare without white space, so that neither another indentation nor a wrapped line hides a copy."""
    planted = {c.id: c.metadata.get("planted", "") for c in source.cells}
    given = _squeeze("\n".join([outside(c.source, _regions(c)) for c in source.cells] + list(planted.values())))
    everything = _squeeze("\n".join(_strings(release)))
    for cell in source.cells:
        for region in _regions(cell):
            lines = (_without_comment(line, "//" if is_cuda(cell.source) else "#") for line in region.lines)
            secrets = {line: _squeeze(line) for line in lines if len(line) >= _DISTINCTIVE}
            what = f"the {region.kind} of {cell.id}"
            for line, text in secrets.items():
                if text in everything and text not in given:
                    raise BuildError(f"{what} is in the release: {line!r}")
            if planted[cell.id]:  # the bug's own lines are all that is secret of a hunt
                continue
            for other in release.cells:
                shown = _squeeze(other.source)
                copied = [line for line, text in secrets.items() if text in shown]
                if secrets and len(copied) >= _GIVEN_AWAY * len(secrets):
                    raise BuildError(
                        f"cell {other.id} gives away {what}: it shows {len(copied)} of its "
                        f"{len(secrets)} lines, such as {copied[-1]!r}"
                    )


def _regions(cell: NotebookNode):
    return find_regions(cell.source, code=cell.cell_type == "code")


def _without_comment(line: str, comment: str) -> str:
    return re.sub(rf"(^|\s){comment}\s.*", "", line).strip()


def _squeeze(text: str) -> str:
    return "".join(text.split())


def _strings(value):
    """Every string in a JSON value, names of fields included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from (key, *_strings(item))
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
