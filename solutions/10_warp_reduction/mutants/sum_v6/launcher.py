import labutils as lab

reduce_v6 = lab.cuda.compile(
    """
__global__ void reduce_v6(const float *x, float *out, int n) {
    __shared__ float warp_sums[32];
    const float4 *x4 = reinterpret_cast<const float4 *>(x);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int stride = gridDim.x * blockDim.x;
    float sum = i < n % 4 ? x[n - 1 - i] : 0.0f;
    for (int k = i; k < n / 4; k += stride) {
        float4 v = x4[k];
        sum += (v.x + v.y) + (v.z + v.w);
    }
    for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
    if (lane == 0) warp_sums[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = lane < blockDim.x / 32 ? warp_sums[lane] : 0.0f;
        for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
        if (lane == 0) atomicAdd(out, sum);
    }
}
""",
    "reduce_v6",
)


def sum_v6(x, out):
    if x.data_ptr() % 16:
        x = x.clone()
    out.zero_()
    n = x.numel()
    reduce_v6[min(-(-n // 4096), 64), 256](x, out, n)
