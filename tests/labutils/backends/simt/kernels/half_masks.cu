// the halves of a warp take part in collectives of their own
__global__ void half_masks(const int* x, int* out) {
    int lane = threadIdx.x, v = x[lane];
    if (lane < 16) {
        for (int o = 8; o; o /= 2) v += __shfl_xor_sync(0x0000ffffu, v, o);
    } else {
        for (int o = 8; o; o /= 2) v = max(v, __shfl_xor_sync(0xffff0000u, v, o));
    }
    __syncwarp();
    out[lane] = v;
}
