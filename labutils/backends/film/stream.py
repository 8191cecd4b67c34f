"""What the emulator writes of a launch (simt/runtime/stream.cpp, film.cpp), read record by record."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

_RECORD = struct.Struct("<IIBBBBB3x")
_NOTE = struct.Struct("<QQqIIIiiIIIB7x")
_OPERATIONS = {0: "load", 1: "store", 2: "atomic", 3: "step"}
NOTES = ("make", "arrive", "wait", "wake", "copy", "land", "put", "products", "sync", "meet")
"""By number: `NoteKind` in stream.cpp."""
_PIECE, _COPIED = 8, 16
"""Flags: a piece of a struct, whose value is not followed; a load that goes to shared memory, where to follows the
offsets."""
_BARRIER, _BEGIN, _NOTED = 16, 64, 128
_ARRAY_BYTES, _HEAD_BYTES = 16, 8
STATIC, DYNAMIC = 254, 255
"""In place of an array's number: static and dynamic shared memory."""
_ELSEWHERE = 1 << 32
"""From here on, a place in shared memory is one in dynamic shared memory."""


@dataclass(frozen=True)
class Request:
    """Lanes of a warp that come to a line ("step") or access memory there; `values` are None where they are unknown."""

    pc: int
    warp: int
    operation: str
    lanes: int
    array: int
    size: int
    offsets: tuple[int, ...]
    values: tuple[int, ...] | None


@dataclass(frozen=True)
class Note:
    """What happens at barriers and in the asynchronous engines; one of `NOTES`, or "barrier". `barrier` is its place in
    static or, from 2**32 on, in dynamic shared memory; None: there is none."""

    pc: int
    warp: int
    operation: str
    lanes: int
    barrier: int | None = None
    memory: int = 0
    bytes: int = 0
    phase: int = 0
    pending: int = 0
    arrivals: int = 0
    row: int = 0
    column: int = 0
    shared: int = 0
    amount: int = 0
    detail: int = 0


def is_dynamic(place: int) -> bool:
    return place >= _ELSEWHERE


def offset(place: int) -> int:
    return place % _ELSEWHERE


def film_records(file: BinaryIO) -> Iterator[Request | Note]:
    """Each request, note and barrier of one filmed launch."""
    while head := file.read(_RECORD.size):
        pc, lanes, kind, array, size, flags, warp = _RECORD.unpack(head)
        if kind == _BEGIN:
            file.read(_HEAD_BYTES + _ARRAY_BYTES * lanes)
        elif kind == _BARRIER:
            yield Note(0, 0, "barrier", 0)
        elif kind >= _NOTED:
            barrier, *rest, _ = _NOTE.unpack(file.read(_NOTE.size))
            yield Note(pc, warp, NOTES[kind - _NOTED], lanes, barrier - 1 if barrier else None, *rest)
        elif kind == 3:
            yield Request(pc, warp, "step", lanes, 0, 0, (), None)
        elif kind in _OPERATIONS:
            count = lanes.bit_count()
            data = struct.unpack(f"<{count}I", file.read(4 * count))
            file.read(4 * count if flags & _COPIED else 0)
            values = struct.unpack(f"<{count}I", file.read(4 * count))
            known = kind == 0 or (kind == 1 and not flags & _PIECE)
            yield Request(pc, warp, _OPERATIONS[kind], lanes, array, size, data, values if known else None)


def launch_records(file: BinaryIO, names: list[list[str]]) -> Iterator[tuple]:
    """(launch, pc, operation, lanes, array, bytes, address of the array, offsets) of each request and step of several
    launches that are no films. `names` are each launch's arrays; shared memory has address 0."""
    launch, lows = -1, []
    while head := file.read(_RECORD.size):
        pc, lanes, kind, array, size, flags, _ = _RECORD.unpack(head)
        if kind == _BEGIN:
            launch, data = launch + 1, file.read(_HEAD_BYTES + _ARRAY_BYTES * lanes)
            lows = [low for low, _ in struct.iter_unpack("<QQ", data[_HEAD_BYTES:])]
        elif kind in _OPERATIONS:
            count = 0 if kind == 3 else lanes.bit_count()
            data = file.read(4 * count * (2 if flags & _COPIED else 1))
            offsets = struct.unpack(f"<{count}I", data[: 4 * count])
            known = array < len(names[launch]) and kind != 3
            name = names[launch][array] if known else "shared" if array in (STATIC, DYNAMIC) else ""
            yield launch, pc, _OPERATIONS[kind], lanes, name, size, lows[array] if known else 0, offsets
