"""Simulated ranks in unit 23: a learner's function on every rank, and what the ranks send to each other.

The judge runs this beside a learner's code, where there are no exercises: it imports none.

from labutils import ranks
ranks.all_reduce(ring_all_reduce, 4, 16)      the calls and the results, as data
ranks.picture(ring_all_reduce, 4, 16)         the messages over time, a row for each rank
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from .. import environment
from ..gpu.links import BadLog, Mismatch
from ..gpu.rank_inputs import inputs, vectors, weights
from ..gpu.simulated_comm import SimulatedComm, replay, run

__all__ = ["all_reduce", "mlp", "picture", "shards", "times"]


def all_reduce(function: Callable, world: int, n: int) -> dict:
    """What `function(rank, world, x, comm)` calls on each rank, and x afterwards, as data."""
    xs = [torch.tensor(values, dtype=torch.int64) for values in vectors(world, n)]

    def work(rank: int, comm: SimulatedComm) -> list[int]:
        function(rank, world, xs[rank], comm)
        return xs[rank].tolist()

    return run(work, world)


def picture(function: Callable, world: int = 4, n: int = 16):
    """The messages of an all-reduce over the simulated links; a run that stops prints why."""
    if environment.grading_in_progress():
        return None
    from .. import plots

    try:
        report = replay(all_reduce(function, world, n))
    except (BadLog, Mismatch) as e:
        print(f"No picture: {e}")
        return None
    if found := report.deadlock():
        print(*found, sep="\n")
    rows = [f"rank {rank} sends" for rank in range(world)]
    boxes = [plots.Box(m.source, m.start, m.end, f"{m.count} → {m.to}", m.to) for m in report.messages]
    title = f"{len(report.messages)} messages, {sum(m.count for m in report.messages)} elements"
    return plots.show(plots.gantt, rows, boxes, title, "µs", "in a box: elements → receiving rank")


def times(all_reduce_us: Callable, gpus: int = 8, both_gbs: float = 900.0, latency_us: float = 3.0):
    """The predicted time of ring and tree over the size of the buffer, and where the ring becomes faster."""
    if environment.grading_in_progress():
        return None
    from .. import plots

    sizes = [1 << k for k in range(10, 31)]
    predicted = [all_reduce_us(size, gpus, both_gbs, latency_us) for size in sizes]
    curves = {name: [pair[k] for pair in predicted] for k, name in enumerate(("ring", "tree"))}
    title = f"All-reduce on {gpus} GPUs, {both_gbs:g} GB/s, {latency_us:g} µs: predicted"
    return plots.show(plots.curves, sizes, curves, title, "bytes", "µs")


# --- tensor parallelism --------------------------------------------------------------------------------------------


def shards(shard: Callable, width: int, hidden: int, world: int) -> list[list]:
    """What `shard` returns on each rank, as lists."""
    whole = weights(width, hidden)
    return [[piece.tolist() for piece in shard(*whole, rank, world)] for rank in range(world)]


def mlp(shard: Callable, mlp: Callable, mlp_backward: Callable, tokens: int, width: int, hidden: int, world: int):
    """The calls and results of both passes, as data."""
    whole, (x, dy) = weights(width, hidden), inputs(tokens, width)
    parts = [shard(*whole, rank, world) for rank in range(world)]

    def forward(rank: int, comm: SimulatedComm) -> list:
        return mlp(x.clone(), parts[rank], comm).tolist()

    def backward(rank: int, comm: SimulatedComm) -> list[list]:
        return [gradient.tolist() for gradient in mlp_backward(x.clone(), parts[rank], dy.clone(), comm)]

    return {"forward": run(forward, world), "backward": run(backward, world)}
