# tries: another tile size for each size of the input, and other numbers of warps
# exercise: 06_elementwise_triton/vector_add
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, TILE: tl.constexpr):
    offs = tl.program_id(0) * TILE + tl.arange(0, TILE)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, offs < n) + tl.load(y_ptr + offs, offs < n), offs < n)


def vector_add(x, y, out):
    n = x.numel()
    tile = min(4096, max(16, triton.next_power_of_2(n // 4 + 1)))
    add_kernel[(triton.cdiv(n, tile), 1, 1)](x, y, out, n, TILE=tile, num_warps=2 if tile < 512 else 8, num_stages=1)
