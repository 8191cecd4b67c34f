# tries: macros, conditions and constants of the learner's own, over several lines
# exercise: 07_elementwise_cuda/vector_add
# expect: accepted

SOURCE = r"""
#define THREADS 256
#define USE_LOOP 1
#define FOR_EACH(i, n)                                         \
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; \
         i += gridDim.x * blockDim.x)
#ifndef SCALE
#define SCALE 1'000
#endif
constexpr float kScale = SCALE / 1000.0f;  // it's 1, don't worry
__constant__ float one[1] = {1.0f};

__global__ void add(const float* x, const float* y, float* out, int n) {
#if USE_LOOP && THREADS >= 128
    FOR_EACH(i, n) { out[i] = kScale * (x[i] + one[0] * y[i]); }
#else
    out[0] = 0;
#endif
}
"""
add = lab.cuda.compile(SOURCE, "add")


def vector_add(x, y, out):
    n = x.numel()
    add[(n + 255) // 256, 256](x, y, out, n)
