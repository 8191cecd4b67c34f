# tries: several functions of libdevice: fma, exp2, abs, copysign, div_rn
# exercise: 06_elementwise_triton/gelu
# expect: accepted

import triton
import triton.language as tl
import triton.language.extra.libdevice as ld


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    a = 0.7978845608028654 * ld.fma(0.044715 * x * x, x, x)
    e = ld.exp2(-2.8853900817779268 * ld.abs(a))
    t = ld.copysign(ld.div_rn(1.0 - e, 1.0 + e), a)
    tl.store(out_ptr + offs, 0.5 * x * (1.0 + t), mask=mask)


def gelu(x, out):
    n = x.numel()
    gelu_kernel[(triton.cdiv(n, 256),)](x, out, n, BLOCK=256)
