# expect: wrong-formula
# Divides by N - 1.
import triton
import triton.language as tl

LAYER_EPS = tl.constexpr(1e-5)


def warps_for(BLOCK_N):
    return min(max(BLOCK_N // 1024, 1), 16)


@triton.jit
def layer_norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, N, stride_xm, stride_om, BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    offs_n = tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    centred = tl.where(mask_n, x - tl.sum(x) / N, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred) / tl.maximum(N - 1, 1) + LAYER_EPS)
    tl.store(out_ptr + row * stride_om + offs_n, centred * scale * w + b, mask=mask_n)


def layer_norm(x, w, b, out):
    M, N = x.shape
    BLOCK_N = triton.next_power_of_2(N)
    num_warps = warps_for(BLOCK_N)
    layer_norm_kernel[(M,)](x, w, b, out, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N, num_warps=num_warps)
