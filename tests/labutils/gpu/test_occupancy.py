"""The occupancy calculator against NVIDIA's own `cuda_occupancy.h`, and against hand-computed cases."""

import ctypes
import itertools
import shutil
import subprocess
from dataclasses import replace

import pytest

from labutils.gpu.device import limits_for
from labutils.gpu.occupancy import busy_share, occupancy, tail, warps_for_bytes, warps_for_latency, waves
from labutils.gpu.roofline import in_flight

CAPABILITIES = [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)]
THREADS = [1, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024]
REGISTERS = [16, 24, 32, 40, 48, 64, 72, 96, 128, 160, 200, 255]
SHARED = [0, 1000, 8 << 10, 16 << 10, 32 << 10, 48 << 10, 99 << 10]

SHIM = """
#include <cuda_occupancy.h>
extern "C" int blocks(int major, int minor, int warps_per_sm, int shared_per_sm, int shared_optin, int reserved,
                      int threads, int registers, int shared) {
  cudaOccDeviceProp p; cudaOccFuncAttributes a; cudaOccDeviceState s; cudaOccResult r;
  p.computeMajor = major; p.computeMinor = minor; p.maxThreadsPerBlock = 1024;
  p.maxThreadsPerMultiprocessor = warps_per_sm * 32; p.regsPerBlock = 65536; p.regsPerMultiprocessor = 65536;
  p.warpSize = 32; p.sharedMemPerBlock = 48 << 10; p.sharedMemPerMultiprocessor = shared_per_sm;
  p.numSms = 100; p.sharedMemPerBlockOptin = shared_optin; p.reservedSharedMemPerBlock = reserved;
  a.maxThreadsPerBlock = 1024; a.numRegs = registers; a.sharedSizeBytes = 0;
  a.partitionedGCConfig = PARTITIONED_GC_OFF; a.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  a.maxDynamicSharedSizeBytes = shared_optin; a.numBlockBarriers = 1;
  s.cacheConfig = CACHE_PREFER_SHARED; s.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
  if (cudaOccMaxActiveBlocksPerMultiprocessor(&r, &p, &a, &s, threads, shared)) return -1;
  return r.activeBlocksPerMultiprocessor;
}
"""


@pytest.fixture(scope="module")
def nvidia(tmp_path_factory):
    if shutil.which("g++") is None:
        pytest.skip("needs g++ to build NVIDIA's header")
    find = pytest.importorskip("cuda.pathfinder").find_nvidia_header_directory
    include = find("cudart")
    if include is None:
        pytest.skip("needs the header cuda_occupancy.h of nvidia-cuda-runtime")
    folder = tmp_path_factory.mktemp("occupancy")
    (folder / "shim.cpp").write_text(SHIM)
    command = ["g++", "-shared", "-fPIC", "-I", include, "-o", str(folder / "shim.so"), str(folder / "shim.cpp")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "shim.so")).blocks


@pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda c: f"sm_{c[0]}{c[1]}")
def test_equals_nvidias_header(nvidia, capability):
    limits = limits_for(capability)
    combinations = list(itertools.product(THREADS, REGISTERS, SHARED))
    assert len(combinations) * len(CAPABILITIES) >= 4000
    for threads, registers, shared in combinations:
        theirs = nvidia(
            *capability,
            limits.max_warps,
            limits.shared_per_sm_kb << 10,
            limits.shared_per_block_kb << 10,
            limits.shared_reserved_kb << 10,
            threads,
            registers,
            shared,
        )
        ours = occupancy(limits, threads, registers, shared)
        # an error of theirs is a kernel that cannot be launched: no resident block
        assert ours.blocks == max(theirs, 0), (threads, registers, shared, ours)


def test_worked_cases():
    h100 = limits_for((9, 0))
    a = occupancy(h100, threads=128, registers=160)
    assert (a.warps, a.fraction, a.limiter) == (12, 0.1875, "registers")
    b = occupancy(h100, threads=256, registers=40, shared_bytes=32 << 10)
    assert (b.blocks, b.fraction) == (6, 0.75)
    assert occupancy(h100, 1025, 16).blocks == 0
    assert occupancy(h100, 32, 256).blocks == 0
    assert occupancy(h100, 32, 16, 228 << 10).limiter == "shared memory"
    with pytest.raises(ValueError, match="positive"):
        occupancy(h100, 0, 16)


def test_a_smaller_sm_holds_less():
    limits = limits_for((9, 0))
    assert occupancy(replace(limits, max_warps=32), 256, 32).blocks == 4


def test_waves():
    assert waves(160, 148) == (2, 160 / 296)
    assert waves(148, 148) == (1, 1.0)


def test_waves_end_in_a_tail():
    assert (tail(160, 148), tail(148, 148), tail(1, 148), tail(297, 148)) == (12, 148, 1, 1)


def test_warps_that_hide_a_latency():
    # 4.8 TB/s for 600 ns are 2.88 MB on their way: more one-word loads than an H200's 64 warps can have
    needed = in_flight(4.8e12, 600e-9)
    assert needed == pytest.approx(2.88e6)
    assert warps_for_bytes(needed, 132) == 171
    assert warps_for_bytes(needed, 132, bytes_per_lane=16) == 43
    assert warps_for_bytes(needed, 132, bytes_per_lane=16, loads=4) == 11
    assert warps_for_latency(10, 400) == 41
    assert busy_share(41, 10, 400) == 1.0 and busy_share(1, 10, 390) == 0.025


@pytest.mark.gpu
def test_equals_the_driver_for_every_kernel_of_the_course():
    from bench.occupancy import compare, kernels

    rows = [compare(unit, kernel) for unit, kernel in kernels()]
    assert len(rows) > 20 and sum(r["tried"] for r in rows) > 1000
    for row in rows:
        assert row["equal"] == row["tried"] and row["read_equal"], row
