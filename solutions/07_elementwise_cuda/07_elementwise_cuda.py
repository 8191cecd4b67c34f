# %% [markdown]
# # Write elementwise kernels in CUDA C++
#
# **You will** write three kernels: add two vectors in a loop, scale the rows of a matrix, and GeLU with 16-byte
# accesses.
#
# **You will learn to**
# - write a grid-stride loop, and say how often each thread goes round;
# - walk over rows and columns with a two-dimensional grid that need not cover the matrix;
# - load and store four floats at a time, with a `__device__` function and a ragged tail;
# - read the host side of a CUDA program: allocate, copy, launch, copy back, free; streams.
#
# **You need** `02_execution_model`, and GeLU from `06_elementwise_triton`. About 70 minutes. Works without a GPU; only
# times need one.

# %% cell="setup"

# %% [markdown]
# ## 1 Go round: the grid-stride loop
#
# | written before a function | runs on | called from |
# |---|---|---|
# | `__global__ void` | GPU, by every thread of the grid | the host, with a grid; it is a *kernel* |
# | `__device__` | GPU, by the thread that calls it | kernels and other `__device__` functions |
# | `__host__ __device__` | either, compiled twice | both sides, such as a formula for sizes |
#
# So far each thread had one element, and the grid had to cover them all. In a *grid-stride loop* a thread does its
# element, then the one that lies a whole grid further, and so on to the end. Now any grid is right, and you choose its
# size for speed: enough threads to hide latency, few enough that each does several elements and what they share (an
# index, a factor) is worked out once. In each pass neighbours still touch neighbours.
#
# **Predict.** `threads` threads go over `n` elements like this. How often does number `thread` go round?


# %% cell="solution" id="passes"
def passes(n, threads, thread):
    """Elements thread, thread + threads, thread + 2 * threads, … below n: how many are these?"""
    ### BEGIN SOLUTION
    if thread >= n:
        return 0
    return (n - thread - 1) // threads + 1
    ### END SOLUTION


# %% cell="check" exercise="07_elementwise_cuda/passes"
lab.check("07_elementwise_cuda/passes")

# %% cell="given" id="sign"
import torch

# A neighbour of your kernel that does not go round: 2 blocks of 4 threads sign 20 elements.
sign_kernel = lab.cuda.compile(
    """
__global__ void sign_kernel(float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = i;
}
""",
    "sign_kernel",
)
signed = torch.full((20,), -1.0, device="cuda" if lab.device.has_gpu() else "cpu")
sign_kernel[2, 4](signed, 20)
print(signed.int().tolist())

# %% [markdown]
# Your kernel: `out[i] = x[i] + y[i]` for all `i < n`, on any grid. The launcher below has about four elements for each
# thread.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x`, `y` | (n,) | inputs |
# | `out` | (n,) | output |
# | `n` | number | elements, any number from 1 on |
#
# `__restrict__` promises that the arrays do not overlap: then the compiler may load for the next pass before it has
# stored for this one. Points: 2 for a right result, 1 for coalescing (at most 4 sectors in a load request), 1 for
# storing each element once.
#
# <details><summary>Hint 1</summary>Three things make the loop: where a thread starts, how far it steps, when it
# ends.</details>
# <details><summary>Hint 2</summary>It starts where <code>sign_kernel</code> has its <code>i</code>; the end of the loop
# is the guard.</details>
# <details><summary>Hint 3</summary>The step is the number of threads in the grid,
# <code>gridDim.x * blockDim.x</code>. Four elements that lie side by side for each thread would be right too, but not
# coalesced.</details>

# %% cell="solution" id="vector_add_kernel"
# %%cuda
# // out[i] = x[i] + y[i] for i < n. A thread takes every (number of threads)-th element.
# __global__ void vector_add_kernel(const float* __restrict__ x, const float* __restrict__ y,
#                                   float* __restrict__ out, int n) {
#     // ### BEGIN SOLUTION
#     int threads = gridDim.x * blockDim.x;
#     for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads) {
#         out[i] = x[i] + y[i];
#     }
#     // ### END SOLUTION
# }


# %% cell="given" id="vector_add"
def vector_add(x, y, out):
    n = x.numel()
    vector_add_kernel[(n + 1023) // 1024, 256](x, y, out, n)


lab.tiny("07_elementwise_cuda/vector_add")

# %% cell="check" exercise="07_elementwise_cuda/vector_add"
lab.check("07_elementwise_cuda/vector_add")

# %% [markdown]
# | what a check says | a common cause |
# |---|---|
# | `first-block-only`, `tail-not-written`, `not-written` | no loop, or a step that is too long |
# | `missing-syncthreads`, `race` | two threads store the same element: where does each start? |
# | `timeout` | the counter does not move |
# | `misaligned` | a `float4` at an element that is no multiple of four |
# | points missing for bytes stored | the step is a block, not the grid: blocks do each other's elements again |
#
# ## 2 Rows and columns
#
# `out[row, column] = scale[row] · x[row, column]`, M rows of N columns, row after row in memory. Blocks are 32 threads
# wide (columns) and 8 high (rows). The grid covers all columns, but has threads for a quarter of the rows only: a
# thread keeps its column and goes round over the rows.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x`, `out` | (M, N) | input, output |
# | `scale` | (M,) | one factor for each row |
#
# <details><summary>Hint 1</summary>One guard for the column, one loop for the row.</details>
# <details><summary>Hint 2</summary>The loop is that of part 1, with <code>.y</code> for <code>.x</code> and
# <code>M</code> for <code>n</code>.</details>
# <details><summary>Hint 3</summary>The row's step is the number of threads that the grid has along y. (A grid may have
# at most 65 535 blocks along y: another reason to go round.)</details>

# %% cell="solution" id="row_scale_kernel"
# %%cuda
# // out[row][column] = scale[row] * x[row][column]. A thread has one column, and steps through the rows.
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


# %% cell="given" id="row_scale"
def row_scale(x, scale, out):
    M, N = x.shape
    grid = ((N + 31) // 32, (M + 31) // 32)  # four rows for each thread
    row_scale_kernel[grid, (32, 8)](x, scale, out, M, N)


lab.tiny("07_elementwise_cuda/row_scale")

# %% cell="check" exercise="07_elementwise_cuda/row_scale"
lab.check("07_elementwise_cuda/row_scale")

# %% [markdown]
# ## 3 GeLU, four floats at a time
#
# `float4` is a struct of four floats, `.x .y .z .w`, which one instruction loads or stores: 16 bytes for each lane, 512
# for the warp. A quarter of the instructions asks for the same bytes, and more of them are under way at a time.
#
# The address must be a multiple of 16. An array that starts elsewhere (`x[1:]`) has no such groups, and a length that
# is no multiple of four leaves up to three elements over. So the launcher says how many `groups` of four there are,
# none where `x` or `out` is not aligned. The kernel does elements 0 to 4·groups − 1 in groups, the rest one by one.
#
# $y = \frac{x}{2}\,(1 + \tanh a)$ with $a = \sqrt{2/\pi}\,(x + 0.044715\,x^3)$. The formula is a `__device__` function:
# it is needed five times, and the compiler puts it in place of each call.
#
# Points: 2 for a right result, 1 each for loads and stores of at least 500 bytes in a request.
#
# <details><summary>Hint 1</summary>As in unit 06, y = x / (1 + exp(−2a)). Write <code>expf</code> and
# <code>0.5f</code>: without the f, C++ computes in double, many times slower.</details>
# <details><summary>Hint 2</summary>Two grid-stride loops: one counts groups through <code>x4</code> and
# <code>out4</code>, one counts the elements from <code>4 * groups</code> on.</details>
# <details><summary>Hint 3</summary><code>float4 v = x4[g];</code> loads a group;
# <code>make_float4(a, b, c, d)</code> makes one to store.</details>

# %% cell="given"
lab.coalescing(lambda lane: 16 * lane, width=16, title="float4: lane k loads 16 bytes at byte 16·k")

# %% cell="solution" id="gelu_kernel"
# %%cuda
# __device__ float gelu_tanh(float x) {
#     // ### BEGIN SOLUTION
#     float a = 0.7978845608f * (x + 0.044715f * x * x * x);
#     return x / (1.0f + expf(-2.0f * a));  // where expf overflows the quotient is 0, never NaN
#     // ### END SOLUTION
# }
#
# // out[i] = gelu_tanh(x[i]) for i < n: groups of four first, then the elements from 4 * groups on.
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


# %% cell="given" id="gelu"
def gelu(x, out):
    n = x.numel()
    aligned = x.data_ptr() % 16 == 0 and out.data_ptr() % 16 == 0
    gelu_kernel[(n + 1023) // 1024, 256](x, out, n // 4 if aligned else 0, n)


lab.tiny("07_elementwise_cuda/gelu")

# %% cell="check" exercise="07_elementwise_cuda/gelu"
lab.check("07_elementwise_cuda/gelu")

# %% [markdown]
# ## 4 Predict, then measure
#
# Which of your kernels will come closest to the copy's bandwidth, and by how much does `float4` help? The annotated
# kernel ran over 1027 elements: find the groups and the tail.

# %%
with lab.record():
    gelu(torch.ones(1027, device=signed.device), torch.empty(1027, device=signed.device))
lab.annotate(gelu_kernel)
for name in ("vector_add", "row_scale", "gelu"):
    print(lab.benchmark(f"07_elementwise_cuda/{name}") or "")

# %% [markdown]
# ## 5 The host side
#
# Your cells hold device code only. NVRTC, a library, compiles their text while Python runs, for the GPU at hand;
# PyTorch owns memory and streams. Outside a notebook `nvcc` compiles whole programs: it splits the file, gives the
# host's part to a C++ compiler, the device's part to its own for every GPU named, and turns `<<<…>>>` into calls. This
# is what the host's part of such a program does:
#
# ```cpp
# int main() {
#     const int n = 1 << 24, bytes = n * sizeof(float);
#     float *x, *out, *d_x, *d_out;
#     cudaMallocHost(&x, bytes);      // host memory that stays in place: only from there are copies asynchronous
#     cudaMallocHost(&out, bytes);
#     for (int i = 0; i < n; i++) x[i] = 0.001f * (i % 1000);
#     cudaMalloc(&d_x, bytes);        // memory of the GPU
#     cudaMalloc(&d_out, bytes);
#     cudaStream_t stream;
#     cudaStreamCreate(&stream);
#     cudaMemcpyAsync(d_x, x, bytes, cudaMemcpyHostToDevice, stream);
#     gelu_kernel<<<(n + 1023) / 1024, 256, 0, stream>>>(d_x, d_out, n / 4, n);
#     cudaMemcpyAsync(out, d_out, bytes, cudaMemcpyDeviceToHost, stream);
#     cudaError_t error = cudaStreamSynchronize(stream);  // the host waits here, and hears what went wrong
#     printf("%s, %f\n", cudaGetErrorString(error), out[n - 1]);
#     cudaFree(d_x); cudaFree(d_out); cudaFreeHost(x); cudaFreeHost(out); cudaStreamDestroy(stream);
# }
# ```
#
# | CUDA C++ | PyTorch |
# |---|---|
# | `cudaMalloc`, `cudaFree` | `torch.empty(n, device="cuda")`, and its end of life |
# | `cudaMallocHost` | `torch.empty(n, pin_memory=True)` |
# | `cudaMemcpyAsync` | `d_x.copy_(x, non_blocking=True)` |
# | `kernel<<<grid, block, shared, stream>>>(…)` | `kernel[grid, block, shared](…)` on the current stream |
# | `cudaStreamCreate` | `torch.cuda.Stream()`, used in `with torch.cuda.stream(s):` |
#
# A *stream* is a queue: what is in one runs in order, what is in two may overlap. Cut the work into pieces over two
# streams, and one piece is copied while another is computed. Launches and asynchronous copies return at once, so a
# fault shows only where the host waits. `21_launch_overhead` measures all this.

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** The whole program above copies 2 · 64 MiB over PCIe (about 50 GB/s each way) for a kernel that moves as
# many bytes in GPU memory (about 4000 GB/s on an H200). What share of its time is the kernel, roughly? What would two
# streams gain, and what would a kernel twice as fast gain?
#
# ### BEGIN SOLUTION
# The copies take 134 MB / 50 GB/s, about 2.7 ms; the kernel 134 MB / 4000 GB/s, about 0.03 ms: some 1 %. With pieces in
# two streams, copying in, computing and copying back overlap, as the link carries both directions at once: about 1.4
# ms, nearly half. A kernel twice as fast gains half a per cent. Data should stay on the GPU between kernels.
# ### END SOLUTION

# %% [markdown]
# **Next levels.** Give `vector_add` a `float4` version: does it gain as much as GeLU? Replace `expf` by `__expf`, and
# see with `lab.check` whether the error still fits. Make the kernel a template over the `__device__` function.
#
# **In practice** PyTorch's own elementwise kernels are one template: vector loads where alignment allows, a functor for
# the formula, several elements a thread.
#
# **Reading.** [CUDA Pro Tip: Grid-Stride Loops](https://developer.nvidia.com/blog/cuda-pro-tip-write-flexible-kernels-grid-stride-loops/)
# and [Vectorized Memory Access](https://developer.nvidia.com/blog/cuda-pro-tip-increase-performance-with-vectorized-memory-access/).
