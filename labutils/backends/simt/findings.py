"""What is wrong with a launch: one finding for each mistake, in the learner's terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

ADVICE = {
    "race": "Let one thread do it, give each thread its own element, or use an atomic.",
    "race-between-blocks": "Blocks run in any order and at once: let each write its own elements, use an atomic, or "
    "split the work into two launches.",
    "missing-syncthreads": "Put __syncthreads() between the two accesses.",
    "missing-syncwarp": "Put __syncwarp() between the two accesses: lanes of a warp need not run in step, and votes "
    "and shuffles do not order memory.",
    "out-of-bounds": "Guard the access with a test of the index against the array's length.",
    "misaligned": "A vector access needs an address that is a multiple of its size: check the element it starts at.",
    "read-only": "__ldg and ld.global.nc may bring what was there before the launch: read what the kernel itself "
    "writes by a plain load.",
    "uninitialized-shared": "Shared memory starts with garbage: write every element that is read, also those past the "
    "end of the data.",
    "barrier-divergence": "A barrier must be reached by all threads of the block at the same place: move it out of the "
    "branch, and guard the work instead of returning early.",
    "returned": "A barrier waits for the threads that have not returned, and on GPUs before Volta for all: guard the "
    "work instead of returning early, so that all threads reach it.",
    "deadlock": "Let every lane that the mask names reach the call: move it out of the branch, or name only the lanes "
    "that come. At an mbarrier count the arrivals and bytes of a phase, and follow its parity.",
    "shuffle-mask": "The mask must name the calling lane and exactly the lanes that make the same call.",
    "undefined": "Name every lane in the mask whose value is used, and let it make the same call.",
    "endless-loop": "Check that the loop's condition changes and comes to an end for every thread.",
    "stack-overflow": "Recursion is too deep, or local arrays are too large.",
    "crash": "Check divisors and pointers.",
    "assert": "A condition does not hold that your code asserts, or that a function requires which it calls.",
    "missing-wait": "Copies and products only start where they are called: wait for what you need, and let nobody "
    "overwrite a tile before all have waited for the products that read it.",
    "needs-gpu": "Put a __syncthreads() where the block can have one, or check the kernel on a GPU.",
    "missing-fence": "An engine sees what a thread wrote only after a fence by that thread: fence_async() after plain "
    "stores to shared memory, mbarrier_fence() after mbarrier_init, wgmma_fence() before the first wgmma of a batch.",
}

VERBS = ("reads", "writes", "updates")
STATIC, DYNAMIC, NONE = 254, 255, 0xFFFFFFFF


@dataclass(frozen=True)
class Finding:
    """A mistake: where, by whom, on which element, and what to try.

    `line` and `other_line` are the learner's (0: unknown). `thread` and `other_thread` are (x, y, z). `index` is the
    element of `array`; None where there is none. `fatal` findings ended the launch. `count` is how often it was seen.
    A `note` is a mistake in an exercise only: GPUs of today do what is meant.
    """

    kind: str
    line: int
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    message: str
    advice: str
    array: str = ""
    index: int | None = None
    other_line: int = 0
    other_thread: tuple[int, int, int] | None = None
    other_block: tuple[int, int, int] | None = None
    fatal: bool = False
    count: int = 1
    note: bool = False

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{self.kind}: {where}{self.message}. {self.advice}"


@dataclass(frozen=True)
class Element:
    """An element of an array, named as the learner would: `tile[3][32]`."""

    text: str
    array: str
    index: int | None


@dataclass(frozen=True)
class Context:
    """What is needed to name things: lines, coordinates, elements."""

    line_of: Mapping[int, int]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    element: Callable[[int, int, int], Element]
    nearest: Callable[[int, int], Element]
    indexed: Callable[[int, int], Element]

    def place(self, number: int, sizes: tuple[int, int, int]) -> tuple[int, int, int]:
        x, y, _ = sizes
        return number % x, number // x % y, number // (x * y)


def _short(place: tuple[int, int, int]) -> str:
    return str(place[0]) if not any(place[1:]) else "(" + ",".join(map(str, place)) + ")"


def translate(raw: list[dict], context: Context) -> list[Finding]:
    """The runtime's findings as ours, first those of the first block."""
    found = [_one(f, context) for f in raw]
    return sorted(_settle(found), key=lambda f: (f.block[::-1], not f.fatal, f.line, f.kind))


def _one(f: dict, c: Context) -> Finding:
    line = f["line"] or c.line_of.get(f["pc"], 0)
    other_line = c.line_of.get(f["other_pc"], 0) if f["other_pc"] else 0
    block, thread = c.place(f["block"], c.grid), c.place(f["thread"], c.block)
    who = f"block {_short(block)}, thread {_short(thread)}"
    base = Finding(f["kind"], line, block, thread, "", ADVICE.get(f["kind"], ""), fatal=f["fatal"], count=f["count"],
                   other_line=other_line)  # fmt: skip
    if f["other_thread"] != NONE:
        base = replace(base, other_thread=c.place(f["other_thread"], c.block))
    if f["other_block"] != NONE:
        base = replace(base, other_block=c.place(f["other_block"], c.grid))
    return _MESSAGES[f["kind"]](f, c, base, who)


def _race(f: dict, c: Context, base: Finding, who: str) -> Finding:
    element = c.element(f["array"], f["offset"], f["size"])
    scope, relation = chr(f["scope"]), chr(f["relation"])
    if relation in "nc":
        return _read_only(f, base, who, element)
    if scope == "g":
        other = f"thread {_short(base.other_thread)} of block {_short(base.other_block)}"
        kind, advice = "race", ADVICE["race-between-blocks"]
        between = "nothing orders the two blocks"
    else:
        other = f"thread {_short(base.other_thread)}"
        kind = "missing-syncwarp" if scope == "w" else "missing-syncthreads"
        advice, between = ADVICE[kind], f"with no __{kind[8:]}() in between"
    if relation == "w" and base.line == base.other_line:
        kind, advice = "race", advice if scope == "g" else ADVICE["race"]
        between = "so that one of the two values may be lost"
    verb, did = {
        "r": ("reads", "wrote"),
        "w": (VERBS[f["op"]], "wrote"),
        "o": ("overwrites", "read"),
    }[relation]
    at = f" (line {base.other_line})" if base.other_line and base.other_line != base.line else ""
    by = f"{other} wrote" if did == "wrote" else f"{other} read"
    message = f"{who} {verb} {element.text}, which {by}{at}, {between}"
    return replace(base, kind=kind, advice=advice, message=message, array=element.array, index=element.index)


def _read_only(f: dict, base: Finding, who: str, element: Element) -> Finding:
    """Of a location that the launch writes and reads by a load of read-only data."""
    at = f" (line {base.other_line})" if base.other_line and base.other_line != base.line else ""
    if chr(f["relation"]) == "n":
        block = f" of block {_short(base.other_block)}" if base.other_block not in (None, base.block) else ""
        message = f"{who} reads {element.text} by __ldg, which thread {_short(base.other_thread)}{block} wrote{at}"
    else:
        message = f"{who} {VERBS[f['op']]} {element.text}, which the same launch reads by __ldg{at}"
    return replace(base, kind="race", advice=ADVICE["read-only"], message=message, array=element.array,
                   index=element.index)  # fmt: skip


def _out_of_bounds(f: dict, c: Context, base: Finding, who: str) -> Finding:
    if f["relation"] == ord("i"):  # an index that the compiler checked
        signed = f["offset"] - (1 << 64) if f["offset"] >= 1 << 63 else f["offset"]
        kind, column = f["detail"].rsplit("@", 1)
        element = c.indexed(base.line, int(column))
        array = element.array or "the array"
        message = f"{who} uses index {signed} of {array}, which is outside {kind}"
        return replace(base, message=message, array=element.array, index=signed)
    element = c.nearest(f["address"], f["size"])
    message = f"{who} {VERBS[f['op']]} {element.text}"
    return replace(base, message=message, array=element.array, index=element.index)


def _misaligned(f: dict, c: Context, base: Finding, who: str) -> Finding:
    element = c.nearest(f["address"], f["size"])
    name = f"{element.array}[{element.index}]" if element.index is not None else element.text
    message = f"{who} {VERBS[f['op']]} {f['size']} bytes from {name} on, which is not a multiple of {f['size']} bytes"
    return replace(base, message=message, array=element.array, index=element.index)


def _uninitialized(f: dict, c: Context, base: Finding, who: str) -> Finding:
    element = c.element(f["array"], f["offset"], f["size"])
    message = f"{who} reads {element.text}, which no thread of the block has written"
    return replace(base, message=message, array=element.array, index=element.index)


def _barrier(f: dict, c: Context, base: Finding, who: str) -> Finding:
    if f["detail"] == "not cooperative":
        message = f"{who} calls grid.sync() in a launch that is not cooperative"
        return replace(base, message=message, advice="Launch the kernel as a cooperative one.")
    if f["detail"] == "returned":
        message = f"block {_short(base.block)}: some threads had returned before this barrier"
        return replace(base, message=message, advice=ADVICE["returned"], note=True)
    other = _short(base.other_thread)
    message = f"{who} waits at this barrier, but thread {other} at the one in line {base.other_line}"
    return replace(base, message=message)


def _shuffle(f: dict, c: Context, base: Finding, who: str) -> Finding:
    if f["detail"] != "undefined":
        return replace(base, message=f"{who}: {f['detail']}")
    lane, mask = f["address"], f["offset"]
    why = f"which the block does not have or which has returned (mask {mask:#010x})"
    if not mask >> lane & 1:
        why = f"which the shuffle's mask {mask:#010x} does not name"
    at = f" (line {base.other_line})" if base.other_line and base.other_line != base.line else ""
    message = f"{who} stores{at} what this shuffle brought from lane {lane}, {why}: such a value is undefined"
    return replace(base, message=message, advice=ADVICE["undefined"])


def _detailed(before: str) -> Callable[[dict, Context, Finding, str], Finding]:
    def message(f: dict, c: Context, base: Finding, who: str) -> Finding:
        return replace(base, message=before.format(who=who, block=_short(base.block), detail=f["detail"]))

    return message


_MESSAGES = {
    "race": _race,
    "out-of-bounds": _out_of_bounds,
    "misaligned": _misaligned,
    "uninitialized-shared": _uninitialized,
    "barrier-divergence": _barrier,
    "deadlock": _detailed("block {block} cannot go on: {detail}"),
    "shuffle-mask": _shuffle,
    "endless-loop": _detailed("{who} had not come to an end when the time limit was reached"),
    "stack-overflow": _detailed("{who} has used up its stack"),
    "crash": _detailed("{who} {detail}"),
    "assert": _detailed("{who}: {detail} failed"),
    "missing-wait": _detailed("{who}: {detail}"),
    "missing-fence": _detailed("{who}: {detail}"),
    "needs-gpu": _detailed("block {block}: {detail}"),
}


def _settle(found: list[Finding]) -> list[Finding]:
    """One mistake, one finding: a lost update shows as a race of two writes and as reads between them; an access that
    races between blocks may also race within one."""
    lost = {(f.line, f.array) for f in found if f.kind == "race"}
    unordered = {(line, f.array) for f in found if f.kind.startswith("missing-sync") for line in (f.line, f.other_line)}
    wide = {(f.line, f.other_line, f.array) for f in found if f.kind == "missing-syncthreads"}
    kept: dict[tuple, Finding] = {}
    for f in found:
        if f.kind == "missing-syncwarp" and (f.line, f.other_line, f.array) in wide:
            continue  # the larger barrier does for both
        if f.kind == "uninitialized-shared" and (f.line, f.array) in unordered:
            continue  # read too early, that is: the store is still to come
        if (
            f.kind.startswith("missing-sync")
            and {(f.line, f.array), (f.other_line, f.array)} & lost
            and (f.line == f.other_line)
        ):
            continue
        key = (f.kind, f.array, *sorted((f.line, f.other_line or f.line)))
        if f.kind not in ("race", "missing-syncthreads", "missing-syncwarp"):
            key = (*key, f.message)
        old = kept.get(key)
        kept[key] = f if old is None else replace(old, count=old.count + f.count)
    return list(kept.values())
