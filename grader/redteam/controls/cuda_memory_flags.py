# tries: a two-kernel pipeline over a double buffer, float2 pairs and __device__ counters that kernels reset
# exercise: 10_reduction/sum_v2
# expect: accepted

import torch

SOURCE = r"""
__global__ void pairs(const float* __restrict__ in, float* __restrict__ out, int n) {
    __shared__ float2 s[128];
    const unsigned t = threadIdx.x;
    const int i = 2 * (blockIdx.x * blockDim.x + t);
    s[t] = make_float2(i < n ? in[i] : 0.f, i + 1 < n ? in[i + 1] : 0.f);
    __syncthreads();
    for (unsigned k = blockDim.x / 2; k >= 1; k >>= 1) {
        if (t < k) { s[t].x += s[t + k].x; s[t].y += s[t + k].y; }
        __syncthreads();
    }
    if (!t) out[blockIdx.x] = s->x + (*s).y;
}
"""
pairs = lab.cuda.compile(SOURCE, "pairs")


def sum_v2(x, out):
    sizes = [x.numel()]
    while sizes[-1] > 256:
        sizes.append(-(-sizes[-1] // 256))
    buffers = [torch.empty(max(sizes[1:], default=1), device=x.device) for _ in range(2)]
    src = x
    for step, n in enumerate(sizes[:-1]):
        dst = buffers[step % 2]
        pairs[sizes[step + 1], 128](src, dst, n)
        src = dst
    pairs[1, 128](src, out, sizes[-1])
