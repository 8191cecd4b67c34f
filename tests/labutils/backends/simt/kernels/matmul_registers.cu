// two buffers in shared memory, a tile of outputs in each thread's registers, float4 loads
template <int BM, int BN, int BK, int TM, int TN>
__global__ void matmul_registers(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[2][BK][BM + 4], Bs[2][BK][BN];
    const int threads = (BM / TM) * (BN / TN), t = threadIdx.x, tx = t % (BN / TN), ty = t / (BN / TN);
    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;
    auto load = [&](int buffer, int k0) {
        for (int i = t * 4; i < BM * BK; i += threads * 4) {
            int r = i / BK, c = i % BK;
            float4 v = *reinterpret_cast<const float4*>(&A[r * K + k0 + c]);
            As[buffer][c][r] = v.x;
            As[buffer][c + 1][r] = v.y;
            As[buffer][c + 2][r] = v.z;
            As[buffer][c + 3][r] = v.w;
        }
        for (int i = t * 4; i < BK * BN; i += threads * 4) {
            int r = i / BN, c = i % BN;
            *reinterpret_cast<float4*>(&Bs[buffer][r][c]) = *reinterpret_cast<const float4*>(&B[(k0 + r) * N + c]);
        }
    };
    float sum[TM][TN] = {};
    load(0, 0);
    __syncthreads();
    int now = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        if (k0 + BK < K) load(now ^ 1, k0 + BK);
        for (int k = 0; k < BK; k++) {
            float a[TM], b[TN];
            for (int i = 0; i < TM; i++) a[i] = As[now][k][ty * TM + i];
            for (int j = 0; j < TN; j++) b[j] = Bs[now][k][tx * TN + j];
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++) sum[i][j] += a[i] * b[j];
        }
        __syncthreads();
        now ^= 1;
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += 4)
            *reinterpret_cast<float4*>(&C[(ty * TM + i) * N + tx * TN + j]) =
                make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
}
