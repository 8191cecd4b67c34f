"""The kernels that measure the hardware compile for every GPU and do what they say; stored figures are whole."""

import dataclasses

import pytest

from labutils.cuda import cubin, nvrtc
from labutils.gpu import device
from labutils.lessons import hardware

TEXTS = {
    "CHASE": ("chase<true>", "chase<false>", "chase_shared", "chase_register"),
    "READ": ("read_global<true>", "read_global<false>", "read_shared", "multiply_add"),
    "COPY": ("copy_kernel<1>", "copy_kernel<2>", "copy_kernel<4>"),
    "CLOCK": ("empty_kernel", "clock_kernel"),
}
NEEDS_NVRTC = pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC (pip install nvidia-cuda-nvrtc)")


@NEEDS_NVRTC
@pytest.mark.parametrize("name", TEXTS)
def test_kernels_compile_for_every_gpu(name):
    for capability in (75, 80, 86, 89, 90, 100, 120):
        nvrtc.compile_source(getattr(hardware, name), TEXTS[name], capability)


@NEEDS_NVRTC
def test_the_compiler_left_in_what_is_measured():
    code = {}
    for name, kernels in TEXTS.items():
        done = nvrtc.compile_source(getattr(hardware, name), kernels, 90)
        code |= {k: cubin.sass(done.cubin)[done.lowered[k]] for k in kernels}
    for kernel, opcode, at_least in (
        ("chase<true>", "LDG", 16),
        ("chase<false>", "LDG", 16),
        ("chase_shared", "LDS", 16),
        ("chase_register", "FFMA", 64),
        ("multiply_add", "FFMA", 256),
        ("copy_kernel<4>", "LDG", 4),
    ):
        assert sum(i.opcode.startswith(opcode) for i in code[kernel]) >= at_least, kernel
    assert cubin.access_width(code["read_global<true>"]) == cubin.access_width(code["read_global<false>"]) == 16
    assert cubin.access_width(code["read_shared"], "LDS") == 16


def test_stored_figures():
    found = hardware.stored()
    assert found.gpu == "NVIDIA H200" and found.source
    assert set(found.latency_cycles) == set(found.bandwidth_gbs) == set(hardware.LEVELS)
    for row in (found.latency_cycles, found.bandwidth_gbs):
        known = [row[level] for level in hardware.LEVELS if row[level] is not None]
        assert all(v > 0 for v in known)
    for level in hardware.LEVELS:
        assert level in repr(found)


def test_latency_in_nanoseconds_needs_cycles_and_clock():
    found = dataclasses.replace(hardware.stored(), clock_mhz=2000.0, latency_cycles={"L2": 200})
    assert found.latency_ns("L2") == 100.0 and found.latency_ns("HBM") is None


def test_without_a_gpu_the_stored_figures_are_shown_and_measuring_says_what_it_needs():
    if device.has_gpu():
        pytest.skip("there is a GPU")
    assert hardware.figures() == hardware.stored()
    with pytest.raises(device.DeviceMissing, match="needs a GPU"):
        hardware.measure()


@pytest.mark.gpu
def test_measured_on_the_gpu_at_hand():
    found = hardware.measure()
    cycles, gbs = found.latency_cycles, found.bandwidth_gbs
    assert 2 <= cycles["register"] < cycles["shared"] < cycles["L2"] < cycles["HBM"]
    assert cycles["L1"] < cycles["L2"]
    assert gbs["register"] > gbs["shared"] > gbs["L2"] > gbs["HBM"]
    roof = device.current().bandwidth_gbs
    assert roof is None or 0.5 * roof < gbs["HBM"] <= 1.02 * roof
    assert all(v > 0 for v in found.launch_us.values()) and len(found.occupancy) == 18
