# %% [markdown]
# # Bug hunt: a gradient, rows and a matmul
#
# **You will** find one bug in each of three kernels. First the kernels show only what they do: cases that fail, values,
# counts. You name line and cause, then you fix the kernel.
#
# **You will learn to**
# - look at the range of the inputs, not only at their number;
# - change one size at a time, and see when a bug appears;
# - tell a wrong guard from a wrong formula by where the wrong elements are.
#
# **You need** `06_elementwise_triton`, `07_elementwise_cuda` and `08_coalescing`. About 45 minutes. You need no GPU.
#
# Do not run the checks of the last section before you have named the bugs: they name causes, too.

# %% cell="setup"

# %% cell="given" id="launchers"
import math

import triton
import triton.language as tl

SQRT_2_OVER_PI = tl.constexpr(math.sqrt(2 / math.pi))
CUBIC = tl.constexpr(0.044715)


def gelu_backward(x, dy, dx, BLOCK=1024):
    n = x.numel()
    gelu_backward_kernel[(triton.cdiv(n, BLOCK),)](x, dy, dx, n, BLOCK=BLOCK)


def row_scale(x, scale, out):
    M, N = x.shape
    grid = ((N + 31) // 32, (M + 31) // 32)  # four rows per thread
    row_scale_kernel[grid, (32, 8)](x, scale, out, M, N)


def cdiv(n, block):
    return (n + block - 1) // block


def matmul(a, b, c):
    (M, K), N = a.shape, b.shape[1]
    matmul_kernel[(cdiv(N, 32), cdiv(M, 32)), (32, 32)](c, a, b, M, N, K)


# %% [markdown]
# ## 1 The gradient of GeLU
#
# Its author tested the kernel with a million normally distributed numbers. The first step of a training run that
# diverged gave NaN.


# %% cell="hunt" id="gelu_backward_kernel" exercise="09_hunt/gelu_backward"
@triton.jit
def gelu_backward_kernel(x_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    """Gradient of GeLU, tanh form.

    dx[i] = dy[i] * gelu'(x[i]), where gelu' is the derivative of gelu

    x_ptr, dy_ptr  (n,)  inputs
    dx_ptr         (n,)  output
    One program computes BLOCK elements, starting at pid * BLOCK.
    """
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    dy = tl.load(dy_ptr + offs, mask=mask).to(tl.float32)
    ### BEGIN SOLUTION
    a = SQRT_2_OVER_PI * (x + CUBIC * x * x * x)
    slope = SQRT_2_OVER_PI * (1 + 3 * CUBIC * x * x)
    # t = 2s - 1, so (1 + t) / 2 = s and (1 - t^2) / 2 = 2s(1 - s)
    s = 1 / (1 + tl.exp(-2 * a))
    dx = dy * (s + 2 * x * s * (1 - s) * slope)
    tl.store(dx_ptr + offs, dx, mask=mask)
    ### END SOLUTION


# %%
lab.evidence("09_hunt/gelu_backward")

# %% [markdown]
# ## 2 A factor for each row
#
# Each thread stays in one column and loops over rows. A matrix of 1024 × 1024 elements is right, and so is a matrix
# with one column of blocks. **Predict** in which direction a matrix must be longer for elements to be missing.

# %% cell="hunt" id="row_scale_kernel" exercise="09_hunt/row_scale"
# %%cuda
# // out[row][column] = scale[row] * x[row][column]. Each thread stays in one column and loops over rows.
# __global__ void row_scale_kernel(const float* __restrict__ x, const float* __restrict__ scale,
#                                  float* __restrict__ out, int M, int N) {
#     // ### BEGIN SOLUTION
#     int column = blockIdx.x * blockDim.x + threadIdx.x;
#     if (column >= N) return;
#     int rows = gridDim.y * blockDim.y;
#     for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < M; row += rows) {
#         out[row * N + column] = scale[row] * x[row * N + column];
#     }
#     // ### END SOLUTION
# }

# %%
import torch

lab.evidence("09_hunt/row_scale")
lab.access_map(row_scale, torch.ones(40, 70), torch.ones(40), torch.zeros(40, 70), title="40 × 70, in 3 × 2 blocks")

# %% [markdown]
# ## 3 A matmul with coalesced accesses
#
# Each thread computes one element of c. The kernel multiplies the matrices of one model without an error. With those of
# another model, a few elements are wrong, different ones each time. “Ended early” means that an access stopped the
# kernel: on a GPU it could go on, and read or change other memory.

# %% cell="hunt" id="matmul_kernel" exercise="09_hunt/repair_matmul"
# %%cuda
# __global__ void matmul_kernel(float* c, const float* a, const float* b, int M, int N, int K) {
#     // c[m][n] = sum over k of a[m][k] * b[k][n]; one thread computes one element of c.
#     // ### BEGIN SOLUTION
#     const int m = blockIdx.y * blockDim.y + threadIdx.y;
#     const int n = blockIdx.x * blockDim.x + threadIdx.x;
#     if (m < M && n < N) {
#     // ### END SOLUTION
#         float sum = 0.0f;
#         for (int k = 0; k < K; k++) {
#             const float left = a[m * K + k];
#             const float right = b[k * N + n];
#             sum += left * right;
#         }
#         c[m * N + n] = sum;
#     }
# }

# %%
lab.evidence("09_hunt/repair_matmul")

# %% [markdown]
# ## 4 Name the bugs
#
# Fill in `bug`: for each hunt, the line of its kernel's cell where the bug is, and the cause. Lines count from 1 (View
# → Show Line Numbers); in a CUDA C++ cell, `%%cuda` is line 1. If several lines can be changed to fix the bug, any of
# them is right.
#
# The causes to choose from:
#
# - overflow
# - missing guard
# - wrong axis of the grid
# - precision
# - uncoalesced access
# - off by one
# - wrong stride
# - missing factor
#
# <details><summary>Hint 1</summary><code>gelu_backward</code>: results are NaN only where x is large and positive.
# Follow such an x through each line.</details>
# <details><summary>Hint 2</summary><code>row_scale</code>: the access map shows which rows no block stores. How many
# rows further does a thread go in each iteration, and how many rows does the grid cover at a time?</details>
# <details><summary>Hint 3</summary><code>repair_matmul</code>: which values of m and n have the threads at the right
# edge? Which element of c do they store to?</details>


# %% cell="solution" id="bug"
def bug(hunt):
    """Return the line and the cause of a hunt's bug, such as {"line": 12, "cause": "…"}.

    hunt  "gelu_backward" or "row_scale" or "repair_matmul"
    """
    ### BEGIN SOLUTION
    found = {
        "gelu_backward": {"line": 19, "cause": "overflow"},
        "row_scale": {"line": 7, "cause": "wrong axis of the grid"},
        "repair_matmul": {"line": 6, "cause": "missing guard"},
    }
    return found[hunt]
    ### END SOLUTION


# %% cell="check" exercise="09_hunt/bug"
lab.check("09_hunt/bug")

# %% [markdown]
# ## 5 Fix them
#
# Change the kernels in their cells above, run the cells, and check. A fix needs few characters or lines; the rest of
# the kernel is right.

# %% cell="check" exercise="09_hunt/gelu_backward"
lab.check("09_hunt/gelu_backward")

# %% cell="check" exercise="09_hunt/row_scale"
lab.check("09_hunt/row_scale")

# %% cell="check" exercise="09_hunt/repair_matmul"
lab.check("09_hunt/repair_matmul")

# %% [markdown]
# **Next.** `09_shared_memory` explains barriers and bank conflicts, and `10_hunt` hides bugs in its kernels.
#
# **In practice** a test of a kernel has sizes that are not multiples of the block, that differ from each other, and
# values as large as the element type allows.
