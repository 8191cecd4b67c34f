"""Unit 21: a pipeline over streams, and a step that can be captured. The learner's code returns its calls as data:
a plan, which is simulated here, or a tape, which is replayed on inputs that the learner's code has not seen."""

import torch

from ..gpu import queue_advice, queue_order, tape
from ..gpu.queue_times import Costs, Work, simulate
from ..gpu.queues import BadPlan, QueueRecorder, read
from ..spec.exercise import Case, PlainExercise, Points, register

UNIT = "21_launch_overhead"

# --- copies and kernels at the same time ---------------------------------------------------------------------------

SLACK = 1.05
"""Allowed time of a plan, relative to the best plan."""


def best_plan(pieces: int) -> list[list]:
    """One stream per engine, and only the necessary waits."""
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
        return f"this is not a plan: {e}", "Do not change pipeline_plan, and call only the machine's methods."
    best = simulate(best_plan(pieces), work, Costs()).finish
    if timeline.finish <= SLACK * best:
        return None
    message = f"correct, but slow: {timeline.finish:.0f} µs for {pieces} pieces; {best:.0f} µs is possible"
    return message, queue_advice.why_slow(plan, timeline)


def _mix(name: str, pieces: int, copy_in: int, kernel: int, copy_out: int) -> Case:
    return Case(name, {"pieces": pieces, "copy_in": copy_in, "kernel": kernel, "copy_out": copy_out})


def _draw_mix(rng) -> dict[str, int]:
    times = [rng.choice([1, 2, 4]) * rng.randrange(80, 300) for _ in range(3)]
    return dict(zip(("pieces", "copy_in", "kernel", "copy_out"), (rng.randrange(1, 40), *times), strict=True))


register(
    PlainExercise(
        id=f"{UNIT}/pipeline",
        title="Overlap copies with compute",
        entry="pipeline_plan",
        points=Points(correct=4),
        make=lambda pieces, copy_in, kernel, copy_out: {"pieces": pieces},
        examine=_examine_pipeline,
        cases=(
            _mix("8 pieces, all three take 200 µs", 8, 200, 200, 200),
            _mix("a single piece", 1, 200, 200, 200),
            _mix("3 pieces", 3, 150, 250, 100),
            _mix("16 pieces, the copy-in takes longest", 16, 400, 150, 200),
            _mix("16 pieces, the kernel takes longest", 16, 150, 500, 120),
            _mix("16 pieces, the copy-out takes longest", 16, 200, 300, 600),
        ),
        draw=_draw_mix,
    )
)


# --- a step that can be captured -----------------------------------------------------------------------------------

REPLAYS = 5
RATE = 0.25


def plain_step(x, weight, running) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, running) of one step, in the inputs' dtype."""
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
    "h is divided by its largest activation even if that is below 1": _variant(peak=lambda h: h.max()),
    "h is not divided by its largest activation": _variant(peak=lambda h: 1.0),
    "h is divided by the smaller of its largest activation and 1": _variant(peak=lambda h: h.max().clamp(max=1.0)),
    "h is divided by one peak per row; there is one for all of h": _variant(
        peak=lambda h: h.amax(1, keepdim=True).clamp(min=1.0)
    ),
    "h is divided by one peak per column; there is one for all of h": _variant(peak=lambda h: h.amax(0).clamp(min=1.0)),
    "negative activations are kept: relu is missing": _variant(relu=lambda h: h),
    "running is updated with h before its division": _variant(early=True),
    "running keeps a quarter of its old value; it should keep three quarters": _variant(rate=1 - RATE),
    "running is replaced by the new mean; it should keep three quarters of its value": _variant(rate=1.0),
    "running uses one mean for all columns": _variant(mean=lambda h: h.mean()),
    "running uses the sum of the rows, not their mean": _variant(mean=lambda h: h.sum(0)),
    "out is h minus the old running: update running first": _variant(old=True),
    "out is h: running is not subtracted": _variant(subtract=0.0),
    "running is added to h, not subtracted": _variant(subtract=-1.0),
}
"""Steps with one mistake, by the message to print."""


REFUSED = {
    "sync": (
        "sync-in-capture: the step reads a number from the GPU ({name})",
        "`.item()`, `float(…)`, and `if` on a tensor make the host wait for a value, but during capture nothing has "
        "run. Keep the value in a tensor: torch.clamp and torch.where decide on the GPU.",
    ),
    "host": (
        "the step copies from host memory: it creates a tensor from Python or NumPy numbers",
        "Write the number into the formula, or create the tensor once before the step, and read x itself.",
    ),
    "dynamic": (
        "the size of a result depends on data ({name})",
        "A graph has fixed sizes. Compute all elements and select with torch.where.",
    ),
    "random": ("the step draws random numbers ({name})", "The result must depend on the arguments alone."),
    "outside": (
        "the step reads a large tensor that is not one of its arguments",
        "A replay reads the captured memory. Use only the arguments and what the step computes.",
    ),
    "long": ("the step has more than 200 operations", "Does it loop over rows or elements? Use whole tensors."),
    "unknown": ("the recorder does not know the operation {name}", "Use arithmetic, comparisons, reductions, where."),
}


def _examine_steady(sizes, arguments, yours) -> tuple[str, str] | None:
    if not isinstance(yours, dict) or not ("refused" in yours or "operations" in yours):
        return f"steady_tape returned {type(yours).__name__}, not a tape", "Do not change the given code."
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
            return f"the tape cannot be replayed: {e}", "Do not change the given code."
        if not (torch.equal(data["x"], fresh) and torch.equal(data["weight"], weight)):
            return "the step overwrites x or weight", "Only running and out may change."
        if not _matches(data, wanted[None]):
            where = f"replay {number + 1} of {REPLAYS}"
            return _wrong_replay(yours, where, data, wanted, before, first if number else None)
    return None


def _near(a, b) -> bool:
    return torch.allclose(a, b, rtol=1e-4, atol=1e-5)


def _matches(data, wanted) -> bool:
    return _near(data["out"], wanted[0]) and _near(data["running"], wanted[1])


def _wrong_replay(recorded, where: str, data, wanted, before, first) -> tuple[str, str]:
    """What is wrong with the result of a replay. `wanted` holds the results of the step and of its mistakes."""
    if torch.isnan(data["out"]).any():
        return (
            f"new-address: {where} did not write out, or only part of it",
            "The result went to new memory. A graph writes to the captured addresses, and the caller reads `out`: end "
            "with out.copy_(…), or pass out=out to the last operation.",
        )
    if torch.equal(data["running"], before):
        return (
            f"new-address: {where} did not change running",
            "`running = …` binds the name to new memory. Change the tensor itself: running.copy_(…), running += …",
        )
    if difference := _difference(recorded):
        return f"{where} returns the values of another input: {difference}", (
            "stale-input: what Python computed or decided during capture is frozen. Let the GPU decide, with tensors."
        )
    if first is not None and _near(data["out"], first):
        return f"stale-input: {where} returns the first input's result again", "Read x itself, not an earlier copy."
    formula = next((text for text, result in wanted.items() if text and _matches(data, result)), None)
    wrong, right = ("running", wanted[None][1]) if _near(data["out"], wanted[None][0]) else ("out", wanted[None][0])
    most = float((data[wrong] - right).abs().max())
    return f"{where}: {formula or f'{wrong} is wrong, by up to {most:.3g}'}", (
        "Work through one step of wobbly on paper: h, its division by the peak if that is above 1, running, out."
    )


def _difference(recorded) -> str | None:
    """The difference between the tapes of two inputs: Python decided it from data."""
    one, two = recorded["operations"], recorded.get("again")
    if not isinstance(two, (list, tuple)) or one == two:
        return None
    if [o[0] for o in one] != [o[0] for o in two]:
        return "the step runs different operations for different values, so Python decides from data"
    name = next(a[0] for a, b in zip(one, two, strict=True) if a != b)
    return f"a number that {str(name).split('.')[1]} uses was computed in Python, so it stays as captured"


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
