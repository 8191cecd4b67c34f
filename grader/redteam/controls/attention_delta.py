# tries: the backward preprocessing kernel as most repositories have it, on flattened heads
# exercise: 18_flash_backward/delta
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def _attn_bwd_preprocess(
    O, DO, Delta, so_h, so_m, sd_h, sd_m, sl_h, H, N_CTX, BLOCK_M: tl.constexpr, HEAD_DIM: tl.constexpr
):
    off_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    off_hz = tl.program_id(1)
    off_n = tl.arange(0, HEAD_DIM)
    o = tl.load(O + off_hz * so_h + off_m[:, None] * so_m + off_n[None, :], mask=(off_m < N_CTX)[:, None], other=0.0)
    do = tl.load(DO + off_hz * sd_h + off_m[:, None] * sd_m + off_n[None, :], mask=(off_m < N_CTX)[:, None], other=0.0)
    delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), axis=1)
    tl.store(Delta + off_hz * sl_h + off_m, delta, mask=off_m < N_CTX)


def delta(out, dout, delta):
    H, M, D = out.shape
    pre_grid = (triton.cdiv(M, 128), H)
    _attn_bwd_preprocess[pre_grid](
        out, dout, delta, out.stride(0), out.stride(1), dout.stride(0), dout.stride(1), delta.stride(0), H, M,
        BLOCK_M=128, HEAD_DIM=D,
    )  # fmt: skip
