# %% [markdown]
# # Bug hunt: the backward pass of attention
#
# **You will** find one bug in each of three kernels that compute gradients. First the kernels show only what they do:
# cases that fail, values, counts. You name line and cause, then you fix the kernel.
#
# **You will learn to**
# - compare gradients one by one: which are right, and by which factor are the others off?
# - use element types and values as evidence;
# - look at the diagonal of a causal mask.
#
# **You need** `18_flash_backward`. About 50 minutes. You need no GPU.
#
# Do not run the checks of the last section before you have named the bugs: they name causes, too.

# %% cell="setup"

# %% cell="given" id="launchers"
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


def delta(out, dout, delta):
    H, M, D = out.shape
    delta_kernel[(triton.cdiv(M, 64), H)](
        out, dout, delta, M, *out.stride()[:2], *dout.stride()[:2], delta.stride(0), D=D, BLOCK_M=64, num_warps=4
    )


LOG2_E = tl.constexpr(1.4426950408889634)


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


# %% [markdown]
# ## 1 delta
#
# The kernel computes a row's sum of out · dout, which both other kernels need. The gradients of a model in 16 bits are
# noisier than PyTorch's.


# %% cell="hunt" id="delta_kernel" exercise="18_hunt/delta"
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


# %%
lab.evidence("18_hunt/delta")

# %% [markdown]
# ## 2 dk and dv
#
# The kernel computes the gradients of keys and values. A check against PyTorch shows that one of the two is right.


# %% cell="hunt" id="dkdv_kernel" exercise="18_hunt/dkdv"
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


# %%
lab.evidence("18_hunt/dkdv")

# %% [markdown]
# ## 3 dq
#
# The kernel computes the gradient of the queries. Without `causal`, it is right.


# %% cell="hunt" id="dq_kernel" exercise="18_hunt/dq"
@triton.jit
def dq_kernel(
    q_desc, k_desc, v_desc, dout_desc, lse_ptr, delta_ptr, dq_desc, M, N, scale, stride_lh, stride_dh, GROUP,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, TAIL: tl.constexpr,
):  # fmt: skip
    """Compute dq = dS k / sqrt(D). Shapes are as in dkdv_kernel, and dq_desc has the shape of q_desc.

    One program computes dq for BLOCK_M queries of one head.
    """
    pid_m = tl.num_programs(0) - 1 - tl.program_id(0)
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


# %%
lab.evidence("18_hunt/dq")

# %% [markdown]
# ## 4 Name the bugs
#
# Fill in `bug`: for each hunt, the line of its kernel's cell where the bug is, and the cause. Lines count from 1 (View
# → Show Line Numbers). If several lines can be changed to fix the bug, any of them is right.
#
# The causes to choose from:
#
# - too few bits
# - wrong factor
# - wrong causal edge
# - wrong sign
# - missing rescale
# - missing mask
# - missing accumulation
# - wrong head
#
# <details><summary>Hint 1</summary><code>delta</code>: which element types fail? In which type is each
# product?</details>
# <details><summary>Hint 2</summary><code>dkdv</code>: divide your dk by the expected one. Does the quotient depend on
# the element?</details>
# <details><summary>Hint 3</summary><code>dq</code>: which rows of dq are wrong? Which key is special for each of
# them?</details>


# %% cell="solution" id="bug"
def bug(hunt):
    """Return the line and the cause of a hunt's bug, such as {"line": 12, "cause": "…"}.

    hunt  "delta" or "dkdv" or "dq"
    """
    ### BEGIN SOLUTION
    found = {
        "delta": {"line": 13, "cause": "too few bits"},
        "dkdv": {"line": 63, "cause": "wrong factor"},
        "dq": {"line": 34, "cause": "wrong causal edge"},
    }
    return found[hunt]
    ### END SOLUTION


# %% cell="check" exercise="18_hunt/bug"
lab.check("18_hunt/bug")

# %% [markdown]
# ## 5 Fix them
#
# Change the kernels in their cells above, run the cells, and check. A fix needs few characters or lines; the rest of
# the kernel is right.

# %% cell="check" exercise="18_hunt/delta"
lab.check("18_hunt/delta")

# %% cell="check" exercise="18_hunt/dkdv"
lab.check("18_hunt/dkdv")

# %% cell="check" exercise="18_hunt/dq"
lab.check("18_hunt/dq")

# %% [markdown]
# **Next.** `19_decode_attention` computes one token at a time, and `20_hunt` hides bugs in its kernels.
#
# **In practice** keep each bug that you fix as a test: the smallest case that showed it.
