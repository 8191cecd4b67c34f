# %% [markdown]
# # Sum a vector at memory speed: warp shuffles, atomics, Triton
#
# **You will** write two more CUDA C++ versions, V5 and V6, of the sum in `10_reduction`, and two sums in Triton.
#
# **You will learn to**
# - reduce in [registers](../glossary.md#register) with [warp](../glossary.md#warp) [shuffles](../glossary.md#shuffle);
# - sum any number of elements in one launch, with one [atomic](../glossary.md#atomic) per
#   [block](../glossary.md#block);
# - reduce with `tl.sum` in Triton.
#
# **You need** `10_reduction`. About 70 minutes. You need a GPU only to measure times.
#
# ## V5 Shuffle in the last steps
#
# In `reduce_v4` of `10_reduction`, only one warp adds in the steps with distance `s` = 32, 16, …, 1, but all warps of
# the block still wait at every [barrier](../glossary.md#barrier). [Lanes](../glossary.md#lane) of a warp can read each
# other's registers with a shuffle. In lane `k`, `__shfl_down_sync(0xffffffff, sum, s)` returns the `sum` of lane `k +
# s`, or the lane's own `sum` if `k + s` is more than 31. The first argument is a mask with one bit per lane; the bit is
# 1 if the lane takes part. Here all 32 bits are 1. Shuffles need no [shared memory](../glossary.md#shared-memory) and
# no barrier. CUDA programs written before 2017 often run the last steps in shared memory without barriers, because they
# assume that the lanes of a warp always execute together. Since the Volta GPUs of 2017 ([compute
# capability](../glossary.md#compute-capability) 7.0), this assumption is wrong.
#
# [Cooperative groups](../glossary.md#cooperative-groups) are an alternative: first write `auto warp =
# cg::tiled_partition<32>(cg::this_thread_block());`, then `cg::reduce(warp, sum, cg::plus<float>())`. For floats, this
# too is five shuffles, but the kernel takes longer to compile. For integers, from compute capability 8.0 on, it
# generates a single instruction, `redux.sync`.
#
# <details><summary>Hint 1</summary>Load and reduce as in V4, but end the tree after the step with <code>s =
# 32</code>.</details>
# <details><summary>Hint 2</summary>The first 32 elements of <code>tile</code> then hold 32 partial sums, one for each
# lane of the first warp.</details>
# <details><summary>Hint 3</summary>Use five shuffles, with <code>s</code> = 16, 8, 4, 2, 1, inside one <code>if (t &lt;
# 32)</code>. All lanes of the first warp enter this <code>if</code>. Lane 0 then has the sum and stores it.</details>

# %% cell="setup"

# %% cell="given" id="launchers"
import torch
import triton
import triton.language as tl

BLOCK = 256


def resident():
    """Return how many blocks the GPU runs at the same time."""
    gpu = lab.device.current()
    return gpu.sms * (32 * gpu.limits.max_warps // BLOCK) if gpu else 64


def sum_v5(x, out):
    """Each launch stores one partial sum per block. The last launch has a single block, which stores the total."""
    n = x.numel()
    while n > 2 * BLOCK:
        blocks = triton.cdiv(n, 2 * BLOCK)
        partial = torch.empty(blocks, device=x.device)
        reduce_v5[blocks, BLOCK](x, partial, n)
        x, n = partial, blocks
    reduce_v5[1, BLOCK](x, out, n)


def sum_v6(x, out):
    x = lab.aligned(x)  # float4 needs 16-byte alignment: new tensors have it, slices such as y[1:] may not
    out.zero_()
    n = x.numel()
    blocks = min(triton.cdiv(n, 16 * BLOCK), resident())
    reduce_v6[blocks, BLOCK](x, out, n)


def row_sum(x, out):
    M, N = x.shape
    row_sum_kernel[(M,)](x, out, x.stride(0), N, BLOCK_N=triton.next_power_of_2(N))


def total_sum(x, out, BLOCK=4096):
    n = x.numel()
    out.zero_()
    programs = min(triton.cdiv(n, 4 * BLOCK), resident())
    total_sum_kernel[(programs,)](x, out, n, BLOCK=BLOCK, num_warps=8)


# %% cell="solution" id="reduce_v5"
# %%cuda
# // partial[b] = x[512·b] + … + x[512·b + 511]. Elements past the end count as 0.
# // The last 32 numbers are added in registers.
# __global__ void reduce_v5(const float *x, float *partial, int n) {
#     __shared__ float tile[256];
#     int t = threadIdx.x;
#     // ### BEGIN SOLUTION
#     int i = blockIdx.x * 2 * blockDim.x + t;
#     float sum = i < n ? x[i] : 0.0f;
#     if (i + blockDim.x < n) sum += x[i + blockDim.x];
#     tile[t] = sum;
#     __syncthreads();
#     for (int s = blockDim.x / 2; s >= 32; s /= 2) {
#         if (t < s) tile[t] += tile[t + s];
#         __syncthreads();
#     }
#     if (t < 32) {
#         sum = tile[t];
#         for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
#         if (t == 0) partial[blockIdx.x] = sum;
#     }
#     // ### END SOLUTION
# }

# %% cell="check" exercise="10_warp_reduction/sum_v5"
lab.check("10_warp_reduction/sum_v5")

# %% [markdown]
# ## V6 One launch
#
# V6 sums `x` in one launch. Use four techniques, which let V6 run at the [bandwidth](../glossary.md#bandwidth) of
# memory:
#
# - Let each thread read `x` in a [grid-stride loop](../glossary.md#grid-stride-loop), and accumulate in a register.
# - Read `float4`: each [request](../glossary.md#request) then loads 16 bytes per lane, which is 512 bytes per warp.
# - Keep several loads [in flight](../glossary.md#in-flight): `#pragma unroll 4` [unrolls](../glossary.md#unrolling) the
#   loop, so that four loads can start before the first addition.
# - Reduce within each warp by shuffles, and write one sum per warp to shared memory. Let the first warp add these sums,
#   and let one thread add the block's sum to `out` with `atomicAdd`. (The launcher has set `out` to 0.)
#
# Blocks finish in any order, so the order of the atomics, and with it the rounding, may differ from run to run: the
# last bits of the sum are not reproducible.
#
# <details><summary>Hint 1</summary>There are <code>n / 4</code> elements of type <code>float4</code>. Each thread
# starts at element <code>i</code> and steps by <code>stride</code>. Then <code>n % 4</code> floats remain: the first
# threads of the grid add one of them each.</details>
# <details><summary>Hint 2</summary>Every lane takes part in the shuffles; the sum of a lane without elements is 0. Lane
# 0 of each warp writes the warp's sum to <code>warp_sums</code>. After a barrier, the first warp reads these
# sums.</details>
# <details><summary>Hint 3</summary>A block has <code>blockDim.x / 32</code> warps, so in the first warp only the lanes
# below <code>blockDim.x / 32</code> read a sum. The other lanes of the first warp start the second round of shuffles
# with 0.</details>
#
# If the check reports `shuffle-mask` or `deadlock`, some lanes whose bits are set in the mask did not reach the
# shuffle.

# %% cell="solution" id="reduce_v6"
# %%cuda
# // out[0] += x[0] + … + x[n - 1]. x is 16-byte aligned; the block size is a multiple of 32.
# __global__ void reduce_v6(const float *x, float *out, int n) {
#     __shared__ float warp_sums[32];
#     const float4 *x4 = reinterpret_cast<const float4 *>(x);
#     int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#     int i = blockIdx.x * blockDim.x + threadIdx.x;
#     int stride = gridDim.x * blockDim.x;
#     // ### BEGIN SOLUTION
#     float sum = i < n % 4 ? x[n - 1 - i] : 0.0f;
#     #pragma unroll 4
#     for (int k = i; k < n / 4; k += stride) {
#         float4 v = x4[k];
#         sum += (v.x + v.y) + (v.z + v.w);
#     }
#
#     for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
#     if (lane == 0) warp_sums[warp] = sum;
#     __syncthreads();
#     if (warp == 0) {
#         sum = lane < blockDim.x / 32 ? warp_sums[lane] : 0.0f;
#         for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
#         if (lane == 0) atomicAdd(out, sum);
#     }
#     // ### END SOLUTION
# }

# %% cell="check" exercise="10_warp_reduction/sum_v6"
lab.check("10_warp_reduction/sum_v6")

# %% [markdown]
# ## The same in Triton
#
# `tl.sum(values)` adds all values of a block, and `tl.sum(values, axis=0)` adds along one axis. The compiler generates
# the tree, the shuffles and the barriers. Two things remain for you: load [masked](../glossary.md#mask) elements as 0
# (`other=0.0`), and sum [fp16](../glossary.md#fp16) values in [fp32](../glossary.md#fp32) (`.to(tl.float32)` after the
# load).
#
# In `row_sum`, each of M [programs](../glossary.md#program) sums one row. It loads the N elements of the row as one
# block of `BLOCK_N` elements; `BLOCK_N` is the smallest power of two that is at least N.
#
# In `total_sum`, P programs sum a vector `x`. `x` is divided into pieces of `BLOCK` elements. Program `pid` adds up the
# pieces `pid`, `pid + P`, `pid + 2P`, and so on, with `BLOCK` running sums: element k of a piece is added to running
# sum k. After the loop the program adds up its running sums, and adds the result to `out` with `tl.atomic_add(out_ptr,
# …)`. The launcher has set `out` to 0.
#
# <details><summary>Hint for row_sum</summary>A row starts at <code>x_ptr + pid * stride_m</code>. The mask compares
# column indices with N.</details>
# <details><summary>Hint 1 for total_sum</summary><code>for start in range(pid * BLOCK, n, tl.num_programs(0) *
# BLOCK)</code> visits the first elements of these pieces, for P = <code>tl.num_programs(0)</code>.</details>
# <details><summary>Hint 2 for total_sum</summary>Initialize the running sums with <code>tl.zeros((BLOCK,),
# tl.float32)</code>. One call of <code>tl.sum</code> after the loop is cheaper than one call per iteration.</details>


# %% cell="solution" id="triton_sums"
@triton.jit
def row_sum_kernel(x_ptr, out_ptr, stride_m, N, BLOCK_N: tl.constexpr):
    """Sum each row of a matrix.

    out[m] = x[m, 0] + … + x[m, N - 1]

    x_ptr    (M, N)  input; rows are stride_m elements apart
    out_ptr  (M,)    output, fp32
    One program sums one row, m = pid.
    """
    ### BEGIN SOLUTION
    pid = tl.program_id(0)
    offs_n = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + pid * stride_m + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
    tl.store(out_ptr + pid, tl.sum(x))
    ### END SOLUTION


@triton.jit
def total_sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Add a vector's sum to out.

    out[0] += x[0] + … + x[n - 1]

    x_ptr    (n,)  input
    out_ptr  (1,)  output
    Program pid sums the pieces pid, pid + P, pid + 2P, ... of BLOCK elements; P is the number of programs.
    """
    ### BEGIN SOLUTION
    pid = tl.program_id(0)
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(pid * BLOCK, n, tl.num_programs(0) * BLOCK):
        offs = start + tl.arange(0, BLOCK)
        sums += tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(sums))
    ### END SOLUTION


# %% cell="check" exercise="10_warp_reduction/row_sum"
lab.tiny("10_warp_reduction/row_sum")
lab.check("10_warp_reduction/row_sum")

# %% cell="check" exercise="10_warp_reduction/total_sum"
lab.check("10_warp_reduction/total_sum")

# %%
lab.claims("10_warp_reduction")  # a two-minute quiz: predict each number, then compare
x = (torch.arange(2**15) % 17 - 8.0).to("cuda" if lab.device.has_gpu() else "cpu")
counts = ["launches", "shared_load_wavefronts", "barriers", "global_load_requests", "atomics"]
print("  ", *counts)
for name, sum_version in {"V5": sum_v5, "V6": sum_v6}.items():
    with lab.record() as r:
        sum_version(x, torch.empty(1, device=x.device))
    print(name, *(f"{r.totals().get(c, 0):{len(c)}}" for c in counts))
for name in ("sum_v5", "sum_v6", "row_sum", "total_sum") if lab.device.has_gpu() else ["sum_v6"]:
    print(lab.benchmark(f"10_warp_reduction/{name}") or "")

# %% [markdown]
# **Next.** `10_scan` computes the sum x[0] + … + x[i] for every i. In `11_softmax`, each row needs two
# [reductions](../glossary.md#reduction). You can also try these:
#
# - Find the largest element and its index in one pass over `x`.
# - Sum each of 1000 rows in CUDA C++, with one block per row.
# - Sum a vector in one launch, with the same bits in every run. Each block stores a [partial
#   sum](../glossary.md#partial-sum), and the block that finishes last adds them in a fixed order. To find out which
#   block is last, use `__threadfence()` and a counter.
#
# **In practice** you call `torch.sum`, or in CUDA C++ `DeviceReduce` and `BlockReduce` of the library CUB. You write a
# reduction yourself at the end of a kernel that already has the values in registers. If the kernel is started by a
# [cooperative launch](../glossary.md#cooperative-launch), all blocks can wait for each other, by
# `cg::this_grid().sync()`. Then one launch is enough for partial sums and their total.
#
# **Reading.** [Using CUDA warp-level primitives](https://developer.nvidia.com/blog/using-cuda-warp-level-primitives/)
# explains masks, and why shuffles need them.
