// expect: missing-accumulation
// Adds the sums of four of the eight warps.
__global__ void block_softmax_kernel(const float *x, float *out, int N) {
    extern __shared__ float row[];
    __shared__ float part[8];
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    x += blockIdx.x * N;
    out += blockIdx.x * N;
    float largest = -INFINITY, sum = 0.0f;
    #pragma unroll 4
    for (int n = t; n < N; n += blockDim.x) {
        row[n] = x[n];
        largest = fmaxf(largest, row[n]);
    }
    for (int s = 16; s > 0; s /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, s));
    if (lane == 0) part[warp] = largest;
    __syncthreads();
    for (int w = 0; w < 8; w++) largest = fmaxf(largest, part[w]);
    for (int n = t; n < N; n += blockDim.x) {
        row[n] = expf(row[n] - largest);
        sum += row[n];
    }
    for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffff, sum, s);
    __syncthreads();  // everyone has read the maxima
    if (lane == 0) part[warp] = sum;
    __syncthreads();
    float total = 0.0f;
    for (int w = 0; w < 4; w++) total += part[w];
    for (int n = t; n < N; n += blockDim.x) out[n] = row[n] / total;
}
