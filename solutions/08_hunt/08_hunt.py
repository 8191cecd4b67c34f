# %% [markdown]
# # Bug hunt: elementwise kernels and a transpose
#
# **You will** find one bug in each of three kernels. First the kernels show only what they do: cases that fail, values,
# counts. You name line and cause, then you fix the kernel.
#
# **You will learn to**
# - compare the cases that fail with those that pass;
# - read a count that is too high as evidence;
# - ask which sizes hide a bug.
#
# **You need** `06_elementwise_triton`, `07_elementwise_cuda` and `08_coalescing`. About 45 minutes. You need no GPU.
#
# Do not run the checks of the last section before you have named the bugs: they name causes, too.

# %% cell="setup"

# %% cell="given" id="launchers"
import triton
import triton.language as tl


def bias_scale(x, bias, scale, out, BLOCK_N=1024):
    M, N = x.shape
    grid = (M * triton.cdiv(N, BLOCK_N),)
    bias_scale_kernel[grid](x, bias, scale, out, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N)


def gelu(x, out):
    n = x.numel()
    aligned = x.data_ptr() % 16 == 0 and out.data_ptr() % 16 == 0
    gelu_kernel[(n + 1023) // 1024, 256](x, out, n // 4 if aligned else 0, n)


def cdiv(n, block):
    return (n + block - 1) // block


def transpose(x, out):
    M, N = x.shape
    transpose_kernel[(cdiv(N, 32), cdiv(M, 32)), (32, 8)](out, x, M, N)


# %% [markdown]
# ## 1 Bias and scale
#
# The kernel adds a bias to each column of a matrix and scales the column. It ran for months behind a linear layer. Then
# somebody passed it a slice of a larger matrix.


# %% cell="hunt" id="bias_scale_kernel" exercise="08_hunt/bias_scale"
@triton.jit
def bias_scale_kernel(x_ptr, bias_ptr, scale_ptr, out_ptr, N, stride_xm, stride_om, BLOCK_N: tl.constexpr):
    """Add a bias to each column, then multiply the column by a scale.

    out[m, n] = (x[m, n] + bias[n]) * scale[n]

    x_ptr                (M, N)  input; row m starts at m * stride_xm
    bias_ptr, scale_ptr  (N,)    inputs
    out_ptr              (M, N)  output; row m starts at m * stride_om
    One program computes BLOCK_N columns of one row.
    """
    pid = tl.program_id(0)
    blocks = tl.cdiv(N, BLOCK_N)
    row = pid // blocks
    offs_n = pid % blocks * BLOCK_N + tl.arange(0, BLOCK_N)
    ### BEGIN SOLUTION
    mask_n = offs_n < N
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n).to(tl.float32)
    bias = tl.load(bias_ptr + offs_n, mask=mask_n).to(tl.float32)
    scale = tl.load(scale_ptr + offs_n, mask=mask_n).to(tl.float32)
    tl.store(out_ptr + row * stride_om + offs_n, (x + bias) * scale, mask=mask_n)
    ### END SOLUTION


# %%
import torch

lab.evidence("08_hunt/bias_scale")
device = "cuda" if lab.device.has_gpu() else "cpu"
x, vector, result = (torch.ones(*shape, device=device) for shape in ((4, 20), (12,), (4, 12)))
lab.access_map(bias_scale, x[:, :12], vector, vector, result, title="a slice of 12 of 20 columns")

# %% [markdown]
# ## 2 GeLU with 16-byte accesses
#
# Each thread processes groups of four elements, with 16-byte loads and stores. The results are right in all cases. But
# the kernel is not as fast as a copy, and a profiler reports more requests than expected.
#
# **Predict.** A warp's request for 16 bytes per lane has 512 bytes. How many bytes per request should this kernel have?

# %% cell="hunt" id="gelu_kernel" exercise="08_hunt/gelu"
# %%cuda
# __device__ float gelu_tanh(float x) {
#     // ### BEGIN SOLUTION
#     float a = 0.7978845608f * (x + 0.044715f * x * x * x);
#     return x / (1.0f + expf(-2.0f * a));
#     // ### END SOLUTION
# }
#
# // out[i] = gelu_tanh(x[i]) for i < n. The groups of four come first, then elements 4 * groups to n - 1.
# __global__ void gelu_kernel(const float* __restrict__ x, float* __restrict__ out, int groups, int n) {
#     const float4* x4 = reinterpret_cast<const float4*>(x);
#     float4* out4 = reinterpret_cast<float4*>(out);
#     int first = blockIdx.x * blockDim.x + threadIdx.x;
#     int threads = gridDim.x * blockDim.x;
#     // ### BEGIN SOLUTION
#     for (int g = first; g < groups; g += threads) {
#         float4 v = x4[g];
#         out4[g] = make_float4(gelu_tanh(v.x), gelu_tanh(v.y), gelu_tanh(v.z), gelu_tanh(v.w));
#     }
#     for (int i = 4 * groups + first; i < n; i += threads) {
#         out[i] = gelu_tanh(x[i]);
#     }
#     // ### END SOLUTION
# }

# %%
import torch

lab.evidence("08_hunt/gelu")
x = torch.randn(65536, device="cuda" if lab.device.has_gpu() else "cpu")
with lab.record():
    gelu(x, torch.empty_like(x))
lab.annotate(gelu_kernel)

# %% [markdown]
# ## 3 A transpose
#
# Each block transposes one tile of 32 × 32 elements. The kernel's author tested it with a matrix of 1024 × 1024
# elements, and compared all elements.

# %% cell="hunt" id="transpose_kernel" exercise="08_hunt/transpose"
# %%cuda
# constexpr int TILE = 32;  // side of a tile, and blockDim.x
# constexpr int ROWS = 8;   // blockDim.y; a thread moves one element in every 8th row of the tile
#
# __global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
#     // out[n][m] = x[m][n]; one block transposes one tile of TILE * TILE elements.
#     __shared__ float tile[TILE][TILE];
#     // ### BEGIN SOLUTION
#     const int first_m = blockIdx.y * TILE, first_n = blockIdx.x * TILE;
#     #pragma unroll
#     for (int k = 0; k < TILE; k += ROWS) {
#         const int y = threadIdx.y + k, m = first_m + y, n = first_n + threadIdx.x;
#         if (m < M && n < N) tile[y][threadIdx.x] = x[m * N + n];
#     }
#     __syncthreads();
#     #pragma unroll
#     for (int k = 0; k < TILE; k += ROWS) {
#         const int y = threadIdx.y + k, n = first_n + y, m = first_m + threadIdx.x;
#         if (n < N && m < M) out[n * M + m] = tile[threadIdx.x][y];
#     }
#     // ### END SOLUTION
# }

# %%
lab.evidence("08_hunt/transpose")

# %% [markdown]
# ## 4 Name the bugs
#
# Fill in `bug`: for each hunt, the line of its kernel's cell where the bug is, and the cause. Lines count from 1 (View
# → Show Line Numbers); in a CUDA C++ cell, `%%cuda` is line 1. If several lines can be changed to fix the bug, any of
# them is right.
#
# The causes to choose from:
#
# - wrong stride
# - repeated work
# - swapped sizes
# - missing barrier
# - overflow
# - missing mask
# - lanes far apart
# - too few bits
#
# <details><summary>Hint 1</summary><code>bias_scale</code>: compare the names of the cases that fail. In what do their
# inputs differ from the others?</details>
# <details><summary>Hint 2</summary><code>gelu</code>: every result is right. Count how many elements each of the two
# loops computes for n = 4096.</details>
# <details><summary>Hint 3</summary><code>transpose</code>: square matrices pass. In which lines does it matter whether
# M or N is larger?</details>


# %% cell="solution" id="bug"
def bug(hunt):
    """Return the line and the cause of a hunt's bug, such as {"line": 12, "cause": "…"}.

    hunt  "bias_scale" or "gelu" or "transpose"
    """
    ### BEGIN SOLUTION
    found = {
        "bias_scale": {"line": 17, "cause": "wrong stride"},
        "gelu": {"line": 17, "cause": "repeated work"},
        "transpose": {"line": 18, "cause": "swapped sizes"},
    }
    return found[hunt]
    ### END SOLUTION


# %% cell="check" exercise="08_hunt/bug"
lab.check("08_hunt/bug")

# %% [markdown]
# ## 5 Fix them
#
# Change the kernels in their cells above, run the cells, and check. A fix needs few characters or lines; the rest of
# the kernel is right.

# %% cell="check" exercise="08_hunt/bias_scale"
lab.check("08_hunt/bias_scale")

# %% cell="check" exercise="08_hunt/gelu"
lab.check("08_hunt/gelu")

# %% cell="check" exercise="08_hunt/transpose"
lab.check("08_hunt/transpose")

# %% [markdown]
# **Next.** `09_hunt` has three more bugs in kernels of these units. `09_shared_memory` explains barriers and bank
# conflicts.
#
# **In practice** a bug report has the smallest case that fails and the nearest case that passes. Bisect between the
# two: sizes, strides, element types, one at a time.
#
# **Reading.** [Compute Sanitizer](https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html): which of
# these bugs would it find?
