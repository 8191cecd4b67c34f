__global__ void read_only(const float* __restrict__ table, const int* __restrict__ index, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __ldg(&table[__ldg(index + i)]);
}
