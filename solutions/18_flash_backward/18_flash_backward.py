# %% [markdown]
# # The backward pass of attention
#
# **You will** write the [backward pass](../glossary.md#backward-pass) of attention as three kernels. The first computes
# one number per query, delta. The second computes the gradients of K and V. The third computes the gradient of Q. A
# given `torch.autograd.Function` calls your three kernels.
#
# **You will learn to**
#
# - recompute the N × N matrix P from Q, K and one number per row, instead of keeping P in memory;
# - turn matrix formulas into kernels that work on [tiles](../glossary.md#tile);
# - divide the work so that no two programs write the same element;
# - check gradients against a float64 reference and against [finite differences](../glossary.md#finite-difference).
#
# **You need** `17_flash_attention`.
#
# About 120 minutes. You need a GPU only to measure times.
#
# ## The formulas
#
# The forward pass computes $S = QK^\top/\sqrt{D}$, $P = \mathrm{softmax}(S)$ and $O = PV$. Let dO be the gradient of
# the loss with respect to O. The other gradients are named in the same way. Below, ∘ is the elementwise product. δ
# (delta in the code) is one number per row of dP:
#
# $$dV = P^\top dO, \quad dP = dO\,V^\top, \quad dS = P \circ (dP - \delta), \quad
# dQ = dS\,K/\sqrt{D}, \quad dK = dS^\top Q/\sqrt{D}.$$
#
# δ comes from the derivative of the softmax: $dS_{ij} = P_{ij}\,(dP_{ij} - \sum_k P_{ik}\,dP_{ik})$. The sum over all N
# keys k is δ of row i, and would need its own pass. But it equals a sum of only D terms: $\sum_k P_{ik}\,dP_{ik} =
# \sum_k P_{ik}\,dO_i \cdot V_k = dO_i \cdot O_i$.
#
# The forward pass does not store P. It stores the [log-sum-exp](../glossary.md#log-sum-exp) (lse) of each row of S. The
# backward pass computes P again ([recomputation](../glossary.md#recomputation)), without maximum, sum or rescaling:
# $P_{ij} = \exp(S_{ij} - \mathrm{lse}_i)$.
#
# **Predict.**
#
# 1. `kept_bytes`: which arrays must the forward pass keep for the backward pass, and how many bytes do they take?
# 2. `backward_flops`: one kernel computes dK and dV, and another kernel computes dQ. Each kernel computes S and dP
#    itself. How many FLOPs do the matrix products of both kernels take, without a mask?
#
# The cell after the setup holds the launchers of your kernels. The cell also draws the scores S with a causal mask, as
# 8 rows of 8 tiles, and marks the tiles that one program of each kernel processes in its loop. A program for dK and dV
# *owns* columns of S (keys), and a program for dQ owns rows (queries): no other program writes the gradients of these
# keys and values, or of these queries.

# %% cell="setup"

# %% cell="given" id="launchers"
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from labutils import attention

LOG2_E = tl.constexpr(1.4426950408889634)


def delta(out, dout, delta):
    H, M, D = out.shape
    delta_kernel[(triton.cdiv(M, 64), H)](
        out, dout, delta, M, *out.stride()[:2], *dout.stride()[:2], delta.stride(0), D=D, BLOCK_M=64, num_warps=4
    )


def config_of(owned, walked, M, N, D):
    """Return tile sizes, warps and stages.

    `owned` is the name of the tile size of a program, and `walked` that of the tiles in its loop.
    """
    gpu = lab.device.current()
    if M * N < 2**16:
        return {owned: 32, walked: 16, "num_warps": 4, "num_stages": 2}
    if gpu and gpu.limits.shared_per_block_kb > 200:  # measured on an H200: `python -m bench.attention --tune`
        if owned == "BLOCK_N":
            return {owned: 64, walked: 64, "num_warps": 4, "num_stages": 2}
        return {owned: 128, walked: 64, "num_warps": 8, "num_stages": 3}
    return {owned: 64, walked: 32 if D > 64 else 64, "num_warps": 4, "num_stages": 2}


def described(rows, *arrays, keep=True):
    """Return aligned arrays, and their tensor descriptors for tiles of `rows` rows."""
    arrays = [lab.aligned(x, keep) for x in arrays]
    return arrays, [TensorDescriptor.from_tensor(x, [1, rows, x.shape[2]]) for x in arrays]


def dkdv(q, k, v, dout, lse, delta, dk, dv, causal=1, config=None):
    (H, M, D), (HK, N, _) = q.shape, k.shape
    config = config or config_of("BLOCK_N", "BLOCK_M", M, N, D)
    _, (q_desc, dout_desc) = described(config["BLOCK_M"], q, dout)
    _, (k_desc, v_desc) = described(config["BLOCK_N"], k, v)
    stored, (dk_desc, dv_desc) = described(config["BLOCK_N"], dk, dv, keep=False)
    dkdv_kernel[(triton.cdiv(N, config["BLOCK_N"]), HK)](
        q_desc, k_desc, v_desc, dout_desc, lse, delta, dk_desc, dv_desc, M, LOG2_E.value * D**-0.5,
        lse.stride(0), delta.stride(0), GROUP=H // HK, D=D, CAUSAL=bool(causal), **config,
    )  # fmt: skip
    for wanted, there in zip((dk, dv), stored, strict=True):
        if there is not wanted:
            wanted.copy_(there)


def dq(q, k, v, dout, lse, delta, dq, causal=1, config=None):
    (H, M, D), (HK, N, _) = q.shape, k.shape
    config = config or config_of("BLOCK_M", "BLOCK_N", M, N, D)
    _, (q_desc, dout_desc) = described(config["BLOCK_M"], q, dout)
    (stored,), (dq_desc,) = described(config["BLOCK_M"], dq, keep=False)
    _, (k_desc, v_desc) = described(config["BLOCK_N"], k, v)
    dq_kernel[(triton.cdiv(M, config["BLOCK_M"]), H)](
        q_desc, k_desc, v_desc, dout_desc, lse, delta, dq_desc, M, N, LOG2_E.value * D**-0.5, lse.stride(0),
        delta.stride(0), H // HK, D=D, CAUSAL=bool(causal), TAIL=bool(causal or N % config["BLOCK_N"]), **config,
    )  # fmt: skip
    if stored is not dq:
        dq.copy_(stored)


attention.owners(8)


# %% cell="solution" id="ledgers"
def kept_bytes(heads, N, D, itemsize):
    """Return the bytes that the forward pass keeps. lse is fp32; an element of another array has `itemsize` bytes."""
    ### BEGIN SOLUTION
    return heads * N * (4 * D * itemsize + 4)  # Q, K, V, O; lse
    ### END SOLUTION


def backward_flops(heads, N, D):
    """Return the FLOPs of all matrix products in both kernels."""
    ### BEGIN SOLUTION
    product = 2 * heads * N * N * D
    keys_values = 4 * product  # S, dP, dV, dK
    queries = 3 * product  # S, dP, dQ
    return keys_values + queries
    ### END SOLUTION


# %% cell="check" exercise="18_flash_backward/kept_bytes"
lab.check("18_flash_backward/kept_bytes")

# %% cell="check" exercise="18_flash_backward/backward_flops"
lab.check("18_flash_backward/backward_flops")

# %% [markdown]
# Your kernels for the gradients compute seven products. A single kernel would compute S and dP only once, and need
# five. But several programs of such a kernel would add to the same rows of dQ with [atomics](../glossary.md#atomic).
# The order of these additions varies, so the rounding of dQ would differ from run to run. (For FLOP/s, papers count two
# products for a forward pass, and five for a backward pass, even if the kernels compute more.)
#
# ## Level 1: delta
#
# Compute `delta[h, m]`, the sum of `out[h, m, d] * dout[h, m, d]` over all d, in fp32. One program computes delta for
# `BLOCK_M` of the M queries of one head. O and dO (`out` and `dout`) are fp16 or [bf16](../glossary.md#bf16) of shape
# (H, M, D). The element (h, m) of `delta` is at `h * stride_lh + m`.
#
# <details><summary>Hint 1</summary>Load a <code>BLOCK_M</code> × <code>D</code> tile of out and of dout, with the mask
# <code>offs_m &lt; M</code> for the rows.</details>
# <details><summary>Hint 2</summary>Convert to fp32 before you multiply: an fp16 product is rounded to fp16.</details>
# <details><summary>Hint 3</summary><code>tl.sum(x, 1)</code> sums along D.</details>


# %% cell="solution" id="delta_kernel"
@triton.jit
def delta_kernel(
    out_ptr, dout_ptr, delta_ptr, M, stride_oh, stride_om, stride_gh, stride_gm, stride_lh,
    D: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Compute delta[h, m] = sum over d of out[h, m, d] * dout[h, m, d] for BLOCK_M queries of one head."""
    head = tl.program_id(1).to(tl.int64)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    out_ptrs = out_ptr + head * stride_oh + offs_m[:, None] * stride_om + offs_d[None, :]
    dout_ptrs = dout_ptr + head * stride_gh + offs_m[:, None] * stride_gm + offs_d[None, :]
    ### BEGIN SOLUTION
    mask_m = offs_m < M
    out = tl.load(out_ptrs, mask=mask_m[:, None], other=0.0).to(tl.float32)
    dout = tl.load(dout_ptrs, mask=mask_m[:, None], other=0.0).to(tl.float32)
    tl.store(delta_ptr + head * stride_lh + offs_m, tl.sum(out * dout, 1), mask=mask_m)
    ### END SOLUTION


# %% cell="check" exercise="18_flash_backward/delta"
lab.tiny("18_flash_backward/delta")
lab.check("18_flash_backward/delta")

# %% [markdown]
# ## Level 2: dK and dV
#
# A program owns `BLOCK_N` keys of one *key* head, and loads the K and V rows of these keys once. The program loops over
# the queries that see these keys, in all `GROUP` query heads of the key head. The program has two
# [accumulators](../glossary.md#accumulator): in each iteration, it adds Pᵀ dO to dV, and dSᵀ Q to dK.
#
# The two products need the transposed tiles Pᵀ and dSᵀ. So compute Sᵀ = K Qᵀ and dPᵀ = V dOᵀ, of shape BLOCK_N ×
# BLOCK_M. Keys are rows in these tiles, and queries are columns: each column has its own lse and delta. As in unit 17,
# `scale` is log₂ e / √D, for exp2. lse is a natural logarithm, so multiply it by log₂ e.
#
# Write `one_step` first. Its argument `seen` is True where a query sees a key. Use `seen` only if `MASKED`. In
# `dkdv_kernel`, `first` is the program's first key. With a causal mask, queries before `first` see none of the
# program's keys: skip tiles that have only such queries. A tile of queries needs the mask if one of its queries does
# not see the program's last key. Here and in dq, you get 1 point if the kernel loads only tiles that it needs: the
# check counts the bytes. Descriptors return zeros for queries past the end. Load +∞ as the lse of these queries, so
# that P is 0.
#
# <details><summary>Hint 1</summary>Compute pᵀ = exp2(sᵀ · scale − lse[None, :] · log₂ e), and set pᵀ to 0 where a query
# does not see a key. Then dsᵀ = pᵀ · (dpᵀ − delta[None, :]).</details>
# <details><summary>Hint 2</summary>pᵀ and dsᵀ are fp32, but the products need the dtype of q:
# <code>tl.dot(p_t.to(q.dtype), dout, dv)</code>.</details>
# <details><summary>Hint 3</summary>Use two loops as in <code>flash_kernel</code>. With <code>CAUSAL</code>, the first
# loop passes <code>MASKED=True</code>, and starts at <code>first</code>, rounded down to a multiple of
# <code>BLOCK_M</code>. The second loop passes <code>MASKED=False</code>, and starts at the first tile whose queries all
# see key <code>first + BLOCK_N - 1</code>. Without <code>CAUSAL</code>, the second loop does all tiles.</details>


# %% cell="solution" id="dkdv_kernel"
@triton.jit
def one_step(q, k, v, dout, lse, delta, dk, dv, seen, scale, MASKED: tl.constexpr):
    """Return dk and dv after one more tile of queries.

    q, dout     (BLOCK_M, D)
    k, v        (BLOCK_N, D)
    lse, delta  (BLOCK_M,)
    seen        (BLOCK_N, BLOCK_M)
    dk, dv      (BLOCK_N, D), fp32

    Do not multiply dk by 1 / sqrt(D) here: dkdv_kernel does that at its end.
    """
    ### BEGIN SOLUTION
    p_t = tl.exp2(tl.dot(k, q.T) * scale - lse[None, :] * LOG2_E)
    if MASKED:
        p_t = tl.where(seen, p_t, 0.0)
    dv = tl.dot(p_t.to(dout.dtype), dout, dv)
    ds_t = p_t * (tl.dot(v, dout.T) - delta[None, :])
    dk = tl.dot(ds_t.to(q.dtype), q, dk)
    return dk, dv
    ### END SOLUTION


@triton.jit
def dkdv_kernel(
    q_desc, k_desc, v_desc, dout_desc, lse_ptr, delta_ptr, dk_desc, dv_desc, M, scale, stride_lh, stride_dh,
    GROUP: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Compute dv = P^T dout and dk = dS^T q / sqrt(D), each summed over the GROUP query heads of a key head.

    q_desc, dout_desc                 (H, M, D), tiles 1 x BLOCK_M x D
    k_desc, v_desc, dk_desc, dv_desc  (HK, N, D), tiles 1 x BLOCK_N x D
    lse_ptr, delta_ptr                (H, M)

    One program computes the gradients of BLOCK_N keys of one key head.
    """
    key_head, first = tl.program_id(1), tl.program_id(0) * BLOCK_N
    offs_n, offs_m = first + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_M)
    k = k_desc.load([key_head, first, 0]).reshape(BLOCK_N, D)
    v = v_desc.load([key_head, first, 0]).reshape(BLOCK_N, D)
    dk = tl.zeros((BLOCK_N, D), tl.float32)
    dv = tl.zeros((BLOCK_N, D), tl.float32)
    ### BEGIN SOLUTION
    begin, whole = 0, 0
    if CAUSAL:
        begin = first // BLOCK_M * BLOCK_M
        whole = begin + tl.cdiv(first + BLOCK_N - begin, BLOCK_M) * BLOCK_M
    for member in range(GROUP):
        head = key_head * GROUP + member
        lse_ptrs = lse_ptr + head.to(tl.int64) * stride_lh + offs_m
        delta_ptrs = delta_ptr + head.to(tl.int64) * stride_dh + offs_m
        if CAUSAL:
            for start in tl.range(begin, tl.minimum(whole, M), BLOCK_M):
                q = q_desc.load([head, start, 0]).reshape(BLOCK_M, D)
                dout = dout_desc.load([head, start, 0]).reshape(BLOCK_M, D)
                lse = tl.load(lse_ptrs + start, mask=start + offs_m < M, other=float("inf"))
                delta = tl.load(delta_ptrs + start, mask=start + offs_m < M, other=0.0)
                seen = start + offs_m[None, :] >= offs_n[:, None]
                dk, dv = one_step(q, k, v, dout, lse, delta, dk, dv, seen, scale, MASKED=True)
        for start in tl.range(whole, M, BLOCK_M):
            q = q_desc.load([head, start, 0]).reshape(BLOCK_M, D)
            dout = dout_desc.load([head, start, 0]).reshape(BLOCK_M, D)
            lse = tl.load(lse_ptrs + start, mask=start + offs_m < M, other=float("inf"))
            delta = tl.load(delta_ptrs + start, mask=start + offs_m < M, other=0.0)
            dk, dv = one_step(q, k, v, dout, lse, delta, dk, dv, True, scale, MASKED=False)
    ### END SOLUTION
    dk *= scale / LOG2_E
    dk_desc.store([key_head, first, 0], dk.to(dk_desc.dtype).reshape(1, BLOCK_N, D))
    dv_desc.store([key_head, first, 0], dv.to(dv_desc.dtype).reshape(1, BLOCK_N, D))


# %% cell="check" exercise="18_flash_backward/dkdv"
lab.check("18_flash_backward/dkdv")

# %% [markdown]
# Use this table when a check of levels 1 to 3 fails. (Words in parentheses say what the check's message is about.)
#
# | diagnosis | common cause |
# |---|---|
# | `wrong-formula` (lse) | lse, a logarithm to base e, is not multiplied by log₂ e before exp2 |
# | `wrong-formula` (1 / √D) | the factor 1 / √D is missing in dQ or dK, or is applied twice |
# | `wrong-formula` (delta) | delta is added or left out: it must be subtracted, and then each row of dS sums to 0 |
# | `off-by-one` (mask) | the mask of `dkdv_kernel` is not transposed: in this kernel, queries are columns |
# | `missing-accumulation` | an accumulator is set to 0 in a loop, or only one query head of a group is used |
# | `overflow` | P is not set to 0 where a query does not see a key, or S lacks the factor 1 / √D |
#
# ## Level 3: dQ
#
# A program owns `BLOCK_M` queries of one head and loops over the keys that these queries see. The two loops are those
# of `flash_kernel` in unit 17. The second loop runs only with `TAIL`, which the launcher sets if some tiles of keys
# need a mask. In `dq_kernel`, the rows of all tiles are queries again.
#
# <details><summary>Hint 1</summary>Use the bounds and masks of <code>flash_kernel</code>.</details>
# <details><summary>Hint 2</summary>Compute three products: s = q kᵀ, dp = dO vᵀ and dq += ds k. Use <code>lse[:,
# None]</code> and <code>delta[:, None]</code>. The given code has already multiplied lse by log₂ e.</details>
# <details><summary>Hint 3</summary>In the second loop, set p to 0 where a key is past the end or not seen.</details>


# %% cell="solution" id="dq_kernel"
@triton.jit
def dq_kernel(
    q_desc, k_desc, v_desc, dout_desc, lse_ptr, delta_ptr, dq_desc, M, N, scale, stride_lh, stride_dh, GROUP,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, TAIL: tl.constexpr,
):  # fmt: skip
    """Compute dq = dS k / sqrt(D). Shapes are as in dkdv_kernel, and dq_desc has the shape of q_desc.

    One program computes dq for BLOCK_M queries of one head.
    """
    pid_m = tl.num_programs(0) - 1 - tl.program_id(0)  # the last queries see the most keys: start with these
    head, first = tl.program_id(1), pid_m * BLOCK_M
    key_head = head // GROUP
    offs_m, offs_n = first + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    q = q_desc.load([head, first, 0]).reshape(BLOCK_M, D)
    dout = dout_desc.load([head, first, 0]).reshape(BLOCK_M, D)
    lse = tl.load(lse_ptr + head.to(tl.int64) * stride_lh + offs_m, mask=offs_m < M, other=float("inf")) * LOG2_E
    delta = tl.load(delta_ptr + head.to(tl.int64) * stride_dh + offs_m, mask=offs_m < M, other=0.0)
    dq = tl.zeros((BLOCK_M, D), tl.float32)
    ### BEGIN SOLUTION
    if CAUSAL:
        whole, end = first // BLOCK_N * BLOCK_N, tl.minimum(first + BLOCK_M, N)
    else:
        whole, end = N // BLOCK_N * BLOCK_N, N
    for start in tl.range(0, whole, BLOCK_N):
        k = k_desc.load([key_head, start, 0]).reshape(BLOCK_N, D)
        v = v_desc.load([key_head, start, 0]).reshape(BLOCK_N, D)
        p = tl.exp2(tl.dot(q, k.T) * scale - lse[:, None])
        ds = p * (tl.dot(dout, v.T) - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    if TAIL:
        for start in tl.range(whole, end, BLOCK_N):
            k = k_desc.load([key_head, start, 0]).reshape(BLOCK_N, D)
            v = v_desc.load([key_head, start, 0]).reshape(BLOCK_N, D)
            keys = start + offs_n[None, :]
            seen = offs_m[:, None] >= keys if CAUSAL else keys < N
            p = tl.where(seen, tl.exp2(tl.dot(q, k.T) * scale - lse[:, None]), 0.0)
            ds = p * (tl.dot(dout, v.T) - delta[:, None])
            dq = tl.dot(ds.to(k.dtype), k, dq)
    ### END SOLUTION
    dq *= scale / LOG2_E
    dq_desc.store([head, first, 0], dq.to(dq_desc.dtype).reshape(1, BLOCK_M, D))


# %% cell="check" exercise="18_flash_backward/dq"
lab.check("18_flash_backward/dq")

# %% [markdown]
# ## All together
#
# The class `Attention` keeps the arrays that you counted in `kept_bytes`, and calls your kernels in its backward pass.
# The next cell compares your gradients with two references:
#
# - the gradients that PyTorch computes from the formula in float64;
# - finite differences: for a random direction t and a small ε, (loss(x + εt) − loss(x − εt)) / 2ε must be close to the
#   scalar product of the gradient and t. Both losses are computed in float64, because fp16 would round away their
#   difference.


# %% cell="given" id="autograd"
class Attention(torch.autograd.Function):
    """Attention of q (H, M, D) to k and v (HK, N, D), with or without the causal mask."""

    @staticmethod
    def forward(ctx, q, k, v, causal):
        out, lse = attention.forward(q, k, v, causal)  # the same result as your `flash` of unit 17
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.causal = causal
        return out

    @staticmethod
    def backward(ctx, dout):
        q, k, v, out, lse = ctx.saved_tensors
        rows = torch.empty_like(lse)
        gradients = [torch.empty_like(x) for x in (q, k, v)]
        delta(out, dout, rows)
        dkdv(q, k, v, dout, lse, rows, *gradients[1:], ctx.causal)
        dq(q, k, v, dout, lse, rows, gradients[0], ctx.causal)
        return *gradients, None


attention.gradient_table(Attention.apply)
for name in ("delta", "dkdv", "dq"):
    print(lab.benchmark(f"18_flash_backward/{name}") or "")
lab.claims("18_flash_backward")  # a two-minute quiz: predict each number, then compare
attention.backward_claims(Attention.apply)

# %% [markdown]
# <details><summary>Beyond Triton: five products in one Gluon kernel</summary>
#
# The kernel of the file `labutils/lessons/flash_backward_gluon.py` is written in [Gluon](../glossary.md#gluon), for
# Hopper. As in unit 17, one warp copies tiles, and two [warpgroups](../glossary.md#warpgroup) compute. A program owns
# 128 keys, and each warpgroup owns 64 of them. A program has dS of its keys, so it also computes their part of dQ, and
# adds this part to an fp32 array. A last, small kernel rounds dQ. We measured these TFLOP/s on an H200 with a causal
# mask, (4, 32, 4096, 128), in bf16:
#
# | kernels | TFLOP/s |
# |---|---|
# | our three Triton kernels | {claim: h200_three_kernels} |
# | five products in one Triton kernel, with [atomics](../glossary.md#atomic) | {claim: h200_one_triton} |
# | in one Gluon kernel: one warp copies, eight warps compute together | {claim: h200_gluon_together} |
# | two warpgroups, which exchange dS in [shared memory](../glossary.md#shared-memory) | {claim: h200_gluon_groups} |
# | three tiles [in flight](../glossary.md#in-flight) instead of two | {claim: h200_gluon_stages} |
# | the file: dK from registers, [TMA](../glossary.md#tma) instead of atomics adds dQ | {claim: h200_gluon_engine} |
# | cuDNN | {claim: h200_cudnn_backward} |
#
# In the first three Gluon rows, atomics add dQ, and the product for dK is still in flight when the next tile's S and dP
# start. Two warpgroups that wait for dK in each iteration reach {claim: h200_gluon_waiting}. The file's kernel waits
# for dK too. Each of its warpgroups keeps its dS in [registers](../glossary.md#register) for dK, starts dV before the
# warpgroups exchange dS, and stores dS as rows of queries, which is how the product for dQ reads it. TMA adds dQ from
# shared memory, so no warpgroup waits for the adds. The last bits of dQ differ from run to run. dK and dV do not.
#
# </details>

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** Your kernels do seven matrix products, but the reported TFLOP/s count only five. Suppose that your
# kernels keep the [tensor cores](../glossary.md#tensor-core) as busy as the forward pass does. What fraction of the
# forward pass's TFLOP/s is then reported for your kernels? FlashAttention-2's backward pass does five products and adds
# up dQ with atomics. On an H200, with a causal mask, FlashAttention-2 reaches {claim: h200_fa2_forward_causal} TFLOP/s
# in the forward pass and {claim: h200_fa2_backward_causal} in the backward pass. Which costs of the backward pass,
# other than products, may explain its lower rate?
#
# ### BEGIN SOLUTION
# The reported rate is 5/7 = 71 % of the forward rate. Both kernels recompute P, so each score takes two exp2 instead of
# one, plus subtractions, multiplications, and conversions of P and dS to bf16. A program of `dkdv_kernel` holds two
# accumulators, dK and dV, of BLOCK_N × D fp32 each. So few programs fit on an [SM](../glossary.md#sm), and while one
# program waits, the SM has little other work. Half of each diagonal tile is masked.
# ### END SOLUTION

# %% [markdown]
# **Next.** `18_hunt` hides bugs in kernels like these. Write a single kernel with five products. Its programs own keys,
# and add to an fp32 array dQ with `tl.atomic_add`. Is it faster than three kernels with seven products? Are the bits of
# dQ the same in two runs?
#
# **In practice**, `scaled_dot_product_attention` includes a backward pass. Training that must be reproducible bit by
# bit needs a backward pass without atomics, like yours.
#
# **Reading.** [FlashAttention-2](https://arxiv.org/abs/2307.08691), section 3.1, gives both passes as algorithms.
# [FlashAttention-3](https://arxiv.org/abs/2407.08608) describes both passes on Hopper.
