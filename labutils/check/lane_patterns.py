"""Where the lanes of one request go, in words: the distance between neighbors, the banks that they share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ..gpu.device import SECTOR

BANKS, WORD = 32, 4
"""Banks of shared memory, and bytes of a word of one."""


def cost(array: str, size: int, base: int, offsets: Sequence[int]) -> int:
    """Sectors of global memory that a request touches, or the most words that a bank of shared memory must deliver."""
    if array != "shared":
        return len({p for o in offsets for p in range((base + o) // SECTOR, (base + o + size - 1) // SECTOR + 1)})
    return max(map(len, _banks(offsets).values()), default=0)


def _banks(offsets: Sequence[int]) -> dict[int, set[int]]:
    banks: dict[int, set[int]] = defaultdict(set)
    for o in offsets:
        banks[o // WORD % BANKS].add(o // WORD)
    return banks


def numbers(lanes: int) -> list[int]:
    """The lanes of a mask."""
    return [k for k in range(32) if lanes >> k & 1]


def listed(lanes: Sequence[int]) -> str:
    """Lanes in words: all of a few, else the first and "…"."""
    shown = ", ".join(map(str, lanes[:4]))
    return shown if len(lanes) <= 4 else f"{shown}, …"


def stride(offsets: Sequence[int]) -> int | None:
    """The one distance in bytes between neighbors, or None."""
    steps = {b - a for a, b in zip(offsets, offsets[1:], strict=False)}
    return steps.pop() if len(steps) == 1 else None


def of_memory(mask: int, base: int, offsets: Sequence[int], size: int) -> str:
    """Why a request to global memory touches so many sectors."""
    lanes, step = numbers(mask), stride(offsets)
    if len(offsets) < 2:
        return "One lane alone makes that request. Try: let all lanes of a warp take part in one request."
    if step == size:
        return (
            f"Its lanes are contiguous, but the first begins {(base + offsets[0]) % SECTOR} bytes into a sector. "
            f"Try: start each warp at a multiple of {SECTOR} bytes."
        )
    apart = offsets[1] - offsets[0] if step is None else step
    elements = apart // size if apart % size == 0 else apart / size
    who = "Neighboring lanes" if step is not None else f"Lanes {lanes[0]} and {lanes[1]}"
    where = f"{who} are {abs(apart):,} bytes apart there ({abs(elements):,} elements of {size} bytes)"
    if abs(apart) <= 4 * SECTOR and step is not None:
        return f"{where}. Try: let lane k take element k, not element {abs(elements):g}·k, and go on by whole warps."
    if step is None and abs(apart) <= size:
        jumps = [k for k in range(1, len(offsets)) if offsets[k] - offsets[k - 1] != apart]
        k = jumps[0]
        return (
            f"Lane {lanes[k]} is {abs(offsets[k] - offsets[k - 1]):,} bytes from lane {lanes[k - 1]}. Try: let 32 "
            "neighboring lanes go along one row."
        )
    return (
        f"{where}. Try: exchange the roles of the indices, so that threadIdx.x is added to the index without a factor "
        "and selects the last dimension of the array."
    )


def of_banks(mask: int, offsets: Sequence[int], size: int) -> str:
    """Which lanes of a request meet in one bank of shared memory."""
    lanes, banks = numbers(mask), _banks(offsets)
    bank, words = max(banks.items(), key=lambda item: len(item[1]))
    together = [lane for lane, o in zip(lanes, offsets, strict=True) if o // WORD % BANKS == bank]
    meet = f"lanes {listed(together)} go to {len(words)} different words of bank {bank}"
    step = stride(offsets)
    if len(words) < 2:
        return ""
    if step is not None and step % WORD == 0:
        apart = abs(step) // WORD
        return (
            f"Neighboring lanes are {apart} words apart ({apart} mod {BANKS} = {apart % BANKS}), so they use "
            f"{len(banks)} of {BANKS} banks: {meet}. Try: let neighboring lanes take neighboring words; where they "
            "go along a column, make the distance odd by one more word in each row (the last dimension), or swizzle."
        )
    return (
        f"There {meet}, and {len(banks)} of {BANKS} banks are used. Try: let the column differ for each of these "
        f"lanes, e.g. an XOR with all {(BANKS - 1).bit_length()} low bits of the row."
    )


def of_width(size: int, lanes: float) -> str:
    """Why a request moves few bytes."""
    if lanes < 31 or size >= 16:
        return f"On average {lanes:.3g} of 32 lanes take part. Try: let whole warps access, and the rest apart."
    return f"Try: access {16 // size} neighboring elements at a time, as one vector of 16 bytes."


def split(mask: int) -> bool:
    """Is only a part of a warp's lanes on?"""
    return 0 < mask < 0xFFFFFFFF


def of_mask(mask: int) -> str:
    """Which lanes of a warp go another way than the others."""
    on, off = numbers(mask), numbers(~mask & 0xFFFFFFFF)
    goes = f"Lanes {listed(on)} of a warp go" if len(on) > 1 else f"Lane {on[0]} of a warp goes"
    return (
        f"{goes} on without lanes {listed(off)}. Try: make the condition the same for all 32 lanes of a warp: let it "
        "depend on the warp (threadIdx.x / 32) or the block, not on the lane."
    )
