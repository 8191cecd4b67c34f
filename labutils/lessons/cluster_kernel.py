"""The softmax of unit 12's last level, without the learner's `exchange`: CUDA C++ that follows the notebook's cell.

The cell defines `zero_if_empty`, `merged` and `exchange`, and includes <cuda_pipeline.h> and <lab/hopper.cuh>.
"""

HEADER = 512
"""Bytes of shared memory before a block's part of its row: pairs (m, l) and an mbarrier."""

SOURCE = r"""
// A part of a row: whole quads (16 aligned bytes each), up to three floats before them, and up to three after them.
struct Part {
    const float *x;  // of the first whole quad
    float *out;
    int before, quads, after;
    __device__ Part(const float *first, float *to, int columns) {
        before = min(columns, (int)(-(reinterpret_cast<uint64_t>(first) / 4) % 4));
        quads = (columns - before) / 4;
        after = columns - before - 4 * quads;
        x = first + before;
        out = to + before;
    }
    // The first threads of a block have one of the floats beside the quads each: its index, counted from x.
    __device__ bool has_edge(int t) const { return t < before + after; }
    __device__ int edge(int t) const { return t < before ? t - before : 4 * quads + t - before; }
};

// out = softmax of each row of x (M, N), lse = its log-sum-exp. Cluster i computes row i, each of its `blocks` blocks
// `size` columns of it, a multiple of 4, in shared memory.
__global__ void __launch_bounds__(256)
cluster_softmax_kernel(const float *x, float *out, float *lse, int N, int size, int blocks) {
    extern __shared__ __align__(16) float memory[];
    float2 *of_warps = reinterpret_cast<float2 *>(memory), *of_blocks = of_warps + 32;
    uint64_t *bar = reinterpret_cast<uint64_t *>(of_blocks + 16);
    float4 *held = reinterpret_cast<float4 *>(memory + 128);
    int t = threadIdx.x, threads = blockDim.x, lane = t % 32, warp = t / 32, rank = cluster_rank();
    int row = blockIdx.x / blocks, first = min(rank * size, N);
    size_t at = (size_t)row * N + first;
    Part part(x + at, out + at, min(size, N - first));
    if (t == 0) {
        mbarrier_init(bar, 1);
        mbarrier_fence();
    }
    cluster_arrive();

    // A thread reads only what it fetched itself, so no barrier of threads is needed.
    float edge = part.has_edge(t) ? part.x[part.edge(t)] : -INFINITY;
    #pragma unroll 8
    for (int i = t; i < part.quads; i += threads) __pipeline_memcpy_async(held + i, part.x + 4 * i, 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    float m = edge, l = edge == -INFINITY ? 0.0f : 1.0f;
    #pragma unroll 4
    for (int i = t; i < part.quads; i += threads) {
        float4 v = held[i];
        float m_new = fmaxf(m, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w))), shift = zero_if_empty(m_new);
        l *= __expf(m - shift);
        l += __expf(v.x - shift) + __expf(v.y - shift) + __expf(v.z - shift) + __expf(v.w - shift);
        m = m_new;
    }

    // (m, l) of the warp, of the block, of the row
    float2 pair = merged(make_float2(m, l));
    if (lane == 0) of_warps[warp] = pair;
    __syncthreads();
    if (warp == 0) {
        pair = merged(lane < threads / 32 ? of_warps[lane] : make_float2(-INFINITY, 0.0f));
        __syncwarp();  // all lanes have read before one of them arrives at the barrier in exchange()
    }
    cluster_wait();  // the other blocks' barriers are ready
    pair = exchange(pair, of_blocks, bar, 0, blocks);

    m = pair.x;
    float scale = 1.0f / pair.y;
    #pragma unroll 4
    for (int i = t; i < part.quads; i += threads) {
        float4 v = held[i];
        reinterpret_cast<float4 *>(part.out)[i] = make_float4(__expf(v.x - m) * scale, __expf(v.y - m) * scale,
                                                              __expf(v.z - m) * scale, __expf(v.w - m) * scale);
    }
    if (part.has_edge(t)) part.out[part.edge(t)] = __expf(edge - m) * scale;
    if (rank == 0 && t == 0) lse[row] = m + __logf(pair.y);
}  // no block still sends to this one: exchange() waited for the pairs of all
"""
