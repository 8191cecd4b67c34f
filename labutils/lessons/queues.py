"""Streams in unit 21: the recorder of plans, their timelines, and the same calls on a GPU.

from labutils import queues
queues.plan_of(pipeline, 8)           the plan, as data
queues.picture(pipeline, 8)           what the simulated machine makes of it; on a GPU the measured one below
"""

from __future__ import annotations

from collections.abc import Callable

from .. import environment
from ..gpu import device
from ..gpu.queue_times import Span, Work, simulate
from ..gpu.queues import QueueRecorder

ELEMENTS = 1 << 21
"""Floats of a piece on the GPU: 8 MB."""

WORK = Work(200.0, 200.0, 200.0)
"""Of the simulated machine, µs."""


def plan_of(pipeline: Callable, pieces: int) -> list[list]:
    """What `pipeline(machine, pieces)` calls, as data."""
    machine = QueueRecorder()
    pipeline(machine, pieces)
    return machine.plan


def picture(pipeline: Callable, pieces: int = 6):
    """The plan's simulated timeline; on a GPU also the measured one, and whether the results are right."""
    if environment.grading_in_progress():
        return None
    simulated = simulate(plan_of(pipeline, pieces), WORK)
    timelines: dict[str, list[Span]] = {"simulated": simulated.spans}
    if device.has_gpu():
        from . import cuda_queues

        machine = cuda_queues.CudaQueues(pieces, ELEMENTS, cuda_queues.steps_for(160.0, ELEMENTS), timed=True)
        pipeline(machine, pieces)  # warms up
        machine.restart()
        pipeline(machine, pieces)
        machine.synchronize()
        timelines[device.current().name] = machine.spans()
        wrong = machine.wrong()
        print("results: correct, bit for bit" if not wrong else f"results: wrong for pieces {wrong}")
    return _shown(timelines)


def _shown(timelines: dict[str, list[Span]]):
    from .. import plots

    return plots.show(plots.queue_timeline, timelines)


def report(pipeline: Callable, pieces: int = 16) -> None:
    """On a GPU: serial time, the plan's time, the busiest engine's bound, the simulation with measured times."""
    if environment.grading_in_progress():
        return
    if not device.has_gpu():
        print(STORED)
        return
    from . import cuda_queues

    machine = cuda_queues.CudaQueues(pieces, ELEMENTS, cuda_queues.steps_for(160.0, ELEMENTS))
    times, costs = cuda_queues.work(machine), cuda_queues.costs()
    plan = plan_of(pipeline, pieces)
    each = times.copy_in, times.kernel[0], times.copy_out
    took = 1e6 * cuda_queues.plan_seconds(plan, machine)
    print(f"a piece of 8 MB: copy in {each[0]:.0f} µs, kernel {each[1]:.0f} µs, copy out {each[2]:.0f} µs")
    print(f"serial            {pieces * sum(each):7.0f} µs")
    print(f"predicted         {simulate(plan, times, costs).finish:7.0f} µs")
    print(f"measured          {took:7.0f} µs")
    print(f"bound             {pieces * max(each):7.0f} µs: the busiest engine")


STORED = """32 pieces of 16 MB on an NVIDIA H200, kernels as long as a copy (torch 2.11):
  one stream             29.9 ms, predicted 29.4
  three streams          11.4 ms, predicted 11.7
  bound                  11.0 ms: copies in both directions share the link; 9.8 if they did not"""
