"""The softmax of unit 12's last level, without the learner's `exchange`: CUDA C++ that follows the notebook's cell.

The cell defines `zero_if_empty`, `merged` and `exchange`, and includes <lab/hopper.cuh>.
"""

QUADS = 10
"""Quads of 16 bytes that a thread keeps in registers."""

THREADS = 512
"""Most threads of a block: two such blocks, with 64 registers for each thread, fill an SM."""

SHARED = 512
"""Bytes of shared memory: pairs (m, l) of 32 warps and of 16 blocks, and an mbarrier."""

SOURCE = (
    rf"constexpr int QUADS = {QUADS}, THREADS = {THREADS};"
    + r"""

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

// out = softmax of each row of x (M, N), lse = its log-sum-exp. Cluster i computes row i. Each of its `blocks` blocks
// keeps `size` columns of the row in registers: a multiple of 4, at most 4 * QUADS for each thread.
__global__ void __launch_bounds__(THREADS, 2)
cluster_softmax_kernel(const float *x, float *out, float *lse, int N, int size, int blocks) {
    extern __shared__ __align__(16) float memory[];
    float2 *of_warps = reinterpret_cast<float2 *>(memory), *of_blocks = of_warps + 32;
    uint64_t *bar = reinterpret_cast<uint64_t *>(of_blocks + 16);
    int t = threadIdx.x, threads = blockDim.x, lane = t % 32, warp = t / 32, rank = cluster_rank();
    int row = blockIdx.x / blocks, first = min(rank * size, N);
    size_t at = (size_t)row * N + first;
    Part part(x + at, out + at, min(size, N - first));
    if (t == 0) {
        mbarrier_init(bar, 1);
        mbarrier_fence();
    }
    cluster_arrive();

    // All loads are in flight at once.
    float4 v[QUADS];
    float edge = part.has_edge(t) ? part.x[part.edge(t)] : -INFINITY, m = edge;
    #pragma unroll
    for (int k = 0; k < QUADS; k++) {
        int i = t + k * threads;
        v[k] = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
        if (i < part.quads) v[k] = reinterpret_cast<const float4 *>(part.x)[i];
    }
    #pragma unroll
    for (int k = 0; k < QUADS; k++) m = fmaxf(m, fmaxf(fmaxf(v[k].x, v[k].y), fmaxf(v[k].z, v[k].w)));
    float shift = zero_if_empty(m), l = edge = __expf(edge - shift);
    #pragma unroll
    for (int k = 0; k < QUADS; k++) {
        v[k] = make_float4(__expf(v[k].x - shift), __expf(v[k].y - shift),
                           __expf(v[k].z - shift), __expf(v[k].w - shift));
        l += (v[k].x + v[k].y) + (v[k].z + v[k].w);
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

    float scale = __expf(m - pair.x) / pair.y;  // v is relative to this thread's m
    #pragma unroll
    for (int k = 0; k < QUADS; k++) {
        int i = t + k * threads;
        if (i < part.quads)
            reinterpret_cast<float4 *>(part.out)[i] = make_float4(v[k].x * scale, v[k].y * scale,
                                                                  v[k].z * scale, v[k].w * scale);
    }
    if (part.has_edge(t)) part.out[part.edge(t)] = edge * scale;
    if (rank == 0 && t == 0) lse[row] = pair.x + __logf(pair.y);
}  // no block still sends to this one: exchange() waited for the pairs of all
"""
)
