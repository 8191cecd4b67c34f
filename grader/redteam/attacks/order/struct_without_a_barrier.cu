// tries: reads what other warps store by a function that takes a struct, with no barrier
// stopped by: every access is checked
// exercise: 10_reduction/sum_v1
// where: both
// expect: refused

struct One {
    float v;
};
__device__ __noinline__ float peek(One one) { return one.v; }
__global__ void reduce_v1(const float *x, float *partial, int n) {
    __shared__ float tile[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    tile[t] = i < n ? x[i] : 0.0f;
    __syncwarp();
    if (t == 255) {
        float sum = 0.0f;
        for (int k = 0; k < 256; k++) sum += peek(*reinterpret_cast<const One*>(&tile[k]));
        partial[blockIdx.x] = sum;
    }
}
