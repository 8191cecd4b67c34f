# tries: a segmented scan over (flag, value) pairs: several rows of a matrix in one block
# exercise: 10_warp_reduction/row_sum
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def segmented_add(flag_a, value_a, flag_b, value_b):
    return flag_a | flag_b, tl.where(flag_b != 0, value_b, value_a + value_b)


@triton.jit
def rows_kernel(x_ptr, out_ptr, stride, M, N, ROWS: tl.constexpr, COLS: tl.constexpr):
    lane = tl.arange(0, ROWS * COLS)
    row, col = tl.program_id(0) * ROWS + lane // COLS, lane % COLS
    x = tl.load(x_ptr + row * stride + col, mask=(row < M) & (col < N), other=0.0).to(tl.float32)
    _, sums = tl.associative_scan(((col == 0).to(tl.int32), x), 0, segmented_add)
    tl.store(out_ptr + row, sums, mask=(col == COLS - 1) & (row < M))


def row_sum(x, out):
    M, N = x.shape
    COLS = triton.next_power_of_2(N)
    ROWS = max(1, 1024 // COLS)
    rows_kernel[(triton.cdiv(M, ROWS),)](x, out, x.stride(0), M, N, ROWS=ROWS, COLS=COLS)
