# tries: tensor descriptors made in the kernel, with an allocator, for a matrix product
# exercise: 14_matmul_triton/matmul_relu
# expect: accepted


import torch
import triton
import triton.language as tl


def alloc_fn(size: int, alignment: int, stream: int | None):
    return torch.empty(size, device="cuda", dtype=torch.int8)


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, lda, ldb, ldc, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[lda, 1], block_shape=[BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[ldb, 1], block_shape=[BLOCK_K, BLOCK_N])
    c_desc = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[ldc, 1], block_shape=[BLOCK_M, BLOCK_N])
    off_m, off_n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = a_desc.load([off_m, k * BLOCK_K])
        b = tl.load_tensor_descriptor(b_desc, [k * BLOCK_K, off_n])
        acc = tl.dot(a, b, acc, input_precision="ieee")
    c_desc.store([off_m, off_n], tl.maximum(acc, 0.0).to(c_desc.dtype))


def matmul_relu(a, b, c):
    triton.set_allocator(alloc_fn)
    M, K, N = *a.shape, b.shape[1]
    a, b, out = lab.aligned(a), lab.aligned(b), lab.aligned(c, keep=False)
    if b.stride(1) != 1:
        b = b.contiguous()
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    matmul_kernel[grid](a, b, out, M, N, K, a.stride(0), b.stride(0), out.stride(0), BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
    if out is not c:
        c.copy_(out)
