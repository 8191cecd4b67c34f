// the other warp intrinsics
__global__ void votes(const int* x, unsigned* out) {
    int lane = threadIdx.x, v = x[lane];
    unsigned active = 0;
    if (v & 1) active = __activemask();
    int equal;
    unsigned all_equal = __match_all_sync(0xffffffffu, v & 0, &equal);
    out[lane] = __match_any_sync(0xffffffffu, v);
    out[32 + lane] = __reduce_add_sync(0xffffffffu, v) + __reduce_max_sync(0xffffffffu, v - 8);
    out[64 + lane] = __any_sync(0xffffffffu, v == 3) + 2 * __all_sync(0xffffffffu, v < 8);
    out[96 + lane] = active;
    out[128 + lane] = all_equal + equal;
    out[160 + lane] = __shfl_xor_sync(0xffffffffu, v, 5, 16) + __shfl_up_sync(0xffffffffu, v, 3, 8);
}
