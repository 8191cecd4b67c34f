# %% [markdown]
# # Predict a kernel's time from bytes and FLOPs
#
# **You will** list the bytes that [kernels](../glossary.md#kernel) move and the [FLOPs](../glossary.md#flop) that they
# do. Then you will predict the least time of a kernel, and determine what limits measured kernels.
#
# **You will learn to**
# - write a [ledger](../glossary.md#ledger): a list of the bytes and FLOPs of a kernel;
# - compute the [arithmetic intensity](../glossary.md#arithmetic-intensity) of a kernel, and find the size at which a
#   [matmul](../glossary.md#matmul) becomes [compute-bound](../glossary.md#compute-bound);
# - place kernels on a [roofline](../glossary.md#roofline), and recognize a kernel that is limited by neither memory nor
#   compute;
# - check three claims that popular teaching material repeats.
#
# **You need** `00_start`, `04_benchmarking`. About 60 minutes. Works without a GPU: the notebook contains measurements
# of an [H200](../glossary.md#hopper).
#
# ## 1 Memory time and compute time
#
# A kernel must move its bytes and do its FLOPs. Memory moves at most `bandwidth` bytes/s, and the arithmetic units do
# at most `peak` FLOP/s. With enough [warps](../glossary.md#warp), memory and arithmetic units work at the same time.
#
# **Predict.** Write `least_time`: what is the least time that a kernel can take?

# %% cell="setup"


# %% cell="solution" id="least_time"
def least_time(bytes_moved, flops, bandwidth, peak):
    """Return the least time of a kernel in seconds, at `bandwidth` bytes/s and `peak` FLOP/s."""
    ### BEGIN SOLUTION
    return max(bytes_moved / bandwidth, flops / peak)
    ### END SOLUTION


# %% cell="check" exercise="05_roofline/least_time"
lab.check("05_roofline/least_time")

# %% [markdown]
# Moving the bytes and doing the FLOPs take equally long if `flops / bytes = peak / bandwidth`. The left side is the
# arithmetic intensity, a property of the kernel. The right side is the [ridge point](../glossary.md#ridge-point), a
# property of the GPU (for one number format). A kernel is [memory-bound](../glossary.md#memory-bound) if its intensity
# is below the ridge, and compute-bound if it is above the ridge. A *roofline* shows the highest possible FLOP/s for
# each intensity: the line rises up to the ridge, and is flat above the ridge.
#
# ## 2 Ledgers
#
# `Ledger(reads, writes, flops)` describes a kernel: `reads` and `writes` are dictionaries that map the name of an array
# to its size in bytes. The sum of two ledgers describes two kernels that run one after the other. `fuse` describes one
# [fused](../glossary.md#fusion) kernel that does the work of two kernels. If the first kernel writes an array that the
# second kernel reads, this array stays on the chip: the fused kernel does not read it from memory, and writes it only
# if the argument `keep` names it. If both kernels read an array, the fused kernel reads it once. The cell below gives
# an example.
#
# Write the ledgers of four fused kernels. Each kernel reads each input element once and writes each result once.
# `itemsize` is the number of bytes per element. Count each +, −, ·, /, max and exp as one FLOP. Σ and max are computed
# over a row: a row of N elements takes N additions or N comparisons. Do not count operations that a kernel does once
# per row, such as those that compute `rstd` from the sum. (`rstd` is the reciprocal of the standard deviation, or of
# the root mean square.)
#
# | kernel | formula for each of M rows of N elements | arrays |
# |---|---|---|
# | [softmax](../glossary.md#softmax) | m = max x; e = exp(x − m); y = e / Σe | x, y: M × N |
# | [LayerNorm](../glossary.md#layernorm) | c = x − Σx/N; rstd from Σc²; y = c · rstd · w + b | x, y: M × N; w, b: N |
# | matmul | C = A·B | A: M × K, B: K × N, C: M × N |
# | RMSNorm + residual | s = x + r; rstd from Σs²; y = s · rstd · w | x, r, s, y: M × N; w: N |
#
# The last kernel is [RMSNorm](../glossary.md#rmsnorm) with a [residual](../glossary.md#residual) `r`. Here `s` is also
# a result, because the next layer reads `s`.
#
# <details><summary>Hint 1</summary>List the arrays first. Is each array read, written, or only an intermediate
# result?</details>
# <details><summary>Hint 2</summary>For the FLOPs, go through the formula and count the operations on one element. A sum
# over a row takes one addition per element.</details>
# <details><summary>Hint 3</summary>Softmax does five FLOPs per element: max, −, exp, + and /. In the matmul, each
# element of C is a sum of K products: 2K FLOPs.</details>

# %% cell="given" id="example"
from labutils import Ledger, Roof, fuse


def scale_and_shift(n, itemsize):
    x = n * itemsize
    scale = Ledger({"x": x, "s": x}, {"t": x}, flops=n, name="scale")
    shift = Ledger({"t": x, "b": x}, {"y": x}, flops=n, name="shift")
    return scale, shift


parts = scale_and_shift(2**27, 4)
h200 = Roof.of(lab.device.find("H200"), "fp32")
for work in (*parts, sum(parts), fuse(*parts)):
    print(work, "→", h200.predict(work))


# %% cell="solution" id="ledgers"
def softmax_ledger(M, N, itemsize):
    """Return the ledger of a fused softmax over rows."""
    ### BEGIN SOLUTION
    x = M * N * itemsize
    return Ledger({"x": x}, {"y": x}, flops=5 * M * N, name="softmax")
    ### END SOLUTION


def layer_norm_ledger(M, N, itemsize):
    """Return the ledger of LayerNorm with weight and bias."""
    ### BEGIN SOLUTION
    x, row = M * N * itemsize, N * itemsize
    return Ledger({"x": x, "w": row, "b": row}, {"y": x}, flops=7 * M * N, name="LayerNorm")
    ### END SOLUTION


def matmul_ledger(M, N, K, itemsize):
    """Return the ledger of C = A B. The kernel moves each matrix once."""
    ### BEGIN SOLUTION
    reads = {"a": M * K * itemsize, "b": K * N * itemsize}
    return Ledger(reads, {"c": M * N * itemsize}, flops=2 * M * N * K, name="matmul")
    ### END SOLUTION


def rms_norm_residual_ledger(M, N, itemsize):
    """Return the ledger of one kernel that computes s = x + r and y = RMSNorm(s). You may use fuse."""
    ### BEGIN SOLUTION
    x, row = M * N * itemsize, N * itemsize
    add = Ledger({"x": x, "r": x}, {"s": x}, flops=M * N)
    norm = Ledger({"s": x, "w": row}, {"y": x}, flops=4 * M * N)
    return fuse(add, norm, keep=["s"], name="RMSNorm + residual")
    ### END SOLUTION


def ledger(kernel, M, N, K, itemsize):
    """Return your ledger of the named kernel, for the check. Only the matmul uses K."""
    if kernel == "matmul":
        return matmul_ledger(M, N, K, itemsize)
    rows = {"softmax": softmax_ledger, "LayerNorm": layer_norm_ledger, "RMSNorm + residual": rms_norm_residual_ledger}
    return rows[kernel](M, N, itemsize)


# %% cell="check" exercise="05_roofline/ledgers"
lab.check("05_roofline/ledgers")

# %% [markdown]
# ## 3 Which limit applies?
#
# In a square matmul, M = N = K. Write `crossover`: at which M does the matmul change from memory-bound to
# compute-bound?
#
# Then write `verdict`: what limits a *measured* kernel that does `work` (a ledger) in `seconds`? `roof` holds the
# bandwidth and the peak of a GPU, which determine the kernel's least time. If the kernel took at most twice its least
# time, return what determines the least time: `"memory"` or `"compute"`. Otherwise return `"neither"`: the kernel is
# slow for a reason that the roofline does not show, such as its [launch](../glossary.md#launch), too few warps, or
# scattered addresses.
#
# <details><summary>Hint for crossover</summary>Set the intensity of your matmul ledger equal to the ridge, and solve
# for M.</details>
# <details><summary>Hint for verdict</summary><code>roof.predict(work)</code> returns an object: <code>.seconds</code>
# is the least time, and <code>.bound</code> is what determines it.</details>


# %% cell="solution" id="bounds"
def crossover(itemsize, peak, bandwidth):
    """Return the M of the square matmul whose intensity equals the ridge."""
    ### BEGIN SOLUTION
    # 2 M^3 / (3 M^2 itemsize) = peak / bandwidth
    return 1.5 * itemsize * peak / bandwidth
    ### END SOLUTION


def verdict(work, seconds, roof):
    """Return what limits a measured kernel: "memory", "compute" or "neither"."""
    ### BEGIN SOLUTION
    least = roof.predict(work)
    return least.bound if least.seconds >= seconds / 2 else "neither"
    ### END SOLUTION


# %% cell="check" exercise="05_roofline/crossover"
lab.check("05_roofline/crossover")

# %% cell="check" exercise="05_roofline/verdict"
lab.check("05_roofline/verdict")

# %% [markdown]
# ## 4 Your own kernel on the roofline
#
# Write a Triton kernel whose intensity you can choose. For each element, the kernel loads a value `v`, replaces it
# `STEPS` times by `0.5 * v + 1`, and stores `v`. Each replacement is one [FMA](../glossary.md#fma), which counts as two
# FLOPs. So per element the kernel reads 4 bytes, writes 4 bytes and does 2 · `STEPS` FLOPs.
#
# After the check, the next cell runs your kernel with `STEPS` from 1 to 1024. It draws its measured FLOP/s on the
# roofline, together with PyTorch's kernels. A GPU has one peak, and one ridge point, for each number format: your
# kernel computes in fp32, PyTorch's matmuls in fp16. The printed verdicts use the peak of each kernel's format. Without
# a GPU your kernel is not timed: hollow marks on the roofline show the highest FLOP/s that it can reach. **Predict:**
# for which values of `STEPS` is your kernel compute-bound? Which of PyTorch's kernels (softmax and matmul, several
# sizes) reach the roofline?
#
# <details><summary>Hint 1</summary>Offsets, mask, load and store are the same as in <code>scale_kernel</code> in
# <code>00_start</code>.</details>
# <details><summary>Hint 2</summary><code>for _ in range(STEPS):</code> works inside a kernel. Load before the loop, and
# store after the loop.</details>


# %% cell="solution" id="fma_chain_kernel"
import triton
import triton.language as tl


@triton.jit
def fma_chain_kernel(x_ptr, out_ptr, n, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """Replace each v by 0.5 * v + 1, STEPS times.

    x_ptr    (n,)  input: v at first
    out_ptr  (n,)  output: v at last
    One program computes BLOCK elements, starting at pid * BLOCK.
    """
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    ### BEGIN SOLUTION
    v = tl.load(x_ptr + offs, mask=mask)
    for _ in range(STEPS):
        v = 0.5 * v + 1
    tl.store(out_ptr + offs, v, mask=mask)
    ### END SOLUTION


def fma_chain(x, steps, out, BLOCK=1024):
    n = x.numel()
    fma_chain_kernel[(triton.cdiv(n, BLOCK),)](x, out, n, STEPS=steps, BLOCK=BLOCK)


# %% cell="check" exercise="05_roofline/own_kernel"
lab.tiny("05_roofline/own_kernel")
lab.check("05_roofline/own_kernel")

# %%
lab.claims("05_roofline")  # a two-minute quiz: predict each number, then compare
placed = lab.rooflines.library_kernels(softmax_ledger, matmul_ledger) | lab.rooflines.own_kernel(fma_chain)
lab.rooflines.verdicts(placed, verdict)
lab.rooflines.claims(softmax_ledger, layer_norm_ledger, matmul_ledger)
lab.widgets.roofline(lab.rooflines.points(placed), gpu=None if lab.device.has_gpu() else "H200")

# %% [markdown]
# | what you see in the picture | common cause |
# |---|---|
# | a point above the roofline | you counted bytes that came from the L2, or FLOPs that the kernel did not do |
# | a memory-bound kernel below the line | scattered accesses, or too few bytes [in flight](../glossary.md#in-flight) |
# | a compute-bound kernel below the line | it [spills](../glossary.md#spill), or does not use tensor cores |
# | a short kernel far below the roofline | the launch takes most of the time: do more work per launch |
#
# ## 5 Three claims
#
# Popular teaching material repeats these claims:
#
# - The ridge point of an [A100](../glossary.md#gpu-generation) is about {claim: claimed_ridge} FLOPs per byte.
# - The intensity of a square matmul is about M FLOPs per byte.
# - In a [transformer](../glossary.md#transformer-block), normalizations and elementwise operations did only
#   {claim: claimed_flops} of the FLOPs, but took {claim: claimed_time} of the time.
#
# The code cell above prints each claim next to computed values. For the third claim, the values describe the [forward
# pass](../glossary.md#forward-pass) of one of the 24 equal blocks of BERT-large, a
# [transformer](../glossary.md#transformer-block), in [fp16](../glossary.md#fp16). Each operation is a kernel, and the
# input is 8 texts of 512 tokens (pieces of words).

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** What is correct in each claim, and what is missing? For the third claim, why do few FLOPs take a large
# share of the time? Do faster tensor cores make this share larger or smaller?
#
# ### BEGIN SOLUTION
# A ridge of 10 is right for fp32 on CUDA cores: it is {claim: a100_40_ridge} for the A100 with 40 GB and
# {claim: a100_80_ridge} for the A100 with 80 GB. With tensor cores the ridge is 100 to 200. The intensity of a matmul
# grows with M, but it is M/3 in fp16 when each matrix moves once. For the third claim, the study quoted is Ivanov and
# others, 2021, Table 1, which measured BERT on a V100. It found {claim: norm_flops} of the FLOPs in normalizations and
# {claim: elementwise_flops} in elementwise operations. Together these 0.20 % took {claim: claimed_time} of the time, so
# the claimed {claim: claimed_flops} is too low by a factor of ten. Your ledgers give the same order of magnitude: these
# operations do about one FLOP per byte, a hundred times or more below the ridge, so their bytes determine their time.
# Tensor cores have grown faster than bandwidth. That raises the ridge and makes the share larger; fusion makes the
# share smaller.
# ### END SOLUTION

# %% [markdown]
# **Next levels.** Add a second rising line to the roofline, for kernels whose data stay in the L2.
#
# **In practice** [Nsight Compute](../glossary.md#nsight-compute) draws rooflines from the bytes that the hardware
# counts. If the hardware counts more bytes than your ledger, the kernel moves data more than once, or parts of sectors
# that it does not use, or spilled registers.
#
# **Reading.** [Williams, Waterman and Patterson, Roofline](https://dl.acm.org/doi/10.1145/1498765.1498785): the
# original paper. [Ivanov et al., Data Movement Is All You Need](https://arxiv.org/abs/2007.00072): the study behind the
# third claim.
