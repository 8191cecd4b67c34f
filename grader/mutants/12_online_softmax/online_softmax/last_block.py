# expect: missing-accumulation
# l is that of the last block.
import triton
import triton.language as tl


@triton.jit
def online_softmax_kernel(x_ptr, out_ptr, N, stride_xm, stride_om, BLOCK_N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)  # 64 bits: row · stride may pass 2^31
    x_ptr += row * stride_xm
    out_ptr += row * stride_om
    m = tl.full((), -float("inf"), tl.float32)
    l = tl.full((), 0.0, tl.float32)
    for start in tl.range(0, N, BLOCK_N, num_stages=3):
        offs_n = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + offs_n, mask=offs_n < N, other=-float("inf")).to(tl.float32)
        m_new = tl.maximum(m, tl.max(x))
        # a row may begin with -inf, and -inf - -inf is NaN
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)
        l = tl.sum(tl.exp(x - shift))
        m = m_new
    for start in tl.range(0, N, BLOCK_N, num_stages=3):
        offs_n = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
        tl.store(out_ptr + offs_n, tl.exp(x - m) / l, mask=offs_n < N)


def online_softmax(x, out, BLOCK_N=4096):
    M, N = x.shape
    online_softmax_kernel[(M,)](x, out, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N, num_warps=8)
