# tries: no masks on loads: indices are wrapped or clamped, and a select keeps what counts
# exercise: 13_fusion/rms_residual_silu
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def fused_kernel(x_ptr, r_ptr, w_ptr, out_ptr, N, stride_x, stride_r, stride_o, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    safe = tl.minimum(cols, N - 1)
    s = tl.load(x_ptr + row * stride_x + safe).to(tl.float32)
    s += tl.load(r_ptr + row * stride_r + tl.where(cols < N, cols, N - 1)).to(tl.float32)
    s = tl.where(cols < N, s, 0.0)
    w = tl.load(w_ptr + safe).to(tl.float32)
    n = s * tl.rsqrt(tl.sum(s * s) / N + 1e-6) * w
    tl.store(out_ptr + row * stride_o + cols, n / (1 + tl.exp(-n)), mask=cols < N)


def rms_residual_silu(x, residual, w, out):
    M, N = x.shape
    BLOCK = triton.next_power_of_2(N)
    fused_kernel[(M,)](x, residual, w, out, N, x.stride(0), residual.stride(0), out.stride(0), BLOCK=BLOCK)
