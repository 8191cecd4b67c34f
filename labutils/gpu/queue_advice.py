"""Why a plan is slower than necessary: one sentence for its author, the most important cause first."""

from __future__ import annotations

from .queue_order import NAMES
from .queue_times import Task, Timeline
from .queues import WORK


def why_slow(plan: list[tuple], timeline: Timeline) -> str:
    """Why the engines of a correct but slow plan do not overlap."""
    verbs = [operation[0] for operation in plan]
    work = [k for k, verb in enumerate(verbs) if verb in WORK]
    if "pin" not in verbs[: work[0]]:
        return (
            "Host memory is pageable, so each copy blocked the host until it was done, and took twice as long: call "
            "machine.pin() once, before the first copy."
        )
    if "synchronize" in verbs[: work[-1]]:
        return (
            "synchronize() is called between pieces, so the host waits and queues nothing. Let streams wait for "
            "events; the host should wait once, at the end."
        )
    streams = {verb: {o[3] for o in plan if o[0] == verb} for verb in WORK}
    used = set().union(*streams.values())
    if len(used) == 1:
        return "One stream is one queue: 3·n steps in sequence instead of n + 2. Use one stream per engine."
    if all(len(s) == len(used) for s in streams.values()):
        return (
            "Each piece runs all three steps in one stream, so a copy-in also waits for the previous copy-out in that "
            "stream, although it needs only the kernel that reads its buffer. Use one stream per engine."
        )
    return _needless_wait(timeline) or "Some engine idles: look for the first gap in the timeline of your plan."


def _needless_wait(timeline: Timeline) -> str | None:
    """The first operation that waits unnecessarily."""
    done: dict[str, float] = {}
    reads: dict[tuple[str, int], Task] = {}
    at = {(t.verb, t.piece): t for t in timeline.tasks}
    for task in timeline.tasks:
        if task.verb not in WORK:
            continue
        needs = [at[before, task.piece] for before in _before(task.verb)]
        needs += [reads[key] for key in _clears(task) if key in reads]
        could = max([task.issued, done.get(task.engine, 0.0), *(t.end for t in needs)])
        if task.start > could + 1e-6:
            cause = _waited_for(timeline.tasks, task)
            told = f"for the {NAMES[cause.verb]} of piece {cause.piece}" if cause else "for another stream"
            return (
                f"The {NAMES[task.verb]} of piece {task.piece} could begin at {could:.0f} µs, but waits until "
                f"{task.start:.0f} µs {told}, which it does not need: remove or move a wait, or separate two "
                "engines that share a stream."
            )
        done[task.engine] = max(done.get(task.engine, 0.0), task.end)
        if task.verb != "copy_in":
            reads[task.verb, task.slot] = task
    return None


def _before(verb: str) -> tuple[str, ...]:
    return {"copy_in": (), "kernel": ("copy_in",), "copy_out": ("kernel",)}[verb]


def _clears(task: Task) -> list[tuple[str, int]]:
    """Who reads the buffer that this task overwrites."""
    return {"copy_in": [("kernel", task.slot)], "kernel": [("copy_out", task.slot)], "copy_out": []}[task.verb]


def _waited_for(tasks: list[Task], task: Task) -> Task | None:
    """The work whose end let this task begin."""
    todo = list(task.after)
    while todo:
        other = tasks[todo.pop()]
        if other.end < task.start - 1e-6:
            continue
        if other.verb in WORK:
            return other
        todo += other.after
    return None
