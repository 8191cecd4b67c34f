// expect: unfilled
// The cell as it is handed out.
__global__ void reduce_v6(const float *x, float *out, int n) {
    // YOUR CODE HERE (about 4 lines)
    static_assert(false, "reduce_v6 is not written yet");
}
