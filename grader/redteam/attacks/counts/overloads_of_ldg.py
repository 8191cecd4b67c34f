# tries: tells the emulator from NVRTC by what __ldg takes (SFINAE); the GPU gets an empty kernel
# stopped by: both compilers read the same text, with the same meaning
# exercise: 07_elementwise_cuda/vector_add
# where: both
# expect: refused

SOURCE = r"""
struct Mine {
    int v;
};
template <class T>
constexpr auto probe(const T* p, int) -> decltype(__ldg(p), true) { return true; }
template <class T>
constexpr bool probe(const T*, long) { return false; }
constexpr bool EMULATED = probe((const Mine*)nullptr, 0);
__global__ void add(const float* x, const float* y, float* out, int n) {
    if constexpr (EMULATED)
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = x[i] + y[i];
}
"""
add = lab.cuda.compile(SOURCE, "add")


def vector_add(x, y, out):
    add[(x.numel() + 255) // 256, 256](x, y, out, x.numel())
