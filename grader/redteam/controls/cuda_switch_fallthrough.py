# tries: switch with fallthrough, do-while, goto-free early exits, comma expressions, assert, printf and __trap
# exercise: 00_start/scale_cuda
# expect: accepted

SOURCE = r"""
#include <cassert>
#include <cstdio>

__global__ void scale4(const float* x, float factor, float* out, int n) {
    assert(blockDim.x == 128 && "launch with 128 threads");
    if (gridDim.x == 0) { printf("no blocks: %d\n", gridDim.x); __trap(); }
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x), left = n - i;
    if (left <= 0) return;
    switch (left) {
        default: out[i + 3] = factor * x[i + 3]; [[fallthrough]];
        case 3: out[i + 2] = factor * x[i + 2];  // fall through
        case 2: out[i + 1] = factor * x[i + 1];
        case 1: out[i] = factor * x[i];
    }
    do { left -= 4, i += 4; } while (false);
}
"""
scale4 = lab.cuda.compile(SOURCE, "scale4")


def scale_cuda(x, factor, out):
    n = x.numel()
    scale4[(n + 511) // 512, 128](x, factor, out, n)
