"""What a record says of the GPU, from a management library that stands for the driver's."""

from types import SimpleNamespace

import pytest

from grader.judge import record
from labutils.gpu import device

bindings = pytest.importorskip("cuda.bindings", reason="needs NVIDIA's bindings, which exist for Linux and Windows")
CLOCKS = SimpleNamespace(CLOCK_SM="sm", CLOCK_MEM="mem")


class Library(SimpleNamespace):
    """Each GPU draws another power, by which it can be told."""

    def __init__(self):
        super().__init__(ClockType=CLOCKS, TemperatureSensors=SimpleNamespace(TEMPERATURE_GPU=0))
        self.begun = 0

    __hash__ = object.__hash__

    def init_v2(self):
        self.begun += 1

    def device_get_handle_by_index_v2(self, number):
        return 70_000 + 1000 * number

    def device_get_handle_by_uuid(self, name):
        return 77_283

    def system_get_driver_version(self):
        return "580.1"

    def device_get_clock_info(self, gpu, kind):
        return {"sm": 1980, "mem": 3201}[kind]

    def device_get_temperature_v(self, gpu, sensor):
        return 40

    def device_get_power_usage(self, gpu):
        return gpu


@pytest.fixture
def library(monkeypatch):
    h200, made = device.find("H200"), Library()
    monkeypatch.setattr(device, "current", lambda: h200)
    monkeypatch.setattr(bindings, "nvml", made, raising=False)
    return made


@pytest.mark.parametrize("visible, power", [(None, "70.0 W"), ("3,1", "73.0 W"), ("GPU-ab12", "77.3 W")])
def test_clocks_are_those_of_the_gpu_that_was_used(library, monkeypatch, visible, power):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    payload = [record._gpu() for _ in range(2)][-1]
    assert payload["name"] == "H200" and payload["clocks.sm"] == "1980 MHz" and payload["power.draw"] == power
    assert library.begun == 1


def refuses(*_):
    raise Exception("not supported")  # as the library's own errors, it is no RuntimeError


def test_a_gpu_tells_what_it_can(library):
    library.device_get_power_usage = refuses
    payload = record._gpu()
    assert payload["driver_version"] == "580.1" and payload["clocks.mem"] == "3201 MHz" and "power.draw" not in payload


def test_without_a_management_library_the_name_is_known(library):
    library.init_v2 = refuses
    assert record._gpu() == {"name": "H200"}
