// expect: padded-lanes
// Keys past the end have score 0.
#include <cuda_fp16.h>

// out = softmax(q k^T / sqrt(D)) v and lse for one head, blockIdx.y. A block of 4 warps computes 32 queries.
template <int D>
__global__ void __launch_bounds__(128)
flash_scalar(const half *q, const half *k, const half *v, half *out, float *lse, int M, int N, float scale) {
    constexpr int ROWS = 8, EACH = D / 32;
    __shared__ __align__(16) float q_tile[4 * ROWS][D], k_tile[32][D + 4];
    __shared__ half v_tile[32][D];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = blockIdx.x * 4 * ROWS;
    size_t head = blockIdx.y;
    q += head * M * D, out += head * M * D, lse += head * M, k += head * N * D, v += head * N * D;
    for (int i = threadIdx.x; i < 4 * ROWS * D; i += 128)
        q_tile[i / D][i % D] = first + i / D < M ? __half2float(q[first * D + i]) : 0.0f;
    float m[ROWS], l[ROWS] = {}, acc[ROWS][EACH] = {};
    for (int r = 0; r < ROWS; r++) m[r] = -INFINITY;
    for (int start = 0; start < N; start += 32) {
        for (int i = threadIdx.x; i < 32 * D; i += 128) {
            bool inside = start + i / D < N;
            k_tile[i / D][i % D] = inside ? __half2float(k[start * D + i]) : 0.0f;
            v_tile[i / D][i % D] = inside ? v[start * D + i] : __float2half(0.0f);
        }
        __syncthreads();
        float p[ROWS] = {};
        for (int d = 0; d < D; d += 4) {
            float4 key = *reinterpret_cast<float4 *>(&k_tile[lane][d]);
            #pragma unroll
            for (int r = 0; r < ROWS; r++) {
                float4 query = *reinterpret_cast<float4 *>(&q_tile[warp * ROWS + r][d]);
                p[r] += query.x * key.x + query.y * key.y + query.z * key.z + query.w * key.w;
            }
        }
        #pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float s = p[r] * scale, largest = s;
            for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
            float m_new = fmaxf(m[r], largest), factor = exp2f(m[r] - m_new);
            p[r] = exp2f(s - m_new);
            l[r] = l[r] * factor + p[r];
            m[r] = m_new;
            for (int e = 0; e < EACH; e++) acc[r][e] *= factor;
        }
        for (int j = 0; j < 32; j++) {
            float value[EACH];
            #pragma unroll
            for (int e = 0; e < EACH; e++) value[e] = __half2float(v_tile[j][lane + 32 * e]);
            #pragma unroll
            for (int r = 0; r < ROWS; r++) {
                float w = __shfl_sync(~0u, p[r], j);
                for (int e = 0; e < EACH; e++) acc[r][e] += w * value[e];
            }
        }
        __syncthreads();
    }
    for (int r = 0; r < ROWS; r++) {
        int row = first + warp * ROWS + r;
        for (int step = 16; step > 0; step /= 2) l[r] += __shfl_xor_sync(~0u, l[r], step);
        if (row >= M) continue;
        for (int e = 0; e < EACH; e++) out[row * D + lane + 32 * e] = __float2half(acc[r][e] / l[r]);
        if (lane == 0) lse[row] = (m[r] + log2f(l[r])) * 0.6931471805599453f;
    }
}
