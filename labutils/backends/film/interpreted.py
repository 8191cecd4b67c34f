"""The film of a Triton launch: the interpreter runs one program after another, and each access is a tile."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import torch

from .. import errors
from ..access import Recorder
from .frames import MAX_BLOCKS, MAX_FRAMES, Film, FilmedArray, Frame

MOST_ELEMENTS = 1 << 20
"""Elements of all tiles together that a film keeps."""


class Enough(Exception):
    """The film is long enough, so that the rest of the call need not run."""


class Camera(Recorder):
    """A recorder that films the first launch. `begin` is called before each launch, as `recording` does it."""

    def __init__(self):
        super().__init__()
        self.frames: list[Frame] = []
        self.cut = self.ended = False
        self.kernel: Callable | None = None
        self._tensors: dict[str, torch.Tensor] = {}
        self._programs: set[int] = set()
        self._elements = 0

    def begin(self, kernel: Callable, args: tuple, kwargs: dict) -> None:
        if self.kernel is not None:
            self._stop(cut=False)
        self.kernel = kernel
        named = {**dict(zip(inspect.signature(kernel).parameters, args, strict=False)), **kwargs}
        self._tensors = {n: getattr(v, "base", v) for n, v in named.items()}
        self._tensors = {n: v for n, v in self._tensors.items() if isinstance(v, torch.Tensor)}
        for name, x in self._tensors.items():
            if x.numel() and not self.knows(x.data_ptr()):
                span = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
                self.track(name, x.data_ptr(), x.element_size(), np.ones(span, bool))

    def program(self, place, number) -> None:
        if number not in self._programs and len(self._programs) == MAX_BLOCKS:
            self._stop()
        self._programs.add(number)
        super().program(place, number)

    def load(self, addresses, mask, itemsize, where, volatile=False):
        ok = super().load(addresses, mask, itemsize, where, volatile)
        self._keep("load", addresses, ok, itemsize, where)
        return ok

    def store(self, addresses, mask, itemsize, where, changes=None):
        ok = super().store(addresses, mask, itemsize, where, changes)
        self._keep("store", addresses, ok, itemsize, where)
        return ok

    def atomic(self, addresses, mask, itemsize, where, semantics="acq_rel", unseen=frozenset()):
        ok = super().atomic(addresses, mask, itemsize, where, semantics, unseen)
        self._keep("atomic", addresses, ok, itemsize, where)
        return ok

    def meet(self) -> None:
        super().meet()
        line, _ = errors.calling_line()
        before = self.frames[-1] if self.frames else None
        if not before or (before.operation, before.block, before.line) != ("meet", self._program, line or 0):
            self._film(Frame(self._program, 0, line or 0, "meet", at=self._place))

    def _keep(self, operation: str, addresses: np.ndarray, ok: np.ndarray, itemsize: int, where: Callable) -> None:
        line, _ = where()
        mask = () if ok.all() else _lengths(ok.ravel())
        common = {"size": itemsize, "shape": addresses.shape, "mask": mask, "at": self._place}
        self._elements += ok.size
        found = False
        for t in self.arrays:
            here = addresses[ok & (addresses >= t.base) & (addresses < t.end)]
            if here.size:
                offsets = tuple((here - np.uint64(t.base)).astype(np.int64).tolist())
                self._film(Frame(self._program, 0, line or 0, operation, array=t.name, offsets=offsets, **common))
                found = True
        if not found:
            self._film(Frame(self._program, 0, line or 0, operation, **common))
        if len(self.frames) >= MAX_FRAMES or self._elements > MOST_ELEMENTS:
            self._stop()

    def _film(self, frame: Frame) -> None:
        self.frames.append(frame)

    def _stop(self, cut: bool = True) -> None:
        self.cut, self.ended = self.cut or cut, True
        raise Enough

    def film(self, messages: list[str]) -> Film:
        """What was filmed, with `messages` before what the recorder found."""
        lines, first = inspect.getsourcelines(self.kernel)
        arrays = {}
        for t in self.arrays:
            x = self._tensors.get(t.name)
            kind, shape = ("", ()) if x is None else (str(x.dtype).removeprefix("torch."), tuple(x.shape))
            arrays[t.name] = FilmedArray(t.end - t.base, t.itemsize, t.base % 128, kind, shape)
        messages = [*messages, *(f.sentence() for f in self.findings)]
        name, source = self.kernel.__name__, "".join(lines)
        grid = (max(1, self.grid), 1, 1)
        return Film(name, source, grid, 0, arrays, tuple(self.frames), tuple(messages), self.cut, first_line=first)


def _lengths(on: np.ndarray) -> tuple[int, ...]:
    """How many elements are on, then off, then on, and so on."""
    edges = np.flatnonzero(np.diff(on)) + 1
    lengths = np.diff([0, *edges.tolist(), on.size]).tolist()
    return tuple(lengths) if on[0] else (0, *lengths)
