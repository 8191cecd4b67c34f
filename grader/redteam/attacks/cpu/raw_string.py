# tries: hides code between the quotation marks of raw strings
# stopped by: raw strings are refused
# exercise: 07_elementwise_cuda/vector_add
# where: both
# expect: refused

SOURCE = r'''
constexpr const char* a = R"(")"; __device__ void hidden() { asm("nop"); } constexpr const char* b = "";
__global__ void add(const float* x, const float* y, float* out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = x[i] + y[i];
}
'''
add = lab.cuda.compile(SOURCE, "add")


def vector_add(x, y, out):
    add[(x.numel() + 255) // 256, 256](x, y, out, x.numel())
