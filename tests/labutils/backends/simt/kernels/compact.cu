// keeps the positive values, in any order
__global__ void compact(const int* x, int* out, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool keep = i < n && x[i] > 0;
    unsigned kept = __ballot_sync(0xffffffffu, keep);
    int lane = threadIdx.x & 31, base = 0;
    if (lane == 0) base = atomicAdd(count, __popc(kept));
    base = __shfl_sync(0xffffffffu, base, 0);
    if (keep) out[base + __popc(kept & ((1u << lane) - 1))] = x[i];
}
