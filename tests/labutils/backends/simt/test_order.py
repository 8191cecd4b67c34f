"""In which order blocks run, who runs while one waits, and what may be old."""

import pytest
import torch

from tests.labutils.backends.simt.conftest import aligned

HEAD = "__global__ void k(int* data, int* flag, int* out) { if (threadIdx.x) return; "
ORDERS = [0, 1, 12345]


def run(build, body, blocks=8, order=1, threads=32, head=HEAD):
    data, flag, out = (aligned(torch.zeros(1024, dtype=torch.int32)) for _ in range(3))
    result = build(head + body + " }", "k")[blocks, threads](data, flag, out, order=order)
    return result, out


@pytest.mark.parametrize("order", ORDERS)
def test_blocks_run_in_the_drawn_order_and_all_of_them(build, order):
    result, out = run(build, "out[blockIdx.x] = 1 + atomicAdd(flag, 1);", blocks=20, order=order)
    turns = out[:20].tolist()
    assert result.ok and sorted(turns) == list(range(1, 21))
    assert (turns == sorted(turns)) == (order == 0)
    assert run(build, "out[blockIdx.x] = 1 + atomicAdd(flag, 1);", blocks=20, order=order)[1][:20].tolist() == turns


LOOK_BACK = (
    "if (blockIdx.x) { while (%s == 0) { } __threadfence(); }"
    " out[blockIdx.x] = blockIdx.x ? out[blockIdx.x - 1] + 1 : 1; __threadfence(); atomicExch(flag + blockIdx.x, 1);"
)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("look", ["atomicAdd(flag + blockIdx.x - 1, 0)", "((volatile int*)flag)[blockIdx.x - 1]"])
def test_a_wait_ends_because_the_other_block_runs(build, order, look):
    result, out = run(build, LOOK_BACK % look, blocks=12, order=order)
    assert result.ok, [str(f) for f in result.findings]
    assert out[:12].tolist() == list(range(1, 13))


def test_blocks_that_wait_for_each_other_twice(build):
    barrier = "atomicAdd(flag + %d, 1); while (atomicAdd(flag + %d, 0) < gridDim.x) { } __threadfence();"
    body = (
        "data[blockIdx.x] = 1; __threadfence();"
        + barrier % (0, 0)
        + ("int s = 0; for (int i = 0; i < gridDim.x; i++) s += data[i]; __threadfence();" + barrier % (1, 1))
        + "out[blockIdx.x] = s;"
    )
    result, out = run(build, body, blocks=6, order=7)
    assert result.ok, [str(f) for f in result.findings]
    assert out[:6].tolist() == [6] * 6


def test_a_wait_for_nobody_is_a_deadlock(build):
    result, _ = run(build, "if (blockIdx.x == 2) while (atomicAdd(flag, 0) == 0) { }")
    assert [f.kind for f in result.findings] == ["deadlock"] and "no other block" in result.findings[0].message
    assert result.seconds < 5


SUM = "__global__ void k(int* data, int* flag, int* out) { if (threadIdx.x % 32) return; "


@pytest.mark.parametrize(
    "body",
    [
        "int before = atomicAdd(out, 0); atomicExch(out, before + 1);",
        "volatile int* v = out; *v = *v + 1;",
        "int before = *out; atomicCAS(out, before, before + 1);",
    ],
)
def test_two_accesses_are_not_one(build, body):
    result, out = run(build, body, blocks=4, threads=64, head=SUM)
    assert out[0] != 8 or not result.ok


@pytest.mark.parametrize("memory", ["int* p = out;", "__shared__ int s; int* p = &s; if (threadIdx.x == 0) s = 0; "
                                    "__syncthreads();"])  # fmt: skip
def test_a_loop_of_swaps_may_begin_with_a_plain_load(build, memory):
    body = memory + " int old = *p, seen; do { seen = old; old = atomicCAS(p, seen, seen + 1); } while (old != seen);"
    head = "__global__ void k(int* data, int* flag, int* out) { "
    result, out = run(build, body + " __syncthreads(); if (threadIdx.x == 0 && p != out) atomicAdd(out, *p);", 4, 3, 64,
                      head)  # fmt: skip
    assert result.ok, [str(f) for f in result.findings]
    assert out[0] == 256


def test_loops_of_swaps_for_two_variables_may_begin_with_both_loads(build):
    head = "__global__ void k(int* data, int* flag, int* out) { "
    swap = "while (atomicCAS({p}, {old}, {old} + 1) != {old}) {old} = *(volatile int*){p}; "
    body = "int a = out[0], b = out[1]; " + swap.format(p="out", old="a") + swap.format(p="(out + 1)", old="b")
    result, out = run(build, body, 4, 3, 64, head)
    assert result.ok, [str(f) for f in result.findings]
    assert out[0] == out[1] == 256


def test_local_variables_hold_nothing_of_an_earlier_thread(build):
    body = "volatile int kept[64]; if (blockIdx.x == 0 && threadIdx.x == 0) kept[3] = 0; kept[3] = kept[3] + 1;"
    result, out = run(build, body + " if (threadIdx.x == 31) out[blockIdx.x] = kept[3];", 2, 0, 32,
                      "__global__ void k(int* data, int* flag, int* out) { ")  # fmt: skip
    assert out[1] != 64
