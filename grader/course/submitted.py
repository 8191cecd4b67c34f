"""A notebook that somebody submitted: any bytes, as nbformat 4.5 within limits, without outputs."""

from __future__ import annotations

import json
import re
import warnings
from typing import Any

import nbformat
from nbformat import NotebookNode

MOST_CELLS, MOST_TEXT = 1000, 5_000_000
"""Cells of a notebook, and bytes of what is kept of it; a unit of the course has a tenth and a hundredth."""

MOST_CELL = 64 << 10
"""Bytes of one cell; the longest of the course has a tenth. What is longer is left out, and the others are graded."""

MOST_METADATA, DEEPEST = 64 << 10, 12
"""Bytes and levels of what is kept beside a cell's text; the notebook's own and pictures in its text included."""

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class NotANotebook(ValueError):
    """The file cannot be graded; the message says why."""


def notebook_of(content: bytes) -> tuple[NotebookNode, list[str]]:
    """A notebook's bytes as nbformat 4.5, without outputs, and a sentence for each cell of which something was left
    out. Raises NotANotebook."""
    data, messages = _json(content)
    cells = data.get("cells") if isinstance(data, dict) else None
    if isinstance(cells, list) and len(cells) > MOST_CELLS:
        raise NotANotebook(f"it holds {len(cells)} cells; at most {MOST_CELLS} are read")
    try:
        left_out = _cut(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nbformat warns of missing ids while it adds them
            notebook = nbformat.convert(nbformat.reader.reads(json.dumps(_with_ids(data))), 4)  # validated below
            for number, cell in enumerate(notebook.cells):
                if cell.cell_type == "code":
                    cell.outputs, cell.execution_count = [], None
                cell.metadata, cell.source  # noqa: B018 (every cell has both, or this is no notebook)
                if data.get("nbformat") != 4 or "id" not in cell:  # of formats that had none
                    cell.id = f"cell-{number}"
            notebook.nbformat, notebook.nbformat_minor = 4, max(5, notebook.nbformat_minor)
            notebook = nbformat.validator.normalize(notebook)[1]
            nbformat.validate(notebook)
            size = len(json.dumps(notebook, ensure_ascii=False).encode())  # raises if it holds half a surrogate pair
    except Exception as problem:
        reason = str(problem).strip().split("\n", 1)[0]
        raise NotANotebook(f"the file is JSON, but not a notebook: {reason[:120]}") from None
    if len(notebook.cells) > MOST_CELLS or size > MOST_TEXT:
        raise NotANotebook(f"it contains more than {MOST_CELLS} cells or {MOST_TEXT // 1_000_000} MB of text")
    return notebook, messages + left_out


WINDOWS = "cp1252"


def _json(content: bytes) -> tuple[Any, list[str]]:
    """What the file holds, and a sentence if it is not in the encoding of notebooks."""
    messages = []
    try:
        try:
            text = content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
        except UnicodeDecodeError:  # an editor of Windows wrote it
            text = content.decode(WINDOWS)
            messages.append("The file is not in UTF-8; it was read in the encoding of Windows (cp1252).")
        if not text.strip():
            raise NotANotebook("the file is empty")
        return json.loads(text), messages
    except RecursionError:
        raise NotANotebook("the file is not JSON that can be read: it has more than 900 levels") from None
    except (UnicodeDecodeError, ValueError) as problem:
        if isinstance(problem, NotANotebook):
            raise
        raise NotANotebook("the file is not JSON, so it is not a notebook") from None


def _cut(data: dict) -> list[str]:
    """Leave out what is too long or too deep to be read; a sentence for each cell that is changed by it."""
    messages = []
    if not isinstance(data, dict) or not isinstance(data.get("cells"), list):
        return messages
    if not _fits(data.get("metadata")):
        data["metadata"] = {}
    for number, cell in enumerate(data["cells"]):
        if not isinstance(cell, dict):
            continue
        cell.pop("outputs", None)
        if cell.get("cell_type") == "code":
            cell["outputs"] = []
        source = cell.get("source")
        if isinstance(source, list) and all(isinstance(line, str) for line in source):
            source = cell["source"] = "".join(source)
        name = f"cell {str(cell.get('id', number + 1))[:64]!r}"
        if isinstance(source, str) and (size := len(source.encode("utf-8", "surrogatepass"))) > MOST_CELL:
            why = f"{name} holds {size >> 10} kB; at most {MOST_CELL >> 10} kB of a cell are read"
            cell["source"] = f"raise ValueError({why!r})" if cell.get("cell_type") == "code" else why
            messages.append(f"The text of {why}, so it was left out.")
        for key in ("metadata", "attachments"):
            if key in cell and not _fits(cell[key]):
                kept = {"nbgrader": cell[key]["nbgrader"]} if _fits(_grading(cell[key])) else {}
                cell[key] = kept if key == "metadata" else {}
                what = f"{MOST_METADATA >> 10} kB or {DEEPEST} levels of it are read"
                messages.append(f"The {key} of {name} were left out: at most {what}.")
    return messages


def _grading(metadata):
    """nbgrader's part of a cell's metadata; something that does not fit where there is none."""
    return metadata.get("nbgrader", ...) if isinstance(metadata, dict) else ...


def _fits(value) -> bool:
    """Is this JSON short and shallow enough to be kept?"""
    level = [value]
    for _ in range(DEEPEST):
        inner = [v for v in level if isinstance(v, (dict, list))]
        level = [w for v in inner for w in (v.values() if isinstance(v, dict) else v)]
    return value is not ... and not level and len(json.dumps(value)) <= MOST_METADATA


def _with_ids(data):
    """A notebook's JSON in which every cell has an id of its own: nbformat draws them, and here nothing may differ."""
    taken: set[str] = set()
    cells = data.get("cells") if isinstance(data, dict) else None
    for number, cell in enumerate(cells if isinstance(cells, list) else ()):
        if isinstance(cell, dict) and "id" in cell:
            if not isinstance(cell["id"], str) or not _ID.fullmatch(cell["id"]) or cell["id"] in taken:
                cell["id"] = f"cell-{number}"
            taken.add(cell["id"])
    return data
