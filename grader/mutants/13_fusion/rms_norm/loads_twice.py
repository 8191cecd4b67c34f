# expect: accepted
# marks: 3
# Right, but x is read twice.
import triton
import triton.language as tl

EPS = tl.constexpr(1e-6)  # a kernel reads a global only if it is a constexpr


def warps_for(BLOCK_N):
    return min(max(BLOCK_N // 1024, 1), 16)


@triton.jit
def rms_norm_kernel(x_ptr, w_ptr, out_ptr, N, stride_xm, stride_om, BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    offs_n = tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x) / N + EPS)
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * stride_om + offs_n, x * scale * w, mask=mask_n)


def rms_norm(x, w, out):
    M, N = x.shape
    BLOCK_N = triton.next_power_of_2(N)
    num_warps = warps_for(BLOCK_N)
    rms_norm_kernel[(M,)](x, w, out, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N, num_warps=num_warps)
