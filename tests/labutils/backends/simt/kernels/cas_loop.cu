// atomicMax for floats, by atomicCAS
__device__ float atomic_max(float* p, float v) {
    int* bits = (int*)p;
    int old = *(volatile int*)bits, assumed;
    do {
        assumed = old;
        old = atomicCAS(bits, assumed, __float_as_int(fmaxf(v, __int_as_float(assumed))));
    } while (assumed != old);
    return __int_as_float(old);
}
__global__ void cas_loop(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomic_max(out, x[i]);
}
