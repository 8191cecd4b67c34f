# %% [markdown]
# # Three published kernels to debug
#
# **You will** find and fix the bugs of three [kernels](../glossary.md#kernel). All these bugs come from published
# teaching code.
#
# **You will learn to**
# - check a [grid-stride loop](../glossary.md#grid-stride-loop): does it visit each element exactly once?
# - guard every load of a [halo](../glossary.md#halo);
# - recognize a formula that overflows.
#
# **You need** `09_shared_memory`. About 45 minutes. You need no GPU.
#
# ## 1 A sum
#
# The kernel sums the n elements of x. The launcher sets `out` to 0 and launches at most 64
# [blocks](../glossary.md#block) of 256 [threads](../glossary.md#thread).
#
# ```cpp
# __global__ void sum_kernel(float* out, const float* x, int n) {
#     __shared__ float tile[256];
#     int t = threadIdx.x, i = blockIdx.x * 2 * blockDim.x + t;
#     float sum = 0.0f;
#     while (i < n) {
#         sum += x[i] + x[i + blockDim.x];  // line 6
#         i += 2 * blockDim.x;
#     }
#     tile[t] = sum;
#     __syncthreads();
#     for (int s = 16; s > 0; s /= 2) {
#         if (t < s) tile[t] += tile[t + s];
#         __syncthreads();
#     }
#     if (t == 0) atomicAdd(out, tile[0]);
# }
# ```
# > **Report:** block 0, thread 0 reads x[256], outside the array of 1 element (line 6).
#
# The report shows one of three bugs. The other two make the sum wrong. For n = 512 you see one of them: the result is
# about an eighth of the right sum. For n = 100 000 you also see the other: some elements are added several times.
#
# <details><summary>Hint 1</summary>Take n = 2048 and a grid of two blocks, and run the <code>while</code> loop of both
# blocks on paper. Which elements does each block add?</details>
# <details><summary>Hint 2</summary>In each iteration the whole grid adds <code>gridDim.x * 2 * blockDim.x</code>
# elements, so the next elements of a thread are this far away. In the last iteration of a thread, <code>x[i +
# blockDim.x]</code> may not exist.</details>
# <details><summary>Hint 3</summary>The loop over <code>s</code> adds up the 256 elements of the tile, so it must begin
# with <code>s = blockDim.x / 2</code>.</details>

# %% cell="setup"

# %% cell="given" id="launchers"
import triton
import triton.language as tl


def total(x, out):
    out.zero_()
    n = x.numel()
    sum_kernel[min(triton.cdiv(n, 512), 64), 256](out, x, n)


def window(x, out):
    n = x.numel()
    window_kernel[triton.cdiv(n, 256), 256](out, x, n)


def gelu(x, out, BLOCK=1024):
    n = x.numel()
    gelu_kernel[(triton.cdiv(n, BLOCK),)](x, out, n, BLOCK=BLOCK)


# %% cell="solution" id="sum_kernel"
# %%cuda
# // out[0] += x[0] + … + x[n - 1]
# __global__ void sum_kernel(float* out, const float* x, int n) {
#     __shared__ float tile[256];
#     int t = threadIdx.x, i = blockIdx.x * 2 * blockDim.x + t;
#     float sum = 0.0f;
#     // ### BEGIN SOLUTION
#     while (i < n) {
#         sum += x[i];
#         if (i + blockDim.x < n) sum += x[i + blockDim.x];
#         i += gridDim.x * 2 * blockDim.x;
#     }
#     tile[t] = sum;
#     __syncthreads();
#     for (int s = blockDim.x / 2; s > 0; s /= 2) {
#         if (t < s) tile[t] += tile[t + s];
#         __syncthreads();
#     }
#     // ### END SOLUTION
#     if (t == 0) atomicAdd(out, tile[0]);
# }

# %% cell="check" exercise="09_debugging/fix_sum"
lab.check("09_debugging/fix_sum")

# %% [markdown]
# ## 2 A window
#
# `out[i]` is the sum of the seven elements x[i − 3] to x[i + 3]. Elements that do not exist count as 0. A block
# computes 256 outputs. The block's tile in [shared memory](../glossary.md#shared-memory) holds the 256 inputs with the
# same indices, and three more on each side.
#
# ```cpp
# constexpr int R = 3;
# __global__ void window_kernel(float* out, const float* x, int n) {
#     __shared__ float tile[256 + 2 * R];
#     int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
#     tile[t + R] = x[i];
#     if (t < R) {
#         tile[t] = x[i - R];  // line 7
#         tile[t + blockDim.x + R] = x[i + blockDim.x];
#     }
#     __syncthreads();
#     float sum = 0.0f;
#     for (int k = 0; k <= 2 * R; k++) sum += tile[t + k];
#     out[i] = sum;
# }
# ```
# > **Report:** block 0, thread 0 reads x[-3], outside the array of 1 element (line 7).
#
# The kernel accesses x in three places, and `out` in one place. Each of these four accesses is out of bounds in some
# block, for some n. The kernel's test uses n = 2^20, and compares only the middle of `out` with the right result. Why
# does the kernel pass this test?
#
# <details><summary>Hint 1</summary>For each of the four accesses, find the smallest index in the first block and the
# largest index in the last block.</details>
# <details><summary>Hint 2</summary>Store 0 in the tile for an element that does not exist. Let all threads reach the
# barrier.</details>
# <details><summary>Hint 3</summary><code>x[i - R]</code> exists if i &gt;= R, and <code>x[i + blockDim.x]</code> if i +
# blockDim.x &lt; n. <code>x[i]</code> and <code>out[i]</code> exist if i &lt; n.</details>

# %% cell="solution" id="window_kernel"
# %%cuda
# constexpr int R = 3;
#
# // out[i] = x[i - R] + … + x[i + R], with 0 for elements that do not exist
# __global__ void window_kernel(float* out, const float* x, int n) {
#     __shared__ float tile[256 + 2 * R];
#     int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
#     // ### BEGIN SOLUTION
#     tile[t + R] = i < n ? x[i] : 0.0f;
#     if (t < R) {
#         tile[t] = i >= R ? x[i - R] : 0.0f;
#         tile[t + blockDim.x + R] = i + blockDim.x < n ? x[i + blockDim.x] : 0.0f;
#     }
#     __syncthreads();
#     float sum = 0.0f;
#     for (int k = 0; k <= 2 * R; k++) sum += tile[t + k];
#     if (i < n) out[i] = sum;
#     // ### END SOLUTION
# }

# %% cell="check" exercise="09_debugging/fix_window"
lab.check("09_debugging/fix_window")

# %% [markdown]
# ## 3 A formula
#
# The tanh form of [GeLU](../glossary.md#gelu) is 0.5 · x · (1 + tanh(u)) with u = 0.7978845608 · (x + 0.044715 · x³). A
# published kernel computes tanh(u) as (exp(2u) − 1) / (exp(2u) + 1). In exact arithmetic this formula is right. The
# kernel passes a test with normally distributed x from `torch.randn`, but in a neural network it returns
# [NaN](../glossary.md#nan).
#
# **Predict.** The largest [fp32](../glossary.md#fp32) number is about 3.4 · 10^38, near exp(88.7). For which u does the
# formula fail, and what does it return then? What does the formula return for very negative u?
#
# <details><summary>Hint 1</summary>inf / inf is NaN. 1 / inf is 0.</details>
# <details><summary>Hint 2</summary>Write the fraction as 1 minus a term that goes to 0 for large u.</details>
# <details><summary>Hint 3</summary>With e = exp(2u), (e − 1) / (e + 1) = 1 − 2 / (e + 1).</details>


# %% cell="solution" id="gelu_kernel"
@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Compute out = 0.5 x (1 + tanh(u)), u = 0.7978845608 (x + 0.044715 x^3), for BLOCK elements of x (n,)."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    e = tl.exp(2 * 0.7978845608 * (x + 0.044715 * x * x * x))
    ### BEGIN SOLUTION
    tanh = 1 - 2 / (e + 1)
    ### END SOLUTION
    tl.store(out_ptr + offs, 0.5 * x * (1 + tanh), mask=offs < n)


# %% cell="check" exercise="09_debugging/fix_gelu"
lab.check("09_debugging/fix_gelu")

# %%
lab.claims("09_debugging")  # a two-minute quiz: predict each number, then compare

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** A test with one convenient input passes although a kernel has a bug. For each of the three kernels, name
# one input that a test must contain, and the bug that shows with this input.
#
# ### BEGIN SOLUTION
# The sum: an n larger than one iteration of the grid covers shows the step without gridDim.x; an n that is not a
# multiple of 512 shows the reads past the end; random values in all elements of a block show the tree that starts
# at 16. The window: an n that is not a multiple of 256, and a comparison of the first and last elements, show the
# missing guards. GeLU: values of 10 or more show the overflow. Tests that use only one convenient size and normally
# distributed numbers miss all these bugs.
# ### END SOLUTION

# %% [markdown]
# **Next.** `10_hunt` hides bugs in kernels of this unit and of `09_shared_memory`, and `10_reduction` makes the sum
# fast. Or write a kernel of your own with one bug, and exchange it with a colleague.
#
# **In practice** `compute-sanitizer` finds out-of-bounds accesses and races on a GPU (`--tool memcheck`, `--tool
# racecheck`). `compute-sanitizer` does not notice if a kernel adds elements twice: for that, compare the result with a
# reference.
#
# **Reading.** [Compute Sanitizer](https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html): the tools,
# and what each one finds.
