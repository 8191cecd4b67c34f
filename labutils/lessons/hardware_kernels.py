"""The CUDA C++ texts of the kernels that `hardware.py` measures a GPU with."""

CHASE = r"""
// Latency: one thread follows a chain in which every word holds the address of the next one. A load cannot start
// before the previous load has finished, so nothing overlaps: cycles / steps is the latency of one load.
typedef unsigned long long word;

// Through the L1 (ldg: read-only data), or bypassing it (ldcg).
template <bool L1> __device__ const word* next(const word* p) { return (const word*)(L1 ? __ldg(p) : __ldcg(p)); }

template <bool L1> __global__ void chase(const word* chain, int warm, int steps, long long* out) {
    const word* p = chain;
    for (int i = 0; i < warm; i++) p = next<L1>(p);  // the first walk fills the cache
    long long begin = clock64();
    #pragma unroll 16
    for (int i = 0; i < steps; i++) p = next<L1>(p);
    out[0] = clock64() - begin;
    out[1] = (long long)p;  // used, or the compiler would remove the loop
}

__global__ void chase_shared(int steps, long long* out) {
    __shared__ unsigned chain[1024];
    #pragma unroll 1
    for (int i = 0; i < 1024; i++) chain[i] = 4 * ((i + 33) % 1024);
    unsigned at = 0;
    long long begin = clock64();
    #pragma unroll 16
    for (int i = 0; i < steps; i++) at = *(const unsigned*)((const char*)chain + at);
    out[0] = clock64() - begin;
    out[1] = at;
}

__global__ void chase_register(const float* ab, int steps, long long* out) {
    float a = ab[0], b = ab[1], x = ab[2];
    long long begin = clock64();
    #pragma unroll 64
    for (int i = 0; i < steps; i++) x = fmaf(x, a, b);  // each multiply-add needs the previous result
    out[0] = clock64() - begin;
    out[1] = __float_as_int(x);
}
"""

READ = r"""
// Bandwidth: every thread reads 16 bytes at a time, with eight loads in flight. All blocks read a region of `words`
// int4s (a power of two); its size decides which level of memory serves them.
template <bool L1> __global__ void read_global(const int4* data, unsigned words, int rounds, int* out) {
    int4 sum = {0, 0, 0, 0};
    for (unsigned r = 0; r < rounds; r++) {
        unsigned chunk = (blockIdx.x + r * gridDim.x) * 4096u & (words - 1);
        const int4* p = data + chunk + threadIdx.x;
        int4 v[8];
        #pragma unroll
        for (int k = 0; k < 8; k++) v[k] = L1 ? p[512 * k] : __ldcg(p + 512 * k);
        #pragma unroll
        for (int k = 0; k < 8; k++) { sum.x ^= v[k].x; sum.y ^= v[k].y; sum.z ^= v[k].z; sum.w ^= v[k].w; }
    }
    if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 12345) out[0] = 1;  // used, or the compiler would remove the loads
}

__global__ void read_shared(unsigned mask, int rounds, int* out) {
    __shared__ int4 data[2560];
    for (int i = threadIdx.x; i < 2560; i += blockDim.x) data[i] = make_int4(i, i, i, i);
    __syncthreads();
    int4 sum = {0, 0, 0, 0};
    for (unsigned r = 0; r < rounds; r++) {
        const int4* p = data + threadIdx.x + (r & mask);  // mask is 0, but the compiler cannot know
        int4 v[8];
        #pragma unroll
        for (int k = 0; k < 8; k++) v[k] = p[256 * k];
        #pragma unroll
        for (int k = 0; k < 8; k++) { sum.x ^= v[k].x; sum.y ^= v[k].y; sum.z ^= v[k].z; sum.w ^= v[k].w; }
    }
    if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 12345) out[0] = 1;
}

// Registers: a multiply-add reads three, 12 bytes per lane. Eight independent chains hide its latency.
__global__ void multiply_add(const float* ab, int rounds, float* out) {
    float a = ab[0], b = ab[1], x[8];
    for (int k = 0; k < 8; k++) x[k] = ab[2] + k;
    for (int r = 0; r < rounds; r++) {
        #pragma unroll
        for (int u = 0; u < 32; u++)
            #pragma unroll
            for (int k = 0; k < 8; k++) x[k] = fmaf(x[k], a, b);
    }
    float sum = 0;
    for (int k = 0; k < 8; k++) sum += x[k];
    if (sum == 12345.0f) out[0] = sum;
}
"""

COPY = r"""
// A copy in which every thread has LOADS loads of 16 bytes in flight before its first store.
template <int LOADS> __global__ void copy_kernel(const float4* x, float4* y) {
    extern __shared__ char ballast[];  // never used: allocating it keeps other blocks off the SM
    size_t i = (size_t)blockIdx.x * blockDim.x * LOADS + threadIdx.x;
    float4 v[LOADS];
    #pragma unroll
    for (int k = 0; k < LOADS; k++) v[k] = x[i + k * blockDim.x];
    #pragma unroll
    for (int k = 0; k < LOADS; k++) y[i + k * blockDim.x] = v[k];
}
"""

CLOCK = r"""
__global__ void empty_kernel(int* out) { if (out == 0) return; }

// Cycles of this SM per nanosecond of the GPU's timer, in a busy loop.
__global__ void clock_kernel(long long cycles, long long* out) {
    unsigned long long t0, t1;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t0));
    long long begin = clock64(), now = begin;
    while (now - begin < cycles) now = clock64();
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t1));
    out[0] = now - begin;
    out[1] = (long long)(t1 - t0);
}
"""
