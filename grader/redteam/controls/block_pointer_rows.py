# tries: two-dimensional block pointers for an elementwise kernel, one-dimensional ones for its vectors
# exercise: 06_elementwise_triton/bias_scale
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def bias_scale_kernel(x, bias, scale, out, M, N, s_xm, s_om, BM: tl.constexpr, BN: tl.constexpr):
    m, n = tl.program_id(1) * BM, tl.program_id(0) * BN
    p_x = tl.make_block_ptr(x, (M, N), (s_xm, 1), (m, n), (BM, BN), (1, 0))
    p_o = tl.make_block_ptr(out, (M, N), (s_om, 1), (m, n), (BM, BN), (1, 0))
    p_b = tl.make_block_ptr(bias, (N,), (1,), (n,), (BN,), (0,))
    p_s = tl.make_block_ptr(scale, (N,), (1,), (n,), (BN,), (0,))
    b_b = tl.load(p_b, boundary_check=(0,)).to(tl.float32)
    b_s = tl.load(p_s, boundary_check=(0,)).to(tl.float32)
    b_x = tl.load(p_x, boundary_check=(0, 1)).to(tl.float32)
    tl.store(p_o, ((b_x + b_b[None, :]) * b_s[None, :]).to(p_o.dtype.element_ty), boundary_check=(0, 1))


def bias_scale(x, bias, scale, out):
    M, N = x.shape
    grid = (triton.cdiv(N, 256), triton.cdiv(M, 4))
    bias_scale_kernel[grid](x, bias, scale, out, M, N, x.stride(0), out.stride(0), BM=4, BN=256)
