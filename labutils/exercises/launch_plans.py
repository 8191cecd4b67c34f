"""Unit 21: a pipeline over streams, and a step that can be captured. The learner's code returns what it did, as data:
a plan is simulated here, a tape replayed on inputs that its author has not seen."""

import torch

from ..gpu import queue_advice, queue_order, tape
from ..gpu.queue_times import Costs, Work, simulate
from ..gpu.queues import BadPlan, QueueRecorder, read
from ..spec.exercise import Case, PlainExercise, Points, register

UNIT = "21_launch_overhead"

# --- copies and kernels at the same time ---------------------------------------------------------------------------

SLACK = 1.05
"""A plan may take this many times the best plan's time."""


def best_plan(pieces: int) -> list[list]:
    """A stream for each engine, and only the waits that are needed."""
    machine = QueueRecorder()
    machine.pin()
    up, compute, down = machine.stream(), machine.stream(), machine.stream()
    computed, copied = [], []
    for piece in range(pieces):
        slot = piece % 2
        if piece >= 2:
            machine.wait(up, computed[piece - 2])
            machine.wait(compute, copied[piece - 2])
        machine.copy_in(piece, slot, up)
        machine.wait(compute, machine.record(up))
        machine.kernel(piece, slot, compute)
        computed.append(machine.record(compute))
        machine.wait(down, computed[piece])
        machine.copy_out(piece, slot, down)
        copied.append(machine.record(down))
    machine.synchronize()
    return machine.plan


def _examine_pipeline(sizes, arguments, yours) -> tuple[str, str] | None:
    pieces = sizes["pieces"]
    work = Work(sizes["copy_in"], sizes["kernel"], sizes["copy_out"])
    try:
        plan = read(yours)
        timeline = simulate(plan, work, Costs())
        if problem := queue_order.problem_of(plan, pieces, timeline=timeline):
            return problem
    except BadPlan as e:
        return f"that is no plan: {e}", "Leave pipeline_plan as it is, and call only the machine's methods."
    best = simulate(best_plan(pieces), work, Costs()).finish
    if timeline.finish <= SLACK * best:
        return None
    message = f"right, but slow: {timeline.finish:.0f} µs for {pieces} pieces; {best:.0f} µs is possible"
    return message, queue_advice.why_slow(plan, timeline)


def _mix(name: str, pieces: int, copy_in: int, kernel: int, copy_out: int) -> Case:
    return Case(name, {"pieces": pieces, "copy_in": copy_in, "kernel": kernel, "copy_out": copy_out})


def _draw_mix(rng) -> dict[str, int]:
    times = [rng.choice([1, 2, 4]) * rng.randrange(80, 300) for _ in range(3)]
    return dict(zip(("pieces", "copy_in", "kernel", "copy_out"), (rng.randrange(1, 40), *times), strict=True))


register(
    PlainExercise(
        id=f"{UNIT}/pipeline",
        title="Copy in, compute and copy out at the same time",
        entry="pipeline_plan",
        points=Points(correct=4),
        make=lambda pieces, copy_in, kernel, copy_out: {"pieces": pieces},
        examine=_examine_pipeline,
        cases=(
            _mix("8 pieces, all three take 200 µs", 8, 200, 200, 200),
            _mix("a single piece", 1, 200, 200, 200),
            _mix("3 pieces", 3, 150, 250, 100),
            _mix("16 pieces, copying in takes longest", 16, 400, 150, 200),
            _mix("16 pieces, the kernel takes longest", 16, 150, 500, 120),
            _mix("16 pieces, copying out takes longest", 16, 200, 300, 600),
        ),
        draw=_draw_mix,
    )
)


# --- a step that can be captured -----------------------------------------------------------------------------------

REPLAYS = 5
RATE = 0.25


def plain_step(x, weight, running) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, running) of one step, in the inputs' type."""
    h = torch.relu(x @ weight)
    h = h / h.max().clamp(min=1.0)
    running = running + RATE * (h.mean(0) - running)
    return h - running, running


def _variant(peak=None, rate=RATE, mean=None, old=False, subtract=1.0, early=False, relu=torch.relu):
    """A step with a mistake in it."""

    def step(x, weight, running):
        raw = relu(x @ weight)
        h = raw / (peak(raw) if peak else raw.max().clamp(min=1.0))
        new = running + rate * ((mean or (lambda v: v.mean(0)))(raw if early else h) - running)
        return h - subtract * (running if old else new), new

    return step


FORMULAS = {
    "h is divided by its largest activation where that is below 1, too": _variant(peak=lambda h: h.max()),
    "h is not divided by its largest activation": _variant(peak=lambda h: 1.0),
    "h is divided by the smaller of its largest activation and 1": _variant(peak=lambda h: h.max().clamp(max=1.0)),
    "h is divided by a peak of each row; there is one for all of h": _variant(
        peak=lambda h: h.amax(1, keepdim=True).clamp(min=1.0)
    ),
    "h is divided by a peak of each column; there is one for all of h": _variant(
        peak=lambda h: h.amax(0).clamp(min=1.0)
    ),
    "the activations below 0 are kept: relu is missing": _variant(relu=lambda h: h),
    "running is updated with h before its division": _variant(early=True),
    "running keeps a quarter of its old value; it should keep three quarters": _variant(rate=1 - RATE),
    "running is replaced by the new mean; it should keep three quarters of its value": _variant(rate=1.0),
    "running takes one mean for all columns": _variant(mean=lambda h: h.mean()),
    "running takes the sum of the rows, not their mean": _variant(mean=lambda h: h.sum(0)),
    "out is h minus the old running, which is updated first": _variant(old=True),
    "out is h: running is not subtracted": _variant(subtract=0.0),
    "running is added to h, not subtracted": _variant(subtract=-1.0),
}
"""Steps with one mistake, by what to tell."""


REFUSED = {
    "sync": (
        "sync-in-capture: the step reads a number from the GPU ({name})",
        "`.item()`, `float(…)`, and `if` on a tensor make the host wait for a value, and during a capture nothing has "
        "run yet. Keep the value in a tensor: torch.clamp and torch.where decide on the GPU.",
    ),
    "host": (
        "the step copies from the host's memory: it makes a tensor out of Python's or NumPy's numbers",
        "Write the number itself into the formula, or make the tensor once, before the step; and read x itself.",
    ),
    "dynamic": (
        "the size of a result depends on data ({name})",
        "A graph has fixed sizes. Compute with all elements and choose with torch.where.",
    ),
    "random": ("the step draws random numbers ({name})", "The result must depend on the arguments alone."),
    "outside": (
        "the step reads a large tensor that is none of its arguments",
        "A replay sees the memory that was captured. Use only the arguments, and what the step computes.",
    ),
    "long": ("the step has more than 200 operations", "Is there a loop over rows or elements? Use whole tensors."),
    "unknown": ("the recorder does not know the operation {name}", "Use arithmetic, comparisons, reductions, where."),
}


def _examine_steady(sizes, arguments, yours) -> tuple[str, str] | None:
    if not isinstance(yours, dict) or not ("refused" in yours or "operations" in yours):
        return f"steady_tape returned {type(yours).__name__}, not a tape", "Leave the given cell as it is."
    if "refused" in yours:
        symptom, advice = REFUSED.get(str(yours["refused"]), REFUSED["unknown"])
        return symptom.format(name=str(yours.get("name"))[:40]), advice
    data = tape.example(sizes["rows"], sizes["columns"], sizes["seed"], True)
    weight, before = data["weight"].clone(), data["running"].clone()
    states = dict.fromkeys([None, *FORMULAS], before)
    first = None
    for number in range(REPLAYS):
        fresh = tape.example(sizes["rows"], sizes["columns"], sizes["seed"] + number, number % 2 == 0)["x"]
        data["x"].copy_(fresh)  # the same memory, other contents
        data["out"].fill_(torch.nan)
        wanted = {text: FORMULAS.get(text, plain_step)(fresh, weight, state) for text, state in states.items()}
        states = {text: running for text, (_, running) in wanted.items()}
        first = wanted[None][0] if first is None else first
        try:
            tape.replay(yours["operations"], list(data.values()))
        except tape.BadTape as e:
            return f"the tape cannot be replayed: {e}", "Leave the given cell as it is."
        if not (torch.equal(data["x"], fresh) and torch.equal(data["weight"], weight)):
            return "the step overwrites x or weight", "Only running and out change."
        if not _matches(data, wanted[None]):
            where = f"replay {number + 1} of {REPLAYS}"
            return _wrong_replay(yours, where, data, wanted, before, first if number else None)
    return None


def _near(a, b) -> bool:
    return torch.allclose(a, b, rtol=1e-4, atol=1e-5)


def _matches(data, wanted) -> bool:
    return _near(data["out"], wanted[0]) and _near(data["running"], wanted[1])


def _wrong_replay(recorded, where: str, data, wanted, before, first) -> tuple[str, str]:
    """What is wrong with what a replay left. `wanted` holds the results of the step, and of those with a mistake."""
    if torch.isnan(data["out"]).any():
        return (
            f"new-address: {where} left out as it was, or in part",
            "The result went to new memory. A graph writes where it wrote at capture, and the caller reads `out`: end "
            "with out.copy_(…), or give out=out to the last operation.",
        )
    if torch.equal(data["running"], before):
        return (
            f"new-address: {where} left running as it was",
            "`running = …` gives a name to new memory. Change the tensor itself: running.copy_(…), running += …",
        )
    if difference := _difference(recorded):
        return f"{where} gives the values of another input: {difference}", (
            "stale-input: what Python computed or decided at capture stays as it was then. Let the GPU decide, with "
            "tensors."
        )
    if first is not None and _near(data["out"], first):
        return f"stale-input: {where} gives the first input's result again", "Read x itself, not a copy made before."
    formula = next((text for text, result in wanted.items() if text and _matches(data, result)), None)
    wrong, right = ("running", wanted[None][1]) if _near(data["out"], wanted[None][0]) else ("out", wanted[None][0])
    most = float((data[wrong] - right).abs().max())
    return f"{where}: {formula or f'{wrong} is wrong, by up to {most:.3g}'}", (
        "Work out one step of wobbly on paper: h, its division by the peak if that is above 1, running, out."
    )


def _difference(recorded) -> str | None:
    """What differs between the tapes of two inputs: it was decided by data, in Python."""
    one, two = recorded["operations"], recorded.get("again")
    if not isinstance(two, (list, tuple)) or one == two:
        return None
    if [o[0] for o in one] != [o[0] for o in two]:
        return "the step does other operations for other values, so Python decides by data"
    name = next(a[0] for a, b in zip(one, two, strict=True) if a != b)
    return f"a number that {str(name).split('.')[1]} uses was computed in Python, and stays what it was at capture"


register(
    PlainExercise(
        id=f"{UNIT}/steady",
        title="A step that can be captured and replayed",
        entry="steady_tape",
        points=Points(correct=3),
        make=lambda rows, columns, seed: {"rows": rows, "columns": columns},
        examine=_examine_steady,
        cases=(
            Case("4 rows, 6 columns", {"rows": 4, "columns": 6, "seed": 11}),
            Case("one row", {"rows": 1, "columns": 5, "seed": 21}),
            Case("33 rows, 64 columns", {"rows": 33, "columns": 64, "seed": 31}),
        ),
        draw=lambda rng: {"rows": rng.randrange(1, 50), "columns": rng.randrange(2, 80), "seed": rng.randrange(10**6)},
    )
)
