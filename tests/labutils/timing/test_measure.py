"""`lab.benchmark`, `lab.compare` and `lab.ceilings`: on a simulated GPU, and without one."""

import pytest
import torch

import labutils as lab
from grader.course.solutions import load_text, solution_text
from labutils.gpu.machine import SimulatedGPU
from labutils.timing import ceilings as roofs
from labutils.timing import measure
from labutils.timing.ceilings import Ceilings


def pretended(**changes):
    return SimulatedGPU(**{"cold_s": 100e-6, "hot_s": 40e-6, **changes})


def test_a_measurement_says_what_was_measured():
    gpu = pretended()
    found = measure.measure(lambda x: gpu.call(), torch.ones(1000), bytes=4e8, flops=1e9, machine=gpu)
    assert found.gbs == pytest.approx(4000, rel=0.01) and found.tflops == pytest.approx(10, rel=0.01)
    low, high = found.cold.interval
    assert low <= found.median <= high and found.hot.median == pytest.approx(40e-6, rel=0.01)
    text = repr(found)
    assert "GB/s" in text and "TFLOP/s" in text and "hot 4" in text and text.count("\n") == 0
    assert found.to_json()["samples"] >= 30 and "cold 1" in found.plot().alt.replace("0.", "1.")


def test_notes_warn_of_what_makes_a_time_worthless():
    gpu = pretended(cold_s=10e-6, hot_s=5e-6, launch_s=30e-6)
    text = repr(measure.measure(gpu.call, machine=gpu))
    assert "too short to judge" in text and "the GPU waits" in text
    ceilings = Ceilings("toy", "", copy_gbs=1000, read_gbs=1000, write_gbs=1000, tflops={"fp16": 10})
    slow = pretended()
    once = measure.measure(slow.call, machine=slow)
    fast = measure.Measurement("f", "toy", once.cold, once.hot, 5e-6, bytes=2e8, flops=5e8, ceilings=ceilings)
    assert fast.of_copy == pytest.approx(2, rel=0.01) and fast.of_matmul is None
    assert "fewer bytes move than you gave" in repr(fast)


def test_versus_sees_a_difference_and_none():
    gpu = pretended()

    def twice():
        gpu.call()
        gpu._in_l2 = False
        gpu.call()

    same = measure.versus((), machine=gpu, a=gpu.call, b=gpu.call)
    assert same.times("b").value == pytest.approx(1, abs=0.01)
    double = measure.versus((), machine=gpu, a=gpu.call, b=twice)
    assert double.times("b").value == pytest.approx(2, rel=0.02) and "slower" in repr(double)


def test_the_ring_holds_copies_that_lie_alike():
    x = torch.arange(12.0).view(3, 4).t()
    ring = measure.copies((x, 5), 10**6)
    assert len(ring) == measure.RING_MAX and ring[0][0] is x
    assert all(torch.equal(a, x) and a.stride() == x.stride() and n == 5 for a, n in ring)
    assert len({a.data_ptr() for a, _ in ring}) == len(ring)
    assert measure.copies((3,), 10**6) == [(3,)]


def test_the_stored_ceilings_make_a_roof():
    roof = roofs.H200.roof("fp16")
    assert roof.ridge == pytest.approx(690e12 / 4282e9) and "measured" in roof.name


@pytest.mark.skipif(lab.device.has_gpu(), reason="what is said without a GPU")
class TestWithoutAGPU:
    def test_benchmark_counts(self, capsys):
        triton = pytest.importorskip("triton")
        from labutils.timing.read_kernel import read

        assert triton and lab.benchmark(read, torch.ones(8192 * 2)) is None
        assert "no times" in (said := capsys.readouterr().out) and "65,536 bytes in loads" in said

    @pytest.mark.parametrize(
        "name, said", [("scale", "lanes masked off."), ("scale_cuda", "load requests of warps with")]
    )
    def test_an_exercise_is_counted(self, name, said, capsys, tmp_path):
        fn = getattr(load_text(solution_text("00_start"), tmp_path), name)
        assert lab.benchmark(f"00_start/{name}", fn) is None
        assert "Counted instead" in (shown := capsys.readouterr().out) and said in shown

    def test_plain_functions_have_nothing_to_count(self, capsys):
        assert lab.benchmark(torch.sin, torch.ones(3)) is None
        assert "nothing to count" in capsys.readouterr().out
        assert lab.benchmark(5) is None and "takes an exercise's id" in capsys.readouterr().out

    def test_a_function_that_fails_is_reported(self, capfd):
        def broken(x):
            raise ValueError("no such thing")

        assert lab.benchmark(broken, torch.ones(3)) is None
        seen = capfd.readouterr()
        assert "no such thing" in seen.out and seen.err == ""

    def test_compare_ceilings_and_profile_say_why(self, capsys):
        assert lab.compare(torch.ones(3), a=torch.sin, b=torch.cos) is None
        assert lab.compare(a=torch.sin) is None
        assert lab.ceilings() is None and lab.profile(torch.sin, torch.ones(3)) is None
        said = capsys.readouterr().out
        assert "at least two" in said and "Stored from elsewhere: NVIDIA H200" in said and "Nothing to profile" in said

    def test_the_names_stay_functions(self):
        assert all(callable(getattr(lab, n)) for n in ("benchmark", "ceilings", "compare", "profile"))
