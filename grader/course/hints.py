"""The hints of the released notebooks as data, by exercise, for `lab.hint`.

A text cell holds them as `<details><summary>Hint 1</summary>…</details>`, a group for an exercise. A group belongs to
the check that follows it; if another group comes first, to the check before it.
"""

import html
import json
import re
from collections.abc import Iterable
from pathlib import Path

from nbformat import NotebookNode

_HINT = re.compile(r"<details><summary>Hint(?: (\d+))?</summary>(.*?)</details>", re.DOTALL)
_CHECK = re.compile(r'lab\.check\("([^"]+)"')


def hints_of(cells: Iterable[NotebookNode]) -> dict[str, list[str]]:
    """Hints as plain text by exercise."""
    found: dict[str, list[str]] = {}
    group, last = [], ""
    for cell in cells:
        if cell["cell_type"] == "code":
            for name in _CHECK.findall("".join(cell["source"])):
                if group:
                    found[name], group = group, []
                last = name
            continue
        for number, text in _HINT.findall("".join(cell["source"])):
            if group and number in ("", "1"):
                found.setdefault(last, group)
                group = []
            group.append(plain(text))
    if group and last:
        found.setdefault(last, group)
    return found


def plain(text: str) -> str:
    """A hint's HTML as text; code between backquotes."""
    text = re.sub(r"</?code>", "`", text)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", text)).split())


def released(notebooks: Path) -> str:
    """The file: the hints of all notebooks, an exercise a line."""
    found: dict[str, list[str]] = {}
    for path in sorted(notebooks.glob("*/*.ipynb")):
        if path.stem == path.parent.name:
            found |= hints_of(json.loads(path.read_text(encoding="utf-8"))["cells"])
    rows = [f"  {json.dumps(name)}: {json.dumps(texts, ensure_ascii=False)}" for name, texts in sorted(found.items())]
    return "{\n" + ",\n".join(rows) + "\n}\n"
