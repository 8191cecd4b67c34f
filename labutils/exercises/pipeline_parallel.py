"""Unit 23: the order of passes in a pipeline of stages, and the time in which its GPUs wait."""

import random

from ..gpu import pipeline
from ..gpu.pipeline import NAMES, BadSchedule, all_forward_first, one_forward_one_backward
from ..spec.exercise import Case, Hint, PlainExercise, Points, register

UNIT = "23_pipeline_parallel"

FORWARD, BACKWARD = 1.0, 2.0
"""ms of a pass on every stage where an exercise does not say otherwise."""

SLACK = 1.0001
"""Allowed time of a schedule, relative to the bound."""

# --- schedule ------------------------------------------------------------------------------------------------------


def _stuck(schedule, timeline) -> tuple[str, str]:
    """What a schedule that never ends waits for."""
    done = {(p.stage, p.kind, p.microbatch) for p in timeline.passes}
    circle = pipeline.cycle(timeline.stuck)
    stage = circle[0] if circle else min(timeline.stuck)
    kind, microbatch = next(p for p in schedule[stage] if (stage, *p) not in done)
    where = f"stage {stage} waits in the {NAMES[kind]} pass of microbatch {microbatch}"
    if len(circle) == 1:
        return f"deadlock: {where} for its own forward pass, which comes later", (
            "A stage runs the forward pass of a microbatch before its backward pass."
        )
    shown = " → ".join(map(str, [*circle, circle[0]])) if circle else f"{stage} → {timeline.stuck[stage]}"
    return f"deadlock: stages {shown} wait for each other; {where}", (
        "Stage s starts with stages − 1 − s forward passes and then alternates. Keep the microbatches in order."
    )


def _examine_schedule(sizes, arguments, yours) -> tuple[str, str] | None:
    stages, microbatches = sizes["stages"], sizes["microbatches"]
    try:
        schedule = pipeline.read(yours, stages)
    except BadSchedule as e:
        return str(e), 'Return one list for each stage, such as [("F", 0), ("B", 0)].'
    if found := pipeline.missing(schedule, microbatches):
        return found, "Each stage runs each microbatch forward once and backward once."
    timeline = pipeline.simulate(schedule, [FORWARD] * stages, [BACKWARD] * stages)
    if timeline.stuck:
        return _stuck(schedule, timeline)
    bound = (microbatches + stages - 1) * (FORWARD + BACKWARD)
    if timeline.finish > SLACK * bound:
        found = f"correct, but slow: {timeline.finish:g} ms; {bound:g} is possible"
        return found, _why_slow(schedule, stages)
    for stage, passes in enumerate(schedule):
        most = pipeline.held(passes)
        if most > stages:
            return f"stage {stage} holds the activations of {most} microbatches at once; {stages} are enough", (
                "This order runs all forward passes first (GPipe): it holds all m microbatches, 1F1B at most p. "
                "Run a backward pass as soon as one is possible."
                if most == microbatches
                else "Start with fewer forward passes: stages − 1 − s on stage s, then alternate."
            )
    return None


def _why_slow(schedule, stages: int) -> str:
    ahead = [next((k for k, p in enumerate(passes) if p[0] == "B"), len(passes)) for passes in schedule]
    if all(a == 1 for a in ahead):
        return (
            "Every stage waits for the backward pass of a microbatch before it starts the next one. Stage s should "
            "start with stages − 1 − s forward passes, then alternate."
        )
    if len(set(ahead)) == 1:
        return "All stages start with the same number of forward passes. Later stages need fewer: stages − 1 − s."
    if ahead[0] < ahead[-1]:
        return (
            "The last stage starts with the most forward passes. It should start with none ahead: it is stage 0 "
            "whose first backward pass comes last."
        )
    return "Look for the first gap in the picture. Stage s starts with stages − 1 − s forward passes, then alternates."


def _schedule_case(name: str, stages: int, microbatches: int) -> Case:
    return Case(name, {"stages": stages, "microbatches": microbatches})


register(
    PlainExercise(
        id=f"{UNIT}/schedule",
        title="One forward, one backward",
        entry="schedule",
        points=Points(correct=3),
        examine=_examine_schedule,
        cases=(
            _schedule_case("4 stages, 8 microbatches", 4, 8),
            _schedule_case("2 stages, 3 microbatches", 2, 3),
            _schedule_case("a single stage", 1, 4),
            _schedule_case("a single microbatch", 4, 1),
            _schedule_case("fewer microbatches than stages", 6, 3),
            _schedule_case("8 stages, 32 microbatches", 8, 32),
        ),
        draw=lambda rng: {"stages": rng.randrange(1, 13), "microbatches": rng.randrange(1, 40)},
    )
)


# --- lost time -----------------------------------------------------------------------------------------------------


def _lost_arguments(stages, microbatches, order, slow, send, seed) -> dict:
    """`order` 0: 1F1B, 1: GPipe, 2: random. `slow`: ms more of a forward pass on the last stage; `send` in µs."""
    rng = random.Random(seed)
    forward = [1.0 + 0.25 * rng.randrange(4) * bool(seed) for _ in range(stages)]
    backward = [2 * f + 0.5 * rng.randrange(3) * bool(seed) for f in forward]
    forward[-1] += slow
    backward[-1] += 2 * slow
    if order == 2:
        plan = shuffled(stages, microbatches, seed)
    else:
        plan = (one_forward_one_backward, all_forward_first)[order](stages, microbatches)
    return {"plan": plan, "forward": forward, "backward": backward, "send": send / 1000}


def shuffled(stages: int, microbatches: int, seed: int) -> list[list[tuple[str, int]]]:
    """A schedule without deadlock in random order. 1F1B and GPipe take the same time with f and b exchanged; this one
    does not."""
    rng, plan, done = random.Random(seed), [[] for _ in range(stages)], set()
    todo = [(s, kind, m) for s in range(stages) for kind in "FB" for m in range(microbatches)]
    while todo:
        ready = [p for p in todo if all(n in done for n in pipeline.needs(*p, stages - 1))]
        chosen = rng.choice(ready)
        todo.remove(chosen)
        done.add(chosen)
        plan[chosen[0]].append(chosen[1:])
    return plan


def lost_ms(plan, forward, backward, send) -> list[float]:
    timeline = pipeline.simulate(plan, forward, backward, send)
    return [timeline.idle(stage) for stage in range(len(plan))]


def _lost_mistakes(plan, forward, backward, send) -> list[tuple[list[float], str]]:
    stages = len(plan)
    right = pipeline.simulate(plan, forward, backward, send)
    busy = [sum(p.end - p.start for p in right.passes if p.stage == s) for s in range(stages)]
    ends = [max((p.end for p in right.passes if p.stage == s), default=0.0) for s in range(stages)]
    starts = [min((p.start for p in right.passes if p.stage == s), default=0.0) for s in range(stages)]
    free = lost_ms(plan, forward, backward, 0.0)
    twice = _variant(plan, forward, backward, send, own=True)
    late = {kind: _variant(plan, forward, backward, send, sent=kind) for kind in "FB"}
    bubble = (stages - 1) * (forward[0] + backward[0])
    step = "The time of a stage also counts after its last pass, until the last pass of all stages has ended."
    return [
        (free, "A result needs `send` ms to reach the next stage, or the previous one in the backward pass."),
        (late["F"], "What a backward pass needs from the next stage takes `send` ms, too."),
        (late["B"], "What a forward pass needs from the previous stage takes `send` ms, too."),
        (twice, "The last stage's backward pass needs its own forward pass: nothing is sent."),
        ([e - b for e, b in zip(ends, busy, strict=True)], step),
        (busy, "That is the time at work. Subtract it from the time of the step."),
        (starts, "That is the wait before the first pass. Stages also wait between passes, and at the end."),
        ([right.finish - e + s for e, s in zip(ends, starts, strict=True)], "Stages also wait between passes."),
        ([bubble] * stages, "That is the bubble of equal stages. Here, stages differ or the order does: follow "
         "the plan, with forward[stage] and backward[stage]."),
        (_variant(plan, forward, backward, send, only="F"), "A backward pass needs the backward pass of the next "
         "stage."),
        (_variant(plan, forward, backward, send, only="B"), "A forward pass needs the forward pass of the previous "
         "stage."),
        (lost_ms(plan, backward, forward, send), "forward and backward are swapped."),
        (lost_ms(plan, [forward[0]] * stages, [backward[0]] * stages, send), "Stages differ: use forward[stage] and "
         "backward[stage]."),
    ]  # fmt: skip


def _variant(plan, forward, backward, send, only: str = "FB", own: bool = False, sent: str = "FB") -> list[float]:
    """Idle times where only forward or backward passes wait for other stages, where a stage sends to itself, or where
    only what forward or backward passes need takes time to arrive."""
    last, done, at = len(plan) - 1, {}, [0] * len(plan)
    clock, busy, moving = [0.0] * len(plan), [0.0] * len(plan), True
    while moving:
        moving = False
        for stage, passes in enumerate(plan):
            while at[stage] < len(passes):
                kind, m = passes[at[stage]]
                needed = pipeline.needs(stage, kind, m, last)
                needed = [n for n in needed if n[0] == stage or kind in only]
                if any(n not in done for n in needed):
                    break
                takes = send * (kind in sent)
                ready = max((done[n] + takes * (n[0] != stage or (own and stage == last)) for n in needed), default=0.0)
                took = (forward if kind == "F" else backward)[stage]
                clock[stage] = done[stage, kind, m] = max(clock[stage], ready) + took
                busy[stage] += took
                at[stage] += 1
                moving = True
    return [max(clock) - b for b in busy]


def _near(yours, expected) -> bool:
    return len(yours) == len(expected) and all(abs(a - b) < 1e-6 for a, b in zip(yours, expected, strict=True))


def _examine_lost(sizes, arguments, yours) -> tuple[str, str] | None:
    expected = lost_ms(**arguments)
    try:
        values = [float(v) for v in yours]
    except (TypeError, ValueError):
        return f"lost_ms returned {type(yours).__name__}, not a list of numbers", "Return one time for each stage."
    if _near(values, expected):
        return None
    if len(values) != len(expected):
        return f"lost_ms returned {len(values)} numbers for {len(expected)} stages", "Return one time for each stage."
    stage = next(s for s, (a, b) in enumerate(zip(values, expected, strict=True)) if abs(a - b) >= 1e-6)
    hint = Hint.of(text for wrong, text in _lost_mistakes(**arguments) if _near(values, wrong))
    if min(values) < -1e-6:
        hint = "A stage cannot wait less than 0 ms: it runs one pass at a time."
    return f"stage {stage} waits {values[stage]:.6g} ms, expected {expected[stage]:.6g}", hint or (
        "A pass starts when its stage is free and what it needs has arrived: take the later of the two."
    )


def _lost_case(name: str, stages: int, microbatches: int, **changes) -> Case:
    usual = {"stages": stages, "microbatches": microbatches, "order": 0, "slow": 0, "send": 0, "seed": 0}
    return Case(name, usual | changes)


register(
    PlainExercise(
        id=f"{UNIT}/lost_ms",
        title="The time in which stages wait",
        entry="lost_ms",
        points=Points(correct=2),
        make=_lost_arguments,
        examine=_examine_lost,
        cases=(
            _lost_case("1F1B, 4 stages, 8 microbatches", 4, 8),
            _lost_case("GPipe, 4 stages, 8 microbatches", 4, 8, order=1),
            _lost_case("a transfer takes 0.3 ms", 4, 8, send=300),
            _lost_case("the last stage takes twice as long", 4, 8, slow=1),
            _lost_case("different stages", 3, 5, seed=2, send=125),
            _lost_case("another order", 3, 4, order=2, seed=3, send=250),
            _lost_case("a single stage", 1, 3, send=500),
            _lost_case("a single microbatch", 3, 1, send=250),
        ),
        draw=lambda rng: {
            "stages": rng.randrange(1, 9),
            "microbatches": rng.randrange(1, 20),
            "order": rng.randrange(3),
            "slow": rng.randrange(2),
            "send": rng.randrange(0, 900),
            "seed": rng.randrange(1, 10**6),
        },  # fmt: skip
    )
)
