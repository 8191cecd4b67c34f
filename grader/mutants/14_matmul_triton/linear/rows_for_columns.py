# expect: first-block-only
# Quotient and remainder change places.
import triton
import triton.language as tl


@triton.jit
def grouped_tile(pid, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    per_group = GROUP_M * tiles_n
    first_m = pid // per_group * GROUP_M
    rows = tl.minimum(tiles_m - first_m, GROUP_M)
    within = pid % per_group
    return first_m + within // rows, within % rows


@triton.jit
def linear_kernel(
    a_ptr, b_ptr, bias_ptr, out_ptr, slope, M, N, K,
    stride_ab, stride_am, stride_ak, stride_bb, stride_bk, stride_bn, stride_ob, stride_om, stride_on,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    pid_m, pid_n = grouped_tile(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    batch = tl.program_id(1).to(tl.int64)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + batch * stride_ab + (offs_m % M)[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + batch * stride_bb + offs_k[:, None] * stride_bk + (offs_n % N)[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=k + offs_k[None, :] < K, other=0.0)
        b = tl.load(b_ptrs, mask=k + offs_k[:, None] < K, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    out_ptrs = out_ptr + batch * stride_ob + offs_m[:, None] * stride_om + offs_n[None, :] * stride_on
    bias = tl.load(bias_ptr + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
    x = acc + bias[None, :]
    out = tl.where(x > 0, x, slope * x)
    tl.store(out_ptrs, out, mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))


def linear(a, b, bias, slope, out):
    B, M, K = a.shape
    N = b.shape[2]
    grid = (triton.cdiv(M, 16) * triton.cdiv(N, 16), B)
    strides = (*a.stride(), *b.stride(), *out.stride())
    linear_kernel[grid](a, b, bias, out, slope, M, N, K, *strides, BLOCK_M=16, BLOCK_N=16, BLOCK_K=32, GROUP_M=4)
