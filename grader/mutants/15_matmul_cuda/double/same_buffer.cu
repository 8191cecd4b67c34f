// expect: missing-syncthreads
// The next tiles overwrite the ones being read.
constexpr int BK = 8;                  // depth of a tile
constexpr int EACH = 128 * BK / 1024;  // float4 of A, and of B, that a thread brings

__device__ float4 load4(const float *x, int row, int column, int rows, int columns) {
    if (row >= rows || column >= columns) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    return *reinterpret_cast<const float4 *>(x + row * columns + column);
}

// As matmul_vector, with tiles BK deep in two buffers.
__global__ void __launch_bounds__(256, 2)
matmul_double(const float *a, const float *b, float *c, int M, int N, int K) {
    __shared__ __align__(16) float a_tile[2][BK][132], b_tile[2][BK][128];
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    int m0 = blockIdx.y * 128, n0 = blockIdx.x * 128;
    int row = warp / 4 * 64 + (lane / 8 * 2 + lane % 2) * 4, column = warp % 4 * 32 + lane / 2 % 4 * 4;
    float sum[8][8] = {};
    float4 a_next[EACH], b_next[EACH];

    auto fetch = [&](int k0) {  // start loading the tiles at k0 into registers
        #pragma unroll
        for (int i = 0; i < EACH; i++) {
            int p = t + i * 256;
            a_next[i] = load4(a, m0 + p / (BK / 4), k0 + p % (BK / 4) * 4, M, K);
            b_next[i] = load4(b, k0 + p / 32, n0 + lane * 4, K, N);
        }
    };
    auto put = [&](int buffer) {  // from registers to shared memory, A transposed
        #pragma unroll
        for (int i = 0; i < EACH; i++) {
            int p = t + i * 256, m = p / (BK / 4), k = p % (BK / 4) * 4;
            a_tile[buffer][k + 0][m] = a_next[i].x;
            a_tile[buffer][k + 1][m] = a_next[i].y;
            a_tile[buffer][k + 2][m] = a_next[i].z;
            a_tile[buffer][k + 3][m] = a_next[i].w;
            *reinterpret_cast<float4 *>(&b_tile[buffer][p / 32][lane * 4]) = b_next[i];
        }
    };
    auto multiply = [&](int buffer) {
        #pragma unroll
        for (int k = 0; k < BK; k++) {
            float a_reg[8], b_reg[8];
            *reinterpret_cast<float4 *>(&a_reg[0]) = *reinterpret_cast<float4 *>(&a_tile[buffer][k][row]);
            *reinterpret_cast<float4 *>(&a_reg[4]) = *reinterpret_cast<float4 *>(&a_tile[buffer][k][row + 32]);
            *reinterpret_cast<float4 *>(&b_reg[0]) = *reinterpret_cast<float4 *>(&b_tile[buffer][k][column]);
            *reinterpret_cast<float4 *>(&b_reg[4]) = *reinterpret_cast<float4 *>(&b_tile[buffer][k][column + 16]);
            #pragma unroll
            for (int i = 0; i < 8; i++)
                #pragma unroll
                for (int j = 0; j < 8; j++) sum[i][j] += a_reg[i] * b_reg[j];
        }
    };

    int now = 0;
    fetch(0);
    put(0);
    __syncthreads();
    for (int k0 = 0; k0 < K; k0 += BK) {
        bool more = k0 + BK < K;
        if (more) fetch(k0 + BK);
        multiply(now);
        if (more) {
            put(now);
            __syncthreads();
        }
        now = 1 - now;
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
