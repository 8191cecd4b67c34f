"""notebooks/index.ipynb: the map of the course that `make lab` opens, made from the README's own sections."""

import json
import re
from collections.abc import Callable
from pathlib import Path

from nbformat import NotebookNode, read, v4

SECTIONS = ("Paths", "Units")
"""Headings of the README whose text the map holds, in this order."""

TITLE = "# GPU Kernel Lab: the course\n\nOpen a unit, fill in its kernels, check them."

_UNIT = re.compile(r"`(\d\d_\w+)`")


def index_notebook(readme: str, translate: Callable[[str], str] = str) -> NotebookNode:
    """The map: each unit that the sections name is a link to its notebook. `translate` gets title and sections.

    Raises ValueError if the README lacks a section.
    """
    text = "\n\n".join(f"## {name}\n\n{_section(readme, name)}" for name in SECTIONS)
    cells = [
        v4.new_markdown_cell(translate(TITLE), id="title"),
        v4.new_markdown_cell(_linked(translate(text)), id="units"),
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def path_units(readme: str) -> dict[str, list[str]]:
    """The units of each path by the path's name, in the order in which they are to be done."""
    rows = re.findall(r"^\| \*\*(.+?)\*\*(.+)$", _section(readme, "Paths"), re.MULTILINE)
    return {name: _UNIT.findall(row) for name, row in rows}


_CHECK = re.compile(r"^lab\.check\(\"([^\"]+)\"", re.MULTILINE)


def order(readme: str, notebooks: Path) -> list[str]:
    """All exercises as a learner comes to them: by unit as in the README, by cell within a notebook."""
    found: dict[str, None] = {}
    for unit in _UNIT.findall(_section(readme, "Units")):
        path = notebooks / unit / f"{unit}.ipynb"
        for cell in read(path, as_version=4).cells if path.exists() else ():
            if cell.cell_type == "code":
                found |= dict.fromkeys(name for name in _CHECK.findall(cell.source) if name.startswith(f"{unit}/"))
    return list(found)


def released_course(readme: str, notebooks: Path) -> str:
    """Paths and order as data, for `lab.progress` and `lab.walkthrough`."""
    paths = {name[0].lower() + name[1:]: units for name, units in path_units(readme).items()}
    return json.dumps({"paths": paths, "order": order(readme, notebooks)}, indent=1) + "\n"


def _section(readme: str, name: str) -> str:
    found = re.search(rf"^## {re.escape(name)}\n(.*?)(?=^## |\Z)", readme, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"README.md has no section “{name}”")
    # a paragraph that links into the repository's documents leads nowhere from the folder notebooks/
    return "\n\n".join(part for part in found[1].strip().split("\n\n") if "](docs/" not in part)


def _linked(text: str) -> str:
    return _UNIT.sub(r"[\1](\1/\1.ipynb)", text)
