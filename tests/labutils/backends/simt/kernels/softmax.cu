__global__ void softmax(const float* x, float* y, int rows, int cols) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float* p = x + row * cols;
    float most = -INFINITY, sum = 0;
    for (int i = lane; i < cols; i += 32) most = fmaxf(most, p[i]);
    for (int o = 16; o; o >>= 1) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, o));
    for (int i = lane; i < cols; i += 32) sum += __expf(p[i] - most);
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    for (int i = lane; i < cols; i += 32) y[row * cols + i] = __expf(p[i] - most) / sum;
}
