# tries: eviction policies, cache modifiers and volatile loads
# exercise: 13_fusion/rms_residual_silu
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, r_ptr, w_ptr, o_ptr, N, sx, sr, so, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    m = c < N
    x = tl.load(x_ptr + row * sx + c, mask=m, other=0.0, eviction_policy="evict_first")
    r = tl.load(r_ptr + row * sr + c, mask=m, other=0.0, cache_modifier=".cv", volatile=True)
    w = tl.load(w_ptr + c, mask=m, other=0.0, eviction_policy="evict_last")
    s = x.to(tl.float32) + r.to(tl.float32)
    y = s * tl.rsqrt(tl.sum(s * s) / N + eps) * w
    y = y * tl.sigmoid(y)
    tl.store(o_ptr + row * so + c, y, mask=m, cache_modifier=".cs")


def rms_residual_silu(x, residual, w, out):
    M, N = x.shape
    kernel[(M,)](
        x, residual, w, out, N, x.stride(0), residual.stride(0), out.stride(0), 1e-6, BLOCK=triton.next_power_of_2(N)
    )
