# tries: split-K: programs share an output tile and add to it with atomics
# exercise: 14_matmul_triton_persistent/split_k
# expect: accepted

import torch
import triton
import triton.language as tl


@triton.jit
def parts_kernel(
    a_ptr, b_ptr, sums_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
    BLOCK: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(N, BLOCK)
    m = tl.program_id(0) // tiles * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(0) % tiles * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(tl.program_id(1) * BLOCK_K, K, SPLIT * BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        inside_a, inside_b = (m[:, None] < M) & (k[None, :] < K), (k[:, None] < K) & (n[None, :] < N)
        a = tl.load(a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak, mask=inside_a, other=0.0)
        b = tl.load(b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn, mask=inside_b, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.atomic_add(sums_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def relu_kernel(sums_ptr, c_ptr, N, stride_cm, stride_cn, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    value = tl.maximum(tl.load(sums_ptr + row * N + n, mask=n < N), 0.0)
    tl.store(c_ptr + row * stride_cm + n * stride_cn, value, mask=n < N)


def split_k(a, b, c):
    M, K = a.shape
    N = b.shape[1]
    sums = torch.zeros((M, N), device=a.device, dtype=torch.float32)
    tiles = triton.cdiv(M, 32) * triton.cdiv(N, 32)
    parts_kernel[(tiles, 4)](a, b, sums, M, N, K, *a.stride(), *b.stride(), BLOCK=32, BLOCK_K=32, SPLIT=4)
    relu_kernel[(M, triton.cdiv(N, 128))](sums, c, N, *c.stride(), BLOCK=128)
