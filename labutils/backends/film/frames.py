"""A film: what a launch did, step by step, in one form for CUDA C++ and for Triton."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

MAX_FRAMES, MAX_BLOCKS = 3000, 16
"""A longer film is cut: nobody steps through it, and its page would take long to load."""


class NotFilmed(RuntimeError):
    """There is no film; the message says why."""


@dataclass(frozen=True)
class FilmedArray:
    """An array in global memory: bytes, bytes of an element, the address modulo 128, PyTorch's name of its type, its
    shape."""

    bytes: int
    itemsize: int
    start: int = 0
    type: str = ""
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class SharedVariable:
    """A `__shared__` variable: where it begins in static shared memory, and the type of its elements."""

    name: str
    offset: int
    bytes: int
    type: str = ""


@dataclass(frozen=True)
class Mbarrier:
    """An mbarrier after a step: its phase, how many of its arrivals and which bytes the phase still lacks."""

    name: str
    phase: int
    pending: int
    arrivals: int
    bytes: int


@dataclass(frozen=True)
class Frame:
    """One step of one warp, or of one Triton program.

    `operation` is

    - "step": lanes come to a line;
    - "load", "store", "atomic": they access `array` there, at `offsets` in bytes, by active lane; `values` are the
      first four bytes of each, as far as they are known. Of a Triton program the tile has a `shape`, and `mask` gives
      how many of its elements are on, then off, then on, and so on (empty: all are on);
    - "meet": lanes exchange values or wait for each other, in a shuffle or `__syncwarp()`; of a Triton program, its
      threads do, in a reduction or a dot;
    - "sync": a warp comes to `__syncthreads()`; "barrier": all have come, and go on;
    - "wait": lanes begin to wait for `what`; "wake": the wait of the warps in `lanes` (a bit each) is over;
    - "make", "arrive": lanes initialize an mbarrier, or arrive there, expecting `size` more bytes;
    - "copy": the TMA is asked for the box of `shape` at (row, column) = `at` of `array`, for byte `to` of shared
      memory; "land": it has arrived; "put": the way back, from shared memory;
    - "products": `size` products of the four warps from `warp` on are complete.
    """

    block: int
    warp: int
    line: int
    operation: str
    lanes: int = 0
    array: str = ""
    size: int = 0
    offsets: tuple[int, ...] = ()
    values: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    mask: tuple[int, ...] = ()
    at: tuple[int, ...] = ()
    to: int = 0
    what: str = ""
    mbarrier: Mbarrier | None = None


@dataclass(frozen=True)
class Film:
    """A launch. Of Triton, `threads` is 0 and a block is a program. `first_line` is the number of the source's first
    line; `cut` says that more happened."""

    kernel: str
    source: str
    grid: tuple[int, int, int]
    threads: int
    arrays: dict[str, FilmedArray]
    frames: tuple[Frame, ...]
    messages: tuple[str, ...] = ()
    cut: bool = False
    shared: tuple[SharedVariable, ...] = ()
    first_line: int = 1

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Film:
        """The inverse of `to_json`, after a way through JSON text."""

        def frame(f: dict) -> Frame:
            barrier = f["mbarrier"] and Mbarrier(**f["mbarrier"])
            return Frame(**{k: tuple(v) if isinstance(v, list) else v for k, v in f.items()} | {"mbarrier": barrier})

        return Film(
            **data
            | {
                "grid": tuple(data["grid"]),
                "arrays": {n: FilmedArray(**a | {"shape": tuple(a["shape"])}) for n, a in data["arrays"].items()},
                "frames": tuple(frame(f) for f in data["frames"]),
                "messages": tuple(data["messages"]),
                "shared": tuple(SharedVariable(**s) for s in data["shared"]),
            }
        )
