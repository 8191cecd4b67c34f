"""A pipeline of stages as data: for each stage the order of its passes, and what that order takes and holds.

A schedule is a list for each stage of ("F", microbatch) and ("B", microbatch). Stage s runs its passes in this order.
A forward pass needs the same microbatch's forward pass on stage s − 1, a backward pass the backward pass on stage s + 1
and the forward pass on its own stage. Between stages, a result takes `send` ms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

Schedule = Sequence[Sequence[tuple[str, int]]]

NAMES = {"F": "forward", "B": "backward"}
MOST_PASSES = 20_000


class BadSchedule(ValueError):
    """What is wrong with a schedule, in a sentence for its author."""


class Pass(NamedTuple):
    stage: int
    kind: str
    microbatch: int
    start: float
    end: float


class Timeline(NamedTuple):
    """Finished passes in the order of their ends, and for each stage that cannot go on the stage it waits for."""

    passes: list[Pass]
    stuck: dict[int, int]

    @property
    def finish(self) -> float:
        return max((p.end for p in self.passes), default=0.0)

    def idle(self, stage: int) -> float:
        """ms from 0 to the end of the last pass of all in which this stage does nothing."""
        return self.finish - sum(p.end - p.start for p in self.passes if p.stage == stage)


def read(schedule, stages: int) -> list[list[tuple[str, int]]]:
    """The schedule as tuples. Raises BadSchedule."""
    if not isinstance(schedule, (list, tuple)) or not all(isinstance(s, (list, tuple)) for s in schedule):
        raise BadSchedule("a schedule is a list for each stage of (kind, microbatch)")
    if len(schedule) != stages:
        raise BadSchedule(f"the schedule has {len(schedule)} stages, expected {stages}")
    if sum(map(len, schedule)) > MOST_PASSES:
        raise BadSchedule(f"the schedule has more than {MOST_PASSES} passes")
    for stage, passes in enumerate(schedule):
        for entry in passes:
            whole = isinstance(entry, (list, tuple)) and len(entry) == 2 and type(entry[1]) is int
            if not whole or entry[0] not in ("F", "B"):
                raise BadSchedule(f'stage {stage} has {str(entry)[:40]}, which is not ("F" or "B", microbatch)')
    return [[(kind, microbatch) for kind, microbatch in passes] for passes in schedule]


def missing(schedule: Schedule, microbatches: int) -> str | None:
    """The first pass that is not there exactly once, in a sentence, or None."""
    for stage, passes in enumerate(schedule):
        seen = Counter(passes)
        for wanted in [(kind, m) for m in range(microbatches) for kind in "FB"]:
            if seen[wanted] != 1:
                count = "is missing" if not seen[wanted] else f"is there {seen[wanted]} times"
                return f"stage {stage}: the {NAMES[wanted[0]]} pass of microbatch {wanted[1]} {count}"
        if len(passes) > 2 * microbatches:
            other = next(p for p in passes if not 0 <= p[1] < microbatches)
            return f"stage {stage}: microbatch {other[1]} does not exist; they are 0 to {microbatches - 1}"
    return None


def simulate(schedule: Schedule, forward: Sequence[float], backward: Sequence[float], send: float = 0.0) -> Timeline:
    """Run each stage's passes in order, each as soon as what it needs has arrived."""
    last = len(schedule) - 1
    done: dict[tuple[int, str, int], Pass] = {}
    at, clock = [0] * len(schedule), [0.0] * len(schedule)
    moving = True
    while moving:
        moving = False
        for stage, passes in enumerate(schedule):
            while at[stage] < len(passes):
                kind, microbatch = passes[at[stage]]
                needed = needs(stage, kind, microbatch, last)
                if any(n not in done for n in needed):
                    break
                ready = max((done[n].end + send * (n[0] != stage) for n in needed), default=0.0)
                start = max(clock[stage], ready)
                clock[stage] = start + (forward if kind == "F" else backward)[stage]
                done[stage, kind, microbatch] = Pass(stage, kind, microbatch, start, clock[stage])
                at[stage] += 1
                moving = True
    stuck = {}
    for stage, passes in enumerate(schedule):
        if at[stage] < len(passes):
            stuck[stage] = next(n[0] for n in needs(stage, *passes[at[stage]], last) if n not in done)
    return Timeline(sorted(done.values(), key=lambda p: (p.end, p.stage)), stuck)


def needs(stage: int, kind: str, microbatch: int, last: int) -> list[tuple[int, str, int]]:
    """The passes (stage, kind, microbatch) whose results a pass reads; `last` is the last stage."""
    if kind == "F":
        return [(stage - 1, "F", microbatch)] if stage else []
    return [(stage, "F", microbatch)] + ([(stage + 1, "B", microbatch)] if stage < last else [])


def cycle(stuck: dict[int, int]) -> list[int]:
    """Stages that wait for each other in a circle, from the smallest; one stage alone has its own order wrong."""
    for first in sorted(stuck):
        way = [first]
        while (after := stuck.get(way[-1])) is not None and after not in way:
            way.append(after)
        if after == first:
            return way
    return []


def held(passes: Sequence[tuple[str, int]]) -> int:
    """The most microbatches whose activations a stage keeps at the same time."""
    most = now = 0
    for kind, _ in passes:
        now += 1 if kind == "F" else -1
        most = max(most, now)
    return most


def one_forward_one_backward(stages: int, microbatches: int) -> list[list[tuple[str, int]]]:
    """1F1B (Narayanan et al., arXiv:2104.04473): a stage holds at most as many microbatches as stages follow, + 1."""
    schedule = []
    for stage in range(stages):
        ahead = min(stages - 1 - stage, microbatches)
        passes = [("F", m) for m in range(ahead)]
        for m in range(microbatches):
            if m + ahead < microbatches:
                passes.append(("F", m + ahead))
            passes.append(("B", m))
        schedule.append(passes)
    return schedule


def all_forward_first(stages: int, microbatches: int) -> list[list[tuple[str, int]]]:
    """GPipe (Huang et al., arXiv:1811.06965): all forward passes, then all backward passes."""
    return [[(kind, m) for kind in "FB" for m in range(microbatches)] for _ in range(stages)]
