# tries: loops with every option of tl.range, backwards, and with a condition inside
# exercise: 10_warp_reduction/row_sum
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, stride, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    blocks = tl.cdiv(N, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for i in tl.range(0, blocks, num_stages=2, loop_unroll_factor=2, disallow_acc_multi_buffer=True):
        offs = (blocks - 1 - i) * BLOCK + tl.arange(0, BLOCK)
        if i == 0:
            x = tl.load(x_ptr + row * stride + offs, mask=offs < N, other=0.0)
        else:
            x = tl.load(x_ptr + row * stride + offs)
        acc += x.to(tl.float32)
    tl.store(out_ptr + row, tl.sum(acc, axis=0))


def row_sum(x, out):
    row_sum_kernel[(x.shape[0],)](x, out, x.stride(0), x.shape[1], BLOCK=256)
