"""Sanitized notebooks until they are recorded. They wait on disk: engines that take all jobs at once have a whole class
waiting."""

from __future__ import annotations

import contextlib
import tempfile
import zlib
from pathlib import Path


class Waiting:
    """Texts by student, in a file without a name in `folder`. One that finds no room is forgotten, and
    made again when it is needed."""

    def __init__(self, folder: Path):
        self._folder, self._file, self._places = folder, None, {}

    def put(self, student: str, text: str) -> None:
        with contextlib.suppress(OSError):
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 (it lives as long as this)
            content = zlib.compress(text.encode(), 1)
            at = self._file.seek(0, 2)
            self._file.write(content)
            self._file.flush()
            self._places[student] = at, len(content)

    def get(self, student: str) -> str | None:
        if student not in self._places:
            return None
        at, length = self._places[student]
        self._file.seek(at)
        return zlib.decompress(self._file.read(length)).decode()

    def drop(self, student: str) -> None:
        if self._places.pop(student, None) and not self._places:
            self._file.truncate(0)
