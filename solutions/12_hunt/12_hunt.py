# %% [markdown]
# # Bug hunt: softmax
#
# **You will** find one bug in each of three softmax kernels. First the kernels show only what they do: cases that fail,
# values, counts. You name line and cause, then you fix the kernel.
#
# **You will learn to**
# - use element types as evidence;
# - find out which lanes of a warp hold a wrong value;
# - follow a buffer in shared memory through its second use.
#
# **You need** `11_softmax`. About 45 minutes. You need no GPU.
#
# Do not run the checks of the last section before you have named the bugs: they name causes, too.

# %% cell="setup"

# %% cell="given" id="launchers"
import triton
import triton.language as tl


def softmax(x, out):
    M, N = x.shape
    BLOCK_N = triton.next_power_of_2(N)
    num_warps = min(max(BLOCK_N // 512, 1), 16)  # mostly 16 elements per thread: in fp32, four 16-byte loads
    softmax_kernel[(M,)](x, out, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N, num_warps=num_warps)


def warp_softmax(x, out):
    M, N = x.shape
    warp_softmax_kernel[triton.cdiv(M, 4), 128](x, out, M, N)


def block_softmax(x, out):
    M, N = x.shape
    threads = max(64, 32 * triton.cdiv(N, 1024))  # whole warps, at most 32 columns per thread
    quads = N % 4 == 0 and x.data_ptr() % 16 == 0 and out.data_ptr() % 16 == 0
    block_softmax_kernel[M, threads](x, out, N, quads)


# %% [markdown]
# ## 1 One row per program
#
# One program computes the softmax of a row. The kernel ran in a model in fp32. Now the model is in fp16, and its
# outputs drift.


# %% cell="hunt" id="softmax_kernel" exercise="12_hunt/softmax"
@triton.jit
def softmax_kernel(x_ptr, out_ptr, N, stride_xm, stride_om, BLOCK_N: tl.constexpr):
    """Softmax of each row.

    out[m, n] = exp(x[m, n] - max) / sum_k exp(x[m, k] - max), where max = max_k x[m, k]

    x_ptr    (M, N)  input; rows are stride_xm elements apart
    out_ptr  (M, N)  output; rows are stride_om elements apart
    One program computes one row, m = pid.
    """
    row = tl.program_id(0)
    offs_n = tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    ### BEGIN SOLUTION
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x))
    tl.store(out_ptr + row * stride_om + offs_n, e / tl.sum(e), mask=mask_n)
    ### END SOLUTION


# %%
lab.evidence("12_hunt/softmax")

# %% [markdown]
# ## 2 One row per warp
#
# A warp computes a row: lane k holds the columns k, k + 32, k + 64 and so on. The first column of every row is right.

# %% cell="hunt" id="warp_softmax_kernel" exercise="12_hunt/warp_softmax"
# %%cuda
# // out[m, n] = exp(x[m, n] - max) / sum. Each warp computes one row of at most 1024 columns.
# // x and out have shape (M, N) and contiguous rows.
# __global__ void warp_softmax_kernel(const float *x, float *out, int M, int N) {
#     int lane = threadIdx.x % 32;
#     int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
#     if (row >= M) return;  // all lanes of a warp have the same row, so they return together
#     float v[32];
#     // ### BEGIN SOLUTION
#     float largest = -INFINITY, sum = 0.0f;
#     #pragma unroll
#     for (int k = 0; k < 32; k++) {
#         int n = lane + 32 * k;
#         v[k] = n < N ? x[row * N + n] : -INFINITY;
#         largest = fmaxf(largest, v[k]);
#     }
#     for (int s = 16; s > 0; s /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, s));
#     #pragma unroll
#     for (int k = 0; k < 32; k++) {
#         v[k] = expf(v[k] - largest);
#         sum += v[k];
#     }
#     for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffff, sum, s);
#     #pragma unroll
#     for (int k = 0; k < 32; k++) {
#         int n = lane + 32 * k;
#         if (n < N) out[row * N + n] = v[k] / sum;
#     }
#     // ### END SOLUTION
# }

# %%
lab.evidence("12_hunt/warp_softmax")
lab.tiny("12_hunt/warp_softmax")

# %% [markdown]
# ## 3 One row per block
#
# A block computes a row: each warp reduces its columns, and the results of the warps meet in shared memory. All tests
# pass. Very rarely, the probabilities of a row do not add up to 1.

# %% cell="hunt" id="block_softmax_kernel" exercise="12_hunt/block_softmax"
# %%cuda
# // Load columns n, n + step, n + 2 * step, n + 3 * step of a row into v[k] … v[k + 3]; past the end, load -INFINITY.
# // For step 1 this is one vectorized load: n and N are then multiples of 4, and the row is 16-byte aligned.
# __device__ void load4(float (&v)[32], int k, const float *row, int n, int step, int N) {
#     if (step == 1) {
#         float4 q = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
#         if (n < N) q = *reinterpret_cast<const float4 *>(row + n);
#         v[k] = q.x, v[k + 1] = q.y, v[k + 2] = q.z, v[k + 3] = q.w;
#     } else {
#         for (int e = 0; e < 4; e++) v[k + e] = n + e * step < N ? row[n + e * step] : -INFINITY;
#     }
# }
# // Store v[k] … v[k + 3] to the same columns, except past the end of the row.
# __device__ void store4(float *row, int n, int step, int N, const float (&v)[32], int k) {
#     if (step > 1) {
#         for (int e = 0; e < 4; e++) if (n + e * step < N) row[n + e * step] = v[k + e];
#     } else if (n < N) *reinterpret_cast<float4 *>(row + n) = make_float4(v[k], v[k + 1], v[k + 2], v[k + 3]);
# }
#
# // out[m, n] = exp(x[m, n] - max) / sum. Each block computes one row, with at most 32 columns per thread.
# // x, out: (M, N), contiguous rows. If `quads`, N is a multiple of 4, and both addresses are multiples of 16 bytes.
# __global__ void __launch_bounds__(1024) block_softmax_kernel(const float *x, float *out, int N, bool quads) {
#     __shared__ float part[32];
#     int t = threadIdx.x, lane = t % 32, warp = t / 32, warps = blockDim.x / 32;
#     int first = quads ? 4 * t : t, step = quads ? 1 : blockDim.x;
#     x += blockIdx.x * N;
#     out += blockIdx.x * N;
#     float v[32];
#     // ### BEGIN SOLUTION
#     float largest = -INFINITY, sum = 0.0f;
#     #pragma unroll
#     for (int k = 0; k < 32; k += 4) load4(v, k, x, first + k * blockDim.x, step, N);
#     #pragma unroll
#     for (int k = 0; k < 32; k++) largest = fmaxf(largest, v[k]);
#     for (int s = 16; s > 0; s /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, s));
#     if (lane == 0) part[warp] = largest;
#     __syncthreads();
#     largest = lane < warps ? part[lane] : -INFINITY;
#     for (int s = 16; s > 0; s /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, s));
#     #pragma unroll
#     for (int k = 0; k < 32; k++) {
#         v[k] = expf(v[k] - largest);
#         sum += v[k];
#     }
#     for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffff, sum, s);
#     __syncthreads();
#     if (lane == 0) part[warp] = sum;
#     __syncthreads();
#     sum = lane < warps ? part[lane] : 0.0f;
#     for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffff, sum, s);
#     float scale = 1.0f / sum;
#     #pragma unroll
#     for (int k = 0; k < 32; k++) v[k] *= scale;
#     #pragma unroll
#     for (int k = 0; k < 32; k += 4) store4(out, first + k * blockDim.x, step, N, v, k);
#     // ### END SOLUTION
# }

# %%
lab.evidence("12_hunt/block_softmax")

# %% [markdown]
# ## 4 Name the bugs
#
# Fill in `bug`: for each hunt, the line of its kernel's cell where the bug is, and the cause. Lines count from 1 (View
# → Show Line Numbers); in a CUDA C++ cell, `%%cuda` is line 1. If several lines can be changed to fix the bug, any of
# them is right.
#
# The causes to choose from:
#
# - too few bits
# - result in one lane only
# - buffer reused too early
# - maximum not subtracted
# - padded lanes
# - wrong stride
# - missing mask
# - barrier in a branch
#
# <details><summary>Hint 1</summary><code>softmax</code>: in which element type are x, e and the sum?</details>
# <details><summary>Hint 2</summary><code>warp_softmax</code>: after each of the two loops with shuffles, which lanes
# know the row's value?</details>
# <details><summary>Hint 3</summary><code>block_softmax</code>: <code>part</code> first holds maxima, then sums. When
# may a warp write its sum?</details>


# %% cell="solution" id="bug"
def bug(hunt):
    """Return the line and the cause of a hunt's bug, such as {"line": 12, "cause": "…"}.

    hunt  "softmax" or "warp_softmax" or "block_softmax"
    """
    ### BEGIN SOLUTION
    found = {
        "softmax": {"line": 15, "cause": "too few bits"},
        "warp_softmax": {"line": 22, "cause": "result in one lane only"},
        "block_softmax": {"line": 44, "cause": "buffer reused too early"},
    }
    return found[hunt]
    ### END SOLUTION


# %% cell="check" exercise="12_hunt/bug"
lab.check("12_hunt/bug")

# %% [markdown]
# ## 5 Fix them
#
# Change the kernels in their cells above, run the cells, and check. A fix needs few characters or lines; the rest of
# the kernel is right.

# %% cell="check" exercise="12_hunt/softmax"
lab.check("12_hunt/softmax")

# %% cell="check" exercise="12_hunt/warp_softmax"
lab.check("12_hunt/warp_softmax")

# %% cell="check" exercise="12_hunt/block_softmax"
lab.check("12_hunt/block_softmax")

# %% [markdown]
# **Next.** `12_online_softmax` needs one pass fewer over each row; `13_hunt` has the bugs of such kernels.
#
# **In practice** keep each bug that you fix as a test: the smallest case that showed it.
