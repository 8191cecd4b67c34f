__global__ void barrier_votes(const int* x, int* out, int n) {
    int v = x[threadIdx.x];
    int count = __syncthreads_count(v > 0);
    int all = __syncthreads_and(v < 100);
    int any = __syncthreads_or(v == 77);
    if (threadIdx.x == 0) {
        out[0] = count;
        out[1] = all != 0;
        out[2] = any != 0;
    }
}
