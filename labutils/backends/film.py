"""The film of a small launch: what every warp did, request by request, in the order in which the emulator ran it.

The emulator writes each request of a checked launch to a file, if it is given one (runtime/stream.cpp). A block is
launched at a time, so that each request's block is known.
"""

from __future__ import annotations

import math
import struct
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

import torch

from .. import cuda
from . import child, emulator

MAX_FRAMES, MAX_BLOCKS = 3000, 16
"""A longer film is cut: nobody steps through it, and its page would take long to load."""

TIME_LIMIT = 20.0

_RECORD = struct.Struct("<IIBBBBB3x")
_OPERATIONS = {0: "load", 1: "store", 2: "atomic", 3: "step"}
_COPIED = 16
"""Flag of a load that goes to shared memory: where to follows the offsets."""
_HAPPENING, _BEGIN, _END = 16, 64, 65
_BARRIER = _HAPPENING
_ARRAY_BYTES, _HEAD_BYTES = 16, 8
_SHARED = (254, 255)
"""In place of an array's number: static and dynamic shared memory."""


class NotFilmed(RuntimeError):
    """There is no film; the message says why."""


@dataclass(frozen=True)
class Frame:
    """One step of one warp: lanes that come to a line ("step"), or that access memory there at `offsets` in bytes, by
    active lane; or a barrier that all warps of the block have reached. `array` is "shared" for shared memory."""

    block: int
    warp: int
    line: int
    operation: str
    lanes: int
    array: str = ""
    size: int = 0
    offsets: tuple[int, ...] = ()


@dataclass(frozen=True)
class Film:
    """A launch. `arrays` gives bytes, bytes of an element, and the address modulo 128 by name; `cut` says that more
    happened."""

    kernel: str
    source: str
    grid: tuple[int, int, int]
    threads: int
    arrays: dict[str, tuple[int, int, int]]
    frames: tuple[Frame, ...]
    messages: tuple[str, ...] = ()
    cut: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def film(fn: Callable, *arguments) -> Film:
    """Call `fn(*arguments)` on copies of the tensors, in a child process, and film its first CUDA C++ launch.

    Raises NotFilmed.
    """
    shared: dict[tuple, torch.Tensor] = {}
    copies = tuple(emulator.copied(a, shared) for a in arguments)
    result = next(child.fork([lambda: _filmed(fn, copies)], TIME_LIMIT))
    if isinstance(result, str):
        raise NotFilmed(child.end(result).message)
    if "failed" in result:
        raise NotFilmed(result["failed"])
    frames = tuple(Frame(**{**f, "offsets": tuple(f["offsets"])}) for f in result.pop("frames"))
    arrays = {name: tuple(sizes) for name, sizes in result.pop("arrays").items()}
    result |= {"grid": tuple(result["grid"]), "messages": tuple(result["messages"])}
    return Film(**result, arrays=arrays, frames=frames)


def _filmed(fn: Callable, arguments: tuple) -> dict:
    """In the child."""
    films: list[Film] = []

    def launch(kernel: cuda.Kernel, grid, block, shared: int, values: tuple) -> None:
        if not films:
            films.append(_launched(kernel, grid, block, shared, values))

    with cuda.redirected(launch):
        attempt = child.attempt(fn, arguments)
    if not films:
        return {"failed": attempt.problem.message if attempt.problem else "the call launches no CUDA C++ kernel"}
    return films[0].to_json()


def _launched(kernel: cuda.Kernel, grid, block, shared: int, values: tuple) -> Film:
    frames: list[Frame] = []
    messages: list[str] = []
    arrays: dict[str, tuple[int, int, int]] = {}
    blocks = math.prod(grid) // kernel.cluster
    done = 0
    for number in range(min(blocks, MAX_BLOCKS)):
        with tempfile.TemporaryFile() as file:
            seen = emulator.one_block(kernel, grid, block, shared, values, number, file.fileno())
            file.seek(0)
            arrays = {name: (a.elements * a.itemsize, a.itemsize, a.address % 128) for name, a in seen.arrays.items()}
            raw = list(_records(file, list(arrays)))
        lines = seen.lines({pc for pc, *_ in raw})
        frames += [Frame(number, warp, lines.get(pc, 0), *rest) for pc, warp, *rest in raw]
        messages += seen.messages
        done += 1
        if len(frames) > MAX_FRAMES or seen.messages:
            break
    cut = done < blocks or len(frames) > MAX_FRAMES
    threads, kept = block[0] * block[1] * block[2] * kernel.cluster, tuple(frames[:MAX_FRAMES])
    return Film(kernel.name, kernel.module.source, tuple(grid), threads, arrays, kept, tuple(messages), cut)


def _records(file: BinaryIO, names: list[str]) -> Iterator[tuple]:
    """(pc, warp, operation, lanes, array, bytes, offsets) of each request, and each barrier."""
    while head := file.read(_RECORD.size):
        pc, lanes, kind, array, size, flags, warp = _RECORD.unpack(head)
        if kind == _BEGIN:
            file.read(_HEAD_BYTES + _ARRAY_BYTES * lanes)
        elif kind == _BARRIER:
            yield 0, 0, "barrier", 0
        elif kind in _OPERATIONS:
            count = 0 if kind == 3 else lanes.bit_count()
            data = file.read(4 * count * (2 if flags & _COPIED else 1))
            offsets = struct.unpack(f"<{count}I", data[: 4 * count])
            name = "shared" if array in _SHARED else names[array] if array < len(names) else "a __device__ variable"
            yield pc, warp, _OPERATIONS[kind], lanes, "" if kind == 3 else name, 0 if kind == 3 else size, offsets


def launch_records(file: BinaryIO, names: list[list[str]]) -> Iterator[tuple]:
    """(launch, pc, operation, lanes, array, bytes, address of the array, offsets) of each request and step of several
    launches. `names` are each launch's arrays; shared memory has address 0."""
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
            name = names[launch][array] if known else "shared" if array in _SHARED else ""
            yield launch, pc, _OPERATIONS[kind], lanes, name, size, lows[array] if known else 0, offsets
