// expect: unfilled
// The cell as it is handed out.
__global__ void warp_softmax_kernel(const float *x, float *out, int M, int N) {
    int lane = threadIdx.x % 32;
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= M) return;  // all lanes of a warp have the same row
    float v[32];
    // YOUR CODE HERE (about 20 lines)
    static_assert(false, "warp_softmax_kernel is not written yet");
}
