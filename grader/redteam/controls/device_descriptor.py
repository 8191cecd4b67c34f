# tries: a tensor descriptor made inside the kernel
# exercise: 10_warp_reduction/row_sum
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, M, N, stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.make_block_ptr(
        x_ptr,
        shape=(M, N),
        strides=(stride, 1),
        offsets=(tl.program_id(0) * ROWS, 0),
        block_shape=(ROWS, BLOCK),
        order=(1, 0),
    )
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for _ in range(0, N, BLOCK):
        total += tl.load(rows, boundary_check=(0, 1), padding_option="zero").to(tl.float32)
        rows = tl.advance(rows, (0, BLOCK))
    at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    tl.store(out_ptr + at, tl.sum(total, 1), mask=at < M)


def row_sum(x, out):
    M, N = x.shape
    row_sum_kernel[(triton.cdiv(M, 4),)](x, out, M, N, x.stride(0), ROWS=4, BLOCK=128)
