// Blelloch
__global__ void scan_tree(const int* x, int* y, int n) {
    extern __shared__ int s[];
    int t = threadIdx.x, offset = 1;
    s[2 * t] = x[2 * t];
    s[2 * t + 1] = x[2 * t + 1];
    for (int d = n >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d) s[offset * (2 * t + 2) - 1] += s[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0) s[n - 1] = 0;
    for (int d = 1; d < n; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1, old = s[a];
            s[a] = s[b];
            s[b] += old;
        }
    }
    __syncthreads();
    y[2 * t] = s[2 * t];
    y[2 * t + 1] = s[2 * t + 1];
}
