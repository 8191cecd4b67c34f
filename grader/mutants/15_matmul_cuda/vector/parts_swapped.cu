// expect: wrong-values
// y and z change places.
// Four neighbours of row `row` of x (rows, columns); 0 for those outside. `column` and `columns` are multiples of 4.
__device__ float4 load4(const float *x, int row, int column, int rows, int columns) {
    if (row >= rows || column >= columns) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    return *reinterpret_cast<const float4 *>(x + row * columns + column);
}

// As matmul_naive, for rows of whole float4. A block of 256 threads computes 128 x 128 elements, 8 x 8 each.
__global__ void __launch_bounds__(256, 2)
matmul_vector(const float *a, const float *b, float *c, int M, int N, int K) {
    __shared__ __align__(16) float a_tile[8][132], b_tile[8][128];
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    int m0 = blockIdx.y * 128, n0 = blockIdx.x * 128;
    int row = warp / 4 * 64 + (lane / 8 * 2 + lane % 2) * 4, column = warp % 4 * 32 + lane / 2 % 4 * 4;
    float sum[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += 8) {
        float4 v = load4(a, m0 + t / 2, k0 + t % 2 * 4, M, K);
        a_tile[t % 2 * 4 + 0][t / 2] = v.x;
        a_tile[t % 2 * 4 + 1][t / 2] = v.z;
        a_tile[t % 2 * 4 + 2][t / 2] = v.y;
        a_tile[t % 2 * 4 + 3][t / 2] = v.w;
        *reinterpret_cast<float4 *>(&b_tile[t / 32][lane * 4]) = load4(b, k0 + t / 32, n0 + lane * 4, K, N);
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < 8; k++) {
            float a_reg[8], b_reg[8];
            *reinterpret_cast<float4 *>(&a_reg[0]) = *reinterpret_cast<float4 *>(&a_tile[k][row]);
            *reinterpret_cast<float4 *>(&a_reg[4]) = *reinterpret_cast<float4 *>(&a_tile[k][row + 32]);
            *reinterpret_cast<float4 *>(&b_reg[0]) = *reinterpret_cast<float4 *>(&b_tile[k][column]);
            *reinterpret_cast<float4 *>(&b_reg[4]) = *reinterpret_cast<float4 *>(&b_tile[k][column + 16]);
            #pragma unroll
            for (int i = 0; i < 8; i++)
                #pragma unroll
                for (int j = 0; j < 8; j++) sum[i][j] += a_reg[i] * b_reg[j];
        }
        __syncthreads();
    }
    #pragma unroll
    for (int i = 0; i < 8; i++)
        #pragma unroll
        for (int j = 0; j < 8; j += 4) {
            int m = m0 + row + i % 4 + i / 4 * 32, n = n0 + column + j * 4;
            float4 v = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            if (m < M && n < N) *reinterpret_cast<float4 *>(c + m * N + n) = v;
        }
}
