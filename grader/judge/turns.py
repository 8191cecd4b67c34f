"""Which configuration of an autotuned kernel runs in which case, so that each runs at least once.

In case k the k-th configuration runs, in turn; of the hidden cases the turns are drawn, so that nobody knows which
configuration meets which sizes. A configuration that has not run by then runs on a small case once more: the smallest
of those with more than one program, if there is any.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import torch

from grader.judge import wire
from grader.judge.plan import MOST_CHOICES, Choice, Launch, Plan
from grader.judge.task import PlannedTask
from labutils.spec.inputs import generator, make_run


def with_turns(planned: PlannedTask, seed: int) -> PlannedTask:
    """The same with a turn for each case, and with the cases more that give every configuration its turn."""
    made = [p for p in planned.plans if isinstance(p, Plan)]
    if planned.refusal or len(made) < len(planned.task.cases) or not any(_length(p) for p in made):
        return planned
    random, task = generator(seed, planned.exercise.id, "turns"), planned.task
    drawn = torch.randint(1 << 20, (len(made),), generator=random).tolist()
    turns = [drawn[k] if hidden else k for k, (_, hidden) in enumerate(task.cases)]
    seen = {c for p, turn in zip(made, turns, strict=True) for c, _ in _chosen(p, turn)}
    again = list(_more(made, seen, [_size(run) for run in task.runs]))[:MOST_CHOICES]
    more = [task.cases[k][0] for k, _ in again]
    runs = [make_run(task.exercise, case, seed, allocate=wire.plain_bytes) for case in more]
    return replace(
        planned,
        task=replace(task, cases=[*task.cases, *((case, True) for case in more)], runs=(*task.runs, *runs)),
        plans=(*made, *(made[k] for k, _ in again)),
        turns=(*turns, *(turn for _, turn in again)),
    )


def _more(plans: list[Plan], seen: set, sizes: list[int]) -> Iterator[tuple[int, int]]:
    """(case, turn) of what must run beside what was `seen`."""
    small = sorted(range(len(plans)), key=sizes.__getitem__)
    for fewest in (2, 0):  # programs
        for k in small:
            for turn in range(_length(plans[k])):
                chosen = list(_chosen(plans[k], turn))
                if {c for c, _ in chosen} <= seen or min(prod(launch.grid) for _, launch in chosen) < fewest:
                    continue
                seen |= {c for c, _ in chosen}
                yield k, turn


def _length(plan: Plan) -> int:
    """Turns until each configuration has had its own."""
    return max((len(s.launches) for s in plan.steps if isinstance(s, Choice)), default=0)


def _chosen(plan: Plan, turn: int) -> Iterator[tuple[tuple, Launch]]:
    """The configuration that each autotuned launch has in this turn, and the launch: the same one in all plans has the
    same options, and the same constants of those that differ between the configurations."""
    for number, step in enumerate(plan.steps):
        if not isinstance(step, Choice):
            continue
        specs = [plan.specs[launch.kernel] for launch in step.launches]
        constants = [{**s.get("constants", {})} for s in specs]
        varying = {name for c in constants for name in c if any(c[name] != o.get(name) for o in constants)}
        at = turn % len(step.launches)
        own = tuple(sorted((name, repr(value)) for name, value in constants[at].items() if name in varying))
        options = tuple(sorted(specs[at]["options"].items())) if specs[at]["language"] == "triton" else ()
        yield (number, own, options), step.launches[at]


def _size(run) -> int:
    return sum(b.storage.numel() for b in run.buffers.values())
