// expect: out-of-bounds s 100
__device__ float at(const float* p, int i) {
    return p[i];    // BUG
}
__global__ void shared_pointer_outside(const float* x, float* y) {
    __shared__ float s[100];
    int t = threadIdx.x;
    if (t < 100) s[t] = x[t];
    __syncthreads();
    y[t] = at(s, t);
}
