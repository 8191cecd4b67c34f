// expect: accepted
// marks: 4
// Never a quad: right, with four times as many loads.
// v[0] … v[3] = columns n, n + step, n + 2 * step, n + 3 * step of a row, -INFINITY from column N on. With step 1 one
// load brings all four: n and N are multiples of 4 then, and the row begins at a multiple of 16 bytes.
__device__ void load4(float *v, const float *row, int n, int step, int N) {
    if (step == 1) {
        float4 q = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
        if (n < N) q = *reinterpret_cast<const float4 *>(row + n);
        v[0] = q.x, v[1] = q.y, v[2] = q.z, v[3] = q.w;
    } else {
        for (int e = 0; e < 4; e++) v[e] = n + e * step < N ? row[n + e * step] : -INFINITY;
    }
}
// The same columns of a row = v[0] … v[3], none from column N on.
__device__ void store4(float *row, int n, int step, int N, const float *v) {
    if (step > 1) {
        for (int e = 0; e < 4; e++) if (n + e * step < N) row[n + e * step] = v[e];
    } else if (n < N) *reinterpret_cast<float4 *>(row + n) = make_float4(v[0], v[1], v[2], v[3]);
}

// out[m, n] = exp(x[m, n] - max) / sum, a row for each block, at most 32 columns for each thread.
// x and out are (M, N), rows directly behind each other; with `quads` N and both addresses are multiples of 4 floats.
__global__ void __launch_bounds__(1024) block_softmax_kernel(const float *x, float *out, int N, bool quads) {
    __shared__ float part[32];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, warps = blockDim.x / 32;
    int first = quads ? 4 * t : t, step = quads ? 1 : blockDim.x;
    x += blockIdx.x * N;
    out += blockIdx.x * N;
    float v[32];
    float largest = -INFINITY, sum = 0.0f;
    #pragma unroll
    for (int k = 0; k < 32; k += 4) load4(&v[k], x, t + k * blockDim.x, blockDim.x, N);
    #pragma unroll
    for (int k = 0; k < 32; k++) largest = fmaxf(largest, v[k]);
    for (int s = 16; s > 0; s /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, s));
    if (lane == 0) part[warp] = largest;
    __syncthreads();
    largest = lane < warps ? part[lane] : -INFINITY;
    for (int s = 16; s > 0; s /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, s));
    #pragma unroll
    for (int k = 0; k < 32; k++) {
        v[k] = expf(v[k] - largest);
        sum += v[k];
    }
    for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffff, sum, s);
    __syncthreads();  // everyone has read the maxima
    if (lane == 0) part[warp] = sum;
    __syncthreads();
    sum = lane < warps ? part[lane] : 0.0f;
    for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffff, sum, s);
    float scale = 1.0f / sum;
    #pragma unroll
    for (int k = 0; k < 32; k++) v[k] *= scale;
    #pragma unroll
    for (int k = 0; k < 32; k += 4) store4(out, t + k * blockDim.x, blockDim.x, N, &v[k]);
}
