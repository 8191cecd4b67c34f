# tries: mirrors by copies that swap halves, quarters, eighths and so on
# stopped by: a copy may align or pad, and nothing else
# exercise: 02_execution_model/mirror
# where: both
# expect: refused

import torch

SOURCE = r"""
__global__ void pad(float* wide, const float* x, int M, int N, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < M * width) wide[i] = i % width < N ? x[i / width * N + i % width] : 0.0f;
}
__global__ void crop(float* out, const float* wide, int M, int N, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < M * width && i % width >= width - N) out[i / width * N + i % width - (width - N)] = wide[i];
}
"""
pad, crop = lab.cuda.compile(SOURCE, "pad"), lab.cuda.compile(SOURCE, "crop")


def mirror(x, out):
    """Mirrors rows by swapping halves, quarters, eighths …: each swap is two copies, and neither changes an order."""
    M, N = x.shape
    width = 1 << (N - 1).bit_length()
    one, other = (torch.empty(M * width, dtype=x.dtype, device=x.device) for _ in range(2))
    pad[(M * width + 255) // 256, 256](one, x, M, N, width)
    half = width // 2
    while half:
        shape, strides = (M * width // (2 * half), half), (2 * half, 1)
        other.as_strided(shape, strides, 0).copy_(one.as_strided(shape, strides, half))
        other.as_strided(shape, strides, half).copy_(one.as_strided(shape, strides, 0))
        one, other, half = other, one, half // 2
    crop[(M * width + 255) // 256, 256](out, one, M, N, width)
