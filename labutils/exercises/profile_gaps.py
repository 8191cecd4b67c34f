"""Unit 25: the gaps in a timeline, and what the GPU waited for in them.

An event is (begin, end, engine, name, correlation), times in µs, engine "kernel", "copy" or "host". A host's event is a
call that queues work or waits for it; a kernel or copy has the correlation of the call that queued it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ..spec.exercise import Case, PlainExercise, Points, register

UNIT = "25_profile"

Event = tuple[float, float, str, str, int]
Timeline = Sequence[Event]
Waited = dict[str, float]
Gap = tuple[float, float, Event]
"""(begin, end, the kernel that ends it)"""

STORED = Path(__file__).with_name("timelines_h200.json")

CAUSES = ("copy", "sync", "launch", "start")


# --- the reference, in pieces that a common mistake replaces ----------------------------------------------------------


def of(timeline: Timeline, *engines: str) -> list[Event]:
    """The events of some engines, by begin."""
    return sorted(e for e in timeline if e[2] in engines)


def idle_gaps(timeline: Timeline) -> list[Gap]:
    """Each time without a kernel, from the first kernel's begin to the last one's end."""
    found, free = [], None
    for kernel in of(timeline, "kernel"):
        if free is not None and kernel[0] > free:
            found.append((free, kernel[0], kernel))
        free = kernel[1] if free is None else max(free, kernel[1])
    return found


def copying(timeline: Timeline, begin: float, end: float) -> float:
    """µs between `begin` and `end` in which at least one copy runs."""
    total, free = 0.0, begin
    for first, last, *_ in of(timeline, "copy"):
        if min(last, end) > max(first, free):
            total += min(last, end) - max(first, free)
            free = min(last, end)
    return total


def synchronized(timeline: Timeline, gap: Gap) -> bool:
    """Does a synchronization end in this gap?"""
    return any(gap[0] < e[1] < gap[1] and "Synchronize" in e[3] for e in of(timeline, "host"))


def launched_late(timeline: Timeline, gap: Gap) -> bool:
    """Does the call that queued the gap's kernel end after the gap began?"""
    return any(e[4] == gap[2][4] and e[1] > gap[0] for e in of(timeline, "host"))


def account(timeline: Timeline, find=idle_gaps, copied=copying, sync=synchronized, late=launched_late) -> Waited:
    """µs without a kernel, by what the GPU waited for. The arguments after the first are the steps."""
    waited = dict.fromkeys(CAUSES, 0.0)
    for gap in find(timeline):
        copy = copied(timeline, gap[0], gap[1])
        cause = "sync" if sync(timeline, gap) else "launch" if late(timeline, gap) else "start"
        waited["copy"] += copy
        waited[cause] += gap[1] - gap[0] - copy
    return waited


# --- common mistakes --------------------------------------------------------------------------------------------------


def _neighbors(timeline: Timeline) -> list[Gap]:
    """Gaps between each kernel and the next, also where an earlier kernel still runs."""
    kernels = of(timeline, "kernel")
    return [(a[1], b[0], b) for a, b in zip(kernels, kernels[1:], strict=False) if b[0] > a[1]]


def _overlaps_counted(timeline: Timeline) -> list[Gap]:
    """As _neighbors, with negative gaps where kernels overlap."""
    kernels = of(timeline, "kernel")
    return [(a[1], b[0], b) for a, b in zip(kernels, kernels[1:], strict=False)]


def _of_gpu(timeline: Timeline) -> list[Gap]:
    """Gaps in which neither a kernel nor a copy runs."""
    return idle_gaps([(*e[:2], "kernel" if e[2] == "copy" else e[2], *e[3:]) for e in timeline])


def _from_the_start(timeline: Timeline) -> list[Gap]:
    """With the time before the first kernel."""
    kernels = of(timeline, "kernel")
    begin = min((e[0] for e in timeline), default=0.0)
    return [(begin, kernels[0][0], kernels[0]), *idle_gaps(timeline)] if kernels else []


def _copies_summed(timeline: Timeline, begin: float, end: float) -> float:
    """Copies that overlap each other count twice."""
    return sum(max(0.0, min(e[1], end) - max(e[0], begin)) for e in of(timeline, "copy"))


def _whole_copies(timeline: Timeline, begin: float, end: float) -> float:
    """The whole of each copy that overlaps the gap."""
    return sum(e[1] - e[0] for e in of(timeline, "copy") if e[0] < end and e[1] > begin)


def _all_or_nothing(timeline: Timeline, begin: float, end: float) -> float:
    return end - begin if copying(timeline, begin, end) > 0 else 0.0


def _sync_overlaps(timeline: Timeline, gap: Gap) -> bool:
    return any(e[0] < gap[1] and e[1] > gap[0] and "Synchronize" in e[3] for e in of(timeline, "host"))


def _sync_begins(timeline: Timeline, gap: Gap) -> bool:
    return any(gap[0] < e[0] < gap[1] and "Synchronize" in e[3] for e in of(timeline, "host"))


def _any_call(timeline: Timeline, gap: Gap) -> bool:
    return any(gap[0] < e[1] < gap[1] for e in of(timeline, "host"))


def _late_begin(timeline: Timeline, gap: Gap) -> bool:
    return any(e[4] == gap[2][4] and e[0] > gap[0] for e in of(timeline, "host"))


RULE = "Look for the call with the kernel's own correlation, and compare its end with the begin of the gap."
MISTAKES = (
    (
        {"find": _neighbors},
        "A long kernel may still run when a shorter one, which began later, has ended: keep the largest "
        "end so far, and start a gap there.",
    ),
    (
        {"find": _overlaps_counted},
        "Kernels on different streams overlap. A kernel that begins before the others have ended "
        "leaves no gap, and no negative one either.",
    ),
    ({"find": _of_gpu}, "A copy is no kernel: the time in which only copies run belongs to a gap, as 'copy'."),
    ({"find": _from_the_start}, "Count from the begin of the first kernel: what precedes it is no gap."),
    ({"copied": _copies_summed}, "Two copies may run at the same time. Count such a time once."),
    (
        {"copied": _whole_copies},
        "A copy may begin before the gap or end after it. Count only the time inside the gap.",
    ),
    ({"copied": _all_or_nothing}, "Only the time in which a copy runs is 'copy'. The rest has another cause."),
    ({"copied": lambda *_: 0.0}, "The time in which a copy runs is 'copy', not the gap's other cause."),
    ({"sync": _sync_overlaps}, "The host may wait in a gap for longer. Only a call that ends inside the gap counts."),
    ({"sync": _sync_begins}, "A synchronization delays the host until it ends: compare its end with the gap."),
    ({"sync": lambda *_: False}, "If a synchronization ends inside the gap, the host could not launch before: 'sync'."),
    ({"late": _any_call}, f"Calls for later kernels end inside the gap, too. {RULE}"),
    ({"late": _late_begin}, f"A call that began before the gap can end inside it. {RULE}"),
    ({"late": lambda *_: True}, f"Some kernels were queued in time, and their start took the GPU a moment. {RULE}"),
    ({"late": lambda *_: False}, f"Some kernels were launched too late. {RULE}"),
)  # fmt: skip
"""Steps that replace those of `account`, and the sentence that explains the mistake."""


def _same(a: Waited, b: Waited) -> bool:
    return all(abs(a[c] - b[c]) <= 1e-3 + 1e-6 * abs(b[c]) for c in CAUSES)


def _numbers(yours) -> Waited | None:
    """The dict with numbers, or None."""
    try:
        return {c: float(yours[c]) for c in CAUSES} if len(yours) == len(CAUSES) else None
    except (TypeError, KeyError, ValueError, IndexError):
        return None


def _examine(sizes, arguments, yours) -> tuple[str, str] | None:
    timeline = arguments["timeline"]
    right, found = account(timeline), _numbers(yours)
    if found is None:
        return (
            f"gaps returned {str(yours)[:50]}",
            "Return a dict with the keys 'copy', 'sync', 'launch' and 'start', and times in µs.",
        )
    if _same(found, right):
        return None
    cause = next(c for c in CAUSES if not _same({**right, c: found[c]}, right))
    hint = next((text for steps, text in MISTAKES if _same(found, account(timeline, **steps))), None)
    if hint is None and _same({c: found[c] * 1000 for c in CAUSES}, right):
        hint = "The times are in µs already."
    if hint is None and abs(sum(found.values()) - sum(right.values())) > 1e-3:
        hint = (
            f"All gaps together are {sum(right.values()):.6g} µs, and yours {sum(found.values()):.6g} µs. First "
            "find the gaps, without causes."
        )
    return f"{cause}: {found[cause]:.6g} µs, expected {right[cause]:.6g}", hint or (
        "The gaps are right together. For each gap: first the time in which a copy runs, then the rest, as one cause."
    )


# --- cases ------------------------------------------------------------------------------------------------------------


def drawn_timeline(seed: int) -> list[Event]:
    """A random program: launches on two streams, copies on a third, synchronizations."""
    rng = random.Random(seed)
    events: list[Event] = []
    host, free, copied = 0.0, [0.0, 0.0], 0.0

    def call(name: str, us: float, number: int) -> float:
        nonlocal host
        events.append((round(host, 1), round(host + us, 1), "host", name, number))
        host += us
        return host

    for number in range(1, rng.randrange(12, 40)):
        kind = rng.choices(["kernel", "second", "copy", "item", "wait"], [10, 4, 3, 2, 1])[0]
        if kind in ("kernel", "second"):
            stream = kind == "second"
            queued = call("cudaLaunchKernel", rng.randrange(20, 90) / 10, number)
            begin = max(queued + 0.8, free[stream] + 1.1, copied if not stream else 0.0)
            free[stream] = begin + rng.choice([15, 40, 120, 400]) * rng.randrange(5, 15) / 100
            events.append((round(begin, 1), round(free[stream], 1), "kernel", rng.choice("abc") + "_kernel", number))
        elif kind == "copy":
            queued = call("cudaMemcpyAsync", rng.randrange(30, 60) / 10, number)
            begin = max(queued + 0.9, copied - rng.choice([0.0, 8.0]))
            copied = max(copied, begin + rng.randrange(20, 600) / 10)
            events.append((round(begin, 1), round(copied, 1), "copy", "Memcpy HtoD", number))
        elif kind == "item":
            queued = call("cudaMemcpyAsync", 4.0, number)
            begin = max(queued + 0.9, free[0] + 1.0)
            events.append((round(begin, 1), round(begin + 1.4, 1), "copy", "Memcpy DtoH", number))
            call("cudaStreamSynchronize", max(1.0, begin + 3.2 - host), -number)
            free[0] = max(free[0], begin + 1.4)
        else:
            call("cudaDeviceSynchronize", max(1.0, max(*free, copied) + 1.3 - host), -number)
        host += rng.randrange(0, 60) / 10
    return sorted(events)


@cache
def stored() -> dict[str, list[Event]]:
    """Timelines of steps on an H200 by name (`python -m bench.timelines`)."""
    kept = json.loads(STORED.read_text(encoding="utf-8"))["timelines"]
    return {t["name"]: [tuple(event) for event in t["events"]] for t in kept}


def _script(*events: tuple) -> list[Event]:
    """Events as (engine, begin, end, correlation[, name])."""
    names = {"kernel": "kernel", "copy": "Memcpy HtoD", "host": "cudaLaunchKernel"}
    return sorted((float(b), float(e), engine, (*name, names[engine])[0], n) for engine, b, e, n, *name in events)


SCRIPTS: tuple[tuple[str, list[Event]], ...] = (
    ("two kernels, the second one launched late", _script(
        ("host", 0, 7, 1), ("kernel", 8, 10, 1), ("host", 9, 16, 2), ("kernel", 17, 27, 2))),
    ("two kernels, queued in time", _script(
        ("host", 0, 7, 1), ("host", 7, 14, 2), ("kernel", 8, 40, 1), ("kernel", 41, 50, 2))),
    ("three kernels on two streams", _script(
        ("host", 0, 7, 1), ("host", 7, 14, 2), ("host", 14, 21, 3), ("kernel", 8, 60, 1), ("kernel", 15, 30, 2),
        ("kernel", 62, 70, 3))),
    ("a copy between two kernels", _script(
        ("host", 0, 7, 1), ("host", 7, 11, 2, "cudaMemcpyAsync"), ("host", 11, 18, 3), ("kernel", 8, 20, 1),
        ("copy", 16, 50, 2), ("kernel", 52, 60, 3))),
    ("the host reads a result", _script(
        ("host", 0, 7, 1), ("kernel", 8, 30, 1), ("host", 7, 11, 2, "cudaMemcpyAsync"),
        ("copy", 31, 33, 2, "Memcpy DtoH"), ("host", 11, 36, 3, "cudaStreamSynchronize"), ("host", 41, 48, 4),
        ("kernel", 49, 55, 4))),
    ("no kernel at all", _script(("host", 0, 4, 1, "cudaMemcpyAsync"), ("copy", 5, 90, 1))),
)  # fmt: skip


PUBLIC = ("eager, small", "compiled, small", "item after each layer")
"""Stored timelines that learners see in the check; the others are hidden cases."""


def _arguments(script: int, stored_step: int, seed: int) -> dict:
    """One of SCRIPTS; or, where they are not 0, a stored timeline (from 1 on) or a drawn one."""
    if stored_step:
        return {"timeline": list(stored().values())[stored_step - 1]}
    return {"timeline": drawn_timeline(seed) if seed else SCRIPTS[script][1]}


def _sizes(script: int = 0, stored_step: int = 0, seed: int = 0) -> dict[str, int]:
    return {"script": script, "stored_step": stored_step, "seed": seed}


def _draw(rng) -> dict[str, int]:
    """Two of three are drawn programs, the others stored steps that learners do not see."""
    hidden = [k for k, name in enumerate(stored(), 1) if name not in PUBLIC]
    drawn = _sizes(seed=rng.randrange(1, 10**6))
    return _sizes(stored_step=rng.choice(hidden)) if hidden and rng.randrange(3) == 0 else drawn


register(
    PlainExercise(
        id=f"{UNIT}/gaps",
        title="Gaps in a timeline",
        entry="gaps",
        points=Points(correct=2),
        make=_arguments,
        examine=_examine,
        cases=(
            *(Case(name, _sizes(script=k)) for k, (name, _) in enumerate(SCRIPTS)),
            *(Case(f"H200: {name}", _sizes(stored_step=k)) for k, name in enumerate(stored(), 1) if name in PUBLIC),
            *(Case(f"a drawn program ({seed})", _sizes(seed=seed)) for seed in (80, 115)),
        ),
        draw=_draw,
    )
)
