"""`lab.record` and `lab.annotate`: the counts that NVIDIA's profiler would give, on any machine."""

import pytest
import torch

import labutils as lab
from labutils.backends import simt
from labutils.backends.recording import TOTALS
from labutils.cuda.signature import signatures

needs_compiler = pytest.mark.skipif(simt.available() is not None, reason="needs a C++ compiler for the emulator")

TRANSPOSE = """
__global__ void transpose(float* out, const float* in, int n) {
    __shared__ float tile[32][32];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x; y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
"""


@needs_compiler
def test_totals_of_a_transpose_by_hand(capsys):
    kernel = lab.cuda.compile(TRANSPOSE, "transpose")
    a, b = torch.randn(64, 64), torch.empty(64, 64)
    with lab.record() as r:
        kernel[(2, 2), (32, 8)](b, a, 64)
    assert torch.equal(b, a.T)
    rows = 64 * 64 // 32  # warps' accesses, of 32 neighbouring floats each
    expected = {
        "global_load_requests": rows,
        "global_load_sectors": 4 * rows,
        "global_store_requests": rows,
        "global_store_sectors": 4 * rows,
        "shared_load_wavefronts": 32 * rows,  # a column: all 32 lanes on one bank
        "shared_store_wavefronts": rows,
    }
    assert {k: r.totals()[k] for k in TOTALS} == expected
    assert r.findings == []
    lab.annotate(kernel)
    line = next(x for x in capsys.readouterr().out.splitlines() if "out[(y + j)" in x)
    assert line.split("|")[0].split() == ["10", str(rows), str(4 * rows), "4.00", str(32 * rows), "32.00", "100%"]


@needs_compiler
def test_two_launches_add_up_and_findings_are_kept():
    kernel = lab.cuda.compile("__global__ void k(float* x, int n) { if (threadIdx.x <= n) x[threadIdx.x] = 1; }", "k")
    x = torch.zeros(32)
    with lab.record() as r:
        kernel[1, 32](x, 31)
        kernel[1, 64](x, 32)
    assert r.totals()["launches"] == 2
    assert len(r.findings) == 1 and "x[32]" in r.findings[0]


def test_nothing_recorded_is_said(capsys):
    kernel = lab.cuda.Module("__global__ void never(float* x) {}", signatures("__global__ void never(float* x) {}"))
    lab.annotate(kernel.never)
    assert "never was not recorded yet" in capsys.readouterr().out


NEVER = "__global__ void never(float* x) {}"
never = lab.cuda.Module(NEVER, signatures(NEVER)).never


def launcher(x):
    never[1, 32](x)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (launcher, "never was not recorded yet"),
        (print, "print names no such kernel"),
        (12, "takes a CUDA C++ kernel, or a launcher of one; 12 names no such kernel"),
    ],
)
def test_a_launcher_stands_for_its_kernels(given, said, capsys):
    lab.annotate(given)
    assert said in capsys.readouterr().out


def test_triton_counts_sectors_where_it_is_interpreted():
    triton = pytest.importorskip("triton")
    import triton.language as tl

    if lab.device.has_gpu():
        pytest.skip("Triton kernels are recorded where they are interpreted")

    @triton.jit
    def every_other(x_ptr, y_ptr, BLOCK: tl.constexpr):
        offs = tl.arange(0, BLOCK)
        tl.store(y_ptr + offs, tl.load(x_ptr + 2 * offs))

    x, y = torch.arange(64.0), torch.zeros(32)
    with lab.record() as r:
        every_other[(1,)](x, y, BLOCK=32)
    assert torch.equal(y, x[::2])
    assert r.totals()["global_load_sectors"] == 8 and r.totals()["global_store_sectors"] == 4


def test_triton_results_are_those_of_a_gpu():
    """Masked lanes of a load hold 0, and what two programs store alike is no race, also by a mask made of a scalar."""
    triton = pytest.importorskip("triton")
    import triton.language as tl

    if lab.device.has_gpu():
        pytest.skip("Triton kernels are recorded where they are interpreted")

    @triton.jit
    def careless(x_ptr, y_ptr, total_ptr, n, programs, BLOCK: tl.constexpr):
        offs = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs, mask=offs < n)
        tl.store(y_ptr + offs, x, mask=(offs < n) & (tl.program_id(0) < programs))
        tl.store(total_ptr + tl.program_id(0), tl.sum(x))

    x, y, total = torch.arange(1.0, 17), torch.zeros(16), torch.zeros(2)
    with lab.record() as r:
        careless[(2,)](x, y, total, 9, 2, BLOCK=16)
    assert total.tolist() == [45, 45] and y.tolist() == [*range(1, 10), *[0] * 7]
    assert r.findings == []
