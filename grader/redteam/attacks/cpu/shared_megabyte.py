# tries: takes a megabyte of shared memory
# stopped by: every kernel is compiled for GPUs too
# exercise: 10_reduction/sum_v1
# where: both
# expect: refused

SOURCE = r"""
__global__ void sum(const float* x, float* out, int n) {
    __shared__ float all[1 << 18];
    if (threadIdx.x == 0) {
        float s = 0;
        for (int i = 0; i < n; ++i) { all[i] = x[i]; s += all[i]; }
        out[0] = s;
    }
}
"""
total = lab.cuda.compile(SOURCE, "sum")


def sum_v1(x, out):
    total[1, 32](x, out, x.numel())
