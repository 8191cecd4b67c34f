"""The files in a folder or a zip that was handed in, read one at a time and never written by their own names.

Archives come from anybody. A name may lead out of the folder, an entry may unpack to terabytes, a zip may hold itself.
So nothing is unpacked: an entry is read into memory when it is wanted, up to a limit, and its name only tells whose it
is. What cannot be accepted is told with a reason.
"""

from __future__ import annotations

import io
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PureWindowsPath

MOST_BYTES = 50_000_000
"""Bytes of one file, unpacked. A unit's notebook has a hundredth of that, with pictures in its outputs a tenth."""

MOST_FILES = 100_000
"""Files in all; a class of a thousand hands in a few thousand."""

MOST_DEPTH = 3
"""Zips within zips: the platform's, the learner's, and one more."""

_JUNK = {".ipynb_checkpoints", "__MACOSX", "__pycache__", ".git"}


class Unreadable(Exception):
    """A file that cannot be read; the message says why, without the file's name."""


@dataclass(frozen=True)
class File:
    """A file that was handed in: its path as parts, when it was last changed, and its bytes on demand.

    `modified` has a time zone if that is known; a zip's own times have none. `clock` says whose time it is. `read`
    raises Unreadable.
    """

    parts: tuple[str, ...]
    read: Callable[[], bytes]
    modified: datetime | None = None
    clock: str = ""

    @property
    def name(self) -> str:
        return self.parts[-1]

    @property
    def folder(self) -> tuple[str, ...]:
        return self.parts[:-1]


@dataclass(frozen=True)
class Refused:
    """Something that was handed in and cannot be looked at, and why."""

    parts: tuple[str, ...]
    reason: str


def files_in(source: Path) -> Iterator[File | Refused]:
    """Everything in a folder or a zip, those in zips within it included. Raises Unreadable if it is neither."""
    if source.is_dir():
        found = _in_folder(source)
    elif zipfile.is_zipfile(source):
        found = _in_zip(lambda: source, (), 1)
    else:
        raise Unreadable("it is neither a folder nor a zip")
    for number, file in enumerate(found):
        if number == MOST_FILES:
            yield Refused((), f"it holds more than {MOST_FILES:,} files; the others were not looked at")
            return
        yield file


def _in_folder(folder: Path) -> Iterator[File | Refused]:
    root = folder.resolve()
    for path in sorted(folder.rglob("*")):
        parts = _normal(path.relative_to(folder).parts)
        if _is_junk(parts):
            continue
        if path.is_dir() and not path.is_symlink():
            if len(parts) == 1 and not any(path.iterdir()):
                yield Refused((*parts, "nothing"), "the folder is empty")
        elif not path.resolve().is_relative_to(root):
            yield Refused(parts, "it is a link to somewhere else")
        elif not path.is_file():
            yield Refused(parts, "it is no ordinary file")
        else:
            changed = datetime.fromtimestamp(path.stat().st_mtime, UTC)
            yield from _or_its_files(File(parts, lambda path=path: _read_file(path), changed, "the file's time"), 0)


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return _limited(file)
    except OSError as problem:
        raise Unreadable(f"it cannot be read: {problem.strerror}") from None


def _or_its_files(file: File, depth: int) -> Iterator[File | Refused]:
    """The file, or if it is a zip what is in it; `depth` counts the zips around it."""
    if not file.name.lower().endswith(".zip"):
        yield file
    elif depth >= MOST_DEPTH:
        yield Refused(file.parts, "it is a zip in too many others")
    else:
        yield from _in_zip(lambda: io.BytesIO(file.read()), file.parts, depth + 1)


def _in_zip(source, above: tuple[str, ...], depth: int) -> Iterator[File | Refused]:
    """What is in the zip that `source()` gives as a path or a binary file; its entries' parts begin with `above`."""
    try:
        with zipfile.ZipFile(source()) as archive:
            entries = archive.infolist()
    except Unreadable as problem:
        yield Refused(above, str(problem))
        return
    except Exception:  # zipfile raises many kinds for what is no zip
        yield Refused(above, "the zip is damaged")
        return
    for entry in entries[: MOST_FILES + 1]:
        name = _name(entry)
        parts = _normal(name.replace("\\", "/").split("/"))
        if entry.is_dir() or not parts or _is_junk(parts):
            continue
        if reason := _refusal(entry, name, parts):
            yield Refused((*above, *(p for p in parts if p != "..")), reason)
            continue
        changed, clock = _changed(entry)
        read = _reader(source, entry.filename)
        yield from _or_its_files(File((*above, *parts), read, changed, clock), depth)


def _reader(source, name: str) -> Callable[[], bytes]:
    def read() -> bytes:
        try:
            with zipfile.ZipFile(source()) as archive, archive.open(name) as file:
                return _limited(file)
        except Unreadable:
            raise
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError):
            raise Unreadable("it is damaged in the zip") from None
        except Exception as problem:  # a compression that Python does not know, a broken LZMA stream …
            raise Unreadable(f"it cannot be unpacked ({type(problem).__name__})") from None

    return read


def _limited(file) -> bytes:
    content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise Unreadable(f"the file is larger than {MOST_BYTES // 1_000_000} MB")
    return content


def _refusal(entry: zipfile.ZipInfo, name: str, parts: tuple[str, ...]) -> str:
    if name.startswith(("/", "\\")) or ".." in parts or PureWindowsPath(name).drive:
        return "its name in the zip leads out of it"
    if stat.S_ISLNK(entry.external_attr >> 16):
        return "it is a link"
    if entry.flag_bits & 1:
        return "it is encrypted"
    return ""


def _name(entry: zipfile.ZipInfo) -> str:
    """An entry's name. Tools that do not say that they write UTF-8 often do."""
    if entry.flag_bits & 0x800:
        return entry.filename
    try:
        return entry.filename.encode("cp437").decode("utf-8")
    except (UnicodeEncodeError, UnicodeDecodeError):
        return entry.filename


def _changed(entry: zipfile.ZipInfo) -> tuple[datetime | None, str]:
    """When an entry was changed: the exact time that many tools add to it, or the zip's own, which has no time zone."""
    extra = entry.extra
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<HH", extra)
        if kind == 0x5455 and size >= 5 and extra[4] & 1:
            return datetime.fromtimestamp(struct.unpack_from("<i", extra, 5)[0], UTC), "the time in the zip"
        extra = extra[4 + size :]
    try:
        return datetime(*entry.date_time), "the time in the zip"
    except ValueError:
        return None, ""


def _normal(parts) -> tuple[str, ...]:
    """Parts of a path, letters composed: macOS writes an accent behind its letter, others within it."""
    return tuple(unicodedata.normalize("NFC", p) for p in parts if p not in ("", "."))


def _is_junk(parts: tuple[str, ...]) -> bool:
    return bool(_JUNK.intersection(parts)) or parts[-1].startswith("._") or parts[-1] in (".DS_Store", "Thumbs.db")
