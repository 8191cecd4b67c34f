# %% [markdown]
# # Bug hunt: attention
#
# **You will** find one bug in each of three attention kernels. First the kernels show only what they do: cases that
# fail, values, counts. You name line and cause, then you fix the kernel.
#
# **You will learn to**
# - check several outputs separately;
# - choose lengths that are no multiple of a tile;
# - find out which keys a query sees.
#
# **You need** `17_flash_attention`. About 50 minutes. You need no GPU.
#
# Do not run the checks of the last section before you have named the bugs: they name causes, too.

# %% cell="setup"

# %% cell="given" id="launchers"
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


def strides(*arrays):
    """Return two strides for each array: from head to head, and from row to row."""
    return [s for x in arrays for s in x.stride()[:2]]


def tile_config(M, N, D):
    gpu = lab.device.current()
    if M * N < 2**16:
        return dict(BLOCK_M=32, BLOCK_N=16, num_warps=4, num_stages=2)
    if gpu and gpu.capability < (8, 0):  # no async copies, at most 64 KB of shared memory
        return dict(BLOCK_M=64, BLOCK_N=32, num_warps=4, num_stages=1)
    return dict(BLOCK_M=128, BLOCK_N=64, num_warps=4 if D <= 64 else 8, num_stages=3)


def forward(q, k, v, out, lse):
    (H, M, D), N = q.shape, k.shape[1]
    config, scale = tile_config(M, N, D), LOG2_E.value * D**-0.5
    grid = (M // config["BLOCK_M"], H)
    forward_kernel[grid](q, k, v, out, lse, N, scale, *strides(q, k, v, out), lse.stride(0), D=D, **config)


@triton.jit
def join(s, v, m, l, acc, scale):
    """Return (m, l, acc) after one more tile, with raw scores s (BLOCK_M, BLOCK_N) and values v (BLOCK_N, D).

    m (BLOCK_M,) is the largest s · scale so far, and l (BLOCK_M,) is the sum of the weights exp2(s · scale - m).
    acc (BLOCK_M, D) is the sum of the rows of v, each multiplied by its weight.
    """
    m_new = tl.maximum(m, tl.max(s, 1) * scale)
    p = tl.exp2(s * scale - m_new[:, None])
    factor = tl.exp2(m - m_new)
    l = l * factor + tl.sum(p, 1)
    acc = tl.dot(p.to(v.dtype), v, acc * factor[:, None])
    return m_new, l, acc


def ragged(q, k, v, out, lse):
    (H, M, D), N = q.shape, k.shape[1]
    ragged_kernel[lambda meta: (triton.cdiv(M, meta["BLOCK_M"]), H)](
        q, k, v, out, lse, M, N, LOG2_E.value * D**-0.5, *strides(q, k, v, out), lse.stride(0), H // len(k), D=D
    )


def few_for_small(configs, arguments, **_):
    """Called by autotune: keep only the first configuration for small arrays, and the others for large arrays."""
    return configs[:1] if arguments["M"] * arguments["N"] < 2**16 else configs[1:]


CONFIGS = [triton.Config(dict(BLOCK_M=32, BLOCK_N=16), num_warps=4, num_stages=2)] + [
    triton.Config(dict(BLOCK_M=m, BLOCK_N=n), num_warps=w, num_stages=s)
    for m, n, w, s in [(128, 64, 4, 2), (128, 64, 8, 3), (128, 128, 8, 2), (64, 64, 4, 3), (64, 32, 4, 2)]
]


def flash_config(M, N, D):
    gpu = lab.device.current()
    if M * N < 2**16:
        return dict(BLOCK_M=32, BLOCK_N=16, num_warps=4, num_stages=2)
    if gpu and gpu.capability[0] == 9:
        return dict(BLOCK_M=128, BLOCK_N=64 if D > 64 else 128, num_warps=4, num_stages=2 if D > 64 else 3)
    if gpu and gpu.capability[0] == 10:
        return dict(BLOCK_M=128, BLOCK_N=128 if D > 64 else 64, num_warps=4, num_stages=3)
    return dict(BLOCK_M=128, BLOCK_N=32 if D > 64 else 64, num_warps=8 if D > 64 else 4, num_stages=3)


def flash(q, k, v, out, lse, causal=1, config=None):
    (H, M, D), (HK, N, _) = q.shape, k.shape
    config = dict(config or flash_config(M, N, D))
    BLOCK_M, BLOCK_N = config["BLOCK_M"], config["BLOCK_N"]
    o = lab.aligned(out, keep=False)
    q_desc, out_desc = (TensorDescriptor.from_tensor(x, [1, BLOCK_M, D]) for x in (lab.aligned(q), o))
    k_desc, v_desc = (TensorDescriptor.from_tensor(lab.aligned(x), [1, BLOCK_N, D]) for x in (k, v))
    flags = dict(CAUSAL=bool(causal), TAIL=bool(causal or N % BLOCK_N), SPECIALIZE=config.pop("SPECIALIZE", False))
    flash_kernel[(triton.cdiv(M, BLOCK_M), H)](
        q_desc, k_desc, v_desc, out_desc, lse, M, N, LOG2_E.value * D**-0.5, lse.stride(0), H // HK, D=D,
        **flags, **config,
    )  # fmt: skip
    if o is not out:
        out.copy_(o)


# %% [markdown]
# ## 1 Whole tiles
#
# The kernel computes attention and the log-sum-exp of each row of scores. Inference works. Training, which needs the
# log-sum-exp, diverges.


# %% cell="hunt" id="forward_kernel" exercise="17_hunt/forward"
@triton.jit
def forward_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, N, scale,
    stride_qh, stride_qm, stride_kh, stride_kn, stride_vh, stride_vn, stride_oh, stride_om, stride_lh,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute out = softmax(q k^T / sqrt(D)) v and the log-sum-exp lse of each row, for BLOCK_M queries of a head."""
    head = tl.program_id(1).to(tl.int64)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n, offs_d = tl.arange(0, BLOCK_N), tl.arange(0, D)
    k_ptrs = k_ptr + head * stride_kh + offs_n[:, None] * stride_kn + offs_d[None, :]
    v_ptrs = v_ptr + head * stride_vh + offs_n[:, None] * stride_vn + offs_d[None, :]
    out_ptrs = out_ptr + head * stride_oh + offs_m[:, None] * stride_om + offs_d[None, :]
    q = tl.load(q_ptr + head * stride_qh + offs_m[:, None] * stride_qm + offs_d[None, :])
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    ### BEGIN SOLUTION
    for start in range(0, N, BLOCK_N):
        k = tl.load(k_ptrs + start * stride_kn)
        v = tl.load(v_ptrs + start * stride_vn)
        m, l, acc = join(tl.dot(q, k.T), v, m, l, acc, scale)
    tl.store(out_ptrs, acc / l[:, None])
    tl.store(lse_ptr + head * stride_lh + offs_m, (m + tl.log2(l)) * LN_2)
    ### END SOLUTION


# %%
lab.evidence("17_hunt/forward")

# %% [markdown]
# ## 2 Any lengths
#
# The kernel takes any number of queries and keys, and heads that share keys. It was tested with lengths from a data set
# in which all sequences are padded to a multiple of 64.


# %% cell="hunt" id="ragged_kernel" exercise="17_hunt/ragged"
@triton.autotune(CONFIGS, key=["M", "N", "D"], prune_configs_by={"early_config_prune": few_for_small})
@triton.jit
def ragged_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, M, N, scale,
    stride_qh, stride_qm, stride_kh, stride_kn, stride_vh, stride_vn, stride_oh, stride_om, stride_lh,
    GROUP, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute the same as forward_kernel, for any M, N ≥ 1, and for H = GROUP · HK query heads.

    q_ptr, out_ptr  (H, M, D)      k_ptr, v_ptr  (HK, N, D)      lse_ptr  (H, M)
    """
    head = tl.program_id(1).to(tl.int64)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n, offs_d = tl.arange(0, BLOCK_N), tl.arange(0, D)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    ### BEGIN SOLUTION
    key_head = head // GROUP
    k_ptrs = k_ptr + key_head * stride_kh + offs_n[:, None] * stride_kn + offs_d[None, :]
    v_ptrs = v_ptr + key_head * stride_vh + offs_n[:, None] * stride_vn + offs_d[None, :]
    q_ptrs = q_ptr + head * stride_qh + offs_m[:, None] * stride_qm + offs_d[None, :]
    out_ptrs = out_ptr + head * stride_oh + offs_m[:, None] * stride_om + offs_d[None, :]
    q = tl.load(q_ptrs, mask=offs_m[:, None] < M, other=0.0)
    for start in range(0, N, BLOCK_N):
        mask_n = start + offs_n < N
        k = tl.load(k_ptrs + start * stride_kn, mask=mask_n[:, None], other=0.0)
        v = tl.load(v_ptrs + start * stride_vn, mask=mask_n[:, None], other=0.0)
        s = tl.where(mask_n[None, :], tl.dot(q, k.T), -float("inf"))
        m, l, acc = join(s, v, m, l, acc, scale)
    tl.store(out_ptrs, acc / l[:, None], mask=offs_m[:, None] < M)
    tl.store(lse_ptr + head * stride_lh + offs_m, (m + tl.log2(l)) * LN_2, mask=offs_m < M)
    ### END SOLUTION


# %%
lab.evidence("17_hunt/ragged")

# %% [markdown]
# ## 3 Causal attention
#
# With `causal`, a query sees only the keys up to its own position, and tiles past the diagonal are skipped. Without
# `causal`, all results are right.


# %% cell="hunt" id="flash_kernel" exercise="17_hunt/flash"
@triton.jit
def flash_kernel(
    q_desc, k_desc, v_desc, out_desc, lse_ptr, M, N, scale, stride_lh, GROUP, D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, TAIL: tl.constexpr, SPECIALIZE: tl.constexpr,
):  # fmt: skip
    """Compute out and lse as ragged_kernel does; with CAUSAL (M = N), query i sees only keys j <= i.

    q_desc, out_desc  (H, M, D), tiles 1 x BLOCK_M x D      lse_ptr  (H, M)
    k_desc, v_desc    (HK, N, D), tiles 1 x BLOCK_N x D; H = GROUP · HK
    One program computes BLOCK_M queries of one head.
    """
    pid_m = tl.num_programs(0) - 1 - tl.program_id(0)
    head = tl.program_id(1)
    key_head, first = head // GROUP, pid_m * BLOCK_M
    offs_m, offs_n = first + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    q = q_desc.load([head, first, 0]).reshape(BLOCK_M, D)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    ### BEGIN SOLUTION
    if CAUSAL:
        whole, end = first // BLOCK_N * BLOCK_N, tl.minimum(first + BLOCK_M, N)
    else:
        whole, end = N // BLOCK_N * BLOCK_N, N
    for start in tl.range(0, whole, BLOCK_N, warp_specialize=SPECIALIZE):
        k = k_desc.load([key_head, start, 0]).reshape(BLOCK_N, D)
        v = v_desc.load([key_head, start, 0]).reshape(BLOCK_N, D)
        m, l, acc = join(tl.dot(q, k.T), v, m, l, acc, scale)
    if TAIL:
        for start in tl.range(whole, end, BLOCK_N):
            k = k_desc.load([key_head, start, 0]).reshape(BLOCK_N, D)
            v = v_desc.load([key_head, start, 0]).reshape(BLOCK_N, D)
            keys = start + offs_n[None, :]
            seen = offs_m[:, None] >= keys if CAUSAL else keys < N
            m, l, acc = join(tl.where(seen, tl.dot(q, k.T), -float("inf")), v, m, l, acc, scale)
    out_desc.store([head, first, 0], (acc / l[:, None]).to(out_desc.dtype).reshape(1, BLOCK_M, D))
    tl.store(lse_ptr + head.to(tl.int64) * stride_lh + offs_m, (m + tl.log2(l)) * LN_2, mask=offs_m < M)
    ### END SOLUTION


# %%
lab.evidence("17_hunt/flash")

# %% [markdown]
# ## 4 Name the bugs
#
# Fill in `bug`: for each hunt, the line of its kernel's cell where the bug is, and the cause. Lines count from 1 (View
# → Show Line Numbers). If several lines can be changed to fix the bug, any of them is right.
#
# The causes to choose from:
#
# - mixed logarithms
# - padding takes part
# - skipped tiles
# - missing rescale
# - scale missing
# - wrong causal edge
# - wrong head
# - missing mask on a store
#
# <details><summary>Hint 1</summary><code>forward</code>: <code>out</code> is right. Which lines compute
# <code>lse</code> only, and in which base are m and l?</details>
# <details><summary>Hint 2</summary><code>ragged</code>: which score does a key past the end have, and which weight
# follows from it?</details>
# <details><summary>Hint 3</summary><code>flash</code>: let BLOCK_M be 32 and BLOCK_N be 16. Which keys does query 40
# see?</details>


# %% cell="solution" id="bug"
def bug(hunt):
    """Return the line and the cause of a hunt's bug, such as {"line": 12, "cause": "…"}.

    hunt  "forward" or "ragged" or "flash"
    """
    ### BEGIN SOLUTION
    found = {
        "forward": {"line": 23, "cause": "mixed logarithms"},
        "ragged": {"line": 28, "cause": "padding takes part"},
        "flash": {"line": 28, "cause": "skipped tiles"},
    }
    return found[hunt]
    ### END SOLUTION


# %% cell="check" exercise="17_hunt/bug"
lab.check("17_hunt/bug")

# %% [markdown]
# ## 5 Fix them
#
# Change the kernels in their cells above, run the cells, and check. A fix needs few characters or lines; the rest of
# the kernel is right.

# %% cell="check" exercise="17_hunt/forward"
lab.check("17_hunt/forward")

# %% cell="check" exercise="17_hunt/ragged"
lab.check("17_hunt/ragged")

# %% cell="check" exercise="17_hunt/flash"
lab.check("17_hunt/flash")

# %% [markdown]
# **Next.** `18_flash_backward` computes the gradients, and `18_hunt` hides bugs in its kernels.
#
# **In practice** keep each bug that you fix as a test: the smallest case that showed it.
