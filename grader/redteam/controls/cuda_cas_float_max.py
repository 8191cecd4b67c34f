# tries: a maximum of floats by compare-and-swap in shared memory, one block a row
# exercise: 11_softmax/block_softmax
# expect: accepted

SOURCE = r"""
__device__ __forceinline__ float atomicMaxFloat(float* addr, float value) {
    int* addr_as_int = (int*)addr;
    int old = *addr_as_int, assumed;
    do {
        assumed = old;
        if (__int_as_float(assumed) >= value) break;
        old = atomicCAS(addr_as_int, assumed, __float_as_int(value));
    } while (assumed != old);
    return __int_as_float(old);
}

#define FLOAT4(p) (*(float4*)(p))

__global__ void softmax_rows(const float* __restrict__ x, float* __restrict__ out, int N, int vec)
{
    __shared__ float row_max, row_sum;
    const int tid = threadIdx.x;
    const float* xr = x + (size_t)blockIdx.x * N;
    float* yr = out + (size_t)blockIdx.x * N;
    if (tid == 0) { row_max = -INFINITY; row_sum = 0.f; }
    __syncthreads();

    float reg[32];
    float m = -INFINITY;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        if (vec) {
            const int c = 4 * (tid + k * blockDim.x);
            float4 v = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
            if (c < N) v = FLOAT4(xr + c);
            reg[4 * k] = v.x; reg[4 * k + 1] = v.y; reg[4 * k + 2] = v.z; reg[4 * k + 3] = v.w;
        } else {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int c = tid + (4 * k + e) * blockDim.x;
                reg[4 * k + e] = c < N ? xr[c] : -INFINITY;
            }
        }
    }
#pragma unroll
    for (int k = 0; k < 32; ++k) m = fmaxf(m, reg[k]);
    for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, o, 32));
    if ((tid & 31) == 0) atomicMaxFloat(&row_max, m);
    __syncthreads();
    m = row_max;
    float s = 0.f;
#pragma unroll
    for (int k = 0; k < 32; ++k) { reg[k] = __expf(reg[k] - m); s += reg[k]; }
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(0xffffffff, s, o);
    if ((tid & 31) == 0) atomicAdd(&row_sum, s);
    __syncthreads();
    const float inv = __fdividef(1.f, row_sum);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        if (vec) {
            const int c = 4 * (tid + k * blockDim.x);
            if (c < N) FLOAT4(yr + c) = make_float4(reg[4*k] * inv, reg[4*k+1] * inv, reg[4*k+2] * inv, reg[4*k+3] * inv);
        } else {
            for (int e = 0; e < 4; ++e) {
                const int c = tid + (4 * k + e) * blockDim.x;
                if (c < N) yr[c] = reg[4 * k + e] * inv;
            }
        }
    }
}
"""
softmax_rows = lab.cuda.compile(SOURCE, "softmax_rows")


def block_softmax(x, out):
    M, N = x.shape
    threads = max(64, 32 * ((N + 1023) // 1024))
    vec = int(N % 4 == 0 and x.data_ptr() % 16 == 0 and out.data_ptr() % 16 == 0)
    softmax_rows[M, threads](x, out, N, vec)
