"""The journal of a grading run: each result is completely on disk before anything else happens with it.

`journal/header.json` describes the run: the unit and its release, the secret seed, the versions. `journal/entries/` has
a file for each submission with all its results. Each file begins with the checksum of the rest and is created
atomically, so after a power failure it is there or it is not; an incomplete one counts as missing. Only the user who
grades can read the folder, which holds the seed and the hidden cases.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import platform
import secrets
import shutil
import tempfile
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from filelock import FileLock, Timeout

from grader.course.sources import ROOT

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_LONGEST_NAME = 200
_PACKAGES = ("torch", "triton", "numpy", "nbgrader", "ipykernel", "IPython")
# What can change a mark. Reports and engines may change in the middle of a run.
_CODE = (
    "labutils",
    "grader/judge",
    "grader/execute",
    "grader/marks/marks.py",
    "grader/course/solutions.py",
    "grader/course/cells.py",
)
_CODE_ENDINGS = {".py", ".cu", ".cuh", ".h", ".hpp", ".toml"}


class JournalError(RuntimeError):
    """This run cannot start or continue; the message says why and what to do."""


class DiskFull(RuntimeError):
    """Nothing more can be written; the message names the place."""


def versions() -> dict[str, str]:
    """The versions that points may depend on, including this course's own code."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    code = hashlib.sha256()
    for name in _CODE:
        path = ROOT / name
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if file.suffix in _CODE_ENDINGS and "__pycache__" not in file.parts:
                code.update(file.relative_to(ROOT).as_posix().encode() + b"\0" + file.read_bytes())
    return {**found, "course": code.hexdigest()[:16]}


class Journal:
    """The journal in a folder, which is held against other graders until `close`. Raises JournalError, DiskFull."""

    def __init__(self, folder: Path):
        self.folder, self._entries = folder, folder / "entries"
        with _room(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._entries.mkdir(mode=0o700, exist_ok=True)
        self._lock = FileLock(folder / "lock", timeout=0)
        try:
            self._lock.acquire()
        except Timeout:
            raise JournalError(f"Another run is currently grading into {folder.parent}.") from None
        self.header: dict | None = read(folder / "header.json")
        for left in self._entries.glob("*.new-*"):
            left.unlink(missing_ok=True)

    def close(self) -> None:
        self._lock.release()

    def begin(self, unit: str, release: str, seed: int, mode: str) -> None:
        """Begin a new run. Entries of an earlier one count no more, from the moment in which the header is replaced."""
        self.header = {
            "format": 1,
            "run": secrets.token_hex(8),
            "unit": unit,
            "release": release,
            "seed": seed,
            "mode": mode,
            "versions": versions(),
            "begun": datetime.now(UTC).isoformat(timespec="seconds"),
            "finished": False,
        }
        write(self.folder / "header.json", self.header)
        shutil.rmtree(self._entries)
        self._entries.mkdir(mode=0o700)

    def may_go_on(self, unit: str, release: str, seed: int | None, mode: str) -> None:
        """Raises JournalError if what was graded so far does not belong together with what would be graded now."""
        if self.header is None:
            raise JournalError(f"There is no run to resume in {self.folder.parent}: start one without --resume.")
        then, now = self.header, versions()
        changed = [name for name, v in then["versions"].items() if now.get(name) != v]
        why = ""
        if then["unit"] != unit:
            why = f"it graded {then['unit']}"
        elif then["release"] != release:
            why = "the unit has changed since then"
        elif then["mode"] != mode:
            why = "its points have a different source (--trust-notebooks)"
        elif seed is not None and then["seed"] != seed:
            why = "it has a different --seed"
        elif changed:
            why = f"{' and '.join(changed)} changed since then"
        if why:
            raise JournalError(
                f"The run of {when(then)} cannot be resumed, because {why}: --fresh grades everything again."
            )

    def finish(self) -> None:
        """Nothing of this run is left to be done."""
        self.header["finished"] = True
        write(self.folder / "header.json", self.header)

    def put(self, student: str, entry: dict) -> None:
        write(self._path(student), {"run": self.header["run"], "student": student, **entry})

    def forget(self, student: str) -> None:
        """Take a student's entry out."""
        self._path(student).unlink(missing_ok=True)

    def get(self, student: str) -> dict | None:
        """A student's entry in this run; None if there is none, or none that is whole."""
        entry = read(self._path(student))
        whole = entry is not None and entry.get("run") == self.header["run"] and entry.get("student") == student
        return entry if whole else None

    def students(self) -> list[str]:
        """Everybody who has an entry in this run."""
        found = (read(path) for path in self._entries.glob("*.json"))
        return sorted(e["student"] for e in found if e is not None and e.get("run") == self.header["run"])

    def torn(self) -> list[str]:
        """Files that are no whole entry, by name."""
        return sorted(path.name for path in self._entries.glob("*.json") if read(path) is None)

    def _path(self, student: str) -> Path:
        name = student
        if len(name.encode()) > _LONGEST_NAME:
            name = hashlib.sha256(name.encode()).hexdigest()
        return self._entries / f"{name}.json"


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
