"""Unit 23: memory and time of a training step that is spread over data, tensor and pipeline ranks, and the best one."""

import math
from collections.abc import Mapping

from ..gpu import placement
from ..spec.exercise import Case, PlainExercise, Points, register

UNIT = "23_pipeline_parallel"

MODELS = (
    {"parameters": 70.6e9, "layers": 80, "width": 8192, "sequence": 8192, "batch": 512},
    {"parameters": 405e9, "layers": 126, "width": 16_384, "sequence": 8192, "batch": 2048},
    {"parameters": 8.0e9, "layers": 32, "width": 4096, "sequence": 8192, "batch": 256},
)
"""Llama 3 70B, 405B and 8B (arXiv:2407.21783, table 3); sequences of a step: an assumption."""

SLACK = 1.001
"""Allowed time of a placement, relative to the best one."""


def model_and_machine(model, gpus, memory_gb, tflops, node_gbs, net_gbs, node=8) -> dict:
    machine = {"gpus": gpus, "node": node, "memory_gb": memory_gb, "tflops": tflops}
    return {"model": dict(MODELS[model]), "machine": machine | {"node_gbs": node_gbs, "net_gbs": net_gbs}}


def _sizes(model: int, gpus: int, **changes) -> dict[str, int]:
    usual = {"model": model, "gpus": gpus, "memory_gb": 141, "tflops": 400, "node_gbs": 450, "net_gbs": 50, "node": 8}
    return usual | changes


# --- memory and time -----------------------------------------------------------------------------------------------


def _memory(model, dp, tp, pp, state=16, layers=None, held=None, activation_tp=None, share=None) -> float:
    """`placement.memory_gb` with single terms changed."""
    layers = math.ceil(model["layers"] / pp) if layers is None else layers
    parameters = model["parameters"] * layers / model["layers"] / (tp if share is None else share)
    held = min(pp, model["batch"] // dp) if held is None else held
    one = placement.ACTIVATION_BYTES * model["sequence"] * model["width"] * layers
    return (state * parameters + one * held / (tp if activation_tp is None else activation_tp)) / 1e9


def _memory_mistakes(model, dp, tp, pp) -> list[tuple[float, str]]:
    m = model["batch"] // dp
    exact = model["layers"] / pp
    return [
        (_memory(model, dp, tp, pp, held=0), "That is without activations."),
        (_memory(model, dp, tp, pp, state=0), "That is the activations alone: add 16 bytes for each parameter."),
        (_memory(model, dp, tp, pp, state=2), "That counts weights alone. Gradients and the optimizer's state make it "
         "16 bytes for each parameter."),
        (_memory(model, dp, tp, pp, layers=exact), "A stage holds whole layers: round layers / pp up."),
        (_memory(model, dp, tp, pp, layers=math.floor(exact)), "The largest stage counts: round layers / pp up."),
        (_memory(model, dp, tp, pp, held=1), "The first stage holds the activations of min(pp, m) microbatches at "
         "once."),
        (_memory(model, dp, tp, pp, held=pp), "There are only m microbatches: a stage holds min(pp, m) at once."),
        (_memory(model, dp, tp, pp, held=m), "1F1B holds min(pp, m) microbatches at once, not all m."),
        (_memory(model, dp, tp, pp, activation_tp=1), "Activations are split over tp, too."),
        (_memory(model, dp, tp, pp, share=1), "Parameters are split over tp, too."),
        (_memory(model, dp, tp, pp, share=tp * dp), "Each of the dp copies holds its parameters: do not divide by dp."),
        (_memory(model, dp, tp, pp, layers=model["layers"]), "A stage holds layers / pp of the layers."),
        (_memory(model, dp, tp, pp) * 1e9 / 2**30, "1 GB is 10**9 bytes here."),
        (_memory(model, dp, tp, pp) * 1e9, "Return GB: divide by 1e9."),
    ]  # fmt: skip


def _step(
    model, machine, dp, tp, pp, *, m=None, bubble=None, layers=None, reduces=4, factor=None, reduce_gbs=None, sends=2,
    send_tp=None, whole=False, gradient=2, gradient_factor=None, exposed=1.0, flops=6,
) -> float:  # fmt: skip
    """`placement.step_ms` with single terms changed."""
    layers = math.ceil(model["layers"] / pp) if layers is None else layers
    parameters = model["parameters"] * layers / model["layers"] / tp
    sent = 2 * model["sequence"] * model["width"]
    compute = flops * parameters * model["sequence"] / (machine["tflops"] * 1e9)
    factor = 2 * (tp - 1) / tp if factor is None else factor
    reduce = reduces * layers * factor * sent / ((reduce_gbs or machine["node_gbs"]) * 1e6)
    transfer = sends * sent / (send_tp or tp) / (machine["net_gbs"] * 1e6) if pp > 1 else 0.0
    gradient_factor = 2 * (dp - 1) / dp if gradient_factor is None else gradient_factor
    reduced = model["parameters"] if whole else parameters
    gradients = gradient_factor * gradient * reduced / (machine["net_gbs"] * 1e6)
    m = model["batch"] // dp if m is None else m
    return (m + (pp - 1 if bubble is None else bubble)) * (compute + reduce + transfer) + exposed * gradients


def _step_mistakes(model, machine, dp, tp, pp) -> list[tuple[float, str]]:
    def step(**changes):
        return _step(model, machine, dp, tp, pp, **changes)

    exact = model["layers"] / pp
    return [
        (step(bubble=0), "The bubble is missing: a step takes m + pp − 1 times as long as a microbatch on a stage."),
        (step(bubble=pp), "A pipeline of pp stages adds pp − 1 microbatches, not pp."),
        (step(m=model["batch"]), "A copy of the model gets batch / dp sequences."),
        (step(layers=exact), "A stage holds whole layers: round layers / pp up."),
        (step(layers=math.floor(exact)), "The largest stage counts: round layers / pp up."),
        (step(reduces=2), "That is half of it. A layer has four all-reduces, two forward (attention, MLP), two "
         "backward; each sends 2(tp − 1)/tp times its buffer."),
        (step(reduces=0), "The all-reduces of tensor parallelism are missing: four for each layer and microbatch."),
        (step(factor=1), "An all-reduce sends 2(tp − 1)/tp times its buffer."),
        (step(factor=2), "An all-reduce sends 2(tp − 1)/tp times its buffer."),
        (step(reduce_gbs=machine["net_gbs"]), "Tensor parallelism stays inside a node: use node_gbs."),
        (step(sends=1), "A microbatch crosses a border twice: forward and backward."),
        (step(sends=0), "The transfers between stages are missing."),
        (step(send_tp=1), "Each of the tp ranks sends its part: divide by tp."),
        (step(whole=True), "Each rank reduces the gradients of its own parameters only."),
        (step(gradient=4), "A gradient has 2 bytes here."),
        (step(gradient_factor=(dp - 1) / dp), "An all-reduce sends 2(dp − 1)/dp times its buffer."),
        (step(gradient_factor=1), "An all-reduce sends 2(dp − 1)/dp times its buffer."),
        (step(exposed=0), "The all-reduce of the gradients is missing."),
        (step(exposed=model["batch"] // dp), "Gradients are summed over microbatches first: one all-reduce per step."),
        (step(flops=2), "Training takes 6 FLOPs per parameter and token: 2 forward, 4 backward."),
        (step() / 1e3, "Return milliseconds."),
    ]  # fmt: skip


def _same(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)


def _examine_cost(sizes, arguments, yours) -> tuple[str, str] | None:
    model, machine = arguments["model"], arguments["machine"]
    place = tuple(arguments[k] for k in ("dp", "tp", "pp"))
    expected = placement.memory_gb(model, *place), placement.step_ms(model, machine, *place)
    try:
        gb, ms = (float(v) for v in yours)
    except (TypeError, ValueError):
        return f"cost returned {type(yours).__name__}, not two numbers", "Return memory in GB, then the step in ms."
    if _same(gb, expected[1]) and _same(ms, expected[0]):
        return "the two results are in the wrong order", "Return memory in GB first, then the step in ms."
    if not _same(gb, expected[0]):
        hint = next((t for wrong, t in _memory_mistakes(model, *place) if _same(gb, wrong)), None)
        return f"memory: {gb:.6g} GB, expected {expected[0]:.6g}", hint or "State of the parameters, plus activations."
    if not _same(ms, expected[1]):
        hint = next((t for wrong, t in _step_mistakes(model, machine, *place) if _same(ms, wrong)), None)
        return f"step: {ms:.6g} ms, expected {expected[1]:.6g}", hint or (
            "(m + pp − 1) · (compute + all-reduces + transfers) + gradients. Which term differs?"
        )
    return None


def _cost_case(name: str, model: int, dp: int, tp: int, pp: int, **changes) -> Case:
    return Case(name, _sizes(model, dp * tp * pp, **changes) | {"dp": dp, "tp": tp, "pp": pp})


def _draw_cost(rng) -> dict[str, int]:
    dp, tp, pp = 2 ** rng.randrange(0, 7), 2 ** rng.randrange(1, 4), rng.choice([2, 3, 4, 6, 8, 16])
    links = {"node_gbs": rng.randrange(100, 900), "net_gbs": rng.randrange(10, 100)}
    return _sizes(rng.randrange(3), dp * tp * pp, tflops=rng.randrange(200, 900), **links) | {
        "dp": dp, "tp": tp, "pp": pp,
    }  # fmt: skip


register(
    PlainExercise(
        id=f"{UNIT}/cost",
        title="Memory and time of a placement",
        entry="cost",
        points=Points(correct=2),
        make=lambda dp, tp, pp, **sizes: model_and_machine(**sizes) | {"dp": dp, "tp": tp, "pp": pp},
        examine=_examine_cost,
        cases=(
            _cost_case("70B on 64 GPUs, (2, 8, 4)", 0, 2, 8, 4),
            _cost_case("405B on 16384 GPUs, (128, 8, 16)", 1, 128, 8, 16),
            _cost_case("8B, copies alone", 2, 16, 1, 1),
            _cost_case("8B, tensor parallelism alone", 2, 1, 8, 1),
            _cost_case("8B, pipeline alone: 3 stages, layers do not divide", 2, 1, 1, 3),
            _cost_case("70B, fewer microbatches than stages", 0, 256, 2, 16),
        ),
        draw=_draw_cost,
    )
)


# --- the best placement --------------------------------------------------------------------------------------------


def _problem(model: Mapping, machine: Mapping, place: tuple[int, int, int]) -> tuple[str, str] | None:
    """Which rule a placement breaks."""
    dp, tp, pp = place
    shown = f"(dp, tp, pp) = {place}"
    if dp * tp * pp != machine["gpus"]:
        return f"{shown} uses {dp * tp * pp} GPUs; there are {machine['gpus']}", "Use all GPUs: dp·tp·pp = gpus."
    if tp > machine["node"] or machine["node"] % tp:
        return f"{shown}: {tp} tensor ranks do not fit into nodes of {machine['node']} GPUs", (
            "Tensor parallelism needs the fast links inside a node: tp divides node."
        )
    if model["batch"] % dp:
        return f"{shown}: a batch of {model['batch']} is not divisible by dp", "Each copy gets as many sequences."
    if pp > model["layers"]:
        return f"{shown}: there are only {model['layers']} layers", "A stage has at least one layer."
    gb = placement.memory_gb(model, *place)
    if gb > machine["memory_gb"]:
        return f"{shown} needs {gb:.1f} GB on a GPU, which has {machine['memory_gb']}", (
            "Skip a placement whose memory exceeds memory_gb. More tensor ranks or stages need less."
        )
    return None


def _examine_place(sizes, arguments, yours) -> tuple[str, str] | None:
    model, machine = arguments["model"], arguments["machine"]
    best = placement.best(model, machine)
    if yours is None or best is None:
        if yours is None and best is None:
            return None
        if yours is None:
            return f"place returned None, but {best} fits", "Try every tp, pp and dp whose product is gpus."
        return f"place returned {yours!r}, but nothing fits into {machine['memory_gb']} GB", "Return None then."
    try:
        place = tuple(int(v) for v in yours)
        if len(place) != 3 or min(place) < 1 or any(a != b for a, b in zip(place, yours, strict=True)):
            raise ValueError
    except (TypeError, ValueError):
        return f"place returned {str(yours)[:40]}, not (dp, tp, pp)", "Return three whole numbers, or None."
    if problem := _problem(model, machine, place):
        return problem
    ms, least = (placement.step_ms(model, machine, *p) for p in (place, best))
    if ms <= SLACK * least:
        return None
    return f"{place} takes {ms:,.0f} ms a step; {best} takes {least:,.0f}", _why_slower(model, machine, place, best)


def _why_slower(model, machine, place, best) -> str:
    fits = [p for p in placement.allowed(model, machine) if placement.memory_gb(model, *p) <= machine["memory_gb"]]
    if place == min(fits, key=lambda p: placement.memory_gb(model, *p)):
        return "That is the placement with the least memory. Of all that fit, take the one with the shortest step."
    if place == max(fits, key=lambda p: placement.step_ms(model, machine, *p)):
        return "That is the longest step of all that fit: take the shortest."
    if place == fits[0]:
        return "That is the first one that fits. Compare the steps of all."
    dp, tp, pp = (("more", "fewer")[a > b] if a != b else "as many" for a, b in zip(place, best, strict=True))
    return f"The best one has {dp} copies, {tp} tensor ranks and {pp} stages. Does your search try it?"


def _place_case(name: str, model: int, gpus: int, **changes) -> Case:
    return Case(name, _sizes(model, gpus, **changes))


register(
    PlainExercise(
        id=f"{UNIT}/place",
        title="Where to split a model",
        entry="place",
        points=Points(correct=2),
        make=model_and_machine,
        examine=_examine_place,
        cases=(
            _place_case("70B on 64 H200", 0, 64),
            _place_case("70B on 512 GPUs of 80 GB", 0, 512, memory_gb=80),
            _place_case("405B on 1024 H200", 1, 1024),
            _place_case("405B on 16384 H200", 1, 16_384),
            _place_case("405B on 64 H200: it does not fit", 1, 64),
            _place_case("8B on 96 GPUs", 2, 96),
            _place_case("70B on 88 GPUs, which do not divide well", 0, 88),
            _place_case("70B on 256 GPUs, slow links inside a node", 0, 256, node_gbs=60),
            _place_case("8B on 24 GPUs of 24 GB, nodes of 4", 2, 24, memory_gb=24, node=4),
        ),
        draw=lambda rng: _sizes(
            rng.randrange(3),
            rng.choice([8, 16, 48, 64, 128, 192, 512]),
            memory_gb=rng.choice([80, 141, 192]),
            node_gbs=rng.choice([50, 300, 450, 900]),
            net_gbs=rng.choice([12, 25, 50, 100]),
        ),
    )
)
