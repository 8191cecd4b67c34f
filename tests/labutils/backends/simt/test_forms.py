"""Counts as the machine code has them: which loads of shared memory the compiler joins, what contended atomics cost.

The patterns are those of public kernels whose totals Nsight Compute gave on an H100 (bench/corpus/counters.py).
"""

import pytest
import torch

from labutils import cuda
from labutils.backends import emulator, simt
from labutils.cuda import nvrtc

KERNEL = """__global__ void k(const float* x, float* y, const int* bins, int* counts) {{
  __shared__ __align__(16) float s[1024];
  unsigned t = threadIdx.x, warp = t / 32;
  s[t] = x[t];
  __syncthreads();
  {0}
}}"""
WIDE, NARROW = 256 // 32 * 2, 256 // 32 * 4  # wavefronts for 8 warps, each of which reads one row of its own

# what stands in the kernel -> totals of one block of 256 threads
CASES = {
    "an inner loop of constant length is unrolled and joined": (
        "float v = 0;\n  for (unsigned i = 0; i < 4; i++) v += s[32 * warp + i];\n  y[t] = v;",
        {"shared_load_wavefronts": WIDE},
    ),
    "a loop that stays a loop joins nothing": (
        "float v = 0;\n  #pragma unroll 1\n  for (int i = 0; i < 4; i++) v += s[32 * warp + i];\n  y[t] = v;",
        {"shared_load_wavefronts": NARROW},
    ),
    "neighbors on four lines are joined": (
        "float a = s[32 * warp];\n  float b = s[32 * warp + 1];\n  float c = s[32 * warp + 2];\n"
        "  float d = s[32 * warp + 3];\n  y[t] = a - b * c + d;",
        {"shared_load_wavefronts": WIDE},
    ),
    "neighbors read from their end are joined": (
        "float v = 0;\n  for (int i = 3; i >= 0; i--) v = v * 2 + s[32 * warp + i];\n  y[t] = v;",
        {"shared_load_wavefronts": WIDE},
    ),
    "three of four elements are read as four": (
        "y[t] = s[32 * warp] - s[32 * warp + 1] * s[32 * warp + 2];",
        {"shared_load_wavefronts": WIDE},
    ),
    "neighbors across a store are not joined": (
        "float v = s[32 * warp];\n  s[(t + 7) % 256 + 512] = v;\n  y[t] = v + s[32 * warp + 1];",
        {"shared_load_wavefronts": 8 * 2},
    ),
    "scattered atomics take a pass for each that hits the same address": (
        "atomicAdd(counts + bins[t], 1);",
        {"global_reduction_requests": 8, "global_reduction_sectors": "passes"},
    ),
    "atomics of floats on one word take 32 passes": (
        "atomicAdd(y, x[t]);",
        {"global_reduction_requests": 8, "global_reduction_sectors": 8 * 32},
    ),
    "one lane adds integers for all": (
        "atomicAdd(counts, bins[t]);",
        {"global_reduction_requests": 8, "global_reduction_sectors": 8},
    ),
    "one lane brings a ticket for all": (
        "y[t] = atomicAdd(counts, 1);",
        {"global_atomic_requests": 8, "global_atomic_sectors": 8},
    ),
}


def passes(bins: torch.Tensor) -> int:
    """For each warp and sector of 8 counts, the most lanes that hit one of them."""
    return sum(
        max(counts[first : first + 8])
        for warp in bins.reshape(-1, 32)
        for counts in [torch.bincount(warp, minlength=64).tolist()]
        for first in range(0, 64, 8)
    )


@pytest.mark.compiler
@pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC")
@pytest.mark.parametrize("name", CASES)
def test_counts_follow_the_machine_code(name):
    body, expected = CASES[name]
    bins = torch.randint(64, (256,), dtype=torch.int32, generator=torch.Generator().manual_seed(1))
    arguments = torch.rand(256), torch.zeros(256), bins, torch.zeros(64, dtype=torch.int32)
    counts = emulator.alone(cuda.compile(KERNEL.format(body), "k"), 1, 256, 0, arguments)["counts"]
    for counter, wanted in expected.items():
        assert (counter, counts[counter]) == (counter, passes(bins) if wanted == "passes" else wanted)


def test_forms_are_those_of_the_kernels_own_instructions():
    kernel = simt.compile(KERNEL.format("y[t] = s[t];"), ["k"]).kernels["k"]
    kernel.use_forms({6: 2, 1000: 1})  # no line 1000: that is no instruction of the kernel
    assert {form.forms for form in kernel.forms} == {2}
