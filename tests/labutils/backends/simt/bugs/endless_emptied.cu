// expect: endless-loop
__global__ void endless_emptied(float* y, int n) {
    for (int k = 0;; k += 2) {            // BUG
        if (k == 2 * n + 1) break;        // BUG
        y[threadIdx.x] = 0;               // BUG
    }
}
