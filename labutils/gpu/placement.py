"""How a training step of a large model is spread over GPUs: bytes on each GPU, and ms of a step.

dp copies of the model (data parallelism), each split over tp GPUs within every layer (tensor parallelism) and over pp
groups of layers (pipeline parallelism). A microbatch is one sequence. The figures are those of a model that leaves out
overlap of communication with compute, latencies, embeddings, and recomputation.

model    parameters, layers, width, sequence (tokens), batch (sequences of one step)
machine  gpus, node (GPUs in a node), memory_gb, tflops (achieved by a GPU), node_gbs and net_gbs (one direction)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

STATE_BYTES = 16
"""Of a parameter with Adam: bf16 weight and gradient, fp32 copy and two moments (Rajbhandari et al.,
arXiv:1910.02054, section 3.1)."""

ACTIVATION_BYTES = 34
"""Of a token, a column and a layer, with attention recomputed (Korthikanti et al., arXiv:2205.05198, table 2)."""


def memory_gb(model: Mapping, dp: int, tp: int, pp: int) -> float:
    """GB on a GPU of the first stage, which holds the activations of the most microbatches."""
    layers = math.ceil(model["layers"] / pp)
    parameters = model["parameters"] * layers / model["layers"] / tp
    in_flight = min(pp, model["batch"] // dp)
    activations = ACTIVATION_BYTES * model["sequence"] * model["width"] * layers * in_flight / tp
    return (STATE_BYTES * parameters + activations) / 1e9


def step_ms(model: Mapping, machine: Mapping, dp: int, tp: int, pp: int) -> float:
    """ms of a step: a pipeline of microbatches, and the all-reduce of the gradients."""
    layers = math.ceil(model["layers"] / pp)
    parameters = model["parameters"] * layers / model["layers"] / tp
    sent = 2 * model["sequence"] * model["width"]
    compute = 6 * parameters * model["sequence"] / (machine["tflops"] * 1e9)
    reduce = 4 * layers * 2 * (tp - 1) / tp * sent / (machine["node_gbs"] * 1e6)
    transfer = 2 * sent / tp / (machine["net_gbs"] * 1e6) if pp > 1 else 0.0
    gradients = 2 * (dp - 1) / dp * 2 * parameters / (machine["net_gbs"] * 1e6)
    return (model["batch"] // dp + pp - 1) * (compute + reduce + transfer) + gradients


def allowed(model: Mapping, machine: Mapping) -> Iterator[tuple[int, int, int]]:
    """Every (dp, tp, pp) that uses all GPUs, with tp inside a node; memory is not considered."""
    gpus = machine["gpus"]
    for tp in range(1, machine["node"] + 1):
        if machine["node"] % tp or gpus % tp:
            continue
        for pp in range(1, min(gpus // tp, model["layers"]) + 1):
            dp = gpus // tp // pp
            if dp * tp * pp == gpus and model["batch"] % dp == 0:
                yield dp, tp, pp


def best(model: Mapping, machine: Mapping) -> tuple[int, int, int] | None:
    """The placement with the shortest step that fits into memory, or None."""
    fits = [p for p in allowed(model, machine) if memory_gb(model, *p) <= machine["memory_gb"]]
    return min(fits, key=lambda p: step_ms(model, machine, *p), default=None)
