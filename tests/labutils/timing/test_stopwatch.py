"""The stopwatch against a simulated GPU that knows the truth, and the statistics that it reports."""

import random
import statistics

import pytest

from labutils.gpu.machine import NotThereYet, SimulatedGPU, queue_time
from labutils.timing.stopwatch import LOOK_EVERY, Sample, Stopwatch, ratio


def pretended(**changes):
    return SimulatedGPU(**{"cold_s": 100e-6, "hot_s": 40e-6, **changes})


@pytest.mark.parametrize("changes", [{}, {"launch_s": 80e-6}, {"disturbed": 0.2}, {"cold_s": 2e-3, "hot_s": 1.9e-3}])
def test_the_stopwatch_finds_the_truth(changes):
    gpu = pretended(**changes)
    watch = Stopwatch(gpu)
    cold = watch.take_turns({"call": [gpu.call]})["call"]
    hot = watch.hot(gpu.call)
    assert cold.median == pytest.approx(gpu.cold_s, rel=0.015 if changes.get("disturbed") else 0.01)
    assert hot.median == pytest.approx(gpu.hot_s, rel=0.015 if changes.get("disturbed") else 0.01)
    assert watch.launch_s == pytest.approx(gpu.launch_s)


@pytest.mark.parametrize("clean", [False, True])
def test_a_clean_l2_leaves_out_what_the_flush_wrote(clean):
    gpu = pretended(writeback_s=20e-6)
    (sample,) = Stopwatch(gpu, clean=clean).take_turns({"call": [gpu.call]}).values()
    assert sample.median == pytest.approx(gpu.cold_s + (not clean) * gpu.writeback_s, rel=0.01)


def test_sampling_stops_after_max_seconds():
    gpu = pretended()
    (sample,) = Stopwatch(gpu, max_seconds=0).take_turns({"call": [gpu.call]}).values()
    (longer,) = Stopwatch(gpu, min_seconds=1).take_turns({"call": [gpu.call]}).values()
    assert len(sample.seconds) == LOOK_EVERY < len(longer.seconds)


def test_two_calls_are_compared_within_a_hundredth():
    gpu = pretended()
    samples = Stopwatch(gpu).take_turns({"a": [gpu.call], "b": [gpu.call]})
    assert ratio(samples["a"], samples["b"]).value == pytest.approx(1, abs=0.01)
    assert len(samples["a"].seconds) == len(samples["b"].seconds)


def test_a_ratio_is_of_pairs():
    with pytest.raises(ValueError):
        ratio(Sample("a", (1.0, 2.0)), Sample("b", (1.0, 2.0, 3.0)))


def test_an_event_is_read_after_synchronising():
    gpu = pretended()
    start = gpu.event()
    gpu.call()
    stop = gpu.event()
    with pytest.raises(NotThereYet):
        gpu.seconds(start, stop)
    gpu.synchronize()
    assert gpu.seconds(start, stop) > gpu.cold_s


def test_the_interval_holds_the_median_about_95_times_in_100():
    rng = random.Random(1)
    held = 0
    for _ in range(400):
        low, high = Sample("x", tuple(rng.lognormvariate(0, 0.3) for _ in range(61))).interval
        held += low <= 1 <= high
    assert 0.93 <= held / 400 <= 0.995


def test_few_samples_have_a_wide_interval():
    assert Sample("x", (1.0, 2.0, 3.0)).interval == (1.0, 3.0)
    assert Sample("x", (1.0,)).interval == (1.0, 1.0)


@pytest.mark.parametrize("launch,kernel", [(5e-6, 100e-6), (10e-6, 2e-6), (3e-6, 3e-6)])
def test_a_queue_takes_as_long_as_the_slower_of_launch_and_kernel(launch, kernel):
    gpu = SimulatedGPU(kernel, kernel, launch_s=launch, compile_s=0, slow=0, noise=0, disturbed=0)
    for _ in range(50):
        gpu.call()
    done = max(gpu._host, gpu._free)
    assert done == pytest.approx(queue_time(50, launch, kernel))


def test_clocks_rise_and_the_odd_run_is_disturbed():
    gpu = pretended()
    for _ in range(3000):
        gpu.call()
    assert gpu.runs[0].clock == pytest.approx(1.6) and gpu.runs[-1].clock < 1.001
    assert 0.02 < statistics.mean(r.disturbed for r in gpu.runs) < 0.06
