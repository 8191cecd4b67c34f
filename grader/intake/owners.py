"""The owner of a file, from the names that learning platforms give to exported files.

nbgrader     STUDENT/UNIT/x.ipynb, and inbound folders STUDENT+UNIT+TIME+…
Moodle       "Name_12345_assignsubmission_file_/x.ipynb", or with the same beginning and no folder
Canvas       "lastfirst_LATE_12345_67890_x-1.ipynb", the last number counts resubmissions
Gradescope   "submission_12345/x.ipynb" beside submission_metadata.yml
else         STUDENT/….ipynb or STUDENT.ipynb, in one more folder or not
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import yaml

from grader.intake.files import File, Unreadable

_MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<file>.*)", re.DOTALL)
_CANVAS = re.compile(
    r"(?P<name>[^_]+)_(?P<late>LATE_)?(?P<id>\d+)_\d+_(?P<file>.+?)(?:-(?P<again>\d+))?(?P<end>\.\w+)", re.DOTALL
)
_GRADESCOPE = re.compile(r"submission_(?P<id>\d+)")
_INBOUND = re.compile(r"(?P<name>[^+]+)\+(?P<unit>[^+]+)\+(?P<when>\d{4}-\d\d-\d\d [^+]*?)(?:\+[^+]*)?")
_COPY = re.compile(r"^(?:copy|kopie|copie|copia) (?:of|von|de|di) |(?: ?\((?P<number>\d+)\)| - copy| copy)$", re.I)
_PLAIN = {"submissions", "submitted", "inbound", "handed_in", "export", "downloads", "notebooks"}
# What nbgrader keeps beside `inbound` and beside `submitted`.
_IN_EXCHANGE = ("outbound", "feedback")
_IN_COURSE = ("source", "release", "autograded", "feedback")
_DEEPEST_COURSE = 3
"""Folders from the one that was given to nbgrader's own: an exchange holds courses."""


@dataclass(frozen=True)
class Owner:
    """The learner that a file belongs to, according to the platform. Equal `key`: the same learner.

    `again` counts resubmissions, if the platform says so; `handed_in` is the platform's own time, if it has one.
    """

    key: str
    name: str
    system: str = "folder"
    id: str = ""
    email: str = ""
    file: str = ""
    again: int = 0
    marked_late: bool | None = None
    handed_in: datetime | None = None
    clock: str = ""


def owners(files: Sequence[File], unit: str, units: Collection[str] = ()) -> list[Owner | None]:
    """The owner of each file; None for submissions of another one of the course's `units`, for metadata, and for what
    nbgrader keeps beside submissions."""
    beside = _beside_submissions(files, unit)
    ours = [any(f.parts[:n] in beside for n in range(1, len(f.parts) + 1)) for f in files]
    found = iter(_owners([f for f, not_submitted in zip(files, ours, strict=True) if not not_submitted], unit, units))
    return [None if not_submitted else next(found) for not_submitted in ours]


def _owners(files: Sequence[File], unit: str, units: Collection[str]) -> list[Owner | None]:
    known, times = _gradescope(files), _timestamps(files)
    others = set(units) - {unit}
    listed = {"submission_metadata.yml", "timestamp.txt"}  # of files, and no learner's
    notebooks = [f for f in files if ".ipynb" in f.name.lower()]
    around, level = _around(notebooks), _level(notebooks, lambda f, at: _platform(f, unit, known, times, at))
    found = [_platform(f, unit, known, times, max(_outside(f, around), level)) for f in files]
    rest = [
        f for f, o in zip(files, found, strict=True) if o is None and f.name not in listed and not _is_of(f, others)
    ]
    depth = _wrapping(rest)
    exchanged = {o.name: o for o in found if o and o.system == "nbgrader"}
    plain = [
        o or (None if f.name in listed or _is_of(f, others) else _plain(f, unit, depth))
        for f, o in zip(files, found, strict=True)
    ]
    # Beside STUDENT/UNIT/ a student's folder may hold other files.
    return [exchanged.get(o.name, o) if o and o.system == "folder" else o for o in plain]


def _beside_submissions(files: Sequence[File], unit: str) -> set[tuple[str, ...]]:
    """What is no submission where a whole exchange or a whole course folder of nbgrader's is given: its other folders.
    `outbound` alone tells an exchange to which nobody has submitted yet."""
    found: set[tuple[str, ...]] = set()
    for parts in (f.parts for f in files):
        for at, part in enumerate(parts[:-1][:_DEEPEST_COURSE]):
            below = parts[at + 1]
            exchange = part == "outbound" and below == unit or part == "inbound" and _INBOUND.fullmatch(below)
            course = part == "submitted" and parts[at + 2 : at + 3] == (unit,)
            if exchange or course:
                found.update((*parts[:at], name) for name in (_IN_EXCHANGE if exchange else _IN_COURSE))
            if exchange:
                found.add((*parts[:at], "inbound", "nothing"))
    return found


def _is_of(file: File, units: Collection[str]) -> bool:
    """Whether a file is where nbgrader puts submissions for one of these units."""
    inbound = (m["unit"] for part in file.folder if (m := _INBOUND.fullmatch(part)))
    return len(file.parts) >= 3 and file.parts[-2] in units or any(u in units for u in inbound)


def plain_stem(name: str) -> tuple[str, int]:
    """A file's name without its ending and without "Copy of" and "(2)", and that number."""
    stem, number = re.split(r"\.ipynb", name, maxsplit=1, flags=re.I)[0], 0
    while (shorter := _COPY.sub("", stem).strip()) != stem and shorter:
        if listed := re.search(r"\((\d+)\)$", stem):
            number = max(number, int(listed[1][:9]))
        stem = shorter
    return stem, number


def parsed_time(text: str) -> datetime | None:
    """A time as nbgrader writes it ("2026-11-20 22:58:23.9 UTC"), in UTC; None if it is none."""
    from nbgrader.utils import parse_utc

    try:
        return parse_utc(text.strip()).replace(tzinfo=UTC)
    except (ValueError, OverflowError, AttributeError):
        return None


def _around(notebooks: Sequence[File]) -> tuple[str, ...]:
    """The folders around all notebooks."""
    return tuple(os.path.commonprefix([f.folder for f in notebooks]))


def _level(notebooks: Sequence[File], learner: Callable[[File, int], Owner | None]) -> int:
    """How deep platforms name learners if it is the same depth for all notebooks, as in one folder for each group of a
    class; else 0."""
    first = {next((at for at in range(len(f.parts)) if learner(f, at)), 0) for f in notebooks}
    return first.pop() if len(first) == 1 else 0


def _outside(file: File, around: tuple[str, ...]) -> int:
    """How many parts of a path no learner has named: what is around all notebooks, and folders such as "submitted".
    What follows is the platform's name of a learner, and then the learner's own names, which prove nothing."""
    depth = len(around) if file.folder[: len(around)] == around else 0
    while depth < len(file.folder) and file.parts[depth].lower() in _PLAIN:
        depth += 1
    return depth


def _platform(file: File, unit: str, gradescope: dict[str, Owner], times: dict, outside: int) -> Owner | None:
    """The owner, if the path is one that a platform makes, with the name of the learner behind at most `outside` parts:
    a folder that a learner calls like another's would submit in the other's name."""
    for at, part in enumerate(file.parts[: outside + 1]):
        if (m := _INBOUND.fullmatch(part)) and m["unit"] == unit:
            when = times.get(file.folder) or parsed_time(m["when"])
            return Owner(f"nbgrader {m['name']}", m["name"], "nbgrader", m["name"], handed_in=when, clock=_TIMESTAMP)
        if m := _MOODLE.fullmatch(part):
            return Owner(f"moodle {m['id']}", m["name"], "moodle", m["id"], file=m["file"])
        if (m := _GRADESCOPE.fullmatch(part)) and part in gradescope:
            return gradescope[part]
        if m := _CANVAS.fullmatch(part):
            again = int((m["again"] or "0")[:9])
            name, late = m["name"], bool(m["late"])
            return Owner(f"canvas {m['id']}", name, "canvas", m["id"], "", m["file"] + m["end"], again, late)
        if at == len(file.parts) - 3 and file.parts[-2] == unit:
            when = times.get(file.folder)
            clock = _TIMESTAMP if when else ""
            return Owner(f"nbgrader {part}", part, "nbgrader", part, handed_in=when, clock=clock)
    return None


_TIMESTAMP = "nbgrader's timestamp"


def _plain(file: File, unit: str, depth: int) -> Owner:
    """The owner by the folder below the first `depth`, or by the file's name."""
    rest = file.parts[depth:]
    if len(rest) > 1:
        name = re.sub(r"\.zip$", "", rest[0], flags=re.I) or rest[0]
        return Owner(f"folder {name}", name)
    stem, again = plain_stem(rest[0])
    without = re.sub(rf"[\s_.-]*{re.escape(unit)}[\s_.-]*", "", stem, flags=re.I)
    return Owner(f"folder {without or stem}", without or stem, again=again)


def _wrapping(files: Sequence[File]) -> int:
    """How many folders are around all the files that are no learner's."""
    depth = 0
    while files:
        first = {f.parts[depth] if len(f.parts) > depth + 1 else None for f in files}
        if len(first) != 1 or None in first:
            break
        below = {f.parts[depth + 1] for f in files if len(f.parts) > depth + 2}
        if len(below) < 2 and first.pop().lower() not in _PLAIN:
            break
        depth += 1
    return depth


def _timestamps(files: Sequence[File]) -> dict[tuple[str, ...], datetime]:
    """nbgrader's `timestamp.txt` by folder."""
    found = {}
    for file in files:
        if file.name == "timestamp.txt":
            try:
                when = parsed_time(file.read(10_000)[:200].decode("utf-8", "replace"))
            except Unreadable:
                continue
            if when:
                found[file.folder] = when
    return found


class _Ruby(yaml.SafeLoader):
    """YAML as Gradescope writes it, from Ruby: its tags are plain data here."""


def _plain_data(loader: yaml.SafeLoader, _tag: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return loader.construct_scalar(node)


_Ruby.add_multi_constructor("!", _plain_data)


def _gradescope(files: Sequence[File]) -> dict[str, Owner]:
    """The owners that Gradescope's metadata names, by folder. A file that cannot be read names none, nor does one that
    a learner may have written: Gradescope's is next to the folders that contain all files."""
    found: dict[str, Owner] = {}
    for file in files:
        depth = len(file.folder)
        if file.name != "submission_metadata.yml" or not all(
            f is file or f.parts[:depth] == file.folder and _GRADESCOPE.fullmatch(f.parts[depth]) for f in files
        ):
            continue
        try:
            listed = yaml.load(file.read(), _Ruby)  # noqa: S506 (a SafeLoader)
        except (Unreadable, yaml.YAMLError, ValueError, RecursionError):
            continue
        for folder, about in listed.items() if isinstance(listed, dict) else ():
            if (m := _GRADESCOPE.fullmatch(str(folder))) and isinstance(about, dict):
                found[str(folder)] = _submitters(m["id"], about)
    return found


def _submitters(number: str, about: dict) -> Owner:
    """One owner for a submission, which may be a group's."""
    people: dict[str, list[str]] = defaultdict(list)
    for one in about.get(":submitters") or []:
        for key in (":name", ":email"):
            if isinstance(one, dict) and isinstance(one.get(key), str):
                people[key].append(one[key])
    when = about.get(":created_at")
    when = when.get("utc") if isinstance(when, dict) else when
    if isinstance(when, datetime):
        when = when.replace(tzinfo=when.tzinfo or UTC).astimezone(UTC)
    else:
        when = parsed_time(when) if isinstance(when, str) else None
    name = " and ".join(people[":name"]) or f"submission {number}"
    owner = Owner(f"gradescope {number}", name, "gradescope", number, ", ".join(people[":email"]))
    return replace(owner, handed_in=when, clock="Gradescope's time" if when else "")
