import labutils as lab

histogram_kernel = lab.cuda.compile(
    """
__global__ void histogram_kernel(const int *x, int *counts, int n, int bins) {
    __shared__ int mine[256];
    for (int b = threadIdx.x; b < bins; b += blockDim.x) mine[b] = 0;
    __syncthreads();
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) atomicAdd(&mine[x[i]], 1);
    __syncthreads();
    for (int b = threadIdx.x; b < bins; b += blockDim.x) {
        if (mine[b] > 0) atomicAdd(&counts[b], mine[b]);
    }
}
""",
    "histogram_kernel",
)


def histogram(x, bins, counts):
    counts.zero_()
    n = x.numel()
    histogram_kernel[min(-(-n // 4096), 64), 256](x, counts, n, bins)
