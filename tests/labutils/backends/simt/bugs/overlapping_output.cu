// expect: race y
// every block writes the whole array
__global__ void overlapping_output(const float* x, float* y) {
    y[threadIdx.x] = x[threadIdx.x] + blockIdx.x;    // BUG
}
