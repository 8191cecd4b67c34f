# tries: shapes and strides as tuples, pointers in a tuple
# exercise: 14_matmul_triton/matmul_relu
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def tile_of(ptr, rows, cols, shape, strides):
    mask = (rows[:, None] < shape[0]) & (cols[None, :] < shape[1])
    return ptr + rows[:, None] * strides[0] + cols[None, :] * strides[1], mask


@triton.jit
def matmul_kernel(ptrs, sizes, a_strides, b_strides, c_strides, BLOCK: tl.constexpr):
    M, N, K = sizes
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        a_ptrs, a_mask = tile_of(ptrs[0], rows, k, (M, K), a_strides)
        b_ptrs, b_mask = tile_of(ptrs[1], k, cols, (K, N), b_strides)
        acc = tl.dot(tl.load(a_ptrs, a_mask, 0.0), tl.load(b_ptrs, b_mask, 0.0), acc, input_precision="ieee")
    c_ptrs, c_mask = tile_of(ptrs[2], rows, cols, (M, N), c_strides)
    tl.store(c_ptrs, tl.maximum(acc, 0.0), c_mask)


def matmul_relu(a, b, c):
    (M, K), N = a.shape, b.shape[1]
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    matmul_kernel[grid]((a, b, c), (M, N, K), a.stride(), b.stride(), c.stride(), BLOCK=32)
