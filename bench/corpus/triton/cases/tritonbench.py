"""tritonbench: Triton's tutorials as operators, with persistent, split-K and grouped products, and jagged arrays."""

import torch
import triton
from torch.nn import functional as F

from ..case import CHAIN, Collection

COLLECTION = Collection(
    "tritonbench",
    "meta-pytorch",
    "db2155c807755c19f5d98c64917ec897f24061f3",
    "BSD-3-Clause",
    "tritonbench",
    bare=("tritonbench", "tritonbench.utils", "tritonbench.operators", "tritonbench.operators.gemm"),
)
case = COLLECTION.case
OPERATORS = "tritonbench/operators"


@case(f"{OPERATORS}/vector_add/kernels.py", "triton_add_kernel")
def vector_add(m, draw):
    x, y, out = draw(700), draw(700), torch.empty(700)
    m.triton_add_kernel[(3,)](x, y, out, 700, BLOCK_SIZE=256)
    yield "result", out, x.double() + y


@case(f"{OPERATORS}/vector_exp/kernels.py", "triton_exp_kernel")
def vector_exp(m, draw):
    x, out = draw(700), torch.empty(700)
    m.triton_exp_kernel[(3,)](x, out, 700, BLOCK_SIZE=256)
    yield "result", out, x.double().exp()


@case(f"{OPERATORS}/low_mem_dropout/kernels.py", "_triton_dropout")
def dropout(m, draw):
    x, keep, out = draw(700), draw.integers(700, high=2, dtype=torch.int32), torch.empty(700)
    m._triton_dropout[(3,)](x, keep, out, 700, 0.5, BLOCK_SIZE=256)
    yield "result", out, 2 * x.double() * keep


@case(f"{OPERATORS}/low_mem_dropout/kernels.py", "_seeded_triton_dropout")
def seeded_dropout(m, draw):
    x, out, again = draw(4000).abs() + 0.1, torch.empty(4000), torch.empty(4000)
    for y in (out, again):
        m._seeded_triton_dropout[(4,)](x, y, 4000, 0.25, 7, BLOCK_SIZE=1024)
    kept = out != 0
    yield "kept elements", out[kept], x.double()[kept] / 0.75
    yield "share of kept elements", (kept.double().mean() - 0.75).abs() < 0.03, torch.tensor(True)
    yield "the same again", again, out.double()


@case(
    f"{OPERATORS}/layer_norm/tutorial.py",
    "_layer_norm_fwd_fused",
    "_layer_norm_bwd_dx_fused",
    "_layer_norm_bwd_dwdb",
    fault="one thread gives the lock back, and others may still have to store: Triton's tutorial has a barrier now",
)
def layer_norm(m, draw):
    rows, width, groups = 20, 100, 4
    x, w, b, dy = draw(rows, width), draw(width), draw(width), 0.1 * draw(rows, width)
    y, mean, rstd = torch.empty_like(x), torch.empty(rows), torch.empty(rows)
    m._layer_norm_fwd_fused[(rows,)](x, y, w, b, mean, rstd, width, width, 1e-5, BLOCK_SIZE=128)
    leaves = [t.double().requires_grad_() for t in (x, w, b)]
    expected = F.layer_norm(leaves[0], (width,), *leaves[1:])
    expected.backward(dy.double())
    yield "forward", y, expected.detach()
    dx, dw, db = torch.empty_like(x), torch.zeros(groups, width), torch.zeros(groups, width)
    locks = torch.zeros(2 * groups, dtype=torch.int32)
    m._layer_norm_bwd_dx_fused[(rows,)](
        dx, dy, dw, db, x, w, b, mean, rstd, locks, width, width, 1e-5, GROUP_SIZE_M=groups, BLOCK_SIZE_N=128
    )
    final_dw, final_db = torch.empty(width), torch.empty(width)
    m._layer_norm_bwd_dwdb[(triton.cdiv(width, 64),)](
        dw, db, final_dw, final_db, groups, width, BLOCK_SIZE_M=32, BLOCK_SIZE_N=64
    )
    for name, mine, leaf in zip(("x", "w", "b"), (dx, final_dw, final_db), leaves, strict=True):
        yield f"gradient of {name}", mine, leaf.grad


@case("tritonbench.operators.gemm.triton_matmul")
def matmul(m, draw):
    a, b, c = draw(70, 90, dtype=torch.float16), draw(90, 50, dtype=torch.float16), torch.empty(70, 50).half()
    arguments = a, b, c, 70, 50, 90, 90, 1, 50, 1, 50, 1
    m.matmul_kernel.fn[(6,)](
        *arguments, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32, GROUP_M=2, ACTIVATION="", ENABLE_BUFFER_OPS_ASSUMES=True
    )
    yield "result", c, a.double() @ b.double()


@case(f"{OPERATORS}/gemm/partition_k.py", "matmul_partition_k")
def matmul_split_k(m, draw):
    a, b = draw(64, 2048, dtype=torch.float16), draw(2048, 64, dtype=torch.float16)
    yield "result", m.matmul_partition_k(a, b, triton_reduce=True), a.double() @ b.double()


@case(f"{OPERATORS}/fp8_gemm/tutorial.py", "matmul_kernel", "leaky_relu")
def matmul_fp8(m, draw):
    a, b = (draw(64, 64).to(torch.float8_e5m2) for _ in range(2))
    c = torch.empty(64, 64).half()
    arguments = a, b, c, 64, 64, 64, 64, 1, 64, 1, 64, 1
    m.matmul_kernel.fn[(4,)](
        *arguments, BLOCK_SIZE_M=32, BLOCK_SIZE_N=32, BLOCK_SIZE_K=32, GROUP_SIZE_M=2, ACTIVATION=""
    )
    yield "result", c, a.double() @ b.double()


@case(f"{OPERATORS}/bf16xint16_gemm/kernel.py", "bf16xbf16_matmul_kernel", "bf16xint16_matmul_kernel")
def matmul_of_integers(m, draw):
    a, b, c = draw(64, 64).bfloat16(), draw.integers(64, 64, low=-9, high=9, dtype=torch.int16), torch.empty(64, 64)
    sizes = dict(BLOCK_SIZE_M=32, BLOCK_SIZE_N=32, BLOCK_SIZE_K=32, GROUP_SIZE_M=2)
    c = c.bfloat16()
    m.bf16xint16_matmul_kernel.fn[(4,)](a, b, c, 64, 64, 64, 64, 1, 64, 1, 64, 1, **sizes, TRANSPOSE=False)
    yield "with integers", c, a.double() @ b.double()
    m.bf16xbf16_matmul_kernel.fn[(4,)](a, b.bfloat16(), c, 64, 64, 64, 64, 1, 64, 1, 64, 1, **sizes)
    yield "with bfloat16", c, a.double() @ b.double()


@case(f"{OPERATORS}/int4_gemm/kernel.py", "matmul_kernel", "pack_2xint4")
def matmul_int4(m, draw):
    a, b = draw(64, 64).bfloat16(), draw.integers(64, 32, low=0, high=8, dtype=torch.int8)
    packed, c = m.pack_2xint4(b), torch.empty(64, 32).bfloat16()
    sizes = dict(BLOCK_SIZE_M=32, BLOCK_SIZE_N=32, BLOCK_SIZE_K=32, GROUP_SIZE_M=2)
    m.matmul_kernel.fn[(2,)](a, packed, c, 64, 32, 64, 64, 1, packed.stride(0), 1, 32, 1, **sizes)
    yield "result", c, a.double() @ b.double()


@case(f"{OPERATORS}/grouped_gemm/kernels.py", "grouped_matmul_kernel")
def grouped_gemm(m, draw):
    shapes = [(128, 64, 64), (64, 128, 32)]
    groups = [(draw(x, k).half(), draw(k, y).half(), torch.empty(x, y).half()) for x, y, k in shapes]
    pointers = [torch.tensor([g[i].data_ptr() for g in groups]) for i in range(3)]
    sizes = torch.tensor(shapes, dtype=torch.int32)
    strides = torch.tensor([[k, y, y] for _, y, k in shapes], dtype=torch.int32)
    m.grouped_matmul_kernel.fn[(3,)](
        *pointers, sizes, strides, 2, NUM_SM=3, BLOCK_SIZE_M=64, BLOCK_SIZE_N=64, BLOCK_SIZE_K=32
    )
    for k, (a, b, c) in enumerate(groups):
        yield f"product {k}", c, a.double() @ b.double()


SUMS = [
    ("triton_sum_kernel_1D_result_sum_then_buffer", 0),
    ("triton_sum_kernel_1D_result_sum_then_buffer", 1),
    ("triton_sum_kernel_1D_result_buffer_then_sum", 0),
    ("triton_sum_kernel_1D_result_buffer_then_sum", 1),
]


@case(f"{OPERATORS}/sum/kernels.py", "triton_sum_kernel_scalar_result", *dict.fromkeys(name for name, _ in SUMS))
def sums(m, draw):
    x, total = draw(900), torch.zeros(1)
    m.triton_sum_kernel_scalar_result[(1,)](x, total, 900, BLOCK_SIZE_M=1024)
    yield "all", total[0], x.double().sum()
    x = draw(30, 50)
    for name, dim in SUMS:
        out = torch.empty(x.shape[1 - dim])
        grid = (triton.cdiv(len(out), 16),)
        kernel = getattr(m, name).fn
        kernel[grid](x, out, 30, 50, BLOCK_SIZE_NON_REDUCE_DIM=16, BLOCK_SIZE_REDUCE_DIM=16, dim=dim)
        yield f"{name}, {dim}", out, x.double().sum(dim)


CUBES = [f"triton_sum_kernel_2D_result_dim_1{how}" for how in ("", "_sum_then_buffer", "_buffer_then_sum")]


@case(f"{OPERATORS}/sum/kernels.py", *CUBES)
def sums_of_cubes(m, draw):
    x = draw(4, 30, 20)
    for name in CUBES:
        out = torch.empty(4, 20)
        kernel, sizes = getattr(m, name).fn, dict(BLOCK_SIZE_N=32, BLOCK_SIZE_K=16)
        kernel[(4 * 2,)](x, out, M=4, N=30, K=20, **sizes)
        yield name, out, x.double().sum(1)


JAGGED = [
    f"{loop}_{how}"
    for loop in ("simple_fused", "variable_length_loop")
    for how in ("sum_then_buffer", "buffer_then_sum")
]


def jagged(operator, names, expected):
    def run(m, draw):
        lengths, width = [5, 0, 17, 9], 12
        ends = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()])
        x = draw(int(ends[-1]), width)
        for name in names:
            kernel = getattr(m, f"triton_jagged_{operator}_kernel_{name}").fn
            out = torch.zeros_like(x) if operator == "softmax" else torch.empty(4, width)
            longest = (17,) if "simple" in name else ()
            kernel[(4 * triton.cdiv(width, 8),)](x, ends, out, width, *longest, BLOCK_SIZE_RAGGED=8, BLOCK_SIZE_M=8)
            parts = [expected(part) for part in x.double().split(lengths)]
            yield name, out, torch.cat(parts) if operator == "softmax" else torch.stack(parts)

    run.__name__ = f"jagged_{operator}"
    kernels = (f"triton_jagged_{operator}_kernel_{name}" for name in names)
    return case(f"{OPERATORS}/jagged_{operator}/kernels.py", *kernels)(run)


jagged("sum", JAGGED, lambda part: part.sum(0))
jagged("softmax", [n for n in JAGGED if n.endswith("buffer_then_sum")], lambda part: part.softmax(0))


@case(f"{OPERATORS}/welford/triton_welford.py", "triton_red_fused_native_layer_norm_0")
def welford(m, draw):
    w, b, x = draw(100).bfloat16(), draw(100).bfloat16(), draw(30, 100).bfloat16()
    rstd, mean, y = torch.empty(30, 1), torch.empty(30, 1), torch.empty(30, 100).bfloat16()
    kernel = m.triton_red_fused_native_layer_norm_0.fn
    kernel[(30,)](rstd, x, w, b, mean, y, 30, 100, XBLOCK=1, RBLOCK=64)
    yield "result", y, F.layer_norm(x.double(), (100,), w.double(), b.double(), 1e-5)
    yield "mean", mean, x.double().mean(1, True)


@case(f"{OPERATORS}/gather_gemv/triton_gather_gemv.py", "triton_red_fused_mv_0")
def gathered_matrix_times_vector(m, draw):
    matrices, index, x, out = draw(8, 64, 64), draw.integers(2, high=8), draw(64), torch.empty(2, 64)
    kernel = m.triton_red_fused_mv_0.fn
    kernel[(128,)](index, matrices, x, out, 128, 64, XBLOCK=1, RBLOCK=64)
    yield "result", out, matrices.double()[index] @ x.double(), CHAIN


FUSED = ("_attn_bwd_preprocess", "_attn_bwd")


@case("tritonbench/kernels/triton_fused_attention.py", *FUSED)
def attention_backward(m, draw):
    steps, width = 128, 32
    q, k, v, do = (0.5 * draw(1, 2, steps, width) for _ in range(4))
    scale = 0.3
    leaves = [t.bfloat16().double().requires_grad_() for t in (q, k, v)]
    hidden = torch.ones(steps, steps, dtype=torch.bool).triu(1)
    scores = (leaves[0] @ leaves[1].mT * scale).masked_fill(hidden, float("-inf"))
    expected = scores.softmax(-1) @ leaves[2]
    expected.backward(do.bfloat16().double())
    o, lse = expected.detach().bfloat16(), (scores.detach().logsumexp(-1) / 0.6931471824645996).float()
    q, k, v, do = (t.bfloat16().contiguous() for t in (q, k, v, do))
    delta = torch.empty(1, 2, steps)
    m._attn_bwd_preprocess[(1, 2)](o, do, delta, 1, 2, steps, BLOCK_M=128, HEAD_DIM=width)
    dq, dk, dv = (torch.empty_like(q) for _ in range(3))
    m._attn_bwd[(1, 1, 2)](
        q, (k * (scale * 1.4426950408889634)).bfloat16(), v, scale, do, dq, dk, dv, lse, delta, *q.stride(), 2, steps,
        BLOCK_M1=32, BLOCK_N1=128, BLOCK_M2=128, BLOCK_N2=32, BLK_SLICE_FACTOR=2, HEAD_DIM=width,
    )  # fmt: skip
    for name, mine, leaf in zip("qkv", (dq, dk, dv), leaves, strict=True):
        yield f"gradient of {name}", mine, leaf.grad, CHAIN
