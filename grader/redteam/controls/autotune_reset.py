# tries: autotuning a kernel that adds to its output: reset_to_zero, a key with the type, two sorts of hooks
# exercise: 10_warp_reduction/total_sum
# expect: accepted

import triton
import triton.language as tl


def get_configs():
    return [triton.Config({"BLOCK": b}, num_warps=w, num_stages=s) for b in (1024, 4096) for w in (4, 8) for s in (2,)]


@triton.autotune(configs=get_configs(), key=["n"], reset_to_zero=["out_ptr"])
@triton.jit
def total_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(x, axis=0))


def total_sum(x, out):
    n = x.numel()
    out.fill_(0)
    grid = lambda META: (triton.cdiv(n, META["BLOCK"]),)  # noqa: E731
    total_kernel[grid](x, out, n)
