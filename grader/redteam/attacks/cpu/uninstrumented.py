# tries: takes the record of accesses away from a function that reads for all
# stopped by: attributes of CUDA C++ only
# exercise: 10_reduction/sum_v1
# where: both
# expect: refused

SOURCE = r"""
[[gnu::no_sanitize_thread]] __device__ float peek(const float* p, int i) { return p[i]; }
__global__ void sum(const float* x, float* out, int n) {
    float s = 0;
    if (threadIdx.x == 0) for (int i = 0; i < n; ++i) s += peek(x, i);
    if (threadIdx.x == 0) out[0] = s;
}
"""
add = lab.cuda.compile(SOURCE, "sum")


def sum_v1(x, out):
    add[1, 32](x, out, x.numel())
