"""From what students handed in to the layout that nbgrader grades: `submitted/STUDENT/UNIT/UNIT.ipynb`.

What was handed in is a folder or a zip, as nbgrader, Moodle, Canvas or Gradescope make it, or simply `STUDENT/` with a
notebook of any name in it, or `STUDENT.ipynb` (`grader.intake`). Whatever cannot be graded is set aside with a reason:
the student appears in every table with no marks, the file lies in `set_aside/`, and nobody else is stopped.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import unicodedata
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from grader.course.sources import ROOT, notebook_bytes, unit_names
from grader.intake.files import File, Refused, Unreadable, files_in
from grader.intake.owners import Owner, owners, plain_stem
from grader.intake.repair import NotThisUnit, repair
from grader.marks.results import Origin

__all__ = ["SetAside", "Submission", "Unreadable", "collect", "lay_out", "read_notebook"]

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MOST_TRIED = 20
_MOST_CELLS, _MOST_TEXT = 1000, 5_000_000
_MOST_ASIDE = 1_000_000_000


@dataclass(frozen=True)
class SetAside:
    """A file that was handed in and is not what is graded, and why."""

    file: File
    reason: str


@dataclass
class Submission:
    """What a student handed in: the mended notebook, or, with `problem`, why there is none."""

    student: str
    notebook: NotebookNode | None = None
    repairs: list[str] = field(default_factory=list)
    problem: str = ""
    origin: Origin = field(default_factory=Origin)
    aside: list[SetAside] = field(default_factory=list)


def collect(source: Path, unit: str, release: NotebookNode) -> list[Submission]:
    """Every submission in a folder or a zip, mended, in the order of the students' names.

    Raises Unreadable if `source` is neither.
    """
    files = [f if isinstance(f, File) else _refused(f, source) for f in files_in(source)]
    groups: dict[str, tuple[Owner, list[tuple[File, Owner]]]] = {}
    for file, owner in zip(files, owners(files, unit, unit_names(ROOT)), strict=True):
        alone = owner is not None and owner.system == "folder" and len(file.parts) == 1
        if owner is None or alone and not _may_be_notebook(file):
            continue
        groups.setdefault(owner.key, (owner, []))[1].append((file, owner))
    found = [_submission(owner, theirs, unit, release) for owner, theirs in groups.values()]
    found.sort(key=lambda s: _alphabetical(s.student))
    _tell_apart(found)
    return found


_CONFIG = """\
# nbgrader's form grader finds the course by this file: start JupyterLab in this folder.
from pathlib import Path

c = get_config()  # noqa: F821
c.CourseDirectory.root = str(Path(__file__).resolve().parent)
"""


def lay_out(submissions: list[Submission], course: Path, unit: str) -> None:
    """Write the notebooks where nbgrader looks for them, and what was set aside beside the course."""
    course.mkdir(parents=True, exist_ok=True)
    (course / "nbgrader_config.py").write_text(_CONFIG)
    for submission in submissions:
        if submission.notebook is not None:
            target = course / "submitted" / submission.student / unit / f"{unit}.ipynb"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(notebook_bytes(submission.notebook))
    set_aside(submissions, course.parent / "set_aside")


def set_aside(submissions: Iterable[Submission], folder: Path) -> None:
    """Keep each file that is not graded as `folder/STUDENT/FILE`, and the reasons as `reasons.json`."""
    shutil.rmtree(folder, ignore_errors=True)
    reasons, written = [], 0
    for submission in submissions:
        for number, one in enumerate(submission.aside):
            path = folder / submission.student / (f"{number}-" * bool(number) + _safe(one.file.name))
            entry = {"student": submission.student, "file": "/".join(one.file.parts), "reason": one.reason}
            try:
                content = one.file.read()
                if (written := written + len(content)) > _MOST_ASIDE:
                    raise Unreadable("too much was set aside; it is only where it was handed in")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                reasons.append(entry | {"kept": path.relative_to(folder).as_posix()})
            except (Unreadable, OSError) as problem:
                reasons.append(entry | {"kept": "", "why_not": str(problem)})
    if reasons:
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(reasons, indent=1, ensure_ascii=False)
        (folder / "reasons.json").write_text(text, encoding="utf-8", errors="replace")


def read_notebook(path: Path) -> NotebookNode:
    """A notebook file as nbformat 4.5. Raises Unreadable."""
    try:
        return notebook_of(path.read_bytes())
    except OSError as problem:
        raise Unreadable(f"the file cannot be read: {problem.strerror}") from None


def notebook_of(content: bytes) -> NotebookNode:
    """A notebook's bytes as nbformat 4.5, without outputs. Raises Unreadable."""
    try:
        text = content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
        if not text.strip():
            raise Unreadable("the file is empty")
        data = json.loads(text)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise Unreadable("the file is not JSON, so it is no notebook") from None
    try:
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
            json.dumps(notebook, ensure_ascii=False).encode()  # raises if it holds half a surrogate pair
    except Exception as problem:
        reason = str(problem).strip().split("\n", 1)[0]
        raise Unreadable(f"the file is JSON, but no notebook: {reason[:120]}") from None
    if len(notebook.cells) > _MOST_CELLS or sum(len(cell.source) for cell in notebook.cells) > _MOST_TEXT:
        raise Unreadable(f"it holds more than {_MOST_CELLS} cells or {_MOST_TEXT // 1_000_000} MB of text")
    return notebook


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


def _refused(refused: Refused, source: Path) -> File:
    """A file whose reading says why it was refused."""

    def read() -> bytes:
        raise Unreadable(refused.reason)

    return File(refused.parts or (f"{source.name}.zip",), read)


def _may_be_notebook(file: File) -> bool:
    """By the name: browsers and mail programs add endings, and what could not be looked into may hold one."""
    name = file.name.lower()
    return ".ipynb" in name or name.endswith((".zip", ".json")) or name == "nothing"


def _alphabetical(name: str) -> str:
    """Letters with accents stand beside those without."""
    return unicodedata.normalize("NFKD", name).casefold()


def _safe(name: str) -> str:
    """A name that can be a folder's or a file's. nbgrader finds folders by patterns, so no `*` or `[`."""
    safe = re.sub(r"[^\w .@-]", "_", name).strip(" .") or "unnamed"
    if len(safe.encode()) > 120:
        safe = safe[:40] + " " + hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    return safe


def _tell_apart(submissions: list[Submission]) -> None:
    """Give students of the same name, or whose names make the same folder, different ones."""
    taken: set[str] = set()
    for submission in submissions:
        if submission.student in taken and submission.origin.id:
            submission.student = f"{submission.student} {submission.origin.id}"
        while submission.student in taken:
            submission.student += "_"
        taken.add(submission.student)


def _submission(owner: Owner, files: list[tuple[File, Owner]], unit: str, release: NotebookNode) -> Submission:
    name = owner.name
    origin = Origin(owner.system, owner.id, name, owner.email, marked_late=owner.marked_late)
    made = Submission(_safe(name), origin=origin)
    notebooks = sorted((f for f in files if _may_be_notebook(f[0])), key=lambda f: _rank(*f, unit), reverse=True)
    for file, its_owner in notebooks:
        if made.notebook is not None:
            made.aside.append(SetAside(file, f"another file of the same student, {made.origin.file!r}, was graded"))
            continue
        if len(made.aside) >= _MOST_TRIED:
            made.aside.append(SetAside(file, f"only {_MOST_TRIED} files of a student are tried"))
            continue
        try:
            notebook = notebook_of(file.read())
            made.repairs = repair(notebook, release)
        except (Unreadable, NotThisUnit) as problem:
            made.aside.append(SetAside(file, str(problem)))
            continue
        except Exception as problem:  # whatever a strange file does to us, the others are graded
            made.aside.append(SetAside(file, f"it cannot be mended ({type(problem).__name__}: {problem})"))
            continue
        made.notebook, made.origin = notebook, _origin(origin, file, its_owner)
        made.repairs[:0] = _about_the_file(file, its_owner, made, len(notebooks), unit)
    if made.notebook is None:
        made.problem = _why_not(made, notebooks, files)
        if not notebooks:
            made.aside = [SetAside(f, "it is no notebook") for f, _ in files]
    return made


def _rank(file: File, owner: Owner, unit: str):
    """Of several notebooks the one with the unit's name comes first, of those what was handed in or changed last."""
    stem, number = plain_stem(owner.file or file.name)
    changed = file.modified
    # Times with and without a zone cannot be compared; of one hand-in nearly all are of one kind.
    seconds = changed.replace(tzinfo=changed.tzinfo or UTC).timestamp() if changed else 0.0
    handed_in = owner.handed_in.timestamp() if owner.handed_in else 0.0
    return unit.casefold() in stem.casefold(), owner.again, handed_in, seconds, number, file.parts


def _origin(origin: Origin, file: File, owner: Owner) -> Origin:
    when, clock = (owner.handed_in, owner.clock) if owner.handed_in else (file.modified, file.clock)
    handed_in = when.isoformat(timespec="seconds") if when else ""
    name = owner.file or file.name
    return Origin(origin.system, origin.id, origin.name, origin.email, name, handed_in, clock, owner.marked_late)


def _about_the_file(file: File, owner: Owner, made: Submission, notebooks: int, unit: str) -> list[str]:
    messages, name = [], owner.file or file.name
    if made.student != owner.name:
        messages.append(f"The name {owner.name!r} cannot be a folder's; it became {made.student!r}.")
    if notebooks > 1:
        newest = "" if unit.casefold() == plain_stem(name)[0].casefold() else "; none has the unit's name"
        messages.append(f"Of {notebooks} notebooks {name!r} was graded{newest}.")
    for one in made.aside:
        messages.append(f"Before it {one.file.name!r} was tried: {one.reason}.")
    if name not in (f"{unit}.ipynb", f"{owner.name}.ipynb"):
        messages.append(f"The file was called {name!r}.")
    return messages


def _why_not(made: Submission, notebooks: list, files: list) -> str:
    if notebooks:
        reasons = "; ".join(f"{one.file.name}: {one.reason}" for one in made.aside[:5])
    else:
        others = ", ".join(repr(f.name) for f, _ in files[:3] if f.name != "timestamp.txt")
        reasons = "there is no notebook in the folder" + (f", only {others}" if others else "")
    return f"Not graded, 0 points: {reasons}."
