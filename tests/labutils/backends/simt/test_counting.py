"""The process that counts: the same numbers as in the process of the kernel, and none where the stream is not whole."""

import os
import struct
from collections import Counter as Counts

import pytest
import torch

from labutils.backends import emulator, simt
from labutils.backends.simt import counting
from tests.labutils.backends.simt.conftest import aligned

BEGIN, END, CASE_END = 64, 65, 66
READ, BLOCK = 0, 3

KERNELS = {
    "copy": "__global__ void k(float* x, float* y) { int i = threadIdx.x; y[i] = x[i * 3 % 128]; }",
    "shared": "__global__ void k(float* x, float* y) { __shared__ float s[128]; int i = threadIdx.x; s[i] = x[i];"
    " __syncthreads(); float v = 0; for (int r = 0; r < 8; r++) v += s[(i / 8 * 8 + r) * 5 % 128]; y[i] = v; }",
    "atomics": "__global__ void k(float* x, float* y) { int i = threadIdx.x; atomicAdd(y + i % 7, x[i]);"
    " if (i % 3 == 0) y[i] = atomicExch(x + i, 1.0f); }",
    "copies": "#include <cuda_pipeline.h>\n__global__ void k(float* x, float* y) {"
    " __shared__ __align__(16) float s[128]; int i = threadIdx.x;"
    " if (i < 32) __pipeline_memcpy_async(s + 4 * i, x + 4 * i, 16);"
    " __syncthreads(); y[i] = __shfl_xor_sync(~0u, s[i], 1); }",
    "roots": "__global__ void k(float* x, float* y) { int i = threadIdx.x; if (i % 3) y[i] = sqrtf(fabsf(x[i])); }",
}


def record(kind, pc=0, lanes=0, array=0, size=0, flags=0, warp=0):
    return struct.pack("<IIBBBBB3x", pc, lanes, kind, array, size, flags, warp)


def begin(arrays=((4096, 128),), module=1000, shared=0):
    return (
        record(BEGIN, module, len(arrays))
        + struct.pack("<Q", shared)
        + b"".join(struct.pack("<QQ", *a) for a in arrays)
    )


def load(offsets, pc=10, array=0, size=4):
    lanes = (1 << len(offsets)) - 1
    return record(READ, pc, lanes, array, size) + struct.pack(f"<{len(offsets)}I", *offsets)


@pytest.fixture
def counter():
    made = counting.Counter()
    yield made
    made.close()


@pytest.mark.parametrize("name", KERNELS)
def test_both_count_the_same(counter, name):
    kernel = simt.compile(KERNELS[name]).kernels["k"]
    x, y = aligned(torch.randn(128)), aligned(torch.zeros(128))
    arrays = {"x": simt.MemoryRange(x.data_ptr(), 128, 4), "y": simt.MemoryRange(y.data_ptr(), 128, 4)}
    here = [kernel.launch(2, 128, 64, [x.data_ptr(), y.data_ptr()], arrays=arrays) for _ in range(2)]
    for _ in range(2):
        there = kernel.launch(2, 128, 64, [x.data_ptr(), y.data_ptr()], arrays=arrays, trace=counter.trace)
        assert there.counters == simt.Counters()  # nothing is counted here
    counting.end_case(counter.trace, 0)
    counter.only_totals()
    case = counter.case(20)
    expected = Counts()
    for result in here:
        expected.update(result.counters.to_json())
    assert case.total.to_json() == dict(expected)
    assert case.launches == 2 and case.shared_bytes == here[0].shared_bytes


def test_what_the_records_say_is_counted(counter):
    os.write(counter.trace, begin() + load([0, 32, 64]) + record(BLOCK, 20, 7) + record(END) + record(CASE_END))
    case = counter.case(20)
    assert (case.total.global_load_requests, case.total.global_load_sectors, case.total.global_load_bytes) == (1, 3, 12)
    assert (case.total.branches, case.total.lanes, case.launches) == (1, 3, 1)


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (b"", "ends early"),
        (begin() + load([0]), "ends early"),
        (begin() + load([0]) + record(END), "ends early"),
        (begin() + load([0, 4])[:-3], "ends in the middle|ends early"),
        (begin()[:20], "ends in the middle|ends early"),
        (record(END) + record(CASE_END), "outside a launch"),
        (load([0]), "outside a launch"),
        (begin() + begin(), "within another"),
        (begin() + record(CASE_END), "where none can"),
        (begin() + record(END) + record(CASE_END, 1), "where none can"),
        (begin() + load([126]), "outside an array"),
        (begin() + load([0], array=3), "that the launch has not"),
        (begin() + load([0], size=5), "that the launch has not"),
        (begin() + load([0], pc=1000), "cannot be"),
        (begin() + record(READ, 10, 0, 0, 4), "cannot be"),
        (begin() + record(40), "no known kind"),
        (begin(module=1 << 30), "impossible size"),
    ],
    ids=lambda value: value if isinstance(value, str) else "stream",
)  # fmt: skip
def test_a_stream_that_is_not_whole_gives_no_counts(counter, stream, words):
    os.write(counter.trace, stream)
    counter.only_totals()
    with pytest.raises(counting.NotCounted, match=words):
        counter.case(20)


def test_the_end_does_not_wait_for_others_that_hold_the_pipe():
    counter = counting.Counter()
    kept = os.dup(counter.trace)
    counter.close()
    with pytest.raises(BrokenPipeError):
        os.write(kept, record(END))
    os.close(kept)


def result(**claims):
    return {"problem": None, "counts": {"global_load_sectors": 1}, "launches": 9} | claims


def test_a_count_that_the_process_of_the_kernel_claims_is_not_used():
    def job():
        os.write(emulator._trace, begin() + load([0, 32]) + record(END))
        return result()

    (case,) = emulator.counted([job], 10)
    assert case["counts"]["global_load_sectors"] == 2 and case["launches"] == 1 and case["problem"] is None


def test_a_case_whose_stream_ends_early_has_failed():
    def forgets():
        os.write(emulator._trace, begin() + load([0]))
        return result()

    def closes():
        os.close(emulator._trace)
        emulator.counting.end_case = lambda *_: None
        return result()

    for job in (forgets, closes):
        (case,) = emulator.counted([job], 10)
        assert case["problem"]["kind"] == "died" and "not whole" in case["problem"]["message"]
        assert case["counts"] == {} and case["launches"] == 0


def test_the_process_of_the_kernel_cannot_reach_the_totals():
    def job():
        reachable = []
        for fd in range(3, 64):
            try:
                os.fstat(fd)
                reachable.append(os.readlink(f"/proc/self/fd/{fd}"))
            except OSError:
                continue
        pipes = [r for r in reachable if r.startswith("pipe:")]
        return result(problem=None, pipes=len(set(pipes)))

    before = len({os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if _is_pipe(n)})
    (case,) = emulator.counted([job], 10)
    assert case["pipes"] <= before + 2  # the trace, and the results of `child.fork`


def _is_pipe(number: str) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{number}").startswith("pipe:")
    except OSError:
        return False
