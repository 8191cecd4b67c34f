# tries: heuristics for block size and warps
# exercise: 13_fusion/rms_norm
# expect: accepted

import triton
import triton.language as tl


@triton.heuristics(
    values={
        "BLOCK_N": lambda args: triton.next_power_of_2(args["N"]),
        "num_warps": lambda args: min(max(triton.next_power_of_2(args["N"]) // 256, 1), 8),
    }
)
@triton.jit
def rms_kernel(x, w, y, stride_x, stride_y, N, eps, BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_N)
    mask = cols < N
    v = tl.load(x + row * stride_x + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = 1 / tl.sqrt(tl.sum(v * v, axis=0) / N + eps)
    tl.store(y + row * stride_y + cols, v * rstd * tl.load(w + cols, mask=mask).to(tl.float32), mask=mask)


def rms_norm(x, w, out):
    rms_kernel[(x.shape[0],)](x, w, out, x.stride(0), out.stride(0), x.shape[1], 1e-6)
