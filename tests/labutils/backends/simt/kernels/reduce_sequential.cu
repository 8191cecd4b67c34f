__global__ void reduce_sequential(const float* x, float* out, int n) {
    extern __shared__ float part[];
    unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    part[t] = i < n ? x[i] : 0.0f;
    for (unsigned s = blockDim.x / 2; s > 0; s /= 2) {
        __syncthreads();
        if (t < s) part[t] += part[t + s];
    }
    if (t == 0) out[blockIdx.x] = part[0];
}
