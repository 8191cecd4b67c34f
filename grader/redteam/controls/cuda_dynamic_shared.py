# tries: shared memory whose size is given at the launch, and a type of the learner's own
# exercise: 07_elementwise_cuda/vector_add
# expect: accepted

SOURCE = r"""
struct Pair {
    float a, b;
    __device__ float sum() const { return a + b; }
};

__global__ void add(const float* x, const float* y, float* out, int n) {
    extern __shared__ float tile[];
    Pair* pairs = reinterpret_cast<Pair*>(tile);
    const int stride = gridDim.x * blockDim.x;
    for (int first = blockIdx.x * blockDim.x; first < n; first += stride) {
        const int i = first + threadIdx.x;
        if (i < n) pairs[threadIdx.x] = Pair{x[i], y[i]};
        __syncthreads();
        if (i < n) out[i] = pairs[threadIdx.x].sum();
        __syncthreads();
    }
}
"""
add = lab.cuda.compile(SOURCE, "add")


def vector_add(x, y, out):
    n = x.numel()
    add[(n + 255) // 256, 256, 256 * 8](x, y, out, n)
