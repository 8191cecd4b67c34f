"""What the points of a unit depend on besides the submissions: packages, and the course's own code.

A run is tied to what it used: code that all units share, and the modules of its own unit's exercises. An edit of
another unit, of a mutant or of a page does not concern it.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import platform
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

from grader.course.place import CODE

_PACKAGES = ("torch", "triton", "numpy", "nbgrader", "ipykernel", "IPython")
_SHARED = (
    "labutils",
    "grader/judge",
    "grader/execute",
    "grader/marks/marks.py",
    "grader/course/solutions.py",
    "grader/course/cells.py",
)
_EXERCISES = Path("labutils", "exercises")
_ONLY_SHOWN = (Path("labutils", "lessons"), Path("labutils", "plots"))
"""What notebooks show. It decides about points only where these come from the notebooks themselves."""
_ENDINGS = {".py", ".cu", ".cuh", ".h", ".hpp", ".toml"}
MOST_NAMED = 5


def packages() -> dict[str, str]:
    """The versions of Python and of the packages that points may depend on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def code(unit: str, shown: bool = False, root: Path = CODE) -> dict[str, str]:
    """The digest of each file that the points of `unit` depend on, by its path; `shown`: of points that come from the
    notebooks."""
    files = [file for name in _SHARED for file in _below(root / name)]
    left_out = (_EXERCISES, *(() if shown else _ONLY_SHOWN))
    shared = [f for f in files if not any(f.relative_to(root).is_relative_to(folder) for folder in left_out)]
    used = [*shared, *_exercise_files(unit, root / _EXERCISES)]
    return {f.relative_to(root).as_posix(): hashlib.sha256(f.read_bytes()).hexdigest()[:16] for f in used}


def changes(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The names whose version or digest is not what it was, or that are new or gone."""
    return sorted(name for name in then.keys() | now.keys() if then.get(name) != now.get(name))


def named(names: Iterable[str]) -> str:
    """Names for a sentence, the first ones if there are many."""
    names = list(names)
    if len(names) > MOST_NAMED:
        return f"{', '.join(names[:MOST_NAMED])} and {len(names) - MOST_NAMED} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else "nothing"


def _below(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(f for f in path.rglob("*") if f.suffix in _ENDINGS and "__pycache__" not in f.parts)


def _exercise_files(unit: str, folder: Path) -> list[Path]:
    """The catalogue, the modules that name the unit, what they import from beside them, and the data that they read."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.py")}
    # hunts name the units whose kernels they show, and decide about no points there
    naming = {name: text for name, text in texts.items() if name != "hunts" or unit.endswith("_hunt")}
    wanted = [name for name, text in naming.items() if any(f"{quote}{unit}{quote}" in text for quote in "\"'")]
    wanted += [name for name, text in naming.items() if f'"{unit}/' in text]
    used: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in texts and name not in used:
            used.add(name)
            wanted += _imported(texts[name])
    data = [path for path in folder.iterdir() if path.suffix == ".json" and any(path.name in texts[n] for n in used)]
    return sorted([folder / f"{name}.py" for name in {"__init__", *used}] + data)


def _imported(text: str) -> list[str]:
    """The modules of the same folder that a module imports."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found += [node.module.split(".")[0]] if node.module else [a.name for a in node.names]
    return found
