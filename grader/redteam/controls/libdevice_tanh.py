# tries: tanh from libdevice, imported by name as Liger does
# exercise: 06_elementwise_triton/gelu
# expect: accepted

import triton
import triton.language as tl

try:
    from triton.language.extra.libdevice import tanh
except ModuleNotFoundError:
    from triton.language.extra.cuda.libdevice import tanh


@triton.jit
def gelu_kernel(a_ptr, c_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offs < n_elements
    a = tl.load(a_ptr + offs, mask=mask, other=0).to(tl.float32)
    sqrt_2_over_pi = 0.7978845608028654
    a_cubed = a * a * a
    tanh_arg = sqrt_2_over_pi * (a + 0.044715 * a_cubed)
    tanh_result = tanh(tanh_arg)
    geglu_a = 0.5 * a * (1 + tanh_result)
    tl.store(c_ptr + offs, geglu_a.to(c_ptr.dtype.element_ty), mask=mask)


def gelu(x, out):
    n = x.numel()
    gelu_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK_SIZE=1024, num_warps=4)
