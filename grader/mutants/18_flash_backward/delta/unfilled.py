# expect: unfilled
# The stub.
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
    tl.static_assert(False, "delta_kernel is not written yet")


def delta(out, dout, delta):
    H, M, D = out.shape
    delta_kernel[(triton.cdiv(M, 64), H)](
        out, dout, delta, M, *out.stride()[:2], *dout.stride()[:2], delta.stride(0), D=D, BLOCK_M=64, num_warps=4
    )
