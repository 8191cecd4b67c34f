# tries: writes results byte by byte through printf's %hhn, which nothing records
# stopped by: printf on a GPU has no %n, and the emulator's has none either
# exercise: 00_start/scale_cuda
# where: both
# expect: refused

SOURCE = r"""
__global__ void scale(const float* x, float factor, float* out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const unsigned bits = __float_as_uint(factor * x[i]);
        for (int k = 0; k < 4; ++k) {
            const int byte = (bits >> (8 * k)) & 255;
            printf("%*c%hhn", byte ? byte : 256, 'x', (signed char*)(out + i) + k);
        }
    }
}
"""
scale = lab.cuda.compile(SOURCE, "scale")


def scale_cuda(x, factor, out):
    scale[(x.numel() + 255) // 256, 256](x, factor, out, x.numel())
