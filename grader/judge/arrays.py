"""The arrays of runs in memory that the judge shares with a sandbox or a runner: copied there, and back."""

from __future__ import annotations

from collections.abc import Hashable

import torch

from grader.judge.sandbox import Memory
from labutils.spec.inputs import Buffer, Run

ALIGNMENT = 256
"""Bytes: where arrays may begin in the shared memory, as on a GPU."""


def size_of(buffer: Buffer) -> int:
    """Bytes of an array with its guards."""
    return buffer.storage.numel() * buffer.storage.element_size()


class Placed:
    """Runs whose arrays have each a place in `memory`, behind what lies there already; `runs` by any key."""

    def __init__(self, memory: Memory, runs: dict[Hashable, Run]):
        self._memory, self.runs = memory, runs
        self._at: dict[tuple[Hashable, str], int] = {}
        size = 0
        for key, run in runs.items():
            for name, buffer in run.buffers.items():
                self._at[key, name] = size
                size += -(-size_of(buffer) // ALIGNMENT) * ALIGNMENT
        begin = memory.extend(size)
        self._at = {at: begin + offset for at, offset in self._at.items()}

    def at(self, key: Hashable, name: str) -> int:
        """Byte at which an array begins."""
        return self._at[key, name]

    def put(self) -> None:
        """Copy every array into the shared memory."""
        for theirs, ours in self._pairs():
            theirs.copy_(ours)

    def adopt(self) -> None:
        """From now on the runs' arrays, plain ones without guards, are those in the shared memory."""
        for (key, name), offset in self._at.items():
            buffer = self.runs[key].buffers[name]
            if count := buffer.view.numel():
                flat = torch.frombuffer(self._memory.bytes, dtype=buffer.view.dtype, count=count, offset=offset)
                buffer.storage, buffer.view = flat, flat.view(buffer.view.shape)

    def take(self) -> None:
        """Copy the arrays back."""
        for theirs, ours in self._pairs():
            ours.copy_(theirs)

    def for_runner(self, key: Hashable) -> list[dict]:
        """The arguments of a run as the runner reads them: where the bytes lie, and which of them are outputs."""
        run, payload = self.runs[key], []
        for name in run.exercise.arguments:
            if name in run.numbers:
                payload.append({"number": run.numbers[name]})
            else:
                b = run.buffers[name]
                payload.append({"at": self.at(key, name), "bytes": size_of(b), "output": b.is_output})
        return payload

    def _pairs(self):
        for (key, name), offset in self._at.items():
            buffer = self.runs[key].buffers[name]
            if size_of(buffer):
                ours = buffer.storage.view(torch.uint8)
                yield torch.frombuffer(self._memory.bytes, dtype=torch.uint8, count=ours.numel(), offset=offset), ours
