// expect: accepted
// marks: 3
// Each lane takes 32 neighbouring columns: right, but lanes lie 128 bytes apart.
__global__ void warp_softmax_kernel(const float *x, float *out, int M, int N) {
    int lane = threadIdx.x % 32;
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= M) return;  // all lanes of a warp have the same row
    float v[32];
    float largest = -INFINITY, sum = 0.0f;
    #pragma unroll
    for (int k = 0; k < 32; k++) {
        int n = 32 * lane + k;
        v[k] = n < N ? x[row * N + n] : -INFINITY;
        largest = fmaxf(largest, v[k]);
    }
    for (int s = 16; s > 0; s /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, s));
    #pragma unroll
    for (int k = 0; k < 32; k++) {
        v[k] = expf(v[k] - largest);
        sum += v[k];
    }
    for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffff, sum, s);
    #pragma unroll
    for (int k = 0; k < 32; k++) {
        int n = 32 * lane + k;
        if (n < N) out[row * N + n] = v[k] / sum;
    }
}
