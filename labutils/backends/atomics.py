"""Atomics of interpreted programs: what they leave as it is, what they have changed, and what they may see that is old.

The memory model lets an atomic that changes nothing see the value from before a change that nothing orders before
it. So the first by each program does (`Recorder.may_miss`): a program that reads a flag once and goes on in any case
is not ordered behind it, and one that reads a sum by one atomic and writes it by another loses what came between.
"""

from __future__ import annotations

import ctypes

import numpy as np

from .access import LANES, Recorder

SEMANTICS = {"RELAXED": "relaxed", "ACQUIRE": "acquire", "RELEASE": "release", "ACQUIRE_RELEASE": "acq_rel"}
WITHOUT_RESULT = {"acquire": "relaxed", "acq_rel": "release"}
"""What is left of an atomic's semantics if nobody looks at the value that it found: it might have come earlier."""

_WORDS = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}


def leaves_all(operation: str, values: np.ndarray) -> np.ndarray:
    """Lanes whose operation changes nothing, whatever is in memory: one adds 0, say."""
    name = operation.rpartition(".")[2]
    if name in ("ADD", "FADD", "OR", "XOR"):
        return values == 0
    if name == "AND":
        return values == -1 if values.dtype.kind == "i" else values == np.iinfo(values.dtype).max
    return np.zeros(values.shape, bool)


def _bits(address: int, size: int) -> int:
    return _WORDS[size].from_address(address).value


def old_values(recorder: Recorder, addresses, mask, quiet, size: int, expected=None) -> dict[int, int]:
    """The old bits that this atomic sees, by address. `quiet` lanes change nothing; nor do those of a compare-and-swap
    that find another value than `expected`."""
    found: dict[int, int] = {}
    if size not in _WORDS:
        return found
    wanted = None if expected is None else np.ascontiguousarray(expected).reshape(-1).view(f"u{size}")
    flat, quiet = addresses.reshape(-1), quiet.reshape(-1)
    for lane in np.flatnonzero(mask.reshape(-1))[:LANES].tolist():
        address = int(flat[lane])
        change = recorder.change(address)
        if change is None:
            continue
        misses = wanted is not None and int(wanted[lane]) not in (change.before, _bits(address, size))
        if (quiet[lane] or misses) and recorder.may_miss(change):
            found[address] = change.before
    return found


def note_changes(recorder: Recorder, addresses, ok, old, size: int, epoch: int) -> bool:
    """Keep what an atomic has changed, which found `old`; True if it has changed anything."""
    if size not in _WORDS:
        return True
    lanes = np.flatnonzero(ok.reshape(-1))
    if lanes.size > LANES:
        return True
    flat = addresses.reshape(-1)
    before = np.ascontiguousarray(np.broadcast_to(old, addresses.shape)).reshape(-1).view(f"u{size}")
    changed = False
    for lane in lanes.tolist():
        address = int(flat[lane])
        if _bits(address, size) != before[lane]:
            recorder.changed(address, int(before[lane]), epoch)
            changed = True
    return changed


def replaced(values: np.ndarray, addresses: np.ndarray, old: dict[int, int]) -> np.ndarray:
    """What an atomic gives back, with the old bits in place."""
    copy = np.array(np.broadcast_to(values, addresses.shape))
    bits, flat = copy.reshape(-1).view(f"u{copy.dtype.itemsize}"), addresses.reshape(-1)
    for lane in range(flat.size):
        if int(flat[lane]) in old:
            bits[lane] = old[int(flat[lane])]
    return copy
