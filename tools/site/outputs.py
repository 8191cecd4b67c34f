"""Outputs of a unit that was run, as data small enough to keep: what a page shows of each cell, and nothing else.

`python -m tools.site.book --store tools/site/outputs` writes one file for each unit, where there is a GPU;
`make book OUTPUTS=tools/site/outputs` makes pages of them anywhere. A cell whose code has changed since then says so
instead of showing what other code printed.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_output

SHOWN = ("text/html", "image/svg+xml", "image/png", "image/jpeg", "text/markdown", "text/latex", "text/plain")
"""Outputs in order of preference: a widget's picture, and not the widget, which is dead on a page."""

MOST_BYTES = 200_000
"""Of one output. A larger one is left out, and a sentence says so."""

CHANGED = "The code of this cell has changed since the unit was run, so its outputs are not shown."

_PICTURE = re.compile(r"(data:image/png;base64,)([A-Za-z0-9+/=\s]+)")


def pack(notebook: NotebookNode, *private: str | Path) -> dict[str, Any]:
    """What is kept of a notebook that was run. Paths in `private`, such as scratch folders, become …"""
    cells = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            outputs = [kept for output in cell.outputs if (kept := _packed(output, private))]
            cells[cell.id] = {"code": code_hash(cell.source), "outputs": outputs}
    return dict(notebook.metadata["gpu_kernel_lab"]) | {"cells": cells}


def unpack(notebook: NotebookNode, data: dict[str, Any]) -> NotebookNode:
    """The unit's notebook, which was not run, with the outputs of `data`."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            known = data["cells"].get(cell.id)
            if known and known["code"] == code_hash(cell.source):
                cell.outputs = [NotebookNode(output) for output in known["outputs"]]
            else:
                cell.outputs = [new_output("display_data", {"text/html": f"<p><em>{CHANGED}</em></p>"})]
    notebook.metadata["gpu_kernel_lab"] = {key: value for key, value in data.items() if key != "cells"}
    return notebook


def is_current(notebook: NotebookNode, data: dict[str, Any]) -> bool:
    """Has every code cell the code that was run?"""
    now = {cell.id: code_hash(cell.source) for cell in notebook.cells if cell.cell_type == "code"}
    return now == {cell: kept["code"] for cell, kept in data["cells"].items()}


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def write(path: Path, data: dict[str, Any]) -> None:
    """A line for each value, so that `git diff` shows which outputs changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def code_hash(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:12]


def _packed(output: NotebookNode, private: tuple[str | Path, ...]) -> dict[str, Any] | None:
    def clean(text: str) -> str:
        for path in private:
            text = text.replace(str(path), "…")
        return text

    if output.output_type == "stream":
        text = clean(output.text)
        if len(text) > MOST_BYTES:
            text = f"{text[:MOST_BYTES]}\n[{len(text) - MOST_BYTES} more characters are not kept.]\n"
        return {"output_type": "stream", "name": output.name, "text": text}
    if output.output_type == "error":  # such a unit is not kept; here for completeness
        return dict(output)
    kind = next((kind for kind in SHOWN if kind in output.data), None)
    if kind is None:
        return None
    value = "".join(output.data[kind])
    if kind == "image/png":
        value = smaller(value)
    elif kind == "text/html":
        value = _PICTURE.sub(lambda found: found[1] + smaller(found[2]), clean(value))
    else:
        value = clean(value)
    if len(value) > MOST_BYTES:
        alt = re.search(r'<(?:img|iframe)[^>]*?(?:alt|title)="([^"]*)"', value) if kind == "text/html" else None
        what = f"{html.unescape(alt[1])}: an" if alt else "An"
        kind, value = "text/plain", f"[{what} output of {len(value) >> 10} KB is not kept. Run the unit to see it.]"
    return {"output_type": "display_data", "data": {kind: value}, "metadata": {}}


def smaller(png: str, draw: Callable[[bytes], bytes] | None = None) -> str:
    """A PNG in base64 with 64 colors, where that is smaller: a chart has few."""
    before = base64.b64decode(png)
    after = (draw or _fewer_colors)(before)
    return base64.b64encode(min(before, after, key=len)).decode()


def _fewer_colors(png: bytes) -> bytes:
    from PIL import Image

    picture = Image.open(io.BytesIO(png))
    if picture.mode == "RGBA" and picture.getextrema()[3] == (255, 255):
        picture = picture.convert("RGB")
    if picture.mode == "RGB":
        picture = picture.quantize(64, dither=Image.Dither.NONE)
    elif picture.mode == "RGBA":
        picture = picture.quantize(64, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    out = io.BytesIO()
    picture.save(out, format="PNG", optimize=True)
    return out.getvalue()
