// tries: half2 loads, conversions and arithmetic in an attention kernel with one warp for each query
// exercise: 20_flash_cuda/scalar
// expect: accepted
#include <cuda_fp16.h>

template <int D>
__global__ void __launch_bounds__(128)
flash_scalar(const half *q, const half *k, const half *v, half *out, float *lse, int M, int N, float scale) {
    constexpr int ROWS = 8, PAIRS = D / 64;
    __shared__ half2 k_tile[32][D / 2 + 1];
    __shared__ half2 v_tile[32][D / 2];
    __shared__ float2 q_tile[32][D / 2];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, first = blockIdx.x * 32;
    const size_t head = blockIdx.y;
    q += head * M * D; out += head * M * D; lse += head * M; k += head * N * D; v += head * N * D;
    for (int i = threadIdx.x; i < 32 * D / 2; i += blockDim.x) {
        const int r = i / (D / 2), c = i % (D / 2);
        q_tile[r][c] = make_float2(0.f, 0.f);
        if (first + r < M) {
            const half *p = q + (size_t)(first + r) * D + 2 * c;
            q_tile[r][c] = __half22float2(__halves2half2(p[0], p[1]));
        }
    }
    float m[ROWS], l[ROWS] = {};
    float2 acc[ROWS][PAIRS] = {};
    for (int r = 0; r < ROWS; ++r) m[r] = -INFINITY;
    for (int start = 0; start < N; start += 32) {
        for (int i = threadIdx.x; i < 32 * D / 2; i += blockDim.x) {
            const int r = i / (D / 2), c = i % (D / 2);
            half2 key = __float2half2_rn(0.f), value = key;
            if (start + r < N) {
                const size_t at = (size_t)(start + r) * D + 2 * c;
                key = __halves2half2(k[at], k[at + 1]);
                value = __halves2half2(v[at], v[at + 1]);
            }
            k_tile[r][c] = key;
            v_tile[r][c] = value;
        }
        __syncthreads();
        float p[ROWS] = {};
        for (int c = 0; c < D / 2; ++c) {
            const float2 key = __half22float2(k_tile[lane][c]);
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const float2 query = q_tile[warp * ROWS + r][c];
                p[r] = fmaf(query.x, key.x, fmaf(query.y, key.y, p[r]));
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const float s = start + lane < N ? p[r] * scale : -INFINITY;
            float top = s;
            for (int o = 16; o > 0; o >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, o));
            const float m_new = fmaxf(m[r], top), factor = exp2f(m[r] - m_new);
            p[r] = exp2f(s - m_new);
            l[r] = l[r] * factor + p[r];
            m[r] = m_new;
            for (int e = 0; e < PAIRS; ++e) { acc[r][e].x *= factor; acc[r][e].y *= factor; }
        }
        for (int j = 0; j < 32; ++j)
#pragma unroll
            for (int e = 0; e < PAIRS; ++e) {
                const half2 value = v_tile[j][lane + 32 * e];
                const float lo = __low2float(value), hi = __high2float(value);
#pragma unroll
                for (int r = 0; r < ROWS; ++r) {
                    const float weight = __shfl_sync(0xffffffff, p[r], j);
                    acc[r][e].x += weight * lo;
                    acc[r][e].y += weight * hi;
                }
            }
        __syncthreads();
    }
    for (int r = 0; r < ROWS; ++r) {
        const int row = first + warp * ROWS + r;
        for (int o = 16; o > 0; o >>= 1) l[r] += __shfl_xor_sync(0xffffffff, l[r], o);
        if (row >= M) continue;
        for (int e = 0; e < PAIRS; ++e) {
            const half2 two = __floats2half2_rn(acc[r][e].x / l[r], acc[r][e].y / l[r]);
            out[(size_t)row * D + 2 * (lane + 32 * e)] = __low2half(two);
            out[(size_t)row * D + 2 * (lane + 32 * e) + 1] = __high2half(two);
        }
        if (lane == 0) lse[row] = (m[r] + log2f(l[r])) * 0.6931471805599453f;
    }
}
