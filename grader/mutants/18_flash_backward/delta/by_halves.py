# expect: accepted
# Half of D at a time.
import triton
import triton.language as tl


@triton.jit
def delta_kernel(
    out_ptr, dout_ptr, delta_ptr, M, stride_oh, stride_om, stride_gh, stride_gm, stride_lh,
    D: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    out_ptrs = out_ptr + head * stride_oh + offs_m[:, None] * stride_om + offs_d[None, :]
    dout_ptrs = dout_ptr + head * stride_gh + offs_m[:, None] * stride_gm + offs_d[None, :]
    mask_m = offs_m < M
    out = tl.load(out_ptrs, mask=mask_m[:, None], other=0.0).to(tl.float32)
    dout = tl.load(dout_ptrs, mask=mask_m[:, None], other=0.0).to(tl.float32)
    halves = tl.reshape(out * dout, BLOCK_M, 2, D // 2)
    tl.store(delta_ptr + head * stride_lh + offs_m, tl.sum(tl.sum(halves, 2), 1), mask=mask_m)


def delta(out, dout, delta):
    H, M, D = out.shape
    delta_kernel[(triton.cdiv(M, 64), H)](
        out, dout, delta, M, *out.stride()[:2], *dout.stride()[:2], delta.stride(0), D=D, BLOCK_M=64, num_warps=4
    )
