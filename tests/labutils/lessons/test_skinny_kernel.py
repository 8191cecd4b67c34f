"""Products with a skinny side: every form of the kernel in the emulator, offline for a GPU, and what is chosen."""

import pytest

torch = pytest.importorskip("torch")

from labutils.backends import recording  # noqa: E402
from labutils.cuda import nvrtc  # noqa: E402
from labutils.lessons.skinny_kernel import CLUSTERS, Cut, cuts, estimate_us, kernel, multiply  # noqa: E402


def right(cut: Cut, M: int, N: int, K: int, transposed: bool) -> None:
    """The product, and no finding of the emulator."""
    torch.manual_seed(M + N + K)
    a, b = torch.randn(M, K).half(), torch.randn(N, K).half()
    c = torch.full((M, N), torch.nan).half()
    with recording.record() as seen:
        multiply(cut, a, b.T.contiguous().T if transposed else b, c)
    assert not seen.findings
    assert torch.allclose(c.float(), a.float() @ b.float().T, atol=0.05, rtol=2e-3)


CUTS = [  # clusters of at most 1024 threads: the emulator runs no larger ones
    (Cut(64, 80, 3, 2, tall=True), 150, 72, 264),  # a tile without rows; 5 steps in three parts; 8 columns too many
    (Cut(192, 64, 2, 1, tall=True), 200, 56, 40),  # fewer steps than parts
    (Cut(128, 64, 1, 4, tall=False), 100, 264, 200),
    (Cut(256, 96, 3, 1, tall=False), 200, 136, 328),  # boxes of 32 columns if b is (K, N); groups of 128 rows
]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("cut, M, N, K", CUTS, ids=[str(x[0]) for x in CUTS])
def test_cuts(cut, M, N, K, transposed):
    assert cut.fits(transposed)
    right(cut, M, N, K, transposed)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("M, N, K", [(1, 1, 1), (70, 33, 67), (65, 130, 100), (150, 40, 1)])
def test_any_size(M, N, K, transposed):  # also rows that begin at any multiple of 2 bytes, and tiles side by side
    right(Cut(64, 64, 2, 1, tall=M >= N), M, N, K, transposed)


SKINNY = [
    (5000, 120, 4096),
    (3000, 200, 6000),
    (100, 5000, 3000),
    (88, 6104, 3504),
    (4700, 72, 3000),
    (200, 4000, 5000),
]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    "M, N, K",
    [*SKINNY, (1, 1, 1), (256, 100000, 64), (100000, 256, 8), (208, 12000, 8000), (50000, 224, 2000), (9, 300, 10**6)],
)
def test_the_cut_chosen_fits(M, N, K, transposed):
    cut, *_ = cuts(M, N, K, transposed)
    assert cut.fits(transposed) and cut.tall == (M > N)
    across, skinny = cut.blocks(M, N)
    assert skinny == 1 and across % cut.cluster == 0
    assert across // cut.parts * (cut.height if cut.tall else cut.width) >= max(M, N)
    assert estimate_us(cut, M, N, K, transposed) > 0


def test_one_wave_where_measured():  # one cluster more than ran at once costs a second wave
    cut = Cut(128, 128, 3, 1, tall=True)
    times = [estimate_us(cut, 128 * n, 128, 6144, False) for n in (CLUSTERS[3], CLUSTERS[3] + 1)]
    assert times[1] > 1.25 * times[0]


def test_the_emulator_has_cuts_for_every_skinny_side():
    for skinny in (1, 64, 72, 136, 200, 240):
        for M, N in ((skinny, 300), (300, skinny)):
            for transposed in (False, True):
                cut, *_ = cuts(M, N, 1000, transposed, 1024)
                assert cut.cluster * cut.threads <= 1024


WIDEST = [(64, 256), (128, 208), (128, 256), (192, 192), (256, 128)]  # of each height and each number of rows a group


@pytest.mark.parametrize("height, width", WIDEST)
def test_a_cut_fits_if_its_accumulators_do(height, width):
    assert Cut(height, width, 1, 1, tall=True).fits(False)
    if height > 128:
        assert not any(Cut(height, wide, 1, 1, tall=True).fits(False) for wide in range(width + 16, 257, 16))


def in_registers_and_overlapping(chosen):
    from labutils.cuda import cubin

    made = chosen.compiled(90)
    assert "serialized" not in made.log
    assert cubin.resources(made.cubin)[made.lowered[chosen.name]].stack == 0


@pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC (pip install nvidia-cuda-nvrtc)")
@pytest.mark.parametrize("height, width", WIDEST)
def test_the_widest_cuts_have_all_accumulators_in_registers(height, width):
    for parts in (1, 3):
        in_registers_and_overlapping(kernel(Cut(height, width, parts, 1, tall=True), True))


@pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC (pip install nvidia-cuda-nvrtc)")
@pytest.mark.parametrize("parts", [1, 2, 3, 4, 8])
def test_no_accumulator_in_local_memory_and_no_product_waits_for_the_one_before(parts):
    for cut in (Cut(128, 208 if parts > 1 else 64, parts, 1, tall=True), Cut(64, 96, parts, 1, tall=False)):
        for transposed in (False, True):
            in_registers_and_overlapping(kernel(cut, transposed))
