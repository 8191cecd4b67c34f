"""The journal of a grading run: each result is completely on disk before anything else happens with it.

`journal/header.json` describes the run: the unit and its release, the secret seed, what the points depend on, the late
rules. `journal/entries/` has a file for each submission with all its results, `journal/pending.json` the submissions
that have none yet, and `journal/recorded/` which entries the gradebook holds. All tables and pages are made from these
files. Each begins with the checksum of the rest and is created atomically, so after a power failure it is there or it
is not; an incomplete one counts as missing. Only the user who grades can read the folder, which holds the seed and the
hidden cases.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from grader.gradebook import provenance

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FORMAT = 2
_LONGEST_NAME = 200


class JournalError(RuntimeError):
    """This run cannot start or continue; the message says why and what to do."""


class DiskFull(RuntimeError):
    """Nothing more can be written; the message names the place."""


class Journal:
    """The journal in a folder, which is held against other graders until `close`; without `hold` it is only looked at,
    also while one grades. Raises JournalError, DiskFull."""

    def __init__(self, folder: Path, hold: bool = True):
        self.folder, self._entries, self._recorded = folder, folder / "entries", folder / "recorded"
        self._lock = FileLock(folder / "lock", timeout=0)
        if hold:
            self._hold()
        self.header = read(folder / "header.json")

    def _hold(self) -> None:
        folder = self.folder
        with _room(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for inside in (self._entries, self._recorded):
                inside.mkdir(mode=0o700, exist_ok=True)
        try:
            self._lock.acquire()
        except Timeout:
            raise JournalError(f"Another run is currently grading into {folder.parent}.") from None
        for left in self._entries.glob("*.new-*"):
            left.unlink(missing_ok=True)

    def close(self) -> None:
        self._lock.release()

    def begin(self, unit: str, release: str, seed: int, mode: str, replaces: Iterable[str] = (), **about) -> None:
        """Begin a new run. Entries of an earlier one count no more, from the moment in which the header is replaced.

        `replaces`: the students whom the gradebook has from earlier runs. `about`: what else the header says.
        """
        self.header = {
            "format": FORMAT,
            "run": secrets.token_hex(8),
            "unit": unit,
            "release": release,
            "seed": seed,
            "mode": mode,
            "packages": provenance.packages(),
            "code": provenance.code(unit, shown=mode != "judge"),
            "begun": _now(),
            "replaces": sorted(replaces),
            "finished": False,
            **about,
        }
        self.write_header()
        for inside in (self._entries, self._recorded):
            shutil.rmtree(inside)
            inside.mkdir(mode=0o700)

    def belongs_to(self, unit: str) -> None:
        """Raises JournalError if the folder holds another unit: its gradebook and pages are that unit's."""
        if self.header and self.header["unit"] != unit:
            raise JournalError(
                f"{self.folder.parent} holds {self.header['unit']}: grade {unit} into a folder of its own (--out)."
            )

    def the_run(self) -> dict:
        """The header of the run in this folder. Raises JournalError if there is none that can be read."""
        if self.header is None:
            raise JournalError(f"There is no run in {self.folder.parent}.")
        if self.header.get("format") != FORMAT:
            raise JournalError(f"Another version of the grader wrote the journal in {self.folder.parent}.")
        return self.header

    def changes(self, release: str | None = None) -> list[str]:
        """What the points depend on and is not as it was when this run began, by name."""
        then = self.header
        found = provenance.changes(then["packages"], provenance.packages())
        found += provenance.changes(then["code"], provenance.code(then["unit"], shown=then["mode"] != "judge"))
        if release not in (None, then["release"]):
            found.append(f"solutions/{then['unit']}/{then['unit']}.py")
        return found

    def may_go_on(self, release: str, seed: int | None, mode: str, accept_changes: bool = False) -> list[str]:
        """What changed since the run began, if that is accepted. Raises JournalError if what was graded so far does not
        belong together with what would be graded now."""
        if self.header is None:
            raise JournalError(f"There is no run to resume in {self.folder.parent}: start one without --resume.")
        then, why = self.header, ""
        if then.get("format") != FORMAT:
            why = "another version of the grader wrote its journal"
        elif then["mode"] != mode:
            why = "its points have a different source (--trust-notebooks)"
        elif seed is not None and then["seed"] != seed:
            why = "it has a different --seed"
        if why:
            raise JournalError(
                f"The run of {when(then)} cannot be continued, because {why}: --fresh grades everything again."
            )
        changed = self.changes(release)
        if changed and not accept_changes:
            raise JournalError(
                f"Since the run of {when(then)}, {provenance.named(changed)} changed. --accept-changes keeps the "
                "points that were given before and grades the rest; "
                f"`python -m grader regrade {self.folder.parent}` judges everyone again; --fresh starts a new run."
            )
        return changed

    def go_on(self, release: str, **about) -> None:
        """Continue the run, or add to it, with the course as it is now."""
        unit, shown = self.header["unit"], self.header["mode"] != "judge"
        now = {"release": release, "packages": provenance.packages(), "code": provenance.code(unit, shown)}
        self.header |= {**now, "finished": False, **about}
        self.write_header()

    def finish(self, **about) -> None:
        """Nothing of this run is left to be done."""
        self.header |= {"finished": True, "replaces": [], "regrade": None, **about}
        self.write_header()
        (self.folder / "pending.json").unlink(missing_ok=True)

    def write_header(self) -> None:
        write(self.folder / "header.json", self.header)

    def expect(self, submissions: Mapping[str, dict]) -> None:
        """Note submissions, by student, that are to be graded; what was expected before and is not here still is."""
        write(self.folder / "pending.json", {"run": self.header["run"], "students": {**self.pending(), **submissions}})

    def pending(self) -> dict[str, dict]:
        """The submissions that a run expected and has not finished with."""
        found = read(self.folder / "pending.json")
        return found["students"] if found and found["run"] == self.header["run"] else {}

    def put(self, student: str, entry: dict) -> None:
        write(self._path(student), {"run": self.header["run"], "student": student, **entry})

    def forget(self, student: str) -> None:
        """Take a student's entry out."""
        self._path(student).unlink(missing_ok=True)

    def get(self, student: str) -> dict | None:
        """A student's entry in this run; None if there is none, or none that is whole."""
        entry = self._entry(self._path(student))
        return entry if entry is not None and entry["student"] == student else None

    def entries(self) -> Iterator[dict]:
        """Everybody's entry in this run, one at a time."""
        for path in sorted(self._entries.glob("*.json")):
            if (entry := self._entry(path)) is not None:
                yield entry

    def students(self) -> list[str]:
        """Everybody who has an entry in this run."""
        return sorted(entry["student"] for entry in self.entries())

    def torn(self) -> list[str]:
        """Files that are no whole entry, by name."""
        return sorted(path.name for path in self._entries.glob("*.json") if read(path) is None)

    def note_recorded(self, student: str) -> None:
        """The gradebook and nbgrader's folders hold what the student's entry says."""
        (self._recorded / self._path(student).stem).write_bytes(_checksum(self._path(student)))

    def forget_recorded(self, student: str) -> None:
        (self._recorded / self._path(student).stem).unlink(missing_ok=True)

    def is_recorded(self, student: str) -> bool:
        """Whether the student's entry, as it is, was entered in the gradebook."""
        try:
            return (self._recorded / self._path(student).stem).read_bytes() == _checksum(self._path(student))
        except OSError:
            return False

    def _entry(self, path: Path) -> dict | None:
        entry = read(path)
        return entry if entry is not None and self.header and entry.get("run") == self.header["run"] else None

    def _path(self, student: str) -> Path:
        name = student
        if len(name.encode()) > _LONGEST_NAME:
            name = hashlib.sha256(name.encode()).hexdigest()
        return self._entries / f"{name}.json"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _checksum(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.readline()


def when(header: dict) -> str:
    return header["begun"][:16].replace("T", " ") + " UTC"


def write(path: Path, data: dict) -> None:
    """Write JSON behind its checksum, in one step that outlives a power cut. Raises DiskFull with nothing changed."""
    body = json.dumps(data).encode()
    with _room(path):
        fd, name = tempfile.mkstemp(prefix=f"{path.name}.new-", dir=path.parent)  # mode 600
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read(path: Path) -> dict | None:
    """What `write` wrote; None if the file is not there, or not whole."""
    try:
        checksum, _, body = path.read_bytes().partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != checksum:
            return None
        data = json.loads(body)
        return data if isinstance(data, dict) else None
    except (OSError, ValueError):
        return None


@contextlib.contextmanager
def _room(path: Path):
    try:
        yield
    except OSError as problem:
        if problem.errno in FULL:
            raise DiskFull(f"{path.parent} ({os.strerror(problem.errno).lower()})") from None
        raise
