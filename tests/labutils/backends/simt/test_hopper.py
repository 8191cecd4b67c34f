"""Hopper's engines in the emulator: tensor maps, barriers, copies, products, clusters, and what is refused."""

import numpy as np
import pytest
import torch

from grader.course.solutions import load, solution_text
from labutils.backends import recording, simt
from labutils.cuda import nvrtc, tensor_map
from labutils.exercises import get
from labutils.gpu import device
from labutils.lessons import tiles_kernel

COPY = """
#include <lab/hopper.cuh>
__global__ void copy(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap y, int row,
                     int column) {
    extern __shared__ __align__(1024) half tile[];
    __shared__ uint64_t full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_fence();
        mbarrier_expect(&full, 16 * 64 * sizeof(half));
        tma_load(tile, &x, &full, row, column);
        mbarrier_wait(&full, 0);
        %s
        tma_store(&y, tile, row, column);
        tma_commit();
        tma_wait<0>();
    }
}
"""


def launch(source, *arguments, threads=32, cluster=1, grid=1, shared=1 << 16):
    kernel = next(iter(simt.compile(source).kernels.values()))
    told = [a.described() if isinstance(a, tensor_map.TensorMap) else a for a in arguments]
    return kernel.launch(grid, threads, shared, told, cluster=cluster)


def matrix(rows, columns):
    return torch.arange(rows * columns).reshape(rows, columns).half()


@pytest.mark.parametrize("swizzle", [0, 128])
@pytest.mark.parametrize("row, column", [(0, 0), (8, 40), (-3, -8), (30, 64)])
def test_a_box_goes_there_and_back_and_stops_at_the_edges(row, column, swizzle):
    x, y = matrix(32, 72), torch.full((32, 72), -1.0).half()
    result = launch(COPY % "", *(tensor_map.tensor_map(t, (16, 64), swizzle) for t in (x, y)), row, column)
    inside = torch.zeros(32, 72, dtype=torch.bool)
    inside[max(row, 0) : max(row + 16, 0), max(column, 0) : max(column + 64, 0)] = True
    assert torch.equal(y, torch.where(inside, x, -1.0)) and result.ok
    assert (result.counters.tma_loads, result.counters.tma_load_bytes) == (1, 16 * 64 * 2)


@pytest.mark.parametrize("column", [4, 1, -5])
def test_a_box_begins_at_a_multiple_of_sixteen_bytes(column):  # an H200 stops with an illegal instruction
    x, y = matrix(32, 72), torch.zeros(32, 72).half()
    result = launch(COPY % "", *(tensor_map.tensor_map(t, (16, 64), 128) for t in (x, y)), 0, column)
    assert "multiple of 16 bytes of its rows" in str(result.findings)


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_the_swizzle_moves_pieces_of_sixteen_bytes(swizzle):
    width = swizzle // 2 or 64
    x, seen = matrix(16, width), torch.zeros(16 * width).half()
    text = COPY.replace("CUtensorMap y", "CUtensorMap unused").replace("int row", "half *y, int row") % (
        f"for (int i = 0; i < 16 * {width}; i++) y[i] = tile[i];"
    )
    text = text[: text.index("tma_store")] + "} }"
    text = text.replace("16 * 64 * sizeof(half)", f"16 * {width} * sizeof(half)")
    kernel = simt.compile(text).kernels["copy"]
    tiled = tensor_map.tensor_map(x, (16, width), swizzle).described()
    arrays = {"y": simt.MemoryRange(seen.data_ptr(), seen.numel(), 2)}
    assert kernel.launch(1, 32, 1 << 14, [tiled, tiled, seen.data_ptr(), 0, 0], arrays=arrays).ok
    at = np.arange(16 * width) * 2
    bits = {0: 0, 32: 1, 64: 3, 128: 7}[swizzle]
    assert torch.equal(seen[torch.from_numpy((at ^ (at >> 7 & bits) << 4) // 2)], x.flatten())


@pytest.mark.parametrize(
    "old, new, kind, words",
    [
        ("mbarrier_wait(&full, 0);", "", "missing-wait", "on its way"),
        ("16 * 64 * sizeof", "17 * 64 * sizeof", "deadlock", "128 bytes"),
        ("mbarrier_init(&full, 1)", "mbarrier_init(&full, 2)", "deadlock", "1 arrival and"),
        ("mbarrier_init(&full, 1);", "", "assert", "mbarrier_init"),
        ("mbarrier_fence();", "", "missing-fence", "mbarrier_fence"),
        ("mbarrier_fence();", "fence_async();", None, None),
        ("mbarrier_wait(&full, 0)", "mbarrier_wait(&full, 2)", "assert", "parity 0 or 1, not 2"),
        ("mbarrier_wait(&full, 0)", "mbarrier_wait(&full, -1)", "assert", "parity 0 or 1, not -1"),
        ("tma_load(tile,", "tile[0] = 1; tma_load(tile,", "missing-fence", None),
        ("tma_store(&y", "tile[3] = 1; tma_store(&y", "missing-fence", "fence_async"),
        ("tma_store(&y", "tile[3] = 1; fence_async(); tma_store(&y", None, None),
        ("tma_wait<0>();", "", "missing-wait", "returns"),
        ("tma_load(tile,", "tma_load(tile + 8,", "missing-wait", "multiple of 1024"),
        ("tma_load(tile,", "tma_load(tile + 100 * 512,", "missing-wait", "do not fit"),
        ("tma_load(tile, &x, &full, row, column);",
         "tma_load_multicast(tile, &x, &full, row, column, 3);", "assert", "cluster of 1"),
        ("tma_load(tile, &x,",
         "CUtensorMap mine = x; mine.opaque[1] += 2; tma_load(tile, &mine,", "assert", "CUtensor"),
    ],
)  # fmt: skip
def test_mistakes_are_found(old, new, kind, words):
    source = (COPY % "").replace(old, new)
    assert source != COPY % ""
    x, y = matrix(32, 72), torch.zeros(32, 72).half()
    result = launch(source, *(tensor_map.tensor_map(t, (16, 64), 128) for t in (x, y)), 0, 0)
    assert [f.kind for f in result.findings] == ([kind] if kind else [])
    assert words is None or words in str(result.findings[0])


MEET = """
#include <lab/hopper.cuh>
__global__ void meet(int *y) {
    __shared__ uint64_t bar;
    int t = threadIdx.x;
    if (t == 0) mbarrier_init(&bar, 63);
    __syncthreads();
    if (t > 0) mbarrier_arrive(&bar);
    mbarrier_wait(&bar, 0);
    y[t] = t;
}
"""


def meet(source):
    y = torch.full((64,), -1, dtype=torch.int32)
    arrays = {"y": simt.MemoryRange(y.data_ptr(), y.numel(), 4)}
    return simt.compile(source).kernels["meet"].launch(1, 64, 0, [y.data_ptr()], arrays=arrays)


@pytest.mark.parametrize(
    "old, new, kind, words",
    [
        ("    __syncthreads();\n", "", "missing-syncthreads", "reads bar, which thread 0 wrote"),
        ("    __syncthreads();\n", "    __syncwarp();\n", "missing-syncthreads", "thread 32 reads bar"),
        ("    __syncthreads();\n", "    group_sync(1);\n", "deadlock", "group_sync"),  # it is a barrier of 128
        ("(t == 0)", "(t < 2)", "race", "thread 1 writes bar, which thread 0 wrote"),
        ("(t == 0)", "(t == 40)", None, None),
        ("bar, 63", "bar, 21", "missing-wait", "ended 3 phases"),
        ("bar, 63", "bar, 64", "deadlock", "lacks 1 arrival"),
    ],
)
def test_an_mbarrier_is_made_once_and_before_it_is_used(old, new, kind, words):
    assert meet(MEET).ok and old in MEET
    result = meet(MEET.replace(old, new))
    assert {f.kind for f in result.findings} == ({kind} if kind else set())
    assert words is None or words in " ".join(map(str, result.findings))


SEND = """
#include <lab/hopper.cuh>
__global__ void send(float *y) {
    extern __shared__ float2 came[];  // from each block, then the barrier
    uint64_t *bar = reinterpret_cast<uint64_t *>(came + 4);
    int t = threadIdx.x, rank = cluster_rank();
    if (t == 0) {
        mbarrier_init(bar, 1);
        mbarrier_fence();
    }
    cluster_sync();
    if (t == 0) mbarrier_expect(bar, 8 * 4);
    if (t < 4) store_async(came + rank, make_float2(10 * rank + t, rank), bar, t);
    mbarrier_wait(bar, 0);
    if (t < 4) y[blockIdx.x * 4 + t] = came[t].x + 100 * came[t].y;
    cluster_sync();
}
"""


def send(source):
    y = torch.full((8, 4), -1.0)
    arrays = {"y": simt.MemoryRange(y.data_ptr(), y.numel(), 4)}
    return simt.compile(source).kernels["send"].launch(8, 32, 128, [y.data_ptr()], arrays=arrays, cluster=4), y


def test_blocks_of_a_cluster_send_each_other_pairs():
    result, y = send(SEND)
    sender, receiver = torch.arange(4.0), torch.arange(4.0)[:, None]
    assert result.ok and torch.equal(y, (110 * sender + receiver).repeat(2, 1))


@pytest.mark.parametrize(
    "old, new, kind, words",
    [
        ("mbarrier_wait(bar, 0);", "", "uninitialized-shared", None),
        ("8 * 4", "8 * 5", "deadlock", "8 bytes"),
        ("8 * 4", "8 * 3", "uninitialized-shared", None),
        ("    cluster_sync();\n    if (t == 0)", "    if (t == 0)", "assert", "mbarrier_init"),
        ("bar, t);", "bar, t + 1);", "assert", "cluster of 4"),
        ("store_async(came + rank,", "store_async(came + 16,", "assert", "shared memory"),
    ],
)
def test_mistakes_in_sending_are_found(old, new, kind, words):
    source = SEND.replace(old, new)
    assert source != SEND
    result, _ = send(source)
    assert kind in {f.kind for f in result.findings}
    assert words is None or words in " ".join(map(str, result.findings))


SPLIT = SEND.replace("    }\n    cluster_sync();\n", "    }\n    cluster_arrive();\n    cluster_wait();\n")
"""Meets the other blocks in two halves before it sends."""


def test_a_barrier_of_the_cluster_in_two_halves():
    assert SPLIT != SEND and torch.equal(send(SPLIT)[1], send(SEND)[1]) and send(SPLIT)[0].ok
    for old, new, words in (
        ("    cluster_arrive();\n", "", "cluster_arrive() before cluster_wait()"),
        ("    cluster_wait();\n", "    cluster_arrive();\n", "one cluster_wait() for each cluster_arrive()"),
    ):
        assert words in " ".join(map(str, send(SPLIT.replace(old, new))[0].findings))
    assert not send(SPLIT.replace("    cluster_wait();\n", ""))[0].ok


def unit_of(name, folder):
    path = folder / "solution.py"
    path.write_text(solution_text(name), encoding="utf-8")
    return load(str(path))


@pytest.fixture(scope="module")
def tiles(tmp_path_factory):
    return unit_of("16_matmul_hopper", tmp_path_factory.mktemp("tiles"))


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    return unit_of("16_matmul_ring", tmp_path_factory.mktemp("ring"))


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("stages, cluster", [(4, 2), (3, 1)])
def test_the_last_level_with_and_without_clusters(ring, stages, cluster, across):
    M, N, K = 300, 264, 136
    a, b = torch.randn(M, K).half(), torch.randn(N, K).half()
    c = torch.full((M, N), torch.nan).half()
    ring.persistent(a, b.T.contiguous().T if across else b, c, stages=stages, cluster=cluster, group=2)
    assert torch.allclose(c.float(), a.float() @ b.float().T, atol=0.05, rtol=2e-3)


TILES = [
    tiles_kernel.Tile(128, 256),
    tiles_kernel.Tile(128, 192, ping_pong=True),
    tiles_kernel.Tile(128, 224),
    tiles_kernel.Tile(256, 160, beside=True),
    tiles_kernel.Tile(256, 192),
    tiles_kernel.Tile(256, 160, beside=True, exchanged=True),
    tiles_kernel.Tile(128, 192, ping_pong=True, exchanged=True),
    tiles_kernel.Tile(128, 240, exchanged=True),
    tiles_kernel.Tile(256, 176, exchanged=True),
]


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_tiles(ring, tile, across):  # ragged last tiles, and more tiles than the clusters have at once
    M, N, K = 600, 520, 136
    a, b = torch.randn(M, K).half(), torch.randn(N, K).half()
    c = torch.full((M, N), torch.nan).half()
    with recording.record() as seen:
        ring.tiled(tile, a, b.T.contiguous().T if across else b, c, relu=across)
    assert not seen.findings
    expected = a.float() @ b.float().T
    expected = expected.clamp_min(0) if across else expected
    assert torch.allclose(c.float(), expected, atol=0.05, rtol=2e-3)


@pytest.mark.parametrize(
    "M, N, K, tile",
    [
        (4096, 4096, 4096, "128 × 256"),
        (8192, 8192, 8192, "128 × 192 (ping-pong)"),
        (7168, 3072, 8192, "128 × 192 (ping-pong)"),
        (5120, 3072, 6144, "256 × 160 (beside, exchanged)"),
        (5120, 6144, 4096, "256 × 192 (beside)"),
        (3000, 7000, 5000, "256 × 160 (beside)"),
        (5120, 5184, 7040, "256 × 160"),
        (6464, 2048, 4544, "128 × 160 (ping-pong, exchanged)"),
    ],
)
def test_the_tile_chosen_is_the_one_measured_as_fastest(ring, monkeypatch, M, N, K, tile):  # docs/measured.md
    monkeypatch.setattr(device, "current", lambda: None)  # the SMs of an H200
    assert str(ring.fastest_tile(M, N, K)) == tile


def test_every_tile_fits(ring):
    for tile in ring.TILES:
        stages, boxes, memory = tile.memory
        assert stages >= 3 and boxes >= 2 and memory <= tiles_kernel.SHARED
        for across in (False, True):
            for rows, columns in tile.boxes(across):
                assert rows <= 256 and columns in (32, 64)


def uses_the_engines_and_spills_nothing(kernel):
    from labutils.cuda import cubin

    made = kernel.compiled(90)
    assert "serialized" not in made.log and made.target == "sm_90a"
    symbol = made.lowered[kernel.name]
    assert cubin.resources(made.cubin)[symbol].stack == 0
    code = cubin.sass(made.cubin)[symbol]
    assert cubin.matrix_instruction(code) == "wgmma"
    fences = [i for i in code if "MEMBAR" in i.opcode and "GPU" in i.opcode]
    assert len(fences) <= 2, "beside cluster_sync() nothing may wait for all memory"


@pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC (pip install nvidia-cuda-nvrtc)")
def test_the_levels_use_the_engines_and_spill_nothing(tiles, ring):
    some = [tiles_kernel.kernel(tile, across, 1) for tile in TILES for across in (0, 1)]
    for kernel in (tiles.matmul_tile, ring.matmul_ring, ring.matmul_persistent, *some):
        uses_the_engines_and_spills_nothing(kernel)


@pytest.mark.slow
@pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC (pip install nvidia-cuda-nvrtc)")
@pytest.mark.parametrize("across", [0, 1])
@pytest.mark.parametrize("relu", [0, 1])
def test_every_tile_uses_the_engines_and_spills_nothing(ring, across, relu):
    for tile in ring.TILES:
        uses_the_engines_and_spills_nothing(tiles_kernel.kernel(tile, across, relu))


def test_rows_that_no_box_can_be_cut_from():
    with pytest.raises(ValueError, match="16 bytes"):
        tensor_map.tensor_map(torch.zeros(4, 9).half(), (4, 8))
    with pytest.raises(ValueError, match="side by side"):
        tensor_map.tensor_map(torch.zeros(8, 16).half().T, (4, 8))
    with pytest.raises(ValueError, match="1 to 256"):
        tensor_map.tensor_map(torch.zeros(8, 16).half(), (300, 8))
    with pytest.raises(ValueError, match="swizzle"):
        tensor_map.tensor_map(torch.zeros(8, 128).half(), (8, 128), 128)


def test_swizzled_by_the_address():
    task = get("16_matmul_hopper/swizzled")
    for row in range(0, 40, 3):
        for column in range(64):
            at = row * 128 + column * 2
            assert task.reference(row, column) == at ^ (at >> 7 & 7) << 4


TWICE = """
#include <lab/hopper.cuh>
__global__ void twice(const __grid_constant__ CUtensorMap x, float *y) {
    extern __shared__ __align__(1024) half tile[];
    __shared__ uint64_t full;
    float sum[32];
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_fence();
    }
    __syncthreads();
    for (int s = 0; s < 2; s++) {
        if (threadIdx.x == 0) {
            mbarrier_expect(&full, 64 * 64 * sizeof(half));
            tma_load(tile, &x, &full, 0, 64 * s);
        }
        mbarrier_wait(&full, s);
        wgmma_fence();
        wgmma(sum, wgmma_tile(tile), wgmma_tile(tile), s > 0);
        wgmma_commit();
        wgmma_wait<0>();
        %s
    }
    y[threadIdx.x] = sum[0];
}
"""


def twice(source):
    x, y = torch.ones(64, 128).half(), torch.zeros(128)
    kernel = simt.compile(source).kernels["twice"]
    arrays = {"y": simt.MemoryRange(y.data_ptr(), y.numel(), 4)}
    tiled = tensor_map.tensor_map(x, (64, 64), 128).described()
    return kernel.launch(1, 128, 1 << 14, [tiled, y.data_ptr()], arrays=arrays)


@pytest.mark.parametrize(
    "between, words",
    [
        ("__syncthreads();", None),
        ("", "this copy overwrites a tile that other warps' products read"),
        ("__syncwarp();", "this copy overwrites a tile that other warps' products read"),
        ("if (threadIdx.x == 0) tile[0] = 0; __syncthreads();", "this store overwrites a tile that other warps'"),
        ("__syncthreads(); if (threadIdx.x == 0) tile[0] = 0; fence_async(); __syncthreads();", None),
    ],
)
def test_a_tile_is_overwritten_only_after_the_warps_that_read_it_have_met(between, words):
    result = twice(TWICE % between)
    assert [f.kind for f in result.findings] == (["missing-wait"] if words else [])
    assert words is None or words in str(result.findings[0])


FENCE = "        wgmma_fence();\n"
BEFORE = ("    for (int s", "    wgmma_fence();\n    for (int s")


@pytest.mark.parametrize(
    "changes, found",
    [
        ([(FENCE, "")], True),
        ([(FENCE, ""), BEFORE], False),  # no thread uses the accumulators between the two products
        ([(FENCE, ""), BEFORE, ("wait<0>();", "wait<0>(sum);")], True),
        ([("wait<0>();", "wait<0>(sum);")], False),
    ],
)
def test_products_start_after_a_fence_behind_the_last_use_of_their_accumulators(changes, found):
    source = TWICE % "__syncthreads();"
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    result = twice(source)
    assert [f.kind for f in result.findings] == (["missing-fence"] if found else [])
    assert not found or "wgmma_fence()" in str(result.findings[0])


@pytest.mark.parametrize(
    "wait, drains",
    [
        ("wgmma_wait<0>();", 3),
        ("wgmma_wait<1>();", 1),
        ("wgmma_wait<2>();", 1),
        ("if (s == 1) wgmma_wait<0>();", 2),
        ("wgmma_wait<1>(); wgmma_wait<0>();", 3),
        ("wgmma_commit(); wgmma_wait<1>();", 3),  # an empty batch keeps nothing in flight
    ],
)
def test_waits_after_which_no_product_is_in_flight_are_counted(wait, drains):
    source = (TWICE % "").replace("wgmma_wait<0>();", wait).replace("s < 2", "s < 3")
    source = source.replace("full, 0, 64 * s", "full, 0, 0").replace(
        "if (threadIdx.x == 0) {\n            mb", "if (s == 0 && threadIdx.x == 0) {\n            mb"
    )
    source = source.replace("mbarrier_wait(&full, s)", "mbarrier_wait(&full, 0)")
    source = source.replace("    y[threadIdx.x]", "    wgmma_wait<0>(sum);\n    y[threadIdx.x]")
    result = twice(source)
    assert result.ok and (result.counters.wgmmas, result.counters.wgmma_drains) == (3, drains)
