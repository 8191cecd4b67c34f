"""Unit 12's softmax by clusters, in the emulator and on a Hopper GPU: sizes, ragged and unaligned rows, -inf."""

import pytest
import torch

from grader.course.solutions import load, solution_text
from labutils import cuda
from labutils.backends import simt
from labutils.cuda import cubin, nvrtc
from labutils.cuda.kernel import Unfilled
from labutils.gpu import device
from labutils.lessons import clusters

gpu = [pytest.mark.gpu, pytest.mark.timeout(120), pytest.mark.skipif(not device.runs(90), reason="needs a Hopper GPU")]
PLACES = [
    pytest.param("cpu", marks=pytest.mark.skipif(bool(simt.available()), reason="needs a C++ compiler")),
    pytest.param("cuda", marks=gpu),
]


@pytest.fixture(scope="module")
def unit(tmp_path_factory):
    path = tmp_path_factory.mktemp("unit") / "solution.py"
    path.write_text(solution_text("12_online_softmax"), encoding="utf-8")
    return load(str(path))


def rows(M, N, place, shift=0):
    """A matrix that begins `shift` floats after a multiple of 16 bytes."""
    memory = torch.full((M * N + 8,), 7.0, device=place)
    start = (-memory.data_ptr() // 4 % 4 + shift) % 4
    return memory, memory[start : start + M * N].view(M, N)


def check(softmax, M, N, place, shift=0, shift_out=None):
    x = rows(M, N, place, shift)[1]
    x.copy_(3 * torch.randn(M, N, generator=torch.Generator().manual_seed(N)))
    x[0, : N // 2] = -torch.inf
    x[M // 2] = -torch.inf
    if M > 3:
        x[-1] = -torch.inf
        x[-1, N // 3] = 700.0
    memory, out = rows(M, N, place, shift if shift_out is None else shift_out)
    lse = torch.full((M,), 7.0, device=place)
    softmax(x, out, lse)
    expected, expected_lse = torch.softmax(x.double(), 1), torch.logsumexp(x.double(), 1)
    torch.testing.assert_close(out.double(), expected, rtol=3e-5, atol=1e-37, equal_nan=True)
    torch.testing.assert_close(lse.double(), expected_lse, rtol=1e-5, atol=1e-5)
    assert lse[M // 2] == -torch.inf and out[M // 2].isnan().all()
    assert int((memory == 7).sum()) == 8, "wrote beside the matrix"


@pytest.fixture
def launched(monkeypatch):
    """Blocks per cluster of each launch."""
    sizes = []
    monkeypatch.setattr(cuda.kernel, "launch_hooks", [*cuda.launch_hooks, lambda kernel: sizes.append(kernel.cluster)])
    return sizes


@pytest.fixture(autouse=True)
def nothing_found(capsys):
    yield
    assert not capsys.readouterr().out, "the emulator had something to say"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("M, N, shift", [(1, 1, 0), (5, 3, 1), (5, 17, 2), (4, 64, 0), (7, 1003, 3), (2, 1024, 1)])
def test_short_rows_wherever_they_begin(unit, launched, M, N, shift, place):
    check(unit.cluster_softmax, M, N, place, shift)
    assert launched == [2]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("most, shift", [(0.7, 3), (1, 0), (1, 1)])
@pytest.mark.parametrize("blocks", clusters.SIZES)
def test_clusters_as_large_as_the_row_needs(unit, launched, blocks, most, shift, place):
    N = int(most * blocks * 40 * (clusters.FEW if place == "cuda" else 64))
    check(unit.cluster_softmax, 3, N, place, shift)
    assert launched == [blocks]


def test_the_shape_of_a_launch():
    shapes = {N: clusters.launch_shape(N) for N in (1, 25_600, 25_601, 51_201, 150_000, 200_000, 327_680, 327_681)}
    assert shapes == {
        1: (2, 32, 4), 25_600: (2, 320, 12_800), 25_601: (4, 192, 6404), 51_201: (8, 192, 6404),
        150_000: (16, 256, 9376), 200_000: (16, 320, 12_500), 327_680: (16, 512, 20_480), 327_681: None,
    }  # fmt: skip


@pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC (pip install nvidia-cuda-nvrtc)")
def test_two_of_the_largest_blocks_fit_on_an_sm(unit):
    kernel = clusters._compiled(unit.exchange_kernel.module.source)
    made = kernel.compiled(90)
    resources = cubin.resources(made.cubin)[made.lowered[kernel.name]]
    assert resources.registers <= 64 and resources.stack == 0


@pytest.mark.skipif(bool(simt.available()), reason="needs a C++ compiler")
def test_an_exchange_that_is_wrong_or_missing(unit, capsys):
    wrong = cuda.compile(
        unit.exchange_kernel.module.source.replace("pair, bar, lane", "make_float2(pair.x, 1.0f), bar, lane")
    )
    clusters.try_exchange(wrong.exchange_kernel)
    assert "2 blocks: m [" in capsys.readouterr().out
    missing = Unfilled("exchange_kernel")
    clusters.try_exchange(missing)
    clusters.try_out(missing, unit.cluster_softmax, {})
    assert capsys.readouterr().out == "exchange() is not written yet.\n"


@pytest.mark.gpu
@pytest.mark.skipif(not device.runs(90), reason="needs a Hopper GPU")
@pytest.mark.parametrize("N", [25_603, 50_257, 100_001, 200_000, 300_003])
def test_more_rows_than_clusters(unit, N):
    check(unit.cluster_softmax, 300, N, "cuda")


@pytest.mark.parametrize("what", ["too long", "halves", "gaps", "not alike"])
def test_the_rest_goes_to_one_launch_softmax(unit, launched, monkeypatch, what):
    asked = []
    monkeypatch.setattr(unit, "one_launch_softmax", lambda *arguments: asked.append(arguments))
    x, lse = torch.zeros(2, 40_961 if what == "too long" else 1000), torch.zeros(2)
    x = x.half() if what == "halves" else x[:, :-1] if what == "gaps" else x
    out = rows(*x.shape, "cpu", 1)[1] if what == "not alike" else torch.zeros_like(x)
    unit.cluster_softmax(x, out, lse)
    assert len(asked) == 1 and not launched


@pytest.mark.skipif(device.runs(90), reason="would time it")
@pytest.mark.skipif(bool(simt.available()), reason="needs a C++ compiler")
def test_what_the_unit_prints(unit, capsys):
    clusters.try_exchange(unit.exchange_kernel)
    assert capsys.readouterr().out == "2 blocks: right\n4 blocks: right\n8 blocks: right\n16 blocks: right\n"
    clusters.try_out(unit.exchange_kernel, unit.cluster_softmax, {})
    said = capsys.readouterr().out
    assert "nan everywhere, lse -inf" in said and "needs a Hopper GPU" in said
    assert float(said.split("difference ")[1].split()[0]) < 3e-5
