"""What a record says of the GPU, from a management library that stands for the driver's."""

from types import SimpleNamespace

import pytest

from grader.judge import record
from labutils import device

bindings = pytest.importorskip("cuda.bindings", reason="needs NVIDIA's bindings, which exist for Linux and Windows")
CLOCKS = SimpleNamespace(CLOCK_SM="sm", CLOCK_MEM="mem")


class Library(SimpleNamespace):
    """Tells of a GPU by its handle, which is the name by which it was asked for."""

    def __init__(self):
        super().__init__(ClockType=CLOCKS, TemperatureSensors=SimpleNamespace(TEMPERATURE_GPU=0))
        self.begun = 0

    __hash__ = object.__hash__

    def init_v2(self):
        self.begun += 1

    def device_get_handle_by_index_v2(self, number):
        return f"GPU {number}"

    def device_get_handle_by_uuid(self, name):
        return name

    def device_get_name(self, gpu):
        return gpu

    def system_get_driver_version(self):
        return "580.1"

    def device_get_clock_info(self, gpu, kind):
        return {"sm": 1980, "mem": 3201}[kind]

    def device_get_temperature_v(self, gpu, sensor):
        return 40

    def device_get_power_usage(self, gpu):
        return 77_283


@pytest.fixture
def library(monkeypatch):
    made = Library()
    monkeypatch.setattr(bindings, "nvml", made, raising=False)
    return made


@pytest.mark.parametrize("visible, name", [(None, "GPU 0"), ("3,1", "GPU 3"), ("GPU-ab12", "GPU-ab12")])
def test_clocks_are_those_of_the_gpu_that_was_used(library, monkeypatch, visible, name):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    told = [record._gpu() for _ in range(2)][-1]
    assert told["name"] == name and told["clocks.sm"] == 1980 and told["power.draw"] == 77.283
    assert library.begun == 1


@pytest.mark.parametrize("silent", ["init_v2", "device_get_power_usage"])
def test_a_gpu_that_does_not_tell_has_a_name(library, monkeypatch, silent):
    h200 = device.find("H200")
    monkeypatch.setattr(device, "current", lambda: h200)

    def refuses(*_):
        raise Exception("not supported")  # NvmlError is no RuntimeError

    setattr(library, silent, refuses)
    assert record._gpu() == {"name": h200.name}
