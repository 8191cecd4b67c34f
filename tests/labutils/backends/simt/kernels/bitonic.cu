__global__ void bitonic(float* x) {
    __shared__ float s[512];
    int t = threadIdx.x;
    s[t] = x[t];
    s[t + 256] = x[t + 256];
    __syncthreads();
    for (int k = 2; k <= 512; k <<= 1)
        for (int j = k >> 1; j > 0; j >>= 1) {
            int i = 2 * t - (t & (j - 1)), other = i + j;
            float a = s[i], b = s[other];
            if ((a > b) == ((i & k) == 0)) {
                s[i] = b;
                s[other] = a;
            }
            __syncthreads();
        }
    x[t] = s[t];
    x[t + 256] = s[t + 256];
}
