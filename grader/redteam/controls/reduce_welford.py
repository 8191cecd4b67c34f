# tries: Welford's statistics by tl.reduce over a tuple of three
# exercise: 13_fusion/layer_norm
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def welford_combine(mean_1, m2_1, weight_1, mean_2, m2_2, weight_2):
    delta = mean_2 - mean_1
    weight = weight_1 + weight_2
    share = tl.where(weight == 0.0, 0.0, weight_2 / weight)
    return mean_1 + delta * share, m2_1 + m2_2 + delta * delta * weight_1 * share, weight


@triton.jit
def layer_norm_fwd(X, Y, W, B, stride_x, stride_y, N, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    X += row * stride_x
    Y += row * stride_y
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < N
    x = tl.load(X + cols, mask=mask, other=0.0).to(tl.float32)
    mean, m2, _ = tl.reduce((x, tl.zeros_like(x), mask.to(tl.float32)), 0, welford_combine)
    rstd = tl.rsqrt(m2 / N + eps)
    w = tl.load(W + cols, mask=mask).to(tl.float32)
    b = tl.load(B + cols, mask=mask).to(tl.float32)
    tl.store(Y + cols, (x - mean) * rstd * w + b, mask=mask)


def layer_norm(x, w, b, out):
    M, N = x.shape
    layer_norm_fwd[(M,)](
        x, out, w, b, x.stride(0), out.stride(0), N, 1e-5, BLOCK_SIZE=triton.next_power_of_2(N), num_warps=4
    )
