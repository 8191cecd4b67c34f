// expect: tail-unmasked
// Four passes with a guard before the first only.
__global__ void vector_add_kernel(const float* __restrict__ x, const float* __restrict__ y,
                                  float* __restrict__ out, int n) {
    int threads = gridDim.x * blockDim.x;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (int k = 0; k < 4; k++) out[i + k * threads] = x[i + k * threads] + y[i + k * threads];
}
