# tries: autotuning over six configurations, with heuristics and a pruning function
# exercise: 06_elementwise_triton/vector_add
# expect: accepted

import triton
import triton.language as tl


def fitting(configs, named_args, **kwargs):
    return [c for c in configs if c.kwargs["BLOCK"] <= 4096] or configs[:1]


@triton.autotune(
    configs=[triton.Config({"BLOCK": 2**k}, num_warps=w) for k in (8, 10, 12) for w in (4, 8)],
    key=["n"],
    prune_configs_by={"early_config_prune": fitting},
)
@triton.heuristics({"EVEN": lambda a: a["n"] % a["BLOCK"] == 0})
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out_ptr + offs, tl.load(x_ptr + offs) + tl.load(y_ptr + offs))
    else:
        tl.store(out_ptr + offs, tl.load(x_ptr + offs, offs < n) + tl.load(y_ptr + offs, offs < n), offs < n)


def vector_add(x, y, out):
    n = x.numel()
    add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n)
