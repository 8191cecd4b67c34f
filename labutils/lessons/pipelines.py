"""Pipelines of stages in unit 23: schedules as pictures, and placements of two models as a table.

from labutils import pipelines
pipelines.picture(schedule(4, 8))     a Gantt picture: a row for each stage
pipelines.placements(cost, place)     where your functions put Llama 3 70B and 405B
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import environment
from ..exercises.placement import model_and_machine
from ..gpu import pipeline

__all__ = ["gpipe", "one_forward_one_backward", "picture", "placements"]

gpipe = pipeline.all_forward_first
one_forward_one_backward = pipeline.one_forward_one_backward


def picture(plan: Sequence, forward: float = 1.0, backward: float = 2.0, send: float = 0.0):
    """Every pass of a schedule over time, and what each stage holds; a schedule that stops prints where."""
    if environment.grading_in_progress():
        return None
    from .. import plots

    try:
        passes = pipeline.read(plan, len(plan))
    except (pipeline.BadSchedule, TypeError) as e:
        print(f"No picture: {e}")
        return None
    stages = len(passes)
    timeline = pipeline.simulate(passes, [forward] * stages, [backward] * stages, send)
    if timeline.stuck:
        print("deadlock: " + ", ".join(f"stage {s} waits for stage {t}" for s, t in timeline.stuck.items()))
    rows = [f"stage {stage}, holds {pipeline.held(own)}" for stage, own in enumerate(passes)]
    boxes = [plots.Box(p.stage, p.start, p.end, str(p.microbatch), p.kind == "B", p.kind == "B")
             for p in timeline.passes]  # fmt: skip
    idle = sum(timeline.idle(stage) for stage in range(stages)) / (stages * timeline.finish or 1.0)
    title = f"{timeline.finish:g} ms, {idle:.0%} idle"
    return plots.show(plots.gantt, rows, boxes, title, "ms", "number: microbatch; striped: backward pass")


MACHINE = {"memory_gb": 141, "tflops": 400, "node_gbs": 450, "net_gbs": 50}
"""H200: memory and NVLink in one direction from the data sheet, 400 Gb/s of network for each GPU; 400 TFLOP/s is an
assumption, near the 380 to 430 that Llama 3 reached on H100 (arXiv:2407.21783, table 4)."""


def placements(cost: Callable, place: Callable) -> None:
    """What `place` chooses for 70B and 405B, with memory and time of `cost`; the last row is a published choice."""
    if environment.grading_in_progress():
        return
    print(f"{'model':6} {'GPUs':>6}   {'dp':>4} {'tp':>3} {'pp':>3}   {'GB':>6} {'s/step':>8}")
    for model, name, counts in ((0, "70B", (16, 64, 512)), (1, "405B", (64, 1024, 16_384))):
        for gpus in counts:
            given = model_and_machine(model, gpus, **MACHINE)
            if (found := place(**given)) is None:
                print(f"{name:6} {gpus:6}   does not fit")
                continue
            dp, tp, pp = found
            gb, ms = cost(**given, dp=dp, tp=tp, pp=pp)
            print(f"{name:6} {gpus:6}   {dp:4} {tp:3} {pp:3}   {gb:6.1f} {ms / 1e3:8.1f}")
    print("Llama 3 405B was trained on 16384 GPUs with dp = 128, tp = 8, pp = 16.")
