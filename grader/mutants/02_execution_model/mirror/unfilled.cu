// expect: unfilled
// The stub as it is released.
__global__ void mirror_kernel(const float* x, float* out, int M, int N) {
    // YOUR CODE HERE (about 5 lines)
    static_assert(false, "mirror_kernel is not written yet");
}
