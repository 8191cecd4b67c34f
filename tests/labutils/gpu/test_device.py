"""The catalogue's figures agree with each other, and the GPU at hand is described by what its driver says."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from labutils.gpu import device

ROOT = Path(__file__).parents[3]
GPUS = list(device.catalogue().values())
by_name = pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)

H200 = SimpleNamespace(
    name="NVIDIA H200",
    major=9,
    minor=0,
    multi_processor_count=132,
    L2_cache_size=60 * 2**20,
    total_memory=140 * 2**30,
    max_threads_per_multi_processor=2048,
    regs_per_multiprocessor=65536,
    shared_memory_per_multiprocessor=233472,
    shared_memory_per_block_optin=232448,
)


@pytest.fixture
def plug_in(monkeypatch):
    """Return a function that makes PyTorch report a GPU with the given properties."""
    import torch

    def plug(**changes):
        driver = SimpleNamespace(**{**vars(H200), **changes})
        monkeypatch.delenv("TRITON_INTERPRET", raising=False)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.setattr(device, "_has_driver", lambda: True)
        monkeypatch.setattr(torch.version, "cuda", "13.0")
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: driver)

    return plug


@pytest.fixture
def unplug(monkeypatch):
    """Make PyTorch report no GPU, whatever this machine has."""
    import torch

    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


# --- the catalogue ---


def test_catalogue_holds_the_gpus_of_the_lessons():
    assert {"T4", "A100 40GB", "A100 80GB", "L4", "H100 PCIe", "H100 SXM", "H200", "B200"} <= set(device.catalogue())


@by_name
def test_fp32_peak_follows_from_cores_and_clock(gpu):
    from_clock = gpu.sms * gpu.limits.cores * 2 * gpu.boost_mhz * 1e6 / 1e12
    assert gpu.fp32_tflops == pytest.approx(from_clock, rel=0.01)


@by_name
def test_tensor_peak_follows_from_width_and_clock(gpu):
    """Within 10 %: the quoted tensor peaks of Hopper and Blackwell are at a clock below boost."""
    width = gpu.limits.tensor_fma / (2 if gpu.name.startswith("RTX") else 1)
    from_clock = gpu.sms * width * 2 * gpu.boost_mhz * 1e6 / 1e12
    assert 0.9 * from_clock < gpu.peak("fp16") < 1.01 * from_clock


def test_other_accelerators_have_what_lessons_compare():
    for other in device.others():
        assert {"name", "units", "fp16_tflops", "fp8_tflops", "bandwidth_gbs", "cache_mb", "source"} <= set(other)


@by_name
def test_tensor_peaks_double_as_the_width_halves(gpu):
    peaks = gpu.tensor_tflops
    assert peaks["fp16"] > gpu.fp32_tflops
    for wide, narrow in [("tf32", "fp16"), ("tf32", "bf16"), ("fp16", "fp8"), ("fp8", "fp4")]:
        if wide in peaks and narrow in peaks:
            assert peaks[narrow] == pytest.approx(2 * peaks[wide], rel=0.02), (wide, narrow)


@by_name
def test_precisions_exist_only_where_the_hardware_has_them(gpu):
    first = {"fp16": (7, 0), "bf16": (8, 0), "tf32": (8, 0), "fp8": (8, 9), "fp4": (10, 0)}
    assert all(gpu.capability >= first[precision] for precision in gpu.tensor_tflops)
    assert ("bf16" in gpu.tensor_tflops) == (gpu.capability >= (8, 0))


@by_name
def test_every_figure_is_there_and_sourced(gpu):
    assert None not in vars(gpu).values()
    assert re.search("datasheet|whitepaper", gpu.source)


@by_name
def test_limits_are_consistent(gpu):
    limits = gpu.limits
    assert limits.shared_per_block_kb + limits.shared_reserved_kb == limits.shared_per_sm_kb
    assert limits.registers % (limits.register_unit * limits.warp_unit) == 0
    assert limits.max_warps * 32 >= limits.threads_per_block


@pytest.mark.parametrize(
    "capability, warps, blocks, shared",
    [
        ((7, 5), 32, 16, 64),
        ((8, 0), 64, 32, 164),
        ((8, 6), 48, 16, 100),
        ((8, 9), 48, 24, 100),
        ((9, 0), 64, 32, 228),
    ],
)
def test_limits_of_the_programming_guide(capability, warps, blocks, shared):
    limits = device.limits_for(capability)
    assert (limits.max_warps, limits.max_blocks, limits.shared_per_sm_kb) == (warps, blocks, shared)


def test_unknown_capability_takes_the_nearest_below():
    assert device.limits_for((10, 3)) == device.limits_for((10, 0))
    assert device.limits_for((6, 1)) == device.limits_for((7, 0))


def test_peak_by_precision():
    t4 = device.find("T4")
    assert (t4.peak("fp32"), t4.peak("fp16"), t4.peak("bf16")) == (8.1, 65, None)


def test_catalogue_is_a_copy():
    device.catalogue().clear()
    assert device.catalogue()


def test_gpu_can_be_a_dictionary_key():
    assert len({gpu: 0 for gpu in GPUS}) == len(GPUS)


# --- names ---


@pytest.mark.parametrize(
    "reported, name",
    [
        ("Tesla T4", "T4"),
        ("NVIDIA T4", "T4"),
        ("Tesla V100-SXM2-32GB", "V100 SXM2"),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB"),
        ("A100-SXM4-40GB", "A100 40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
        ("NVIDIA A100 80GB PCIe", "A100 80GB PCIe"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("rtx 4090", "RTX 4090"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA B200", "B200"),
    ],
)
def test_find_knows_the_names_drivers_report(reported, name):
    assert device.find(reported).name == name


@by_name
def test_find_knows_its_own_names(gpu):
    assert device.find(gpu.name) is gpu


@pytest.mark.parametrize(
    "namesake",
    [
        "",
        "A100",
        "NVIDIA A10G",
        "NVIDIA L40",
        "NVIDIA H100 NVL",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA H200 NVL",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 3090 Ti",
        "Tesla V100-PCIE-16GB",
        "AMD Instinct MI300X",
    ],
)
def test_find_does_not_mistake_namesakes(namesake):
    assert device.find(namesake) is None


# --- the GPU at hand ---


def test_driver_is_preferred_and_catalogue_completes(plug_in):
    plug_in()
    gpu = device.current()
    assert (gpu.name, gpu.capability, gpu.sms) == ("NVIDIA H200", (9, 0), 132)
    assert (gpu.l2_mb, gpu.memory_gib) == (60, 140)  # the datasheet says 50 and 141
    assert (gpu.bandwidth_gbs, gpu.peak("fp16")) == (4800, 989)
    assert gpu.limits == device.find("H200").limits


def test_unknown_gpu_works_from_its_driver_alone(plug_in):
    plug_in(name="NVIDIA Novelty 1", major=10, minor=3, multi_processor_count=160, regs_per_multiprocessor=131072)
    gpu = device.current()
    assert (gpu.capability, gpu.sms, gpu.l2_mb) == ((10, 3), 160, 60)
    assert (gpu.limits.registers, gpu.limits.max_warps, gpu.limits.shared_per_block_kb) == (131072, 64, 227)
    assert gpu.bandwidth_gbs is None and gpu.peak("fp32") is None and gpu.peak("fp16") is None
    assert "NVIDIA Novelty 1" in device.card() and "TFLOP/s" not in device.card()


def test_partition_of_a_known_gpu_has_no_peaks(plug_in):
    plug_in(multi_processor_count=16)
    assert device.current().sms == 16
    assert device.current().peak("fp32") is None


def test_card_tells_size_and_roofs(plug_in):
    plug_in()
    text = device.card()
    assert text.startswith("NVIDIA H200, compute capability 9.0, 132 SMs, 140 GiB of memory, 60 MB of L2")
    assert "4800 GB/s" in text and "fp16 989" in text


def test_without_a_gpu(unplug):
    assert not device.has_gpu()
    assert device.current() is None
    assert device.card().startswith("No GPU: kernels run in Triton's interpreter on the CPU")


def test_interpreter_hides_the_gpu(plug_in, monkeypatch):
    plug_in()
    assert device.has_gpu()
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert not device.has_gpu()
    assert device.current() is None
    assert device.card().startswith("TRITON_INTERPRET is set: kernels run in")
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    assert device.has_gpu()


def test_other_vendors_gpu_is_not_a_cuda_gpu(plug_in, monkeypatch):
    import torch

    plug_in()
    monkeypatch.setattr(torch.version, "cuda", None)  # what a ROCm build of PyTorch says
    assert not device.has_gpu()


def test_unusable_driver_stays_silent(plug_in, monkeypatch, recwarn):
    import warnings

    import torch

    plug_in()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(warnings.warn("driver too old", stacklevel=1)))
    assert not device.has_gpu()
    assert not recwarn.list


def test_requires_returns_the_gpu(plug_in):
    plug_in()
    assert device.requires((9, 0), "TMA").name == "NVIDIA H200"


def test_requires_names_what_is_needed(plug_in):
    plug_in(name="Tesla T4", major=7, minor=5, multi_processor_count=40)
    with pytest.raises(device.DeviceMissing) as error:
        device.requires((9, 0), "TMA")
    assert str(error.value) == (
        "TMA needs a GPU of compute capability 9.0 or newer (H100 PCIe, H100 SXM, H200, for example), "
        "and this is Tesla T4 with 7.5."
    )


def test_requires_without_a_gpu(unplug, monkeypatch):
    with pytest.raises(device.DeviceMissing, match=r"or newer \(T4, .*, and there is none here\.$"):
        device.requires(what="Timing")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(device.DeviceMissing, match="TRITON_INTERPRET is set"):
        device.requires(what="Timing")


def test_requires_something_no_gpu_has_yet(unplug):
    with pytest.raises(device.DeviceMissing, match=r"99\.0 or newer, and"):
        device.requires((99, 0), "Tomorrow")


# --- the module itself ---


def test_import_does_not_load_torch():
    path = importlib.util.find_spec("labutils.gpu.device").origin
    code = f"import runpy, sys; runpy.run_path({path!r}); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_nobody_else_asks_torch_for_a_gpu():
    sources = [path for folder in ("labutils", "grader", "bench") for path in (ROOT / folder).rglob("*.py")]
    sources = [path for path in sources if "redteam" not in path.parts]  # submissions
    askers = {path.relative_to(ROOT).as_posix() for path in sources if "cuda.is_available" in path.read_text("utf-8")}
    assert askers == {"labutils/gpu/device.py"}


@pytest.mark.gpu
def test_the_real_gpu():
    if not device.has_gpu():
        pytest.skip("needs a CUDA GPU")
    gpu = device.current()
    print(device.card())
    assert gpu.sms > 0 and gpu.l2_mb > 0 and gpu.memory_gib > 0
    known = device.find(gpu.name)
    if known:
        assert (gpu.capability, gpu.sms) == (known.capability, known.sms)
        assert gpu.limits == known.limits
        assert gpu.memory_gib == pytest.approx(known.memory_gib, rel=0.1)
