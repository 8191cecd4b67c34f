// One product of 16 x 16 and 16 x 8: operands by ldmatrix, b once as it lies and once transposed.
#include <lab/mma.cuh>

template <class T>
__device__ void product(const T *a, const T *b, float *d) {
    __shared__ __align__(16) T a_tile[16][24], b_tile[16][24];
    int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) a_tile[i / 16][i % 16] = a[i];
    for (int i = lane; i < 256; i += 32) b_tile[i / 16][i % 16] = b[i];
    __syncwarp();
    unsigned x[4], y[4];
    ldmatrix_x4(x, &a_tile[lane % 16][lane / 16 * 8]);
    ldmatrix_x4_trans(y, &b_tile[lane % 16][lane / 16 * 8]);
    for (int n = 0; n < 2; n++) {
        float sum[4] = {};
        mma_m16n8k16<T>(sum, x, y[2 * n], y[2 * n + 1]);
        for (int i = 0; i < 4; i++) d[(lane / 4 + i / 2 * 8) * 16 + 8 * n + lane % 4 * 2 + i % 2] = sum[i];
    }
}

__global__ void mma_shapes(const half *a, const half *b, const __nv_bfloat16 *a2, const __nv_bfloat16 *b2, float *d,
                           unsigned *packed) {
    product(a, b, d);
    product(a2, b2, d + 256);
    packed[threadIdx.x] = pack<__half>(threadIdx.x, 1.5f);
}
