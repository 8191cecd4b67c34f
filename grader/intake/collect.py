"""From submitted files to the layout that nbgrader grades: `submitted/STUDENT/UNIT/UNIT.ipynb`.

Submissions are a folder or a zip as nbgrader, Moodle, Canvas or Gradescope export it, or simply `STUDENT/` with a
notebook of any name in it, or `STUDENT.ipynb` (`grader.intake`). A file that cannot be graded is set aside with a
reason: the student appears in every table with 0 points, the file goes to `set_aside/`, and all others are graded.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path

from nbformat import NotebookNode, from_dict

from grader.course.settings import nbgrader_config, read_settings
from grader.course.sources import ROOT, notebook_bytes, unit_names
from grader.intake import choice
from grader.intake.files import File, Refused, Unreadable, files_in
from grader.intake.owners import Owner, owners, plain_stem
from grader.intake.roster import NOTHING, Entry
from grader.judge import reader
from grader.judge.sandbox import SandboxLimits
from grader.marks.results import Origin

__all__ = ["SetAside", "Submission", "Unreadable", "alphabetical", "collect", "lay_out", "read_notebook"]

_MOST_TRIED = 20
_MOST_ASIDE = 1_000_000_000


@dataclass(frozen=True)
class SetAside:
    """A submitted file that is not graded, and why."""

    file: File
    reason: str


@dataclass
class Submission:
    """A student's submission: the repaired notebook, or, with `problem`, why there is none."""

    student: str
    notebook: NotebookNode | None = None
    shelved: Path | None = None
    """Where the notebook waits, if it is not in memory."""
    repairs: list[str] = field(default_factory=list)
    problem: str = ""
    origin: Origin = field(default_factory=Origin)
    aside: list[SetAside] = field(default_factory=list)
    exchange: dict[str, bytes] = field(default_factory=dict)
    """What nbgrader's exchange put beside the notebook, by name: its feedback is released and fetched with it."""

    @property
    def has_notebook(self) -> bool:
        return self.notebook is not None or self.shelved is not None


def collect(
    source: Path, unit: str, release: NotebookNode, student: str | None = None, shelf: Path | None = None
) -> list[Submission]:
    """Every submission in a folder or a zip, repaired, in the order of the students' names. With `student`, all files
    are this student's. With `shelf`, a folder, notebooks wait there: a large class's would fill the memory.

    Raises Unreadable if `source` is neither.
    """
    files = [f if isinstance(f, File) else _refused(f, source) for f in files_in(source)]
    groups: dict[str, tuple[Owner, list[tuple[File, Owner]]]] = {}
    one = [Owner(f"folder {student}", student)] * len(files) if student else None
    for file, owner in zip(files, one or owners(files, unit, unit_names(ROOT)), strict=True):
        alone = one is None and owner is not None and owner.system == "folder" and len(file.parts) == 1
        if owner is None or alone and not _may_be_notebook(file):
            continue
        groups.setdefault(owner.key, (owner, []))[1].append((file, owner))
    links = [frozenset(file.hard_link for file, _ in mine if file.hard_link) for _, mine in groups.values()]
    del files
    found: list[Submission] = []
    with ThreadPoolExecutor(min(len(groups) or 1, 4, os.cpu_count() or 1)) as pool:  # each waits for a child that reads
        for keys in _parts(list(groups)):  # what is done with leaves the memory
            for made in pool.map(lambda group: _submission(*group, unit, release), [groups.pop(key) for key in keys]):
                found.append(_shelve(made, shelf / f"{len(found)}.ipynb") if shelf else made)
    _say_what_is_shared(found, links)
    found.sort(key=lambda s: alphabetical(s.student))
    _tell_apart(found, set())
    return found


def _parts(keys: list[str], count: int = 200) -> Iterator[list[str]]:
    return (keys[at : at + count] for at in range(0, len(keys), count))


def _shelve(submission: Submission, place: Path) -> Submission:
    if submission.notebook is not None:
        write_notebook(place, submission.notebook)
        submission.notebook, submission.shelved = None, place
    return submission


def nothing_of(missing: Iterable[Entry], submitted: Iterable[str]) -> list[Submission]:
    """An entry for each of the people who submitted nothing, under names that no student who did has."""
    found = [Submission(_safe(e.student), problem=NOTHING, origin=e.origin) for e in missing]
    _tell_apart(found, set(submitted))
    return found


def lay_out(submissions: list[Submission], course: Path, unit: str, adding: bool = False) -> None:
    """Write the notebooks where nbgrader looks for them, and the files set aside next to the course. `adding`: what was
    set aside of other students stays."""
    course.mkdir(parents=True, exist_ok=True)
    (course / "nbgrader_config.py").write_text(nbgrader_config(read_settings(ROOT)), encoding="utf-8")
    for submission in submissions:
        if submission.has_notebook:
            target = course / "submitted" / submission.student / unit / f"{unit}.ipynb"
            if submission.shelved:
                target.parent.mkdir(parents=True, exist_ok=True)
                submission.shelved.replace(target)
            else:
                write_notebook(target, submission.notebook)
            for name in _FROM_EXCHANGE:
                target.with_name(name).unlink(missing_ok=True)  # of an earlier submission
            for name, content in submission.exchange.items():
                target.with_name(name).write_bytes(content)
    set_aside(submissions, course.parent / "set_aside", adding)


def write_notebook(path: Path, notebook: NotebookNode) -> None:
    """Write a notebook whole or not at all: a crash leaves the earlier one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(notebook_bytes(notebook))
    new.replace(path)


def set_aside(submissions: Iterable[Submission], folder: Path, adding: bool = False) -> None:
    """Keep each file that is not graded as `folder/STUDENT/FILE`, and the reasons as `reasons.json`."""
    reasons, written = _reasons(folder) if adding else [], 0
    submissions = list(submissions)
    again = {submission.student for submission in submissions}
    reasons = [reason for reason in reasons if reason["student"] not in again]
    for name in again if adding else [""]:
        shutil.rmtree(folder / name, ignore_errors=True)
    for submission in submissions:
        for number, one in enumerate(submission.aside):
            path = folder / submission.student / (f"{number}-" * bool(number) + _safe(one.file.name))
            entry = {"student": submission.student, "file": "/".join(one.file.parts), "reason": one.reason}
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as kept:
                    for chunk in one.file.chunks():
                        if (written := written + len(chunk)) > _MOST_ASIDE:
                            raise Unreadable("too much was set aside; it is only in the submitted files")
                        kept.write(chunk)
                reasons.append(entry | {"kept": path.relative_to(folder).as_posix()})
            except (Unreadable, OSError) as problem:
                path.unlink(missing_ok=True)
                reasons.append(entry | {"kept": "", "why_not": str(problem)})
    if reasons:
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(reasons, indent=1, ensure_ascii=False)
        (folder / "reasons.json").write_text(text, encoding="utf-8", errors="replace")
    else:
        (folder / "reasons.json").unlink(missing_ok=True)


def _reasons(folder: Path) -> list[dict]:
    try:
        return json.loads((folder / "reasons.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []


MENDING = SandboxLimits(seconds=30, cpu_seconds=6)
"""For one file; an honest notebook takes a tenth of a second."""


def read_notebook(path: Path) -> NotebookNode:
    """A notebook file as nbformat 4.5. Raises Unreadable."""

    @contextlib.contextmanager
    def opened():
        try:
            with path.open("rb") as file:
                yield file
        except OSError as problem:
            raise Unreadable(f"the file cannot be read: {problem.strerror}") from None

    return _read(File((path.name,), opened), None)[0]


def _read(file: File, release: NotebookNode | None) -> tuple[NotebookNode, list[str], choice.Fit]:
    """Read a file in a limited child (`grader.intake.reading`). Raises Unreadable."""
    with reader.in_memory() as content:
        for chunk in file.chunks():
            reader.append(content, chunk)
        try:
            answer = next(reader.read("grader.intake.reading", {"release": release}, content, MENDING))
        except (reader.Unread, StopIteration) as why:
            raise Unreadable(str(why)) from None
    if "failed" in answer:
        raise Unreadable(answer["failed"])
    return from_dict(answer["notebook"]), [str(line) for line in answer["repairs"]], choice.Fit(**answer["fit"])


def _refused(refused: Refused, source: Path) -> File:
    """A file whose `read` raises the reason for its rejection."""

    @contextlib.contextmanager
    def opened():
        raise Unreadable(refused.reason)
        yield

    return File(refused.parts or (f"{source.name}.zip",), opened)


def _may_be_notebook(file: File) -> bool:
    """By the name: browsers and mail programs add endings, and an unreadable archive may contain one."""
    name = file.name.lower()
    return ".ipynb" in name or name.endswith((".zip", ".json")) or name == "nothing"


def alphabetical(name: str) -> str:
    """Letters with accents stand beside those without."""
    return unicodedata.normalize("NFKD", name).casefold()


def _safe(name: str) -> str:
    """A name that can be a folder's or a file's. nbgrader finds folders by patterns, so no `*` or `[`."""
    safe = re.sub(r"[^\w .@-]", "_", name).strip(" .") or "unnamed"
    if len(safe.encode()) > 120:
        safe = safe[:40] + " " + hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    return safe


def _tell_apart(submissions: list[Submission], taken: set[str]) -> None:
    """Give students of the same name, or whose names make the same folder, different ones, and none that is `taken`."""
    for submission in submissions:
        if submission.student in taken and submission.origin.id:
            submission.student = f"{submission.student} {submission.origin.id}"
        while submission.student in taken:
            submission.student += "_"
        taken.add(submission.student)


SHARED = "Another student submitted the same file, as a hard link"


def _say_what_is_shared(submissions: list[Submission], links: list[frozenset[tuple[int, int]]]) -> None:
    """Note which graded submissions may rest on a file that lies in another student's folder, too; `links`: of each
    submission's files."""
    students = Counter(link for mine in links for link in mine)
    for submission, mine in zip(submissions, links, strict=True):
        if submission.has_notebook and any(students[link] > 1 for link in mine):
            submission.repairs.insert(0, f"{SHARED}. Both are graded; the instructor decides whose it is.")


def _submission(owner: Owner, files: list[tuple[File, Owner]], unit: str, release: NotebookNode) -> Submission:
    name = owner.name
    origin = Origin(owner.system, owner.id, name, owner.email, marked_late=owner.marked_late)
    made = Submission(_safe(name), origin=origin)
    notebooks = sorted((f for f in files if _may_be_notebook(f[0])), key=lambda f: _rank(*f, unit), reverse=True)
    chosen, others = _choose(notebooks, unit, release, made)
    if chosen is not None:
        (file, its_owner), made.notebook, made.repairs, fit = chosen
        made.origin = _origin(origin, file, its_owner)
        made.exchange = _from_exchange(file, its_owner, files) if its_owner.system == "nbgrader" else {}
        about = _about_the_file(file, its_owner, made, notebooks, unit)
        for (other, _), its_fit in others:
            reason = f"another file of the same student, {made.origin.file!r}, was graded"
            made.aside.append(SetAside(other, reason))
            if its_fit.written and not fit.written:
                about.append(
                    f"Nothing is written in this notebook, but something in {other.name!r}, which is set aside."
                )
        made.repairs[:0] = about
    if made.notebook is None:
        made.problem = _why_not(made, notebooks, files)
        if not notebooks:
            made.aside = [SetAside(f, "it is not a notebook") for f, _ in files]
    return made


_Candidate = tuple[tuple[File, Owner], NotebookNode, list[str], choice.Fit]


def _choose(
    notebooks: list[tuple[File, Owner]], unit: str, release: NotebookNode, made: Submission
) -> tuple[_Candidate | None, list[tuple[tuple[File, Owner], choice.Fit]]]:
    """The notebook that is graded, and the others that could have been. What cannot be read is set aside in `made`."""
    best: _Candidate | None = None
    others: list[tuple[tuple[File, Owner], choice.Fit]] = []

    def rank(pair: tuple[File, Owner], fit: choice.Fit):
        has_name, *when = _rank(*pair, unit)
        return choice.rank(has_name, fit, tuple(when))

    for number, pair in enumerate(notebooks):
        if number >= _MOST_TRIED:
            made.aside.append(SetAside(pair[0], f"at most {_MOST_TRIED} files per student are tried"))
            continue
        try:
            notebook, repairs, fit = _read(pair[0], release)
        except Unreadable as problem:
            made.aside.append(SetAside(pair[0], str(problem)))
            continue
        if best is None or rank(pair, fit) > rank(best[0], best[3]):
            others += [(best[0], best[3])] if best else []
            best = pair, notebook, repairs, fit
        else:
            others.append((pair, fit))
    return best, others


_FROM_EXCHANGE = ("timestamp.txt", "submission_secret.txt")


def _from_exchange(notebook: File, owner: Owner, files: Iterable[tuple[File, Owner]]) -> dict[str, bytes]:
    """The exchange's own files beside a notebook, with a time that nbgrader can read: it stops at any other."""
    found = {}
    for file in (f for f, _ in files if f.folder == notebook.folder and f.name in _FROM_EXCHANGE):
        with contextlib.suppress(Unreadable):
            found[file.name] = file.read(1000)
    found.pop("timestamp.txt", None)
    if owner.handed_in:
        found["timestamp.txt"] = f"{owner.handed_in:%Y-%m-%d %H:%M:%S.%f} UTC".encode()
    return found


def _rank(file: File, owner: Owner, unit: str):
    """The order in which notebooks are tried: the unit's name first, then the latest submission or change."""
    stem, number = plain_stem(owner.file or file.name)
    changed = file.modified
    # Times with and without a zone cannot be compared; of one hand-in nearly all are of one kind.
    seconds = changed.replace(tzinfo=changed.tzinfo or UTC).timestamp() if changed else 0.0
    handed_in = owner.handed_in.timestamp() if owner.handed_in else 0.0
    return unit.casefold() == stem.casefold(), owner.again, handed_in, seconds, number, file.parts


def _origin(origin: Origin, file: File, owner: Owner) -> Origin:
    when, clock = (owner.handed_in, owner.clock) if owner.handed_in else (file.modified, file.clock)
    handed_in = when.isoformat(timespec="seconds") if when else ""
    name = owner.file or file.name
    return Origin(origin.system, origin.id, origin.name, origin.email, name, handed_in, clock, owner.marked_late)


_NONE_NAMED = "; none has the unit's name"


def _about_the_file(
    file: File, owner: Owner, made: Submission, notebooks: list[tuple[File, Owner]], unit: str
) -> list[str]:
    messages, name = [], owner.file or file.name
    if made.student != owner.name:
        messages.append(f"The name {owner.name!r} cannot be a folder name; it became {made.student!r}.")
    if len(notebooks) > 1:
        stems = [plain_stem(its_owner.file or one.name)[0] for one, its_owner in notebooks]
        named = unit.casefold() in (stem.casefold() for stem in stems)
        messages.append(f"Of {len(notebooks)} notebooks, {name!r} was graded{'' if named else _NONE_NAMED}.")
    for one in made.aside:
        messages.append(f"{one.file.name!r} cannot be graded: {one.reason}.")
    if name not in (f"{unit}.ipynb", f"{owner.name}.ipynb"):
        messages.append(f"The file was called {name!r}.")
    return messages


def _why_not(made: Submission, notebooks: list, files: list) -> str:
    if notebooks:
        reasons = "; ".join(f"{one.file.name}: {one.reason}" for one in made.aside[:5])
    else:
        others = ", ".join(repr(f.name) for f, _ in files[:3] if f.name != "timestamp.txt")
        reasons = "the folder contains no notebook" + (f", only {others}" if others else "")
    return f"Not graded, 0 points: {reasons}."
