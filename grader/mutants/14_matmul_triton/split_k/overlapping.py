# expect: wrong-values
# Parts overlap: each goes on in steps of one block.
import torch
import triton
import triton.language as tl


@triton.jit
def split_k_kernel(
    a_ptr, b_ptr, c_ptr, sums_ptr, arrived_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):  # fmt: skip
    pid, part = tl.program_id(0), tl.program_id(1)
    tiles_n = tl.cdiv(N, BLOCK_N)
    offs_m = pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    sums_ptrs = sums_ptr + offs_m[:, None] * N + offs_n[None, :]
    c_ptrs = c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(part * BLOCK_K, K, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        a_ptrs = a_ptr + (offs_m % M)[:, None] * stride_am + offs_k[None, :] * stride_ak
        b_ptrs = b_ptr + offs_k[:, None] * stride_bk + (offs_n % N)[None, :] * stride_bn
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.atomic_add(sums_ptrs, acc, mask=mask)
    tl.debug_barrier()
    if tl.atomic_add(arrived_ptr + pid, 1) == SPLIT_K - 1:
        acc = tl.load(sums_ptrs, mask=mask)
        tl.store(c_ptrs, tl.maximum(acc, 0.0), mask=mask)


def split_k(a, b, c):
    M, K = a.shape
    N = b.shape[1]
    count = triton.cdiv(M, 16) * triton.cdiv(N, 16)
    parts = max(1, min(triton.cdiv(8, count), triton.cdiv(K, 64), 16))
    zeros = torch.zeros(M * N + count, dtype=torch.int32, device=a.device)
    sums, arrived = zeros[: M * N].view(torch.float32), zeros[M * N :]
    strides = (*a.stride(), *b.stride(), *c.stride())
    split_k_kernel[(count, parts)](
        a, b, c, sums, arrived, M, N, K, *strides, BLOCK_M=16, BLOCK_N=16, BLOCK_K=32, SPLIT_K=parts
    )
