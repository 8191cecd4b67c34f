# tries: the math module under several names, correctly rounded division and root
# exercise: 13_fusion/rms_norm
# expect: accepted

import triton
import triton.language as tl
import triton.language.math as tlm
from triton.language import math


@triton.jit
def rms_kernel(x_ptr, w_ptr, out_ptr, N, stride_x, stride_out, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_x + cols, cols < N, 0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, cols < N, 0.0).to(tl.float32)
    mean = tlm.div_rn(tl.sum(x * x, 0), N * 1.0)
    root = math.sqrt_rn(mean + eps)
    y = tl.fdiv(tl.math.fma(x, w, 0.0), root)
    tl.store(out_ptr + row * stride_out + cols, y, cols < N)


def rms_norm(x, w, out):
    M, N = x.shape
    rms_kernel[(M,)](x, w, out, N, x.stride(0), out.stride(0), 1e-6, BLOCK=triton.next_power_of_2(N))
