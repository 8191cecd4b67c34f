"""The files in a submitted folder or zip, read one at a time and never written under their own names.

Archives are untrusted: a path may lead out of the folder, an entry may unpack to terabytes, a zip may contain itself.
So nothing is unpacked. An entry is read into memory on demand, up to a limit, and its name is used only to find its
owner. Each rejected file is reported with a reason.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PureWindowsPath
from typing import BinaryIO

MOST_BYTES = 50_000_000
"""Bytes of one file, unpacked. A unit's notebook has a hundredth of that, with pictures in its outputs a tenth."""

MOST_FILES = 100_000
"""Files in total; a class of a thousand submits a few thousand."""

MOST_DEPTH = 3
"""Nested zips: the platform's, the learner's, and one more."""

LONGEST_NAME = 255
"""Characters of a file's name; the limit of most file systems."""

_JUNK = {".ipynb_checkpoints", "__MACOSX", "__pycache__", ".git"}


class Unreadable(Exception):
    """A file that cannot be read; the message says why, without the file's name."""


@dataclass(frozen=True)
class File:
    """A submitted file: its path as parts, when it was last changed, and its bytes on demand.

    `modified` has a time zone if that is known; a zip's own times have none. `clock` says whose time it is. `opened`
    gives it as a binary file, and raises Unreadable. `hard_link` is the same for all names of one file (device and
    inode); None for a file with one name.
    """

    parts: tuple[str, ...]
    opened: Callable[[], AbstractContextManager[BinaryIO]]
    modified: datetime | None = None
    clock: str = ""
    hard_link: tuple[int, int] | None = None

    def read(self, most: int | None = None) -> bytes:
        """Its bytes. Raises Unreadable, also for a file of more than `most`, or else MOST_BYTES."""
        return b"".join(self.chunks(most))

    def chunks(self, most: int | None = None) -> Iterator[bytes]:
        """Its bytes piece by piece, so that no file is held as a whole. Raises Unreadable."""
        left = most = MOST_BYTES if most is None else most
        with self.opened() as file:
            while chunk := _chunk(file):
                if (left := left - len(chunk)) < 0:
                    raise Unreadable(f"the file is larger than {_size(most)}")
                yield chunk

    @property
    def name(self) -> str:
        return self.parts[-1]

    @property
    def folder(self) -> tuple[str, ...]:
        return self.parts[:-1]


@dataclass(frozen=True)
class Refused:
    """A submitted file that cannot be read, and why."""

    parts: tuple[str, ...]
    reason: str


def files_in(source: Path) -> Iterator[File | Refused]:
    """All files in a folder or a zip, including nested zips. Raises Unreadable if it is neither."""
    if source.is_dir():
        found = _in_folder(source)
    elif zipfile.is_zipfile(source):
        found = _in_zip(lambda: source, (), 1)
    else:
        raise Unreadable("it is neither a folder nor a zip")
    for number, file in enumerate(found):
        if number == MOST_FILES:
            yield Refused((), f"it contains more than {MOST_FILES:,} files; the others were not read")
            return
        yield file


def _in_folder(folder: Path) -> Iterator[File | Refused]:
    """No symbolic link is followed: it would submit what someone else wrote. Of hard links see `_why_refused`."""
    paths = sorted(folder.rglob("*"))
    names = _names_of_linked(paths)
    for path in paths:
        parts = _normal(path.relative_to(folder).parts)
        if _is_junk(parts):
            continue
        try:
            about = path.lstat()
        except OSError as problem:
            yield Refused(parts, f"it cannot be read: {problem.strerror}")
            continue
        if stat.S_ISLNK(about.st_mode):
            yield Refused(parts, "it is a link, and only files are graded")
        elif stat.S_ISDIR(about.st_mode):
            if len(parts) == 1 and not any(path.iterdir()):
                yield Refused((*parts, "nothing"), "the folder is empty")
        elif not stat.S_ISREG(about.st_mode):
            yield Refused(parts, "it is not a regular file")
        elif reason := _why_refused(path, about, names.get((about.st_dev, about.st_ino), [path])):
            yield Refused(parts, reason)
        else:
            changed, identity = datetime.fromtimestamp(about.st_mtime, UTC), (about.st_dev, about.st_ino)
            opener = _opener(folder, path.relative_to(folder).parts, identity)
            linked = identity if about.st_nlink > 1 else None
            yield from _or_its_files(File(parts, opener, changed, "the file's time", linked), 0)


def _names_of_linked(paths: list[Path]) -> dict[tuple[int, int], list[Path]]:
    """The paths of each file that has more than one name, by device and inode."""
    names: dict[tuple[int, int], list[Path]] = {}
    for path in paths:
        with contextlib.suppress(OSError):
            about = path.lstat()
            if stat.S_ISREG(about.st_mode) and about.st_nlink > 1:
                names.setdefault((about.st_dev, about.st_ino), []).append(path)
    return names


def _why_refused(path: Path, about: os.stat_result, names: list[Path]) -> str:
    """Why a hard link is not graded; empty for a file with one name, and for links that give no more than copies do.

    A file has one owner, whatever its names. Where folders belong to their students, the name in the owner's folder is
    the file, and the others are links. In a tree that has one owner nothing tells the first name from the second, so
    all are graded, each from its own bytes: nobody loses points by a link that somebody else made. A name outside the
    submissions may be a file that nobody submitted, such as a solution, so only its owner's folder may hold one.
    """
    if about.st_nlink == 1:
        return ""
    owners = [name for name in names if name.parent.lstat().st_uid == about.st_uid]
    if owners and path not in owners:
        return "it is a link to another user's file"
    is_students_own = path in owners and about.st_uid != os.geteuid()
    if len(names) < about.st_nlink and not is_students_own:
        return f"it is a link: the same file has {about.st_nlink} names, and not all are submissions"
    return ""


def _opener(folder: Path, parts: tuple[str, ...], known: tuple[int, int]) -> Callable[[], AbstractContextManager]:
    """Opens a file by its path below `folder`, step by step, and only if it is still the `known` one (device, inode):
    a replacement is not read."""

    @contextlib.contextmanager
    def opened() -> Iterator[BinaryIO]:
        at, place = -1, os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for part in parts[:-1]:
                place, above = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=place), place
                os.close(above)
            at = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
            about = os.fstat(at)
            if not stat.S_ISREG(about.st_mode) or (about.st_dev, about.st_ino) != known:
                raise Unreadable("it was replaced while submissions were collected")
        except OSError as problem:
            if at >= 0:
                os.close(at)
            raise Unreadable(f"it cannot be read: {problem.strerror}") from None
        except Unreadable:
            os.close(at)
            raise
        finally:
            os.close(place)
        with open(at, "rb") as file:
            yield file

    return opened


def _or_its_files(file: File, depth: int) -> Iterator[File | Refused]:
    """The file, or if it is a zip what is in it; `depth` counts the zips around it."""
    if not file.name.lower().endswith(".zip"):
        yield file
    elif depth >= MOST_DEPTH:
        yield Refused(file.parts, "its zips are nested too deeply")
    else:
        yield from _in_zip(lambda: _held(file), file.parts, depth + 1)


def _held(file: File) -> BinaryIO:
    """A file's bytes, in memory that is not this process's own."""
    held = os.fdopen(os.memfd_create("zip"), "w+b")
    for chunk in file.chunks():
        held.write(chunk)
    held.seek(0)
    return held


MOST_LISTING = 8 << 20
"""Bytes of a zip's list of contents: fifty thousand names."""


def _checked(archive: Path | BinaryIO) -> Path | BinaryIO:
    """A zip whose list of contents is short enough to be read. Raises Unreadable."""
    with open(archive, "rb") if isinstance(archive, Path) else contextlib.nullcontext(archive) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 65_557))  # the record at the end, before a comment of any length
        end = file.read()
        at = end.rfind(b"PK\5\6")
        listing = struct.unpack_from("<I", end, at + 12)[0] if 0 <= at <= len(end) - 22 else 0
        wide = at >= 20 and end[at - 20 : at - 16] == b"PK\6\7"  # zip64, which says the size elsewhere
        if listing > MOST_LISTING or wide and size < 1 << 32:
            raise Unreadable(f"its table of contents is longer than {_size(MOST_LISTING)}")
        file.seek(0)
    return archive


def _in_zip(source, above: tuple[str, ...], depth: int) -> Iterator[File | Refused]:
    """What is in the zip that `source()` gives as a path or a binary file; its entries' parts begin with `above`."""
    try:
        with zipfile.ZipFile(_checked(source())) as archive:
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
            yield Refused((*above, *(_short(p) for p in parts if p != "..")), reason)
            continue
        changed, clock = _changed(entry)
        read = _reader(source, entry.filename)
        yield from _or_its_files(File((*above, *parts), read, changed, clock), depth)


def _reader(source, name: str) -> Callable[[], AbstractContextManager[BinaryIO]]:
    @contextlib.contextmanager
    def opened() -> Iterator[BinaryIO]:
        with contextlib.ExitStack() as stack:
            try:
                archive = stack.enter_context(zipfile.ZipFile(source()))
                file = stack.enter_context(archive.open(name))
            except Unreadable:
                raise
            except Exception as problem:  # zipfile raises many kinds for what is no zip
                raise _damaged(problem) from None
            yield file

    return opened


def _chunk(file: BinaryIO) -> bytes:
    """The next bytes of a file, which may lie in a zip. Raises Unreadable."""
    try:
        return file.read(1 << 20)
    except Exception as problem:  # a compression that Python does not know, a broken LZMA stream …
        raise _damaged(problem) from None


def _damaged(problem: Exception) -> Unreadable:
    if isinstance(problem, (zipfile.BadZipFile, zlib.error, EOFError, OSError)):
        return Unreadable("it is damaged in the zip")
    return Unreadable(f"it cannot be unpacked ({type(problem).__name__})")


def _short(name: str) -> str:
    """A name with its ending, cut where it is too long for any file."""
    return name if len(name) <= LONGEST_NAME else f"{name[:100]}…{name[-100:]}"


def _size(count: int) -> str:
    return f"{count // 1_000_000} MB"


def _refusal(entry: zipfile.ZipInfo, name: str, parts: tuple[str, ...]) -> str:
    if max(map(len, parts)) > LONGEST_NAME:
        return f"its name is longer than {LONGEST_NAME} letters"
    if name.startswith(("/", "\\")) or ".." in parts or PureWindowsPath(name).drive:
        return "its path leads out of the zip"
    kind = stat.S_IFMT(entry.external_attr >> 16) if entry.create_system == 3 else 0  # 3: written on a Unix
    if stat.S_ISLNK(entry.external_attr >> 16):
        return "it is a link, and only files are graded"
    if kind not in (0, stat.S_IFREG):
        return "it is not a regular file"
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
