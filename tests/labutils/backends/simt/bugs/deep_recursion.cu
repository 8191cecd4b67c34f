// expect: stack-overflow
__device__ float deep(const float* x, int n) {    // BUG
    float mine[64];    // BUG
    for (int i = 0; i < 64; i++) mine[i] = x[0] * (i + n);    // BUG
    return n == 0 ? mine[3] : deep(x, n - 1) + mine[n % 64];    // BUG
}
__global__ void deep_recursion(const float* x, float* y, int n) {
    y[threadIdx.x] = deep(x, n);
}
