"""Products with a skinny side: every form of the kernel in the emulator, offline for a GPU, and what is chosen."""

import pytest

torch = pytest.importorskip("torch")

from labutils.backends import recording  # noqa: E402
from labutils.cuda import nvrtc  # noqa: E402
from labutils.lessons.skinny_kernel import Cut, kernel, multiply  # noqa: E402


def right(cut: Cut, M: int, N: int, K: int, transposed: bool) -> None:
    """The product, and no finding of the emulator."""
    torch.manual_seed(M + N + K)
    a, b = torch.randn(M, K).half(), torch.randn(N, K).half()
    c = torch.full((M, N), torch.nan).half()
    with recording.record() as seen:
        multiply(cut, a, b.T.contiguous().T if transposed else b, c)
    assert not seen.findings
    assert torch.allclose(c.float(), a.float() @ b.float().T, atol=0.05, rtol=2e-3)


CUTS = [  # clusters of at most 1024 threads: more than the emulator runs
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
