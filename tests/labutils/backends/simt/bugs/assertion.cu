// expect: assert
#include <assert.h>
__global__ void assertion(const float* x, float* y) {
    assert(x[threadIdx.x] > 0);    // BUG
    y[threadIdx.x] = 1 / x[threadIdx.x];
}
