// expect: stack-overflow
// frames larger than the page that guards a stack
__device__ __noinline__ float deep(const float* x, int n) {    // BUG
    float mine[10000];    // BUG
    for (int i = 0; i < 10; i++) mine[i * 7 + n % 64] = x[0] * (i + n);    // BUG
    return n == 0 ? mine[3] : deep(x, n - 1) + mine[n % 64];    // BUG
}
__global__ void deep_frames(const float* x, float* y, int n) {
    y[threadIdx.x] = deep(x, n);
}
