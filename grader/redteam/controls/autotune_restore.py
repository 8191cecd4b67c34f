# tries: autotuning a kernel that changes an array in place, with restore_value
# exercise: 06_elementwise_triton/vector_add
# expect: accepted

import triton
import triton.language as tl


@triton.autotune(
    [triton.Config({"BLOCK": 512}, num_warps=4), triton.Config({"BLOCK": 1024}, num_warps=4)],
    key=["n"],
    restore_value=["acc_ptr"],
    warmup=5,
    rep=20,
)
@triton.jit
def add_in_place(acc_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(acc_ptr + offs, mask=offs < n) + tl.load(y_ptr + offs, mask=offs < n)
    tl.store(acc_ptr + offs, total, mask=offs < n)


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


def vector_add(x, y, out):
    n = x.numel()
    copy_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
    add_in_place[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](out, y, n)
