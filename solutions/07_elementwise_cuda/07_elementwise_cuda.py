# %% [markdown]
# # Write elementwise kernels in CUDA C++
#
# **You will** write three [kernels](../glossary.md#kernel). The first adds two vectors with a grid-stride loop, the
# second scales the rows of a matrix, and the third computes GeLU with 16-byte accesses.
#
# **You will learn to**
# - write a [grid-stride loop](../glossary.md#grid-stride-loop), and count the iterations that a
#   [thread](../glossary.md#thread) executes;
# - loop over the rows of a matrix with a two-dimensional [grid](../glossary.md#grid) that has fewer threads than the
#   matrix has elements;
# - load and store four floats at a time, for any number of elements, and write a `__device__` function;
# - read the [host](../glossary.md#host) code of a CUDA program, which manages memory, copies data and
#   [launches](../glossary.md#launch) kernels.
#
# **You need** `02_execution_model`, and GeLU from `06_elementwise_triton`. About 70 minutes. You need a GPU only to
# measure times.
#
# ## 1 The grid-stride loop
#
# In CUDA C++, a qualifier says where a function runs and what may call it:
#
# | qualifier | runs on | called from |
# |---|---|---|
# | `__global__ void` | the GPU, in every thread of the grid | the host, with a grid; such a function is a *kernel* |
# | `__device__` | the GPU, in the calling thread | kernels and other `__device__` functions |
# | `__host__ __device__` | host or GPU: the function is compiled for both | host code and kernels |
#
# In `02_execution_model` each thread computed one element, so the grid needed a thread for every element. In a
# grid-stride loop, a thread first computes the element at its own index in the grid. Then it adds the number of threads
# in the grid to this index, computes the element at the new index, and so on to the end of the array. The result is
# correct with a grid of any size, so you can choose the fastest size. A large grid hides
# [latency](../glossary.md#latency) better. In a small grid, each thread computes many elements, so it computes a value
# that all of them need, such as a factor, only once. In each iteration, neighboring threads access neighboring
# elements, as without a loop.
#
# **Predict.** A grid has `threads` threads, which execute a grid-stride loop over `n` elements. Write `passes`: how
# many iterations does the thread with index `thread` execute?

# %% cell="setup"


# %% cell="solution" id="passes"
def passes(n, threads, thread):
    """Count the indices below n among `thread`, `thread + threads`, `thread + 2 * threads`, …"""
    ### BEGIN SOLUTION
    if thread >= n:
        return 0
    return (n - thread - 1) // threads + 1
    ### END SOLUTION


# %% cell="check" exercise="07_elementwise_cuda/passes"
lab.check("07_elementwise_cuda/passes")

# %% [markdown]
# **Your kernel:** compute `out[i] = x[i] + y[i]` for all `i < n`, whatever the size of the grid. The
# [launcher](../glossary.md#launcher) `vector_add` in the cell below gives each thread about four elements. The cell
# also runs `sign_kernel`, which has no loop, with 2 [blocks](../glossary.md#block) of 4 threads: these threads write
# only 8 of the 20 elements.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x`, `y` | (n,) | inputs |
# | `out` | (n,) | output |
# | `n` | scalar | number of elements, at least 1 |
#
# `__restrict__` declares that the arrays do not overlap, so the compiler may move loads of the next iteration before
# the store of the current iteration. You get 2 points for a correct result, 1 point for storing each element only once,
# and 1 point for [coalesced](../glossary.md#coalesced-access) loads. A [warp](../glossary.md#warp) loads 32 floats at a
# time, which are 32 · 4 = 128 bytes. They fill 4 [sectors](../glossary.md#sector) of 32 bytes, so for this point a load
# may touch at most 4 sectors.
#
# <details><summary>Hint 1</summary>A loop needs three things: the first index of the thread, the step, and the
# condition that ends the loop.</details>
# <details><summary>Hint 2</summary>The first index is the <code>i</code> of <code>sign_kernel</code>. The guard of
# <code>sign_kernel</code> becomes the condition of the loop.</details>
# <details><summary>Hint 3</summary>The step is the number of threads in the grid, <code>gridDim.x * blockDim.x</code>.
# Four <em>adjacent</em> elements per thread would give the same result, but the accesses would not be
# coalesced.</details>

# %% cell="given" id="sign"
import torch

sign_kernel = lab.cuda.compile(
    """
__global__ void sign_kernel(float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = i;
}
""",
    "sign_kernel",
)
written = torch.full((20,), -1.0, device="cuda" if lab.device.has_gpu() else "cpu")
sign_kernel[2, 4](written, 20)
print(written.int().tolist())


def vector_add(x, y, out):
    n = x.numel()
    vector_add_kernel[(n + 1023) // 1024, 256](x, y, out, n)


# %% cell="solution" id="vector_add_kernel"
# %%cuda
# // out[i] = x[i] + y[i] for i < n. Each thread starts at its index and steps by the number of threads in the grid.
# __global__ void vector_add_kernel(const float* __restrict__ x, const float* __restrict__ y,
#                                   float* __restrict__ out, int n) {
#     // ### BEGIN SOLUTION
#     int threads = gridDim.x * blockDim.x;
#     for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads) {
#         out[i] = x[i] + y[i];
#     }
#     // ### END SOLUTION
# }


# %% cell="check" exercise="07_elementwise_cuda/vector_add"
lab.tiny("07_elementwise_cuda/vector_add")
lab.check("07_elementwise_cuda/vector_add")

# %% [markdown]
# Use this table when a check of this unit fails:
#
# | the check reports | common cause |
# |---|---|
# | `first-block-only`, `tail-not-written` | there is no loop, or its step is too large |
# | `not-written` | every block starts at the same element |
# | `timeout` | the loop counter does not change |
# | `misaligned` (part 3) | a `float4` is accessed at an element index that is not a multiple of four |
# | too many bytes stored | the step is the number of threads of one block, so several blocks store the same elements |
#
# ## 2 Rows and columns
#
# Compute `out[row, column] = scale[row] · x[row, column]` for a matrix of M rows and N columns, which is stored row by
# row. A block has 32 threads along x and 8 threads along y: `.x` variables give the column, `.y` variables give the
# row. The grid has threads for all columns, but only for a quarter of the rows. So each thread stays in its column and
# loops over rows.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x` | (M, N) | input |
# | `scale` | (M,) | input: one factor per row |
# | `out` | (M, N) | output |
#
# <details><summary>Hint 1</summary>You need one guard for the column and one loop over rows.</details>
# <details><summary>Hint 2</summary>Write the loop of part 1, but use <code>.y</code> instead of <code>.x</code>, and
# <code>M</code> instead of <code>n</code>.</details>
# <details><summary>Hint 3</summary>The step of the loop is the number of threads that the grid has along y. (Very tall
# matrices need the loop: a grid has at most {claim: grid_limit_y} blocks along y.)</details>


# %% cell="given" id="row_scale"
def row_scale(x, scale, out):
    M, N = x.shape
    grid = ((N + 31) // 32, (M + 31) // 32)  # four rows per thread
    row_scale_kernel[grid, (32, 8)](x, scale, out, M, N)


# %% cell="solution" id="row_scale_kernel"
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


# %% cell="check" exercise="07_elementwise_cuda/row_scale"
lab.tiny("07_elementwise_cuda/row_scale")
lab.check("07_elementwise_cuda/row_scale")

# %% [markdown]
# ## 3 GeLU, four floats at a time
#
# `float4` is a struct of four floats, `.x .y .z .w`. One instruction loads or stores a `float4`: 16 bytes per
# [lane](../glossary.md#lane), 512 bytes per warp. With such [vectorized accesses](../glossary.md#vectorized-access), a
# kernel needs a quarter of the load and store instructions for the same bytes, and has more bytes [in
# flight](../glossary.md#in-flight).
#
# The address of a `float4` must be a multiple of 16. An array that starts at another address, such as `x[1:]`, cannot
# be accessed as `float4`. If the number of elements is not a multiple of four, up to three elements are left over. The
# launcher passes `groups`, the number of complete groups of four elements, or 0 if the address of `x` or `out` is not a
# multiple of 16. The given lines of the kernel convert `x` and `out` to `float4` pointers. Compute elements 0 to
# `4·groups − 1` in groups of four, and the others one by one.
#
# GeLU is $y = \frac{x}{2}\,(1 + \tanh a)$ with $a = \sqrt{2/\pi}\,(x + 0.044715\,x^3)$. Write this formula as the
# `__device__` function `gelu_tanh`: the kernel calls it in five places (four for a group, one for an element that is
# left over).
#
# You get 2 points for a correct result. A [request](../glossary.md#request) is one load or store instruction that a
# warp executes; with `float4`, a request moves 512 bytes. You get 1 point if loads move at least 500 bytes per request
# on average, and 1 point if stores do.
#
# <details><summary>Hint 1</summary>As in <code>06_elementwise_triton</code>, y = x / (1 + exp(−2a)). Write
# <code>expf</code> and <code>0.044715f</code>: a constant without the f makes C++ compute in double precision, which is
# slower.</details>
# <details><summary>Hint 2</summary>Write two grid-stride loops. The first goes over the groups, with <code>x4</code>
# and <code>out4</code>. The second goes over the elements from <code>4 * groups</code> to <code>n - 1</code>.</details>
# <details><summary>Hint 3</summary><code>float4 v = x4[g];</code> loads a group; <code>make_float4(a, b, c, d)</code>
# creates a group, which you store.</details>


# %% cell="given" id="gelu"
def gelu(x, out):
    n = x.numel()
    aligned = x.data_ptr() % 16 == 0 and out.data_ptr() % 16 == 0
    gelu_kernel[(n + 1023) // 1024, 256](x, out, n // 4 if aligned else 0, n)


lab.coalescing(lambda lane: 16 * lane, width=16, title="float4: lane k loads 16 bytes at byte 16·k")

# %% cell="solution" id="gelu_kernel"
# %%cuda
# __device__ float gelu_tanh(float x) {
#     // ### BEGIN SOLUTION
#     float a = 0.7978845608f * (x + 0.044715f * x * x * x);
#     return x / (1.0f + expf(-2.0f * a));  // where expf overflows, the quotient is 0, never NaN
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


# %% cell="check" exercise="07_elementwise_cuda/gelu"
lab.tiny("07_elementwise_cuda/gelu")
lab.check("07_elementwise_cuda/gelu")

# %%
lab.claims("07_elementwise_cuda")  # a two-minute quiz: predict each number, then compare
# Predict first: which of your kernels comes closest to a copy's bandwidth? Is gelu (float4) closer than vector_add?
# The annotated source shows the counts for 1027 elements: find the groups of four and the last three elements.
with lab.record():
    gelu(torch.ones(1027, device=written.device), torch.empty(1027, device=written.device))
lab.annotate(gelu_kernel)
for name in ("vector_add", "row_scale", "gelu"):
    print(lab.benchmark(f"07_elementwise_cuda/{name}") or "")

# %% [markdown]
# ## 4 Host code
#
# Your cells hold only [device code](../glossary.md#device-code), which the [NVRTC](../glossary.md#nvrtc) library
# compiles for your GPU while Python runs. Outside a notebook, the compiler `nvcc` compiles whole programs. `nvcc`
# passes host code to a C++ compiler, and compiles device code for every GPU type that you list in its options. Each
# `<<<blocks, threads per block, bytes of shared memory, stream>>>` becomes a call that launches the kernel. This is the
# host code of such a program:
#
# ```cpp
# int main() {
#     const int n = 1 << 24, bytes = n * sizeof(float);
#     float *x, *out, *d_x, *d_out;
#     cudaMallocHost(&x, bytes);      // pinned host memory: asynchronous copies require it
#     cudaMallocHost(&out, bytes);
#     for (int i = 0; i < n; i++) x[i] = 0.001f * (i % 1000);
#     cudaMalloc(&d_x, bytes);        // GPU memory
#     cudaMalloc(&d_out, bytes);
#     cudaStream_t stream;
#     cudaStreamCreate(&stream);
#     cudaMemcpyAsync(d_x, x, bytes, cudaMemcpyHostToDevice, stream);
#     gelu_kernel<<<(n + 1023) / 1024, 256, 0, stream>>>(d_x, d_out, n / 4, n);
#     cudaMemcpyAsync(out, d_out, bytes, cudaMemcpyDeviceToHost, stream);
#     cudaError_t error = cudaStreamSynchronize(stream);  // the host waits here, and errors are reported here
#     printf("%s, %f\n", cudaGetErrorString(error), out[n - 1]);
#     cudaFree(d_x); cudaFree(d_out); cudaFreeHost(x); cudaFreeHost(out); cudaStreamDestroy(stream);
# }
# ```
#
# The operating system does not move [pinned memory](../glossary.md#pinned-memory), so the GPU can copy it while the CPU
# does other work. A [stream](../glossary.md#stream) is a queue. Work in one stream runs in order; work in two streams
# may overlap. If you split the work into pieces and alternate between two streams, one piece is copied while the kernel
# processes another. Launches and asynchronous copies return at once, so an error in a running kernel is reported by a
# later call, at the latest where the host waits. `21_launch_overhead` measures launches, streams and copies.

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** The program above copies 64 MiB to the GPU and 64 MiB back, over [PCIe](../glossary.md#pcie) at about
# {claim: pcie_copy} in each direction. Its kernel reads 64 MiB and writes 64 MiB of GPU memory, at about
# {claim: h200_copy} on an [H200](../glossary.md#hopper). Roughly what share of the total time does the kernel take? How
# much time would you save by splitting the work into pieces in two streams? And how much by making the kernel twice as
# fast?
#
# ### BEGIN SOLUTION
# The copies take 134 MB / {claim: pcie_copy}, about 2.7 ms. The kernel takes 134 MB / {claim: h200_copy}, about 0.03
# ms, which is about 1 % of the time. With pieces in two streams, copying in, computing and copying back overlap,
# because the link carries both directions at once. The program then takes about 1.4 ms, half as long. A kernel twice as
# fast gains half a percent. Data should stay on the GPU between kernels.
# ### END SOLUTION

# %% [markdown]
# **Next levels.** Write `vector_add` with `float4`, and GeLU without it. Which of the two does `float4` help more?
# Replace `expf` by the faster, less precise `__expf`, and use `lab.check` to see whether the error is still within
# tolerance.
#
# **In practice** PyTorch's own elementwise kernels come from one [template](../glossary.md#template), which takes the
# formula as a parameter, computes several elements per thread, and uses vectorized loads if the arrays are aligned.
#
# **Reading.** [CUDA Pro Tip: Grid-Stride
# Loops](https://developer.nvidia.com/blog/cuda-pro-tip-write-flexible-kernels-grid-stride-loops/) and [Vectorized
# Memory Access](https://developer.nvidia.com/blog/cuda-pro-tip-increase-performance-with-vectorized-memory-access/).
