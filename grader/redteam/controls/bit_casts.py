# tries: bits of floats as integers: a sign by xor, an absolute value by and
# exercise: 06_elementwise_triton/gelu
# expect: accepted

import triton
import triton.language as tl

SIGN = tl.constexpr(0x80000000)


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0).to(tl.float32)
    bits = x.to(tl.uint32, bitcast=True)
    size = (bits & 0x7FFFFFFF).to(tl.float32, bitcast=True)
    sign = bits & SIGN
    a = 0.7978845608028654 * (size + 0.044715 * size * size * size)
    e = tl.exp(-2 * a)
    t = (1 - e) / (1 + e)
    t = (t.to(tl.uint32, bitcast=True) | sign).to(tl.float32, bitcast=True)
    tl.store(out_ptr + offs, 0.5 * x * (1 + t), mask=offs < n)


def gelu(x, out):
    n = x.numel()
    gelu_kernel[(triton.cdiv(n, 512),)](x, out, n, BLOCK=512)
