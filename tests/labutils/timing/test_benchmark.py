"""What `lab.benchmark` says of a kernel: in the unit of what bounds it, and beside whom."""

import pytest

from labutils import exercises
from labutils.gpu import device
from labutils.gpu.roofline import Roof
from labutils.spec.exercise import Cost
from labutils.timing import benchmark, profiling
from labutils.timing.benchmark import Benchmark
from labutils.timing.profiling import Launch
from labutils.timing.stopwatch import Sample

H200 = Roof.of(device.find("H200"), "fp16")


def sample(name: str, us: float) -> Sample:
    return Sample(name, tuple(us * 1e-6 * (1 + k % 5 / 1000) for k in range(100)))


def measured(cost: Cost, roof: Roof | None = H200, **us: float) -> Benchmark:
    samples = {name: sample(name, time) for name, time in us.items()}
    return Benchmark("14_matmul_triton/matmul_relu", "NVIDIA H200", {"M": 4096}, cost, samples, roof, "cuBLAS", None)


MATMUL = measured(Cost(2 * 2**26, 2**25, 2 * 2**36), yours=250.0, library=200.0, copy=40.0)
ADD = measured(Cost(2**30, 2**29, 2**28), yours=500.0, library=420.0, copy=400.0)


def test_compute_is_reported_in_tflops_and_as_a_share_of_the_peak():
    assert MATMUL.compute_bound
    assert MATMUL.tflops("yours") == pytest.approx(2 * 2**36 / 250e-6 / 1e12, rel=0.01)
    assert MATMUL.share("yours") == pytest.approx(MATMUL.tflops("yours") / 989, rel=0.01)
    shown = repr(MATMUL)
    assert "TFLOP/s" in shown and "of peak" in shown and "GB/s" not in shown and "copy" not in shown
    assert "0.80 × the speed of cuBLAS" in shown
    assert "Compute-bound: 55% of the 989 TFLOP/s of H200 fp16; cuBLAS reaches 69%." in shown


def test_memory_is_reported_in_gbs_and_as_a_share_of_a_copy():
    assert not ADD.compute_bound
    assert ADD.share("yours") == pytest.approx(0.8)
    shown = repr(ADD)
    assert "GB/s" in shown and "of copy" in shown and "TFLOP/s" not in shown
    assert "Memory-bound: the bytes that must move, over the time, are 80% of" in shown


def test_bars_are_as_long_as_the_shares():
    bars = {line.split()[0]: line.count("█") for line in repr(ADD).splitlines() if "█" in line}
    assert bars == {
        "yours": round(0.8 * benchmark.BAR),
        "cuBLAS": round(400 / 420 * benchmark.BAR),
        "copy": benchmark.BAR,
    }
    assert "yours 80 %, cuBLAS 95 %, copy 100 %" in ADD.plot().alt
    assert "copy" not in MATMUL.plot().alt.split(":")[1]


def test_a_notebook_shows_text_and_picture():
    page = ADD._repr_mimebundle_()
    assert page["text/plain"] == repr(ADD)
    assert page["text/html"].startswith("<pre>") and "<img alt=" in page["text/html"]


def test_an_unknown_gpu_has_no_peak():
    unknown = measured(MATMUL.cost, None, yours=250.0, library=200.0, copy=40.0)
    assert not unknown.compute_bound and unknown.of_peak() is None and "GB/s" in repr(unknown)


def test_decoding_is_reported_in_tokens():
    exercise = exercises.get("19_decode_attention/decode")
    tokens = exercise.tokens(exercise.bench)
    assert tokens == exercise.bench["B"]
    decoded = Benchmark(exercise.id, "GPU", {}, Cost(2**30, 0, 2**20), ADD.samples, H200, "FlashAttention-2", tokens)
    rate = next(line for line in repr(decoded).splitlines() if line.startswith("  yours")).split()
    assert f"{tokens / ADD.samples['yours'].median:,.0f}" in rate
    assert f"a call decodes {tokens} tokens" in repr(decoded)


@pytest.mark.parametrize(
    "names, library",
    [
        (("void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>", "tiny_kernel"), "FlashAttention-2"),
        (("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_128x128x64_",), "cuDNN"),
        (("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT",), "cuBLAS"),
        (("somebodys_kernel",), "PyTorch"),
        ((), "PyTorch"),
    ],
)
def test_the_library_is_the_one_whose_kernel_takes_longest(monkeypatch, names, library):
    launches = [Launch(name, 0.0, 100.0 / (k + 1)) for k, name in enumerate(names)]
    monkeypatch.setattr(benchmark, "by_torch", lambda call, arguments: launches)
    assert benchmark.whose(lambda: None) == library


def test_without_a_profiler_the_library_is_pytorch(monkeypatch):
    def unavailable(call, arguments):
        raise RuntimeError("CUPTI is not available")

    monkeypatch.setattr(benchmark, "by_torch", unavailable)
    assert benchmark.whose(lambda: None) == "PyTorch"
    assert benchmark.by_torch is not profiling.by_torch


def test_the_precision_of_the_roof(monkeypatch):
    monkeypatch.setattr(device, "current", lambda: device.find("H200"))
    for name, precision in (("14_matmul_triton/matmul_relu", "fp16"), ("06_elementwise_triton/vector_add", "fp32")):
        exercise = exercises.get(name)
        assert benchmark.roof(exercise, exercise.tiny).name == f"H200 {precision}"
    monkeypatch.setattr(device, "current", lambda: None)
    assert benchmark.roof(exercise, exercise.tiny) is None
