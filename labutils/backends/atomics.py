"""Atomics of interpreted programs: what they leave as it is, what they have changed, and what they may see that is old.

The memory model lets an atomic that changes nothing see the value from before a change that nothing orders before
it. So the first by each program does (`Recorder.may_miss`): a program that reads a flag once and goes on in any case
is not ordered behind it, and one that reads a sum by one atomic and writes it by another loses what came between.

An atomic that changes something may come before a change that nothing orders before it, too, if that change used
nothing that it found: both are done in the other order then (`overtaken`). So a program that counts while it waits for
a count is not ordered behind those who make it true.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from .access import LANES, Change, Recorder

SEMANTICS = {"RELAXED": "relaxed", "ACQUIRE": "acquire", "RELEASE": "release", "ACQUIRE_RELEASE": "acq_rel"}
WITHOUT_RESULT = {"acquire": "relaxed", "acq_rel": "release"}
"""What is left of an atomic's semantics if nobody looks at the value that it found: it might have come earlier."""

OVERTAKEN = 3
"""How often a program's atomics that change something may come before one change: enough to end a wait by counting."""

_OPERATIONS = {
    "ADD": np.add, "AND": np.bitwise_and, "OR": np.bitwise_or, "XOR": np.bitwise_xor, "MAX": np.maximum,
    "UMAX": np.maximum, "MIN": np.minimum, "UMIN": np.minimum, "XCHG": lambda old, new: new,
}  # fmt: skip

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


def repeated(operation: str, value: np.ndarray) -> Callable[[int], int] | None:
    """The operation of an atomic on one integer, from bits to bits: it can be done once more, to other bits."""
    value = np.asarray(value)
    change = _OPERATIONS.get(operation.rpartition(".")[2])
    if change is None or value.size != 1 or value.dtype.kind not in "iu":
        return None
    operand, unsigned = value.reshape(-1), f"u{value.dtype.itemsize}"

    def again(bits: int) -> int:
        old = np.array([bits], unsigned).view(operand.dtype)
        return int(np.asarray(change(old, operand), operand.dtype).view(unsigned)[0])

    return again


def overtaken(recorder: Recorder, addresses, mask, quiet, size: int) -> Change | None:
    """The change before which this atomic on one variable may come, although it changes something itself."""
    if addresses.size != 1 or size not in _WORDS or not mask.all() or quiet.all():
        return None
    change = recorder.change(address := addresses.item())
    if change is None or change.again is None or change.again(change.before) != _bits(address, size):
        return None
    return change if recorder.may_miss(change, OVERTAKEN) else None


def overtake(change: Change, address: int, size: int, run: Callable[[], object]) -> tuple[object, bool]:
    """Do an atomic by `run` before a change, which is done after it: the result, and whether it changed anything."""
    word = _WORDS[size].from_address(address)
    before = word.value = change.before
    result = run()
    change.before = word.value
    word.value = change.again(change.before)
    return result, change.before != before


def note_changes(recorder: Recorder, addresses, ok, old, size: int, epoch: int, again: Callable | None = None) -> bool:
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
            recorder.changed(address, int(before[lane]), epoch, again)
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
