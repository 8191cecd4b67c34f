"""Does every operation of a plan wait for what it needs? A happens-before check on buffers, independent of timing.

Two operations are ordered if they are in one stream, or a wait for an event stands between them, or the host waited
between the two calls. A plan may give right results on one GPU and wrong ones on the next: what is not ordered here
is refused, however the simulated times fall. (The relation is Lamport's, Communications of the ACM 21(7), 1978.)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .queue_times import Task, Timeline, Work, simulate
from .queues import WORK, pieces_of, read

NO_TIME = Work()
NAMES = {"copy_in": "copy-in", "kernel": "kernel", "copy_out": "copy-out"}


@dataclass
class Order:
    """The tasks of a plan, and for each the set (bits of an int) of tasks that are done before it starts."""

    plan: list[tuple]
    tasks: list[Task]
    before: list[int]
    host: int
    """The tasks that are known to be done when the plan ends."""

    def is_before(self, first: Task, second: Task) -> bool:
        return bool(self.before[second.number] >> first.number & 1)

    def find(self, verb: str, piece: int) -> Task:
        return next(t for t in self.tasks if t.verb == verb and t.piece == piece)


def order_of(plan: list[tuple], timeline: Timeline) -> Order:
    before: list[int] = []
    host, queued, joined = 0, 0, 0
    for task in timeline.tasks:
        if any(operation[0] == "synchronize" for operation in plan[joined : task.call]):
            host |= queued
        joined = max(joined, task.call)
        known = host
        for k in task.after:
            known |= before[k] | 1 << k
        before.append(known)
        queued |= 1 << task.number
        if task.blocking:
            host |= known | 1 << task.number
    if any(operation[0] == "synchronize" for operation in plan[joined:]):
        host |= queued
    return Order(plan, timeline.tasks, before, host)


def problem_of(plan, pieces: int, slots: int = 2, timeline: Timeline | None = None) -> tuple[str, str] | None:
    """What is wrong with a plan that moves `pieces` through copy-in, kernel and copy-out, and what to try; or None.

    Raises BadPlan where it is no plan.
    """
    operations = read(plan, slots)
    if problem := _incomplete(operations, pieces):
        return problem
    order = order_of(operations, timeline or simulate(plan, NO_TIME, slots=slots))
    for piece in range(pieces):
        if problem := _unordered(order, piece):
            return problem
    for piece in range(pieces):
        for first, second in (("copy_in", "kernel"), ("kernel", "copy_out")):
            if problem := _overwritten(order, first, second, piece):
                return problem
    for piece in range(pieces):
        if not order.host >> order.find("copy_out", piece).number & 1:
            return (
                f"the function returns while the copy-out of piece {piece} may still run",
                "The caller reads the results next: synchronize once, at the end.",
            )
    return None


def _incomplete(plan: list[tuple], pieces: int) -> tuple[str, str] | None:
    if any(operation[0] in ("capture", "replay") for operation in plan):
        return "the plan captures a graph", "Queue the pieces directly; graphs come in the next section."
    for verb in WORK:
        seen = Counter(pieces_of(plan, verb))
        if odd := [p for p in (*range(pieces), *seen) if seen[p] != 1 or not 0 <= p < pieces]:
            count = "never" if not seen[odd[0]] else f"{seen[odd[0]]} times"
            return (
                f"the {NAMES[verb]} of piece {odd[0]} is queued {count}; pieces are 0 to {pieces - 1}",
                "Queue copy-in, kernel and copy-out once for each piece.",
            )
    return None


def _unordered(order: Order, piece: int) -> tuple[str, str] | None:
    """Copy-in before kernel before copy-out, in one slot."""
    for first, second in (("copy_in", "kernel"), ("kernel", "copy_out")):
        a, b = order.find(first, piece), order.find(second, piece)
        if a.slot != b.slot:
            return (
                f"the {NAMES[first]} of piece {piece} uses slot {a.slot}, its {NAMES[second]} slot {b.slot}",
                "Use the same slot for all three steps of a piece.",
            )
        if not order.is_before(a, b):
            found = f"the {NAMES[second]} of piece {piece} does not wait for its {NAMES[first]}"
            return found, _missing_wait(order, a, b)
    return None


def _overwritten(order: Order, writes: str, reads: str, piece: int) -> tuple[str, str] | None:
    """Is the data that `writes` stored for this piece still in the slot's buffer when `reads` reads it?"""
    mine, reader = order.find(writes, piece), order.find(reads, piece)
    for other in order.tasks:
        if other.verb != writes or other.slot != mine.slot or other is mine:
            continue
        if order.is_before(reader, other) or order.is_before(other, mine):
            continue
        where = f"the {'input' if writes == 'copy_in' else 'output'} buffer of slot {mine.slot}"
        late, early = (other, reader) if other.call > reader.call else (reader, other)
        message = (
            f"overwritten: the {NAMES[other.verb]} of piece {other.piece} may write {where} while the "
            f"{NAMES[reads]} of piece {piece} still needs piece {piece} there"
        )
        if len({o[2] for o in order.plan if o[0] == writes}) == 1:
            return message, f"Every piece uses slot {mine.slot}. Use both: piece i uses slot i % 2."
        if early is other:
            return message, "It is queued in between. Queue the pieces in order, and make each wait for its slot."
        return message, _missing_wait(order, reader, late)
    return None


def _missing_wait(order: Order, first: Task, second: Task) -> str:
    """How `second` should have waited, in its stream, for `first`."""
    events = {o[1]: (index, o[2]) for index, o in enumerate(order.plan) if o[0] == "record"}
    waits = [(i, events[o[2]]) for i, o in enumerate(order.plan) if o[0] == "wait" and o[1] == second.stream]
    earlier = [i for i, o in enumerate(order.plan[: second.call]) if o[0] in WORK and o[3] == second.stream]
    fresh = [event for i, event in waits if max(earlier, default=-1) < i < second.call]
    what, then = f"the {NAMES[first.verb]} of piece {first.piece}", f"the {NAMES[second.verb]}"
    if any(stream == second.stream for _, stream in fresh):
        return (
            f"Stream {second.stream} waits for an event that was recorded in stream {second.stream} itself, the wrong "
            f"stream: a stream is always in order with itself. Record it in stream {first.stream}, after {what}."
        )
    if any(stream == first.stream and index < first.call for index, stream in fresh):
        return f"The event of stream {first.stream} that stream {second.stream} waits for was recorded before {what}."
    if any(i > second.call and _covers(order, event, first) and event[0] < second.call for i, event in waits):
        return f"Stream {second.stream} waits for that event only after {then} is queued: wait first."
    return (
        f"Stream {second.stream} does not wait for stream {first.stream} here: record an event after {what}, and "
        f"make stream {second.stream} wait for it before {then}."
    )


def _covers(order: Order, record: tuple[int, int], task: Task) -> bool:
    """Is an event recorded at (call, stream) after the task and before the next work of that stream? A later event is
    meant for later work."""
    index, stream = record
    between = order.plan[task.call + 1 : index]
    return stream == task.stream and index > task.call and not any(o[0] in WORK and o[3] == stream for o in between)
