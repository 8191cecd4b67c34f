"""The students of a class, one after another. Those of a large class are packed until somebody looks at one: their
verdicts would fill the memory."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grader.marks.results import Graded

UNPACKED = 200
"""Students who are kept as they are. What is changed in one of the others is lost: change it before it is put in."""


class Students(Sequence["Graded"]):
    def __init__(
        self, students: Iterable[Graded], key: Callable[[str], object] | None = None, unpacked: int = UNPACKED
    ):
        """`key`: of a student's name, orders the students; without it they stay in their order."""
        named = []
        for student in students:
            named.append((student.student, student if len(named) < unpacked else _pack(student)))
        if key is not None:
            named.sort(key=lambda one: key(one[0]))
        self._students = [student for _, student in named]

    def __len__(self) -> int:
        return len(self._students)

    def __iter__(self) -> Iterator[Graded]:
        return map(_unpack, self._students)

    def __getitem__(self, at):
        if isinstance(at, slice):
            return [_unpack(student) for student in self._students[at]]
        return _unpack(self._students[at])


def _pack(student: Graded) -> bytes:
    return zlib.compress(json.dumps(student.to_json()).encode(), 1)


def _unpack(student: Graded | bytes) -> Graded:
    if not isinstance(student, bytes):
        return student
    from grader.marks.results import Graded

    return Graded.from_json(json.loads(zlib.decompress(student)))
