"""Units 01 and 03: references against the catalogue and the calculator, and cases that tell wrong ideas apart."""

import random

import pytest

from labutils import exercises
from labutils.gpu import device
from labutils.gpu.occupancy import occupancy, warps_for_bytes
from labutils.gpu.roofline import Roof, in_flight


def reference(name):
    return exercises.get(name).reference


def test_peaks_are_those_of_the_catalogue():
    peak = reference("01_hardware/peak")
    for gpu in device.catalogue().values():
        limits = gpu.limits
        assert peak(gpu.sms, limits.cores, 1, gpu.boost_mhz) == pytest.approx(gpu.fp32_tflops, rel=0.01)
    assert peak(132, 4, 512, 1830) == pytest.approx(989, abs=1)


def test_on_chip_bytes_are_those_of_the_catalogue():
    h200 = device.find("H200")
    ours = reference("01_hardware/on_chip")(h200.sms, h200.limits.l1_kb, int(h200.l2_mb))
    assert ours == h200.sms * (4 * h200.limits.registers + h200.limits.l1_kb * 1024) + 50 * 2**20


def test_ridge_and_little_agree_with_the_roofline_module():
    assert reference("01_hardware/ridge")(989, 4800) == pytest.approx(Roof.of(device.find("H200"), "fp16").ridge)
    flight = reference("01_hardware/in_flight")(4800, 600)
    assert flight == pytest.approx(in_flight(4800e9, 600e-9))
    assert reference("01_hardware/warps_needed")(4800, 600, 132, 4) == warps_for_bytes(flight, 132)


def test_a_budget_is_the_way_back_from_registers_to_blocks():
    task, blocks_of = exercises.get("03_occupancy/budget"), reference("03_occupancy/registers")
    rng = random.Random(3)
    for _ in range(300):
        s = task.draw(rng)
        most = task.reference(**s)
        assert 0 < most <= 255 and blocks_of(s["threads"], most, s["capability"]) >= s["blocks"]
        assert most == 255 or blocks_of(s["threads"], most + 1, s["capability"]) < s["blocks"]


@pytest.mark.parametrize("name", [e for e in exercises.all_exercises() if e[:2] in ("01", "03")])
def test_hidden_cases_are_drawn_within_range(name):
    task, rng = exercises.get(name), random.Random(7)
    for _ in range(300):
        sizes = task.draw(rng)
        assert set(sizes) == set(task.parameters) and task.reference(**sizes) >= 0


def test_the_worked_cases_of_the_course():
    calculator = reference("03_occupancy/calculator")
    assert calculator(128, 160, 0, 90) == 12 / 64 == 0.1875
    assert calculator(256, 40, 32 << 10, 90) == 0.75
    assert occupancy(device.find("H100 SXM").limits, 128, 160).warps == 12
