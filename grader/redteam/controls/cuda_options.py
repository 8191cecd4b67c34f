# tries: a size that is given by a compiler option
# exercise: 00_start/scale_cuda
# expect: accepted

SOURCE = r"""
__global__ void scale(const float* x, float factor, float* out, int n) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) out[i] = factor * x[i];
}
"""
scale = lab.cuda.compile(SOURCE, "scale", ("-DTHREADS=192",))


def scale_cuda(x, factor, out):
    n = x.numel()
    scale[(n + 191) // 192, 192](x, factor, out, n)
