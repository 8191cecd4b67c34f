"""Unit 21's machine on a real GPU: plans give right results there, and take about what the simulation says."""

import pytest

from labutils.exercises.launch_plans import best_plan
from labutils.gpu.queue_times import simulate

gpu = pytest.mark.gpu


@gpu
@pytest.mark.parametrize("pieces", [1, 2, 5])
def test_the_best_plan_gives_the_kernels_results_bit_for_bit(pieces):
    from labutils.lessons.cuda_queues import CudaQueues, perform

    machine = CudaQueues(pieces, 1 << 18, 200)
    perform(best_plan(pieces), machine)
    assert machine.wrong() == []


@gpu
def test_a_plan_takes_about_what_is_predicted():
    from labutils.lessons import cuda_queues

    elements = 1 << 22
    machine = cuda_queues.CudaQueues(4, elements, cuda_queues.steps_for(500.0, elements))
    predicted = simulate(best_plan(4), cuda_queues.work(machine), cuda_queues.costs()).finish
    measured = 1e6 * cuda_queues.plan_seconds(best_plan(4), machine)
    assert measured == pytest.approx(predicted, rel=0.25)


@gpu
def test_a_timed_plan_shows_copies_under_kernels():
    from labutils.lessons import cuda_queues

    elements = 1 << 21
    machine = cuda_queues.CudaQueues(6, elements, cuda_queues.steps_for(300.0, elements), timed=True)
    for _ in range(2):
        machine.restart()
        cuda_queues.perform(best_plan(6), machine)
        machine.synchronize()
    spans = machine.spans()
    kernels = [s for s in spans if s.engine == "compute"]
    copies = [s for s in spans if s.engine in ("copy in", "copy out")]
    assert len(kernels) == 6 and len(copies) == 12
    assert any(k.start < c.start and c.end < k.end + 1e3 and c.start < k.end for k in kernels for c in copies)


@gpu
def test_a_captured_piece_can_be_replayed():
    from labutils.gpu.queues import QueueRecorder
    from labutils.lessons.cuda_queues import CudaQueues, perform

    recorder = QueueRecorder()
    stream = recorder.stream()
    recorder.pin()
    recorder.capture(stream)
    recorder.copy_in(0, 0, stream)
    recorder.kernel(0, 0, stream)
    recorder.copy_out(0, 0, stream)
    recorder.replay(recorder.end(), stream)
    recorder.synchronize()
    machine = CudaQueues(1, 1 << 16, 50)
    perform(recorder.plan, machine)
    assert machine.wrong() == []


@gpu
def test_what_a_tape_accepts_can_be_captured():
    import torch

    from labutils.gpu import tape
    from labutils.lessons import graphs

    def step(x, weight, running, out):
        h = torch.relu(x @ weight)
        h = h / h.max().clamp(min=1.0)
        running += 0.25 * (h.mean(0) - running)
        torch.sub(h, running, out=out)

    recorded = tape.tape(step, tape.example(8, 32, 1, True))["operations"]
    data = graphs._arguments(8, 32)
    graph = graphs.captured(step, data)
    fresh = tape.example(8, 32, 9, False)
    data["x"].copy_(fresh["x"])
    data["running"].copy_(fresh["running"])
    graph.replay()
    on_host = fresh | {"weight": data["weight"].cpu()}
    tape.replay(recorded, list(on_host.values()))
    torch.testing.assert_close(data["out"].cpu(), on_host["out"], rtol=1e-3, atol=1e-4)


@gpu
def test_a_sync_cannot_be_captured():
    import torch

    from labutils.lessons import graphs

    def step(x, weight, running, out):
        out.copy_(x @ weight)
        if running.max().item() > 0:
            out.mul_(2)

    with pytest.raises(Exception, match="captur|CUDA"):
        graphs.captured(step, graphs._arguments(4, 8))
    torch.cuda.synchronize()
    torch.randn(4, device="cuda")  # the generator is no longer in capture mode
