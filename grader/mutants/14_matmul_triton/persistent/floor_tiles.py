# expect: tail-not-written
# The number of tiles is rounded down.
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import labutils as lab


@triton.jit
def grouped_tile(pid, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    per_group = GROUP_M * tiles_n
    first_m = pid // per_group * GROUP_M
    rows = tl.minimum(tiles_m - first_m, GROUP_M)
    within = pid % per_group
    return first_m + within % rows, within // rows


@triton.jit
def persistent_kernel(
    a_desc, b_desc, c_desc, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, B_IS_NK: tl.constexpr, NUM_PROGRAMS: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.maximum(M // BLOCK_M, 1), tl.cdiv(N, BLOCK_N)
    k_tiles = tl.cdiv(K, BLOCK_K)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, NUM_PROGRAMS):
        pid_m, pid_n = grouped_tile(tile, tiles_m, tiles_n, GROUP_M)
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(k_tiles):
            a = a_desc.load([pid_m * BLOCK_M, k * BLOCK_K])
            if B_IS_NK:
                b = b_desc.load([pid_n * BLOCK_N, k * BLOCK_K]).T
            else:
                b = b_desc.load([k * BLOCK_K, pid_n * BLOCK_N])
            acc = tl.dot(a, b, acc)
        acc = tl.maximum(acc, 0.0)
        c_desc.store([pid_m * BLOCK_M, pid_n * BLOCK_N], acc.to(c_desc.dtype))


def persistent(a, b, c):
    M, K = a.shape
    N = b.shape[1]
    flip = b.stride(0) == 1 and b.stride(1) > 1
    a, b, out = lab.aligned(a), lab.aligned(b.T if flip else b), lab.aligned(c, keep=False)
    persistent_kernel[(3,)](
        TensorDescriptor.from_tensor(a, [32, 32]),
        TensorDescriptor.from_tensor(b, [32, 32]),
        TensorDescriptor.from_tensor(out, [32, 32]),
        M,
        N,
        K,
        BLOCK_M=32,
        BLOCK_N=32,
        BLOCK_K=32,
        GROUP_M=4,
        B_IS_NK=flip,
        NUM_PROGRAMS=3,
    )
    if out is not c:
        c.copy_(out)
