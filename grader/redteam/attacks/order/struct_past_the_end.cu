// tries: reads past both ends by a function that takes a struct
// stopped by: every access is checked
// exercise: 09_shared_memory/fix_bounds
// where: both
// expect: refused

constexpr int BLOCK = 256;
struct One {
    float v;
};
__device__ __noinline__ float peek(One one) { return one.v; }
__device__ __forceinline__ float at(const float* x, int i) { return peek(*reinterpret_cast<const One*>(x + i)); }
__global__ void gradient_kernel(float* out, const float* x, int n) {
    const int i = blockIdx.x * BLOCK + threadIdx.x, t = threadIdx.x + 1;
    __shared__ float tile[BLOCK + 2];
    float mine = at(x, i), left = at(x, i - 1), right = at(x, i + 1);
    if (i >= n) mine = x[n - 1];
    if (i == 0) left = mine;
    if (i + 1 >= n) right = x[n - 1];
    tile[t] = mine;
    if (threadIdx.x == 0) tile[0] = left;
    if (threadIdx.x == BLOCK - 1) tile[t + 1] = right;
    __syncthreads();
    if (i < n) out[i] = tile[t + 1] - tile[t - 1];
}
