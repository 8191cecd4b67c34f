// dynamic shared memory at file scope
extern __shared__ float part[];

__global__ void reduce_strided(const float* x, float* out, int n) {
    unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    part[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (unsigned s = 1; s < blockDim.x; s *= 2) {
        unsigned k = 2 * s * t;
        if (k < blockDim.x) part[k] += part[k + s];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = part[0];
}
