# tries: holds instructions of the host's processor
# stopped by: the emulator takes no assembly, NVIDIA's compiler none of the host's
# exercise: 07_elementwise_cuda/vector_add
# where: both
# expect: refused

SOURCE = r"""
__global__ void add(const float* x, const float* y, float* out, int n) {
    asm volatile("movl $39, %%eax; syscall" ::: "eax", "rcx", "r11");
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = x[i] + y[i];
}
"""
add = lab.cuda.compile(SOURCE, "add")


def vector_add(x, y, out):
    add[(x.numel() + 255) // 256, 256](x, y, out, x.numel())
