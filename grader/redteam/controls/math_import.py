# tries: functions of the language imported by name, as older code has them
# exercise: 13_fusion/rms_norm
# expect: accepted

import triton
import triton.language as tl
from triton.language.math import rsqrt


@triton.jit
def rms_kernel(x_ptr, w_ptr, out_ptr, N, stride_x, stride_out, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_x + cols, mask=cols < N, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
    rstd = rsqrt(tl.sum(x * x, 0) / N + eps)
    tl.store(out_ptr + row * stride_out + cols, x * rstd * w, mask=cols < N)


def rms_norm(x, w, out):
    M, N = x.shape
    rms_kernel[(M,)](x, w, out, N, x.stride(0), out.stride(0), 1e-6, BLOCK=triton.next_power_of_2(N))
