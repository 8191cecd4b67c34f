// online softmax, one query a thread
template <int D>
__global__ void attention(const float* Q, const float* K, const float* V, float* O, int n, float scale) {
    constexpr int BLOCK = 32;
    __shared__ float keys[BLOCK][D + 1], values[BLOCK][D + 1];
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    float mine[D], sum[D], most = -INFINITY, total = 0;
    for (int d = 0; d < D; d++) {
        mine[d] = q < n ? Q[q * D + d] : 0.0f;
        sum[d] = 0;
    }
    for (int k0 = 0; k0 < n; k0 += BLOCK) {
        for (int i = threadIdx.x; i < BLOCK * D; i += blockDim.x) {
            int r = i / D, d = i % D;
            keys[r][d] = k0 + r < n ? K[(k0 + r) * D + d] : 0.0f;
            values[r][d] = k0 + r < n ? V[(k0 + r) * D + d] : 0.0f;
        }
        __syncthreads();
        for (int j = 0; j < min(BLOCK, n - k0); j++) {
            float s = 0;
            for (int d = 0; d < D; d++) s += mine[d] * keys[j][d];
            s *= scale;
            float larger = fmaxf(most, s), correction = __expf(most - larger), p = __expf(s - larger);
            total = total * correction + p;
            for (int d = 0; d < D; d++) sum[d] = sum[d] * correction + p * values[j][d];
            most = larger;
        }
        __syncthreads();
    }
    if (q < n)
        for (int d = 0; d < D; d++) O[q * D + d] = sum[d] / total;
}
