// expect: overflow
// The maximum is not in powers of two.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <lab/mma.cuh>

// tile[i][j] = x[row + i][j], 0 past the end. Rows of the tile are D + 8 long, for the banks. Only starts the copies.
template <int ROWS, int D, int THREADS>
__device__ void copy_rows(half *tile, const half *x, int row, int rows) {
    #pragma unroll
    for (int p = 0; p < ROWS * D / 8 / THREADS; p++) {
        int i = threadIdx.x + p * THREADS, r = i / (D / 8), c = i % (D / 8) * 8;
        bool inside = row + r < rows;
        copy_async(tile + r * (D + 8) + c, x + (row + r) * D + c, inside);
    }
}

// s = q k^T: s (16 TILES x BLOCK_N) in pieces of 16 x 8, q_tile (16 TILES x D), k_tile (BLOCK_N x D).
template <int D, int TILES, int BLOCK_N>
__device__ void scores(float (&s)[TILES][BLOCK_N / 8][4], const half *q_tile, const half *k_tile) {
    constexpr int PITCH = D + 8;
    int lane = threadIdx.x % 32;
    #pragma unroll
    for (int t = 0; t < TILES; t++)
        #pragma unroll
        for (int n = 0; n < BLOCK_N / 8; n++) s[t][n][0] = s[t][n][1] = s[t][n][2] = s[t][n][3] = 0.0f;
    const half *q_row = q_tile + lane % 16 * PITCH + lane / 16 * 8;
    const half *k_row = k_tile + (lane / 16 * 8 + lane % 8) * PITCH + lane / 8 % 2 * 8;
    #pragma unroll
    for (int d = 0; d < D; d += 16) {
        unsigned a[TILES][4];
        #pragma unroll
        for (int t = 0; t < TILES; t++) ldmatrix_x4(a[t], q_row + 16 * t * PITCH + d);
        #pragma unroll
        for (int n = 0; n < BLOCK_N / 8; n += 2) {
            unsigned b[4];
            ldmatrix_x4(b, k_row + 8 * n * PITCH + d);
            #pragma unroll
            for (int t = 0; t < TILES; t++) {
                mma_m16n8k16(s[t][n], a[t], b[0], b[1]);
                mma_m16n8k16(s[t][n + 1], a[t], b[2], b[3]);
            }
        }
    }
}

// s becomes p = exp2(s scale - m) with the new maxima m; l and o are rescaled, and l takes the lane's own p.
template <int D, int TILES, int BLOCK_N>
__device__ void soften(float (&s)[TILES][BLOCK_N / 8][4], float (&m)[TILES][2], float (&l)[TILES][2],
                       float (&o)[TILES][D / 8][4], float scale) {
    #pragma unroll
    for (int t = 0; t < TILES; t++)
        #pragma unroll
        for (int h = 0; h < 2; h++) {
            float largest = -INFINITY;
            #pragma unroll
            for (int n = 0; n < BLOCK_N / 8; n++) largest = fmaxf(largest, fmaxf(s[t][n][2 * h], s[t][n][2 * h + 1]));
            largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
            largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
            float m_new = fmaxf(m[t][h], largest), factor = fast_exp2(m[t][h] - m_new), sum = 0.0f;
            #pragma unroll
            for (int n = 0; n < BLOCK_N / 8; n++)
                #pragma unroll
                for (int i = 2 * h; i < 2 * h + 2; i++) sum += s[t][n][i] = fast_exp2(s[t][n][i] * scale - m_new);
            m[t][h] = m_new;
            l[t][h] = l[t][h] * factor + sum;
            #pragma unroll
            for (int n = 0; n < D / 8; n++) o[t][n][2 * h] *= factor, o[t][n][2 * h + 1] *= factor;
        }
}

// o += p v: p (16 TILES x BLOCK_N) in pieces, v_tile (BLOCK_N x D), o (16 TILES x D) in pieces of 16 x 8.
template <int D, int TILES, int BLOCK_N>
__device__ void weigh(float (&o)[TILES][D / 8][4], float (&p)[TILES][BLOCK_N / 8][4], const half *v_tile) {
    constexpr int PITCH = D + 8;
    int lane = threadIdx.x % 32;
    const half *v_row = v_tile + lane % 16 * PITCH + lane / 16 * 8;
    #pragma unroll
    for (int k = 0; k < BLOCK_N / 16; k++) {
        unsigned a[TILES][4];
        #pragma unroll
        for (int t = 0; t < TILES; t++)
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                float *two = &p[t][2 * k + i / 2][i % 2 * 2];
                a[t][i] = pack(two[0], two[1]);
            }
        #pragma unroll
        for (int n = 0; n < D / 8; n += 2) {
            unsigned b[4];
            ldmatrix_x4_trans(b, v_row + 16 * k * PITCH + 8 * n);
            #pragma unroll
            for (int t = 0; t < TILES; t++) {
                mma_m16n8k16(o[t][n], a[t], b[0], b[1]);
                mma_m16n8k16(o[t][n + 1], a[t], b[2], b[3]);
            }
        }
    }
}

// As flash_scalar. WARPS warps with 16 TILES queries each; two buffers of BLOCK_N keys and values.
template <int D, int WARPS, int TILES, int BLOCK_N>
__global__ void __launch_bounds__(32 * WARPS)
flash_tensor(const half *q, const half *k, const half *v, half *out, float *lse, int M, int N, float scale) {
    constexpr int PITCH = D + 8, BLOCK_M = 16 * TILES * WARPS, THREADS = 32 * WARPS, TILE = BLOCK_N * PITCH;
    extern __shared__ __align__(128) half memory[];
    half *q_tile = memory, *kv_tiles = memory + BLOCK_M * PITCH;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = blockIdx.x * BLOCK_M;
    size_t head = blockIdx.y;
    q += head * M * D, out += head * M * D, lse += head * M, k += head * N * D, v += head * N * D;
    auto fetch = [&](int start, int buffer) {
        copy_rows<BLOCK_N, D, THREADS>(kv_tiles + 2 * buffer * TILE, k, start, N);
        copy_rows<BLOCK_N, D, THREADS>(kv_tiles + (2 * buffer + 1) * TILE, v, start, N);
        __pipeline_commit();
    };
    copy_rows<BLOCK_M, D, THREADS>(q_tile, q, first, M);
    fetch(0, 0);
    float m[TILES][2], l[TILES][2] = {}, o[TILES][D / 8][4] = {}, s[TILES][BLOCK_N / 8][4];
    for (int t = 0; t < TILES; t++) m[t][0] = m[t][1] = -INFINITY;
    for (int start = 0, now = 0; start < N; start += BLOCK_N, now = 1 - now) {
        __pipeline_wait_prior(0);
        __syncthreads();  // tile `now` is there, and nobody reads the other any more
        if (start + BLOCK_N < N) fetch(start + BLOCK_N, 1 - now);
        const half *k_tile = kv_tiles + 2 * now * TILE, *v_tile = k_tile + TILE;
        scores<D, TILES, BLOCK_N>(s, q_tile + 16 * TILES * warp * PITCH, k_tile);
        if (start + BLOCK_N > N) {  // keys that do not exist
            #pragma unroll
            for (int t = 0; t < TILES; t++)
                #pragma unroll
                for (int n = 0; n < BLOCK_N / 8; n++)
                    #pragma unroll
                    for (int i = 0; i < 4; i++)
                        if (start + 8 * n + lane % 4 * 2 + i % 2 >= N) s[t][n][i] = -INFINITY;
        }
        soften<D, TILES, BLOCK_N>(s, m, l, o, scale);
        weigh<D, TILES, BLOCK_N>(o, s, v_tile);
    }
    #pragma unroll
    for (int t = 0; t < TILES; t++)
        #pragma unroll
        for (int h = 0; h < 2; h++) {
            int row = first + 16 * (TILES * warp + t) + 8 * h + lane / 4;
            float sum = l[t][h];
            sum += __shfl_xor_sync(~0u, sum, 1);
            sum += __shfl_xor_sync(~0u, sum, 2);
            if (row >= M) continue;
            float inverse = 1.0f / sum;
            unsigned *out_row = reinterpret_cast<unsigned *>(out + row * D) + lane % 4;
            #pragma unroll
            for (int n = 0; n < D / 8; n++)
                out_row[4 * n] = pack(o[t][n][2 * h] * inverse, o[t][n][2 * h + 1] * inverse);
            if (lane % 4 == 0) lse[row] = (m[t][h] + log2f(sum)) * 0.6931471805599453f;
        }
}
