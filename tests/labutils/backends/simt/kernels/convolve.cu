// halo in shared memory, filter in constant memory
#define RADIUS 4
#define TILE 128
__constant__ float filter[2 * RADIUS + 1] = {1, 2, 3, 4, 5, 4, 3, 2, 1};

__global__ void convolve(const float* in, float* out, int n) {
    __shared__ float tile[TILE + 2 * RADIUS];
    int i = blockIdx.x * TILE + threadIdx.x, at = threadIdx.x + RADIUS;
    tile[at] = i < n ? in[i] : 0.0f;
    if (threadIdx.x < RADIUS) {
        tile[at - RADIUS] = i >= RADIUS ? in[i - RADIUS] : 0.0f;
        tile[at + TILE] = i + TILE < n ? in[i + TILE] : 0.0f;
    }
    __syncthreads();
    if (i >= n) return;
    float sum = 0;
    for (int k = -RADIUS; k <= RADIUS; k++) sum += tile[at + k] * filter[k + RADIUS];
    out[i] = sum;
}
