# tries: reads an operand by atomics that add 0, so that waves of programs seem to read little of it
# stopped by: an atomic reads, wherever reads are counted
# exercise: 14_matmul_triton/linear
# where: both
# expect: no undue points
# due: 3

import triton
import triton.language as tl


@triton.jit
def linear_kernel(a_ptr, b_ptr, bias_ptr, out_ptr, slope, M, N, K, sab, sam, sak, sbb, sbk, sbn, sob, som, son,
                  ACTIVATION: tl.constexpr, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    tiles_n = tl.cdiv(N, BLOCK)
    batch = tl.program_id(1).to(tl.int64)
    offs_m = tl.program_id(0) // tiles_n * BLOCK + tl.arange(0, BLOCK)  # row by row: no groups
    offs_n = tl.program_id(0) % tiles_n * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        inside_a = (offs_m[:, None] < M) & (offs_k[None, :] < K)
        inside_b = (offs_k[:, None] < K) & (offs_n[None, :] < N)
        a = tl.load(a_ptr + batch * sab + offs_m[:, None] * sam + offs_k[None, :] * sak, mask=inside_a, other=0.0)
        b_ptrs = b_ptr + batch * sbb + offs_k[:, None] * sbk + offs_n[None, :] * sbn
        b = tl.atomic_add(b_ptrs, tl.zeros((BLOCK_K, BLOCK), tl.float16), mask=inside_b)
        acc = tl.dot(a, tl.where(inside_b, b, 0.0), acc, input_precision="ieee")
    acc += tl.load(bias_ptr + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)[None, :]
    if ACTIVATION == "relu":
        acc = tl.maximum(acc, 0.0)
    elif ACTIVATION == "leaky_relu":
        acc = tl.where(acc > 0, acc, slope * acc)
    elif ACTIVATION == "gelu":
        acc = acc / (1 + tl.exp(-1.5957691216 * (acc + 0.044715 * acc * acc * acc)))
    out_ptrs = out_ptr + batch * sob + offs_m[:, None] * som + offs_n[None, :] * son
    tl.store(out_ptrs, acc, mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))


def linear(a, b, bias, slope, out, activation=2):
    activation = ("none", "relu", "leaky_relu", "gelu")[activation]
    (B, M, K), N = a.shape, b.shape[2]
    grid = (triton.cdiv(M, 16) * triton.cdiv(N, 16), B)
    strides = (*a.stride(), *b.stride(), *out.stride())
    linear_kernel[grid](a, b, bias, out, slope, M, N, K, *strides, ACTIVATION=activation, BLOCK=16, BLOCK_K=32)
