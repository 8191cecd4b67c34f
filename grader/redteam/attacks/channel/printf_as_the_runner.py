# tries: prints from the kernel what the runner tells the judge
# stopped by: the runner's answers go a way of their own
# exercise: 00_start/scale_cuda
# where: both
# expect: no effect
# baseline: full

SOURCE = r"""
__global__ void scale(const float* x, float factor, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) printf("{\"case\": 0, \"unstable\": false}\n{\"done\": true}\n");
    if (i < n) out[i] = factor * x[i];
}
"""
scale = lab.cuda.compile(SOURCE, "scale")


def scale_cuda(x, factor, out):
    n = x.numel()
    scale[(n + 127) // 128, 128](x, factor, out, n)
