"""The hints of the released notebooks as data, by exercise, for `lab.hint`.

A text cell holds them as `<details><summary>Hint 1</summary>…</details>`, a group for an exercise. A group belongs to
the check that follows it; if another group comes first, to the check before it. Where a section has several exercises,
a summary names those that its hint is for: `Hint 1 for nvfp4 and mxfp4`.
"""

import html
import json
import re
from collections.abc import Iterable
from pathlib import Path

from nbformat import NotebookNode

_HINT = re.compile(r"<details><summary>Hint(?: (\d+))?(?: for (.*?))?</summary>(.*?)</details>", re.DOTALL)
_CHECK = re.compile(r'lab\.check\("([^"]+)"')


def hints_of(cells: Iterable[NotebookNode]) -> dict[str, list[str]]:
    """Hints as plain text by exercise. Raises ValueError where one is for an exercise without a check."""
    found: dict[str, list[str]] = {}
    named: dict[str, list[str]] = {}
    group, last, checks = [], "", []
    for cell in cells:
        if cell["cell_type"] == "code":
            for name in _CHECK.findall("".join(cell["source"])):
                if group:
                    found[name], group = group, []
                last = name
                checks.append(name)
            continue
        for number, names, text in _HINT.findall("".join(cell["source"])):
            if names:
                for name in names.split(" and "):
                    named.setdefault(name, []).append(plain(text))
                continue
            if group and number in ("", "1"):
                found.setdefault(last, group)
                group = []
            group.append(plain(text))
    if group and last:
        found.setdefault(last, group)
    ids = {name.partition("/")[2]: name for name in checks}
    if unknown := sorted(named.keys() - ids.keys()):
        raise ValueError(f"hints for {', '.join(unknown)}, which no cell checks; there are {', '.join(ids)}")
    return found | {ids[name]: found.get(ids[name], []) + texts for name, texts in named.items()}


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
