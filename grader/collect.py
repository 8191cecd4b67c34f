"""From a folder of what students handed in to the layout that nbgrader grades: `submitted/STUDENT/UNIT/UNIT.ipynb`.

A submission is a folder `STUDENT/` with a notebook of any name in it, or a file `STUDENT.ipynb`. Whatever cannot be
graded is set aside with a reason: it appears in every table with no marks, and stops nobody else.
"""

from __future__ import annotations

import json
import re
import unicodedata
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from grader.build import notebook_bytes
from grader.repair import NotThisUnit, repair

_SKIPPED = {".ipynb_checkpoints", "__MACOSX"}
_MOST_BYTES = 50_000_000


@dataclass
class Submission:
    """What a student handed in: the mended notebook, or, with `problem`, why there is none."""

    student: str
    notebook: NotebookNode | None = None
    repairs: list[str] = field(default_factory=list)
    problem: str = ""


class Unreadable(Exception):
    """A file that is no notebook; the message says why."""


def collect(folder: Path, unit: str, release: NotebookNode) -> list[Submission]:
    """Every submission in `folder`, mended, in the order of the students' names."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        if path.name in _SKIPPED or path.name.startswith("."):
            continue
        if path.is_dir():
            found.setdefault(path.name, []).extend(sorted(_notebooks(path)))
        elif path.suffix == ".ipynb":
            found.setdefault(path.stem, []).append(path)
    submissions = [_submission(name, found[name], unit, release) for name in sorted(found, key=_alphabetical)]
    taken: set[str] = set()
    for submission in submissions:
        while submission.student in taken:  # two names that make the same folder
            submission.student += "_"
        taken.add(submission.student)
    return submissions


def lay_out(submissions: list[Submission], course: Path, unit: str) -> None:
    """Write the notebooks where nbgrader looks for them."""
    for submission in submissions:
        if submission.notebook is not None:
            target = course / "submitted" / submission.student / unit / f"{unit}.ipynb"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(notebook_bytes(submission.notebook))


def read_notebook(path: Path) -> NotebookNode:
    """A notebook as nbformat 4.5. Raises Unreadable."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise Unreadable(f"the file is larger than {_MOST_BYTES // 1_000_000} MB")
        text = path.read_bytes().decode("utf-8-sig")
        if not text.strip():
            raise Unreadable("the file is empty")
        json.loads(text)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise Unreadable("the file is not JSON, so it is no notebook") from None
    except OSError as problem:
        raise Unreadable(f"the file cannot be read: {problem.strerror}") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nbformat warns of missing ids while it adds them
            notebook = nbformat.reads(text, as_version=4)
            for cell in notebook.cells:
                if cell.cell_type == "code":
                    cell.outputs, cell.execution_count = [], None
                cell.metadata, cell.source  # noqa: B018 (every cell has both, or this is no notebook)
            notebook.nbformat, notebook.nbformat_minor = 4, max(5, notebook.nbformat_minor)
            notebook = nbformat.validator.normalize(notebook)[1]
            nbformat.validate(notebook)
            notebook_bytes(notebook)  # raises if it holds half a surrogate pair
    except Exception as problem:
        reason = str(problem).strip().split("\n", 1)[0]
        raise Unreadable(f"the file is JSON, but no notebook: {reason[:120]}") from None
    return notebook


def _alphabetical(name: str) -> str:
    """Letters with accents stand beside those without."""
    return unicodedata.normalize("NFKD", name).casefold()


def _notebooks(folder: Path):
    for path in folder.rglob("*.ipynb"):
        if path.is_file() and not _SKIPPED.intersection(path.parts):
            yield path


def _submission(name: str, paths: list[Path], unit: str, release: NotebookNode) -> Submission:
    # A student's id becomes a folder, and nbgrader finds folders by patterns.
    student = re.sub(r"[^\w .@-]", "_", name).strip(" .") or "unnamed"
    if not paths:
        return Submission(student, problem="Not graded, 0 points: there is no notebook in the folder.")
    reasons = []
    for path in sorted(paths, key=lambda p: (p.stem != unit, -p.stat().st_mtime)):
        try:
            notebook = read_notebook(path)
            repairs = repair(notebook, release)
        except (Unreadable, NotThisUnit) as problem:
            reasons.append(f"{path.name}: {problem}")
            continue
        except Exception as problem:  # whatever a strange file does to us, the others are graded
            reasons.append(f"{path.name}: it cannot be mended ({type(problem).__name__}: {problem})")
            continue
        if path.stem not in (unit, name):
            repairs.insert(0, f"The file was called {path.name!r}.")
        if len(paths) > 1:
            repairs.insert(0, f"Of {len(paths)} notebooks {path.name!r} was graded.")
        if student != name:
            repairs.insert(0, f"The name {name!r} cannot be a folder's; it became {student!r}.")
        return Submission(student, notebook, repairs)
    return Submission(student, problem=f"Not graded, 0 points: {'; '.join(reasons)}.")
