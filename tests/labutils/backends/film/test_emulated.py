"""The film of a CUDA C++ launch: every request of every warp with its line and its values, barriers, and who waits."""

import pytest
import torch

import labutils as lab
from labutils.backends import film
from labutils.backends.film import Film, Frame, Mbarrier

SOURCE = """
__global__ void turn(const float* x, float* out) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    tile[t] = x[blockIdx.x * 64 + t];
    __syncthreads();
    if (t < 40)
        out[blockIdx.x * 64 + t] = tile[63 - t];
}
"""

RING = """
#include <lab/hopper.cuh>
__global__ void ring(const __grid_constant__ CUtensorMap x, half *out) {
    __shared__ __align__(128) half tile[2][8 * 8];
    __shared__ uint64_t full[2], empty[2];
    int t = threadIdx.x;
    if (t == 0) {
        for (int k = 0; k < 2; k++) mbarrier_init(&full[k], 1), mbarrier_init(&empty[k], 1);
        mbarrier_fence();
    }
    __syncthreads();
    if (t == 32)
        for (int s = 0; s < 3; s++) {
            mbarrier_wait(&empty[s % 2], (s / 2 + 1) % 2);
            mbarrier_expect(&full[s % 2], 128);
            tma_load(tile[s % 2], &x, &full[s % 2], 0, 8 * s);
        }
    if (t < 32)
        for (int s = 0; s < 3; s++) {
            mbarrier_wait(&full[s % 2], s / 2 % 2);
            out[s * 32 + t] = tile[s % 2][t];
            __syncwarp();
            if (t == 0) mbarrier_arrive(&empty[s % 2]);
        }
}
"""


@pytest.fixture(scope="module")
def filmed():
    kernel = lab.cuda.compile(SOURCE, "turn")
    x, out = torch.arange(128.0), torch.zeros(128)
    made = film.film(lambda x, out: kernel[2, 64](x, out), x, out)
    assert out.count_nonzero() == 0  # it ran on copies
    return made


@pytest.fixture(scope="module")
def ring():
    kernel = lab.cuda.compile(RING, "ring")
    x, out = torch.arange(192.0).reshape(8, 24).half(), torch.zeros(96).half()
    return film.film(lambda x, out: kernel[1, 64](lab.tensor_map(x, (8, 8)), out), x, out)


def of(made: Film, block: int, warp: int) -> list[Frame]:
    return [f for f in made.frames if (f.block, f.warp) == (block, warp) and f.operation in ("load", "store")]


@pytest.mark.compiler
def test_a_film_holds_each_request_with_its_line(filmed):
    assert filmed.threads == 64 and filmed.grid == (2, 1, 1) and not filmed.messages and not filmed.cut
    x, tile, back, out = of(filmed, 1, 1)
    assert [(f.operation, f.array, f.line) for f in (x, tile, back, out)] == [
        ("load", "x", 5), ("store", "shared", 5), ("load", "shared", 8), ("store", "out", 8)
    ]  # fmt: skip
    assert x.offsets == tuple(4 * (64 + 32 + lane) for lane in range(32)) and x.size == 4
    assert out.lanes == 0xFF and out.offsets == tuple(4 * (64 + 32 + lane) for lane in range(8))
    assert back.offsets == tuple(4 * (63 - 32 - lane) for lane in range(8))
    assert filmed.arrays["x"].type == "float32" and filmed.shared[0].name == "tile" and filmed.shared[0].type == "float"


@pytest.mark.compiler
def test_values_are_what_each_lane_loaded_and_stored(filmed):
    x, tile, back, out = (torch.tensor(f.values, dtype=torch.int32).view(torch.float32) for f in of(filmed, 1, 1))
    assert torch.equal(x, torch.arange(96.0, 128.0)) and torch.equal(tile, x)
    assert torch.equal(back, torch.arange(95.0, 87.0, -1)) and torch.equal(out, back)


@pytest.mark.compiler
def test_warps_meet_at_the_barrier(filmed):
    first = [f for f in filmed.frames if f.block == 0]
    at = [f.operation for f in first].index("barrier")
    assert {f.warp for f in first[:at] if f.array == "x"} == {0, 1}
    assert [f.warp for f in first[:at] if f.operation == "sync"] == [0, 1]  # each comes there, and waits
    assert not [f for f in first[:at] if f.array == "out"]
    assert {f.warp for f in first[at:] if f.array == "out"} == {0, 1}


@pytest.mark.compiler
def test_lanes_that_do_not_enter_a_branch_are_off(filmed):
    inside = [f for f in filmed.frames if f.warp == 1 and f.line == 8]
    assert inside and all(f.lanes == 0xFF for f in inside)


@pytest.mark.compiler
def test_lanes_that_shuffle_meet():
    source = "__global__ void k(float *x) { x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, x[threadIdx.x], 1); }"
    kernel = lab.cuda.compile(source, "k")
    made = film.film(lambda x: kernel[1, 32](x), torch.arange(32.0))
    assert [f.operation for f in made.frames if f.operation != "step"] == ["load", "meet", "store"]


@pytest.mark.compiler
def test_a_ring_shows_phases_arrivals_bytes_and_who_waits(ring):
    assert ring.messages == () and [f.operation for f in ring.frames].count("make") == 4
    copies = [f for f in ring.frames if f.operation == "copy"]
    assert [(f.array, f.at, f.shape, f.mbarrier.name) for f in copies] == [
        ("x", (0, 0), (8, 8), "full[0]"), ("x", (0, 8), (8, 8), "full[1]"), ("x", (0, 16), (8, 8), "full[0]")
    ]  # fmt: skip
    assert copies[1].offsets == tuple(48 * row + 16 for row in range(8)) and copies[1].size == 16
    first = next(f for f in ring.frames if f.operation == "land")
    assert first.mbarrier == Mbarrier("full[0]", phase=1, pending=1, arrivals=1, bytes=0)
    expect = next(f for f in ring.frames if f.operation == "arrive" and f.size)
    assert expect.mbarrier == Mbarrier("full[0]", phase=0, pending=0, arrivals=1, bytes=128) and expect.lanes == 1
    # the consumers wait for the first tile until it has arrived; the producer for a free stage until they have read it
    story = [(f.operation, f.warp, f.what) for f in ring.frames if f.operation in ("wait", "land")]
    assert story.index(("wait", 0, "full[0]")) < story.index(("land", 0, ""))
    third = ring.frames.index(copies[2])
    freed = [k for k, f in enumerate(ring.frames) if f.operation == "arrive" and f.mbarrier.name == "empty[0]"]
    assert freed[0] < third


@pytest.mark.compiler
def test_a_finding_ends_the_film_and_is_told():
    kernel = lab.cuda.compile("__global__ void k(float *x) { x[threadIdx.x + 1] = 1.0f; }", "k")
    made = film.film(lambda x: kernel[3, 32](x), torch.zeros(32))
    assert made.messages and made.cut
