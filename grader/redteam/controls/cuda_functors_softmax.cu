// tries: reductions of a warp templated over functors, constants by template, ternaries in chains
// exercise: 11_softmax/warp_softmax
// expect: accepted
template <typename T> struct SumOp { __device__ __forceinline__ T operator()(const T& a, const T& b) const { return a + b; } };
template <typename T> struct MaxOp { __device__ __forceinline__ T operator()(const T& a, const T& b) const { return max(a, b); } };

template <template <typename> class ReductionOp, typename T, int thread_group_width = 32>
__inline__ __device__ T WarpAllReduce(T val) {
    for (int mask = thread_group_width / 2; mask > 0; mask /= 2)
        val = ReductionOp<T>()(val, __shfl_xor_sync(0xffffffff, val, mask, thread_group_width));
    return val;
}

template <int COLS>
__device__ void softmax_row(const float* __restrict__ in, float* __restrict__ out, int N) {
    constexpr int EACH = COLS / 32;
    const int lane = threadIdx.x & 31;
    float buf[EACH];
    float m = -INFINITY;
#pragma unroll
    for (int k = 0; k < EACH; ++k) {
        const int c = k * 32 + lane;
        buf[k] = c < N ? in[c] : -INFINITY;
        m = fmaxf(m, buf[k]);
    }
    m = WarpAllReduce<MaxOp, float>(m);
    float s = 0.f;
#pragma unroll
    for (int k = 0; k < EACH; ++k) s += buf[k] = __expf(buf[k] - m);
    s = WarpAllReduce<SumOp, float>(s);
#pragma unroll
    for (int k = 0; k < EACH; ++k) {
        const int c = k * 32 + lane;
        if (c < N) out[c] = __fdividef(buf[k], s);
    }
}

__global__ void warp_softmax_kernel(const float *x, float *out, int M, int N) {
    const int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    if (row >= M) return;
    const size_t at = (size_t)row * N;
    N <= 128 ? softmax_row<128>(x + at, out + at, N)
             : N <= 512 ? softmax_row<512>(x + at, out + at, N) : softmax_row<1024>(x + at, out + at, N);
}
