# tries: a product of three-dimensional blocks, with the precision as a constexpr
# exercise: 14_matmul_triton/linear
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def linear_kernel(
    a_ptr, b_ptr, bias_ptr, out_ptr, slope, B, M, N, K, sab, sam, sak, sbb, sbk, sbn, sob, som, son,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    pid_b = tl.program_id(2)
    # tiles in groups of rows, so that programs that run at the same time share what they read
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    pid_m, pid_n = tl.swizzle2d(tl.program_id(0) // tiles_n, tl.program_id(0) % tiles_n, tiles_m, tiles_n, 4)
    batch = pid_b + tl.arange(0, 1)
    m, n, k = pid_m * BM + tl.arange(0, BM), pid_n * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((1, BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        a = tl.load(
            a_ptr + batch[:, None, None] * sab + m[None, :, None] * sam + (start + k)[None, None, :] * sak,
            mask=(m < M)[None, :, None] & (start + k < K)[None, None, :], other=0.0,
        )  # fmt: skip
        b = tl.load(
            b_ptr + batch[:, None, None] * sbb + (start + k)[None, :, None] * sbk + n[None, None, :] * sbn,
            mask=(start + k < K)[None, :, None] & (n < N)[None, None, :], other=0.0,
        )  # fmt: skip
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    y = tl.reshape(acc, (BM, BN)) + tl.load(bias_ptr + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    y = tl.where(y >= 0, y, slope * y)
    out = out_ptr + pid_b.to(tl.int64) * sob + m[:, None] * som + n[None, :] * son
    tl.store(out, y, mask=(m < M)[:, None] & (n < N)[None, :])


def linear(a, b, bias, slope, out, activation=2):
    slope = (1.0, 0.0, slope)[activation]  # none, ReLU, leaky ReLU
    B, M, K = a.shape
    N = b.shape[-1]
    grid = (triton.cdiv(M, 16) * triton.cdiv(N, 16), 1, B)
    linear_kernel[grid](
        a, b, bias, out, slope, B, M, N, K, *a.stride(), *b.stride(), *out.stride(), BM=16, BN=16, BK=32,
        PRECISION="ieee",
    )  # fmt: skip
