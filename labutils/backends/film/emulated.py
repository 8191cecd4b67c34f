"""The film of a CUDA C++ launch: the emulator runs it a block at a time, so that each request's block is known."""

from __future__ import annotations

import math
import re
import tempfile

import torch

from ... import cuda
from ...cuda.tensor_map import TensorMap
from .. import emulator
from . import stream
from .frames import MAX_BLOCKS, MAX_FRAMES, Film, FilmedArray, Frame, Mbarrier, SharedVariable

WAITS = {1: "an mbarrier", 2: "a named barrier", 3: "the blocks of its cluster", 4: "its products"}
"""`Awaits` of simt/runtime/hopper.cpp."""


def launched(kernel: cuda.Kernel, grid, block, shared: int, values: tuple) -> Film:
    """Run the launch and film it. Call this in a child."""
    frames: list[Frame] = []
    messages: list[str] = []
    reader = None
    blocks, done = math.prod(grid) // kernel.cluster, 0
    for number in range(min(blocks, MAX_BLOCKS)):
        with tempfile.TemporaryFile() as file:
            seen = emulator.one_block(kernel, grid, block, shared, values, number, file.fileno())
            file.seek(0)
            reader = _Reader(kernel, values, seen, number)
            frames += reader.frames(list(stream.film_records(file)))
        messages += seen.messages
        done += 1
        if len(frames) > MAX_FRAMES or seen.messages:
            break
    return Film(
        kernel.name,
        kernel.module.source,
        tuple(grid),
        math.prod(block) * kernel.cluster,
        reader.arrays,
        tuple(frames[:MAX_FRAMES]),
        tuple(messages),
        done < blocks or len(frames) > MAX_FRAMES,
        reader.shared,
    )


class _Reader:
    """Makes frames of what the emulator wrote of one block."""

    def __init__(self, kernel: cuda.Kernel, values: tuple, seen: emulator.OneBlock, block: int):
        self.block, self.seen = block, seen
        self.names = list(seen.arrays)
        given = dict(zip((p.name for p in kernel.signature.parameters), values, strict=True))
        self.maps = {n: v for n, v in given.items() if isinstance(v, TensorMap)}
        tensors = {n: v.tensor if isinstance(v, TensorMap) else v for n, v in given.items()}
        self.arrays = {n: _described(v) for n, v in tensors.items() if isinstance(v, torch.Tensor)}
        plain = kernel.name.split("<")[0].split("::")[-1].strip()
        own = [v for v in seen.shared if f"{len(plain)}{plain}" in v.function] or seen.shared
        self.low = min((v.offset for v in own), default=0) // 128 * 128
        self.shared = tuple(
            SharedVariable(v.name, v.offset - self.low, v.size, _type_of(v.name, kernel.module.source)) for v in own
        )

    def frames(self, records: list) -> list[Frame]:
        lines = self.seen.lines({r.pc for r in records if r.pc})
        made: list[Frame] = []
        for record in records:
            line = lines.get(record.pc, 0)
            frame = self._request(record, line) if isinstance(record, stream.Request) else self._note(record, line)
            before = made[-1] if made else None
            if before and before.operation == "step" and _same_place(before, frame):
                made.pop()  # coming to a line is no step of its own if something happens there
            elif (
                before
                and before.operation == frame.operation == "wake"
                and before.mbarrier == frame.mbarrier
                and (before.what == frame.what)
            ):
                frame = Frame(**vars(made.pop()) | {"lanes": before.lanes | frame.lanes})
            made.append(frame)
        return made

    def _request(self, r: stream.Request, line: int) -> Frame:
        if r.operation == "step":
            return Frame(self.block, r.warp, line, "step", r.lanes)
        name, offsets = "a __device__ variable", r.offsets
        if r.array == stream.STATIC:
            name, offsets = "shared", tuple(o - self.low for o in offsets)
        elif r.array == stream.DYNAMIC:
            name = "dynamic shared"
        elif r.array < len(self.names):
            name = self.names[r.array]
        return Frame(self.block, r.warp, line, r.operation, r.lanes, name, r.size, offsets, r.values or ())

    def _note(self, n: stream.Note, line: int) -> Frame:
        barrier = None
        if n.barrier is not None:
            barrier = Mbarrier(self._name(n.barrier), n.phase, n.pending, n.arrivals, n.bytes)
        common = {"mbarrier": barrier}
        if n.operation in ("copy", "land", "put"):
            return Frame(self.block, n.warp, line, n.operation, n.lanes, **common, **self._box(n))
        if n.operation == "wake":
            return Frame(self.block, n.warp, line, "wake", 1 << n.warp, what=WAITS.get(n.detail, ""), **common)
        if n.operation == "wait":
            what = barrier.name if barrier else WAITS.get(n.detail, "")
            return Frame(self.block, n.warp, line, "wait", n.lanes, at=(n.amount & 1,), what=what, **common)
        size = n.amount if n.operation in ("arrive", "products") else 0
        return Frame(self.block, n.warp, line, n.operation, n.lanes, size=size, **common)

    def _box(self, n: stream.Note) -> dict:
        """A box of a matrix: the part inside the matrix, a run of bytes for each row."""
        rows, columns = n.detail >> 16, n.detail & 0xFFFF
        here = ((k, m.tensor) for k, m in self.maps.items() if m.tensor.data_ptr() == n.memory)
        name, matrix = next(here, ("", None))
        offsets, size = (), 0
        if matrix is not None:
            item = matrix.element_size()
            first, last = max(n.column, 0), min(n.column + columns, matrix.shape[1])
            size = max(0, last - first) * item
            inside = range(max(n.row, 0), min(n.row + rows, matrix.shape[0])) if size else ()
            offsets = tuple((r * matrix.stride(0) + first) * item for r in inside)
        to = stream.offset(n.shared) - (0 if stream.is_dynamic(n.shared) else self.low)
        place = {"shape": (rows, columns), "at": (n.row, n.column), "to": to}
        return {"array": name, "size": size, "offsets": offsets, **place}

    def _name(self, place: int) -> str:
        """What the source calls an mbarrier."""
        at = stream.offset(place)
        if stream.is_dynamic(place):
            return f"mbarrier at byte {at}"
        for v in self.shared:
            if v.offset <= at - self.low < v.offset + v.bytes:
                return v.name if v.bytes == 8 else f"{v.name}[{(at - self.low - v.offset) // 8}]"
        return f"mbarrier at byte {at - self.low}"


def _same_place(before: Frame, now: Frame) -> bool:
    same = (before.block, before.warp, before.line) == (now.block, now.warp, now.line)
    return same and (before.lanes == now.lanes or now.operation == "step")


def _described(x: torch.Tensor) -> FilmedArray:
    span = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True)) if x.numel() else 0
    kind = str(x.dtype).removeprefix("torch.")
    return FilmedArray(span * x.element_size(), x.element_size(), x.data_ptr() % 128, kind, tuple(x.shape))


def _type_of(name: str, source: str) -> str:
    """The type with which the source declares a shared variable."""
    found = re.search(rf"__shared__\s+(?:__align__\(\w+\)\s*)?(\w+(?:\s+int)?)[^;]*?\b{re.escape(name)}\b", source)
    return found[1] if found else ""
