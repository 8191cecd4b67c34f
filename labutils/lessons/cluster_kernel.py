"""The softmax of unit 12's last level, without the learner's `exchange`: CUDA C++ that follows the notebook's cell.

The cell defines `zero_if_empty`, `merged` and `exchange`, and includes <cuda_pipeline.h> and <lab/hopper.cuh>.
"""

FLOATS = 28
"""Floats of a part that a thread keeps in registers: 7 quads of 16 bytes."""

SOURCE = r"""
// A part of a row, in quads: 16 aligned bytes. Its own floats are [before, end), counted from its first quad.
struct Part {
    const float *x;
    float *out;
    int before, end;
    __device__ Part(const float *first, float *to, int columns) {
        before = reinterpret_cast<uint64_t>(first) / 4 % 4;
        end = before + columns;
        x = first - before;
        out = to - before;
    }
    __device__ bool has(int i) const { return before <= i && i < end; }
    __device__ bool whole(int i) const { return before <= i && i + 4 <= end; }  // quad i, i + 1, i + 2, i + 3
    __device__ void fetch(float *to, int i) const {
        if (whole(i)) __pipeline_memcpy_async(to + i, x + i, 16);
        else if (i < end)
            for (int j = i; j < i + 4; j++)
                if (has(j)) __pipeline_memcpy_async(to + j, x + j, 4);
                else to[j] = -INFINITY;
    }
    __device__ void store(int i, float4 v) const {
        float each[4] = {v.x, v.y, v.z, v.w};
        if (whole(i)) *reinterpret_cast<float4 *>(out + i) = v;
        else if (i < end)
            #pragma unroll
            for (int j = 0; j < 4; j++)
                if (has(i + j)) out[i + j] = each[j];
    }
};

// out = softmax of each row of x (M, N), lse = its log-sum-exp. Each cluster computes one row at a time, each of its
// blocks `size` columns of it. Its next row is `clusters` rows further on.
template <int BLOCKS, int THREADS>
__global__ void __launch_bounds__(THREADS)
cluster_softmax_kernel(const float *x, float *out, float *lse, int M, int N, int size) {
    extern __shared__ __align__(16) float memory[];
    float2 *of_warps = reinterpret_cast<float2 *>(memory), *of_blocks = of_warps + 32;  // two sets, for alternate rows
    uint64_t *bars = reinterpret_cast<uint64_t *>(of_blocks + 2 * BLOCKS);
    float *next = memory + 128;
    const float4 empty = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
    int t = threadIdx.x, lane = t % 32, warp = t / 32, rank = cluster_rank(), clusters = gridDim.x / BLOCKS;
    int first = min(rank * size, N), columns = min(size, N - first), iteration = 0;
    auto part_of = [&](int row) {
        size_t at = (size_t)row * N + first;
        return Part(x + at, out + at, columns);
    };
    auto fetch = [&](int row) {  // a thread reads only what it fetched itself, so no barrier is needed
        #pragma unroll
        for (int k = 0; k < 7; k++)
            if (row < M) part_of(row).fetch(next, 4 * (t + k * THREADS));
        __pipeline_commit();
    };
    if (t < 2) mbarrier_init(&bars[t], 1);
    mbarrier_fence();
    cluster_sync();
    fetch(blockIdx.x / BLOCKS);
    for (int row = blockIdx.x / BLOCKS; row < M; row += clusters, iteration++) {
        Part part = part_of(row);
        float4 v[7];
        float m = -INFINITY, l = 0.0f;
        __pipeline_wait_prior(0);
        #pragma unroll
        for (int k = 0; k < 7; k++) {
            int i = 4 * (t + k * THREADS);
            v[k] = i < part.end ? *reinterpret_cast<float4 *>(next + i) : empty;
            m = fmaxf(m, fmaxf(fmaxf(v[k].x, v[k].y), fmaxf(v[k].z, v[k].w)));
        }
        fetch(row + clusters);
        float shift = zero_if_empty(m);
        #pragma unroll
        for (int k = 0; k < 7; k++) {
            v[k] = make_float4(__expf(v[k].x - shift), __expf(v[k].y - shift),
                               __expf(v[k].z - shift), __expf(v[k].w - shift));
            l += v[k].x + v[k].y + v[k].z + v[k].w;
        }

        // (m, l) of the warp, of the block, of the row
        int set = iteration % 2;  // a fast block may send the next row's pair while another still reads this row's
        float2 pair = merged(make_float2(m, l));
        if (lane == 0) of_warps[warp] = pair;
        __syncthreads();
        if (warp == 0) {
            pair = merged(lane < THREADS / 32 ? of_warps[lane] : make_float2(-INFINITY, 0.0f));
            __syncwarp();  // all lanes have read before one of them arrives at the barrier in exchange()
        }
        pair = exchange(pair, of_blocks + set * BLOCKS, &bars[set], iteration / 2 % 2, BLOCKS);

        float scale = __expf(m - pair.x) / pair.y;  // v is relative to this thread's m
        #pragma unroll
        for (int k = 0; k < 7; k++)
            part.store(4 * (t + k * THREADS),
                       make_float4(v[k].x * scale, v[k].y * scale, v[k].z * scale, v[k].w * scale));
        if (rank == 0 && t == 0) lse[row] = pair.x + __logf(pair.y);
    }
    cluster_sync();
}
"""
