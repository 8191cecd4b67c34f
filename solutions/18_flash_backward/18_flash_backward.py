# %% [markdown]
# # Differentiate attention without keeping its weights
#
# **You will** write the backward pass of attention as three kernels: delta, the gradients of keys and values, the
# gradient of queries; and use them as a `torch.autograd.Function`.
#
# **You will learn to**
# - compute again what would be too large to keep, from one number per row;
# - turn matrix formulas into tiles, each program owning what it sums;
# - order five products so that no two programs write the same element;
# - check gradients against float64 and against differences.
#
# **You need** `17_flash_attention`: descriptors, the causal loop, lse.
#
# About 120 minutes. Works without a GPU; only times need one.

# %% cell="setup"

# %% [markdown]
# ## The formulas
#
# Forward: $S = QK^\top/\sqrt{D}$, $P = \mathrm{softmax}(S)$, $O = PV$. Given dO, the gradient of the loss with respect
# to O:
#
# $$dV = P^\top dO, \quad dP = dO\,V^\top, \quad dS = P \circ (dP - \delta), \quad
# dQ = dS\,K/\sqrt{D}, \quad dK = dS^\top Q/\sqrt{D}.$$
#
# δ comes from differentiating a softmax: row i of dS is $P_{ij}\,(dP_{ij} - \sum_k P_{ik}\,dP_{ik})$. The sum over all
# keys would need a pass of its own, but $\sum_k P_{ik}\,dP_{ik} = \sum_k P_{ik}\,dO_i \cdot V_k = dO_i \cdot O_i$: D
# terms in place of N.
#
# P was never stored. With the log-sum-exp of each row it is back at once, $P_{ij} = \exp(S_{ij} - \mathrm{lse}_i)$: no
# maximum, no sum, no rescaling.
#
# **Predict.** What does the forward pass keep for the backward pass? And how many FLOPs do the products of the backward
# pass take, if one kernel computes dK and dV, a second one dQ, and each computes S and dP for itself? (No mask.)
#
# The picture shows which tiles of S one program of each kernel walks over, in a causal case of 8 × 8 tiles. Programs
# own rows or columns of it: nobody else writes their gradients.

# %% cell="given"
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from labutils import attention

LOG2_E = tl.constexpr(1.4426950408889634)

attention.owners(8)


# %% cell="solution" id="ledgers"
def kept_bytes(heads, N, D, itemsize):
    """Bytes that the forward pass keeps: arrays of itemsize bytes an element, and lse in fp32."""
    ### BEGIN SOLUTION
    return heads * N * (4 * D * itemsize + 4)  # Q, K, V, O; lse
    ### END SOLUTION


def backward_flops(heads, N, D):
    """FLOPs of the products in both kernels."""
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
# Papers count five products, 2.5 times the forward pass, whatever a kernel really does. One kernel for all would need
# only five, but programs that own keys would have to add up dQ together, with atomics; its sum then differs from run
# to run.
#
# ## Level 1: delta
#
# delta[h, m] = Σ_d out[h, m, d] · dout[h, m, d], in fp32. One program computes `BLOCK_M` queries of one head.
#
# | argument | shape | meaning |
# |---|---|---|
# | `out_ptr`, `dout_ptr` | (H, M, D) | inputs, fp16 or bf16; last stride 1 |
# | `delta_ptr` | (H, M) | output, fp32; heads `stride_lh` apart |
#
# <details><summary>Hint 1</summary>A tile of BLOCK_M × D of both, under the mask offs_m &lt; M.</details>
# <details><summary>Hint 2</summary>Convert to fp32 before you multiply: fp16 · fp16 would be rounded to fp16.</details>
# <details><summary>Hint 3</summary><code>tl.sum(x, 1)</code> sums along D.</details>


# %% cell="solution" id="delta_kernel"
@triton.jit
def delta_kernel(
    out_ptr, dout_ptr, delta_ptr, M, stride_oh, stride_om, stride_gh, stride_gm, stride_lh,
    D: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """delta[h, m] = sum over d of out[h, m, d] * dout[h, m, d]; one program takes BLOCK_M queries of one head."""
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


# %% cell="given" id="delta"
def delta(out, dout, delta):
    H, M, D = out.shape
    delta_kernel[(triton.cdiv(M, 64), H)](
        out, dout, delta, M, *out.stride()[:2], *dout.stride()[:2], delta.stride(0), D=D, BLOCK_M=64, num_warps=4
    )


lab.tiny("18_flash_backward/delta")

# %% cell="check" exercise="18_flash_backward/delta"
lab.check("18_flash_backward/delta")

# %% [markdown]
# ## Level 2: dK and dV
#
# A program owns `BLOCK_N` keys of one *key* head, loads their K and V once, and walks over the queries that see them,
# in all query heads of the group. It keeps two sums: dV += Pᵀ dO and dK += dSᵀ Q.
#
# Both sums need the transposed tiles. So it computes them transposed from the start, Sᵀ = K Qᵀ and dPᵀ = V dOᵀ, of
# BLOCK_N × BLOCK_M: keys are rows now, and lse and delta belong to columns. `scale` is log₂ e / √D, for exp2; lse is
# natural.
#
# Write `one_step` first, without a mask on its own: it gets `seen`, True for pairs that count, and uses it only with
# `MASKED`. Causal: keys from `first` on are seen by queries from `first` on. The first tiles of queries need the mask,
# until the last key of the program is seen by all; from there on none does. Descriptors give zeros past the end; lse is
# loaded with +∞ there, so that P is 0.
#
# <details><summary>Hint 1</summary>pᵀ = exp2(sᵀ · scale − lse[None, :] · log₂ e), 0 where not seen.
# dsᵀ = pᵀ · (dpᵀ − delta[None, :]).</details>
# <details><summary>Hint 2</summary>Both are fp32; the products want them in the type of q:
# <code>tl.dot(p_t.to(q.dtype), dout, dv)</code>.</details>
# <details><summary>Hint 3</summary>Two loops as in <code>flash_kernel</code>: tiles of queries from
# <code>begin</code> to <code>whole</code> with <code>MASKED=True</code>, from <code>whole</code> to M
# without.</details>


# %% cell="solution" id="dkdv_kernel"
@triton.jit
def one_step(q, k, v, dout, lse, delta, dk, dv, seen, scale, MASKED: tl.constexpr):
    """dk and dv after one more tile of queries.

    q, dout (BLOCK_M, D), k, v (BLOCK_N, D), lse, delta (BLOCK_M,), seen (BLOCK_N, BLOCK_M), dk, dv (BLOCK_N, D) fp32;
    dk lacks the factor 1 / sqrt(D).
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
    """dv = P^T dout, dk = dS^T q / sqrt(D), summed over the GROUP query heads of a key head.

    q_desc, dout_desc          (H, M, D), tiles 1 x BLOCK_M x D      lse_ptr, delta_ptr  (H, M)
    k_desc, v_desc, dk_desc, dv_desc  (HK, N, D), tiles 1 x BLOCK_N x D
    One program computes BLOCK_N keys of one key head.
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


# %% cell="given" id="dkdv"
def config_of(owned, walked, M, N, D):
    """Rows that a program owns and rows that it walks over at a time, by name; warps and stages."""
    gpu = lab.device.current()
    if M * N < 2**16:
        return {owned: 32, walked: 16, "num_warps": 4, "num_stages": 2}
    if gpu and gpu.limits.shared_per_block_kb > 200:  # measured on an H200: `python -m bench.attention --tune`
        if owned == "BLOCK_N":
            return {owned: 64, walked: 64, "num_warps": 4, "num_stages": 2}
        return {owned: 128, walked: 64, "num_warps": 8, "num_stages": 3}
    return {owned: 64, walked: 32 if D > 64 else 64, "num_warps": 4, "num_stages": 2}


def described(rows, *arrays, keep=True):
    """Arrays as a descriptor can take them, and descriptors of tiles of so many rows."""
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


# %% cell="check" exercise="18_flash_backward/dkdv"
lab.check("18_flash_backward/dkdv")

# %% [markdown]
# When a check of this unit fails:
#
# | what it says | a common cause |
# |---|---|
# | `wrong-formula`, lse | lse is natural, exp2 wants powers of two |
# | `wrong-formula`, 1 / √D | dS / √D is the gradient of Q Kᵀ: the factor belongs to dQ and dK, once |
# | `wrong-formula`, delta | + for −, or left out: then rows of dS do not sum to 0 |
# | `off-by-one`, mask | the mask is transposed with the tile: queries are columns here |
# | `missing-accumulation` | a sum that starts anew, or one query head of a group |
# | `overflow` | exp2 of a pair that is not seen, before the mask; lse of 0 past the end |
#
# ## Level 3: dQ
#
# A program owns `BLOCK_M` queries of one head, and walks over the keys that they see, as in the forward pass: first
# whole tiles, then those on the diagonal, or the last one that is not full (`TAIL`). Here rows are queries again.
#
# <details><summary>Hint 1</summary>Bounds and masks are those of <code>flash_kernel</code>.</details>
# <details><summary>Hint 2</summary>Three products: s = q kᵀ, dp = dO vᵀ, dq += ds k. lse[:, None], delta[:, None].
# </details>
# <details><summary>Hint 3</summary>In the last loop p is 0 where a key is not seen or does not exist.</details>


# %% cell="solution" id="dq_kernel"
@triton.jit
def dq_kernel(
    q_desc, k_desc, v_desc, dout_desc, lse_ptr, delta_ptr, dq_desc, M, N, scale, stride_lh, stride_dh, GROUP,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, TAIL: tl.constexpr,
):  # fmt: skip
    """dq = dS k / sqrt(D); shapes as in dkdv_kernel, dq_desc as q_desc.

    One program computes BLOCK_M queries of one head.
    """
    pid_m = tl.num_programs(0) - 1 - tl.program_id(0)  # the last queries see the most keys: they go first
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


# %% cell="given" id="dq"
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


# %% cell="check" exercise="18_flash_backward/dq"
lab.check("18_flash_backward/dq")

# %% [markdown]
# ## All together
#
# A `torch.autograd.Function` keeps what `kept_bytes` says, and calls your three kernels when a gradient is asked for.
# The cell after it compares with float64, where PyTorch differentiates the formula, and with differences: along a
# random direction t, (loss(x + εt) − loss(x − εt)) / 2ε in float64 must be the gradient times t. That is what
# `torch.autograd.gradcheck` does for every direction; fp16 is too coarse for its own differences.


# %% cell="given" id="autograd"
class Attention(torch.autograd.Function):
    """attention(q, k, v, causal) for q (H, M, D), k and v (HK, N, D)."""

    @staticmethod
    def forward(ctx, q, k, v, causal):
        out, lse = attention.forward(q, k, v, causal)  # your `flash` of unit 17 gives the same
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


# %%
attention.gradient_table(Attention.apply)
for name in ("delta", "dkdv", "dq"):
    print(lab.benchmark(f"18_flash_backward/{name}") or "")
attention.backward_claims(Attention.apply)

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** Your kernels do seven products where the usual count has five. If they ran the tensor cores as hard as
# the forward pass does, which share of its TFLOP/s would be reported for them? On an H200 FlashAttention-2 reaches 314
# TFLOP/s forward and 265 backward, causal, with five products and atomics. What else than products may cost time?
#
# ### BEGIN SOLUTION
# 5/7 = 71 % of the forward rate. Each of your two kernels recomputes P, so a score takes two exp2 in place of one, and
# more around them: subtractions and products, and conversions of P and dS to bf16. A program of the first kernel holds
# two accumulators, dK and dV, of BLOCK_N × D fp32 each, so few programs fit on an SM, with little to run while one
# waits. Tiles on the diagonal are half masked.
# ### END SOLUTION

# %% [markdown]
# **Next levels.** One kernel for all, five products: programs that own keys add their part of dQ to an fp32 array with
# atomics, through a descriptor too (`desc.atomic_add`). Measure what that saves, and compare two runs bit by bit.
#
# **In practice** `scaled_dot_product_attention` has this built in, and FlashAttention-3's backward pass gives the
# adding of dQ to a warp of its own. Deterministic training asks for a version such as yours.
#
# **Reading.** [FlashAttention-2](https://arxiv.org/abs/2307.08691), section 3.1: both passes as algorithms.
# [FlashAttention-3](https://arxiv.org/abs/2407.08608): the same on Hopper.
