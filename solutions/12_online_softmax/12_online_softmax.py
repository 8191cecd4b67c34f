# %% [markdown]
# # Compute a softmax in one pass, over rows of any length
#
# **You will** prove the update that makes a softmax *online*, then write three kernels with it: a loop along a row, a
# row split over many programs in two launches, and the same in one launch.
#
# **You will learn to**
# - carry a maximum and a sum along a row, and merge those of two parts in any order;
# - keep -inf - -inf, which is NaN, out of a running maximum;
# - use a whole GPU for a few long rows;
# - let programs of one launch wait for each other without a deadlock, and meet their data in the L2 cache.
#
# **You need** `11_softmax`.
#
# About 90 minutes. Works without a GPU; only times need one.

# %% cell="setup"

# %% [markdown]
# ## Prove the update
#
# A softmax needs the row's maximum before it can sum. Or does it? Describe any *part* of a row by two numbers: its
# maximum m, and l = Σ exp(x − m). Given (m₁, l₁) and (m₂, l₂) of two parts, the pair of both together follows without
# looking at x again, because exp(x − m) = exp(x − m₁) · exp(m₁ − m).
#
# Write the new l, relative to the new maximum. A part of nothing but -inf has m = -inf and l = 0; if both parts are
# like that, so is the whole. Mind that -inf − -inf is NaN.

# %% cell="given"
import math

import torch
import triton
import triton.language as tl

from labutils import clusters, traffic


# %% cell="solution" id="merged_sum"
def merged_sum(m1, l1, m2, l2):
    """l of two parts together: the sum of exp(x - m) over both, with m = max(m1, m2)."""
    ### BEGIN SOLUTION
    m = max(m1, m2)
    if m == -math.inf:
        return 0.0
    return l1 * math.exp(m1 - m) + l2 * math.exp(m2 - m)
    ### END SOLUTION


# %% cell="check" exercise="12_online_softmax/merged_sum"
lab.check("12_online_softmax/merged_sum")

# %%
# Four parts of a row, merged one after another: l shrinks whenever a larger maximum comes, and ends where it should.
row = torch.tensor([0.5, 2.0, 1.0, -1.0, 4.0, 0.0, 3.0, 3.5, 9.0, 1.0, 2.0, 8.0], dtype=torch.float64)
m, l = -math.inf, 0.0
for part in row.split(3):
    m_part = part.max().item()
    l_part = torch.exp(part - m_part).sum().item()
    m, l = max(m, m_part), merged_sum(m, l, m_part, l_part)
    print(f"after {part.tolist()}: m = {m:4.1f}, l = {l:.6f}")
print(f"at once: m = {row.max().item():.1f}, l = {torch.exp(row - row.max()).sum().item():.6f}")

# %% [markdown]
# ## 1 A loop along the row
#
# A row of 200 000 columns fits no program's registers. Read it in blocks of `BLOCK_N`, carry m and l from block to
# block, then read it a second time and store y = exp(x − m) / l. The textbook's softmax would read three times: for
# the maximum, for the sum, for y.
#
# The pair is carried through a loop of the compiler, so it must be two fp32 scalars before the loop already: they are
# given. Masked rows may *begin* with blocks of -inf: then m is still -inf and exp(m − m_new) would be NaN for ever
# after. The contract is that of `11_softmax`: NaN only in a row of nothing but -inf.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x_ptr`, `out_ptr` | (M, N) | input, output (fp32, fp16 or bf16); rows `stride_xm`, `stride_om` elements apart |
# | `N` | number | columns, any number from 1 on |
# | `BLOCK_N` | constant | columns in one turn of the loop, a power of two |
#
# <details><summary>Hint 1</summary>In each turn: load, m_new = max of m and the block's maximum, rescale l to m_new,
# add the block's exponentials relative to m_new, m = m_new.</details>
# <details><summary>Hint 2</summary>Subtract <code>shift = tl.where(m_new == -float("inf"), 0.0, m_new)</code> in place
# of m_new: exp(-inf − 0) is 0, as it should be.</details>
# <details><summary>Hint 3</summary>The second loop needs no shift: where m is -inf the row is NaN anyway.</details>


# %% cell="solution" id="online_softmax_kernel"
@triton.jit
def online_softmax_kernel(x_ptr, out_ptr, N, stride_xm, stride_om, BLOCK_N: tl.constexpr):
    """Softmax of each row, in blocks.

    out[m, n] = exp(x[m, n] - max_k x[m, k]) / sum_k exp(x[m, k] - max)

    x_ptr    (M, N)  input, rows stride_xm apart
    out_ptr  (M, N)  output, rows stride_om apart
    One program computes one row, m = pid.
    """
    row = tl.program_id(0).to(tl.int64)  # 64 bits: row · stride may pass 2^31
    x_ptr += row * stride_xm
    out_ptr += row * stride_om
    m = tl.full((), -float("inf"), tl.float32)
    l = tl.full((), 0.0, tl.float32)
    ### BEGIN SOLUTION
    for start in tl.range(0, N, BLOCK_N, num_stages=3):
        offs_n = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + offs_n, mask=offs_n < N, other=-float("inf")).to(tl.float32)
        m_new = tl.maximum(m, tl.max(x))
        # a row may begin with -inf, and -inf - -inf is NaN
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)
        l = l * tl.exp(m - shift) + tl.sum(tl.exp(x - shift))
        m = m_new
    for start in tl.range(0, N, BLOCK_N, num_stages=3):
        offs_n = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
        tl.store(out_ptr + offs_n, tl.exp(x - m) / l, mask=offs_n < N)
    ### END SOLUTION


# %% cell="given" id="online_softmax"
def online_softmax(x, out, BLOCK_N=4096):
    M, N = x.shape
    online_softmax_kernel[(M,)](x, out, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N, num_warps=8)


lab.tiny("12_online_softmax/online_softmax")

# %% cell="check" exercise="12_online_softmax/online_softmax"
lab.check("12_online_softmax/online_softmax")


# %%
def in_fours(x, out):
    online_softmax(x, out, BLOCK_N=4)


x = torch.arange(22.0).reshape(2, 11)
display(lab.access_map(in_fours, x, torch.empty(2, 11), title="your online softmax: 2 rows of 11, blocks of 4"))
traffic.ledger(
    {
        "three loops": {"max": (22, 0), "sum": (22, 0), "y": (22, 22)},
        "online": {"(m, l)": (22, 0), "y": (22, 22)},
    },
    {"online": traffic.elements(in_fours, x, torch.empty(2, 11))},
    title="Elements moved for 2 rows of 11",
)

# %% [markdown]
# When a check fails:
#
# | what it says | a common cause |
# |---|---|
# | `overflow` | NaN from -inf − -inf: in a block of -inf at the row's beginning, or in a part of nothing but -inf |
# | `wrong-formula`, not rescaled | l was summed relative to an older maximum: multiply by exp(m − m_new) first |
# | `missing-accumulation` | l or m is that of the last block or part alone |
# | `padded-lanes` | 0 in place of -inf beyond the end, or a part that does not exist counted in |
# | `race` | a program reads what another has not announced yet |
# | `timeout` | a program waits for a count that is never reached |
#
# ## 2 A row over many programs
#
# Sixteen rows of a million elements keep 16 programs busy, and an H200 holds 1000. So split each row into `parts` of
# `BLOCK` elements. A first launch leaves (m, l) of each part in memory. In a second launch every program merges the
# pairs of all parts of its row, which costs next to nothing, and writes its part of y.
#
# The second launch also stores the *log-sum-exp* of each row, lse = m + log l. With it anyone can compute
# y = exp(x − lse) later without the row's sum: attention keeps it for its backward pass. Of a row of nothing but -inf
# it is -inf.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x_ptr`, `out_ptr` | (M, N) | input, output; rows `stride_xm`, `stride_om` elements apart |
# | `m_ptr`, `l_ptr` | (M, parts) | maximum and sum of each part, fp32 |
# | `lse_ptr` | (M,) | output, fp32 |
# | `BLOCK`, `BLOCK_P` | constants | elements of a part; a power of two ≥ `parts` |
#
# Two small functions without a launch of their own (`@triton.jit` too) do the arithmetic: write them first.
#
# <details><summary>Hint 1</summary><code>part_stats</code> is the body of your first loop, for one block.
# <code>merged_stats</code> is <code>merged_sum</code> for a whole vector of parts.</details>
# <details><summary>Hint 2</summary>Parts that do not exist: m = -inf and l = 0 change nothing.</details>
# <details><summary>Hint 3</summary>All programs of a row have the same lse: one of them stores it.</details>


# %% cell="solution" id="split_kernels"
@triton.jit
def part_stats(x):
    """(m, l) of a block x of one part; lanes beyond the row hold -inf."""
    ### BEGIN SOLUTION
    m = tl.max(x)
    shift = tl.where(m == -float("inf"), 0.0, m)
    return m, tl.sum(tl.exp(x - shift))
    ### END SOLUTION


@triton.jit
def merged_stats(m, l):
    """(m, l) of a whole row, from vectors of those of its parts; lanes beyond them hold -inf and 0."""
    ### BEGIN SOLUTION
    largest = tl.max(m)
    shift = tl.where(largest == -float("inf"), 0.0, largest)
    return largest, tl.sum(l * tl.exp(m - shift))
    ### END SOLUTION


@triton.jit
def stats_kernel(x_ptr, m_ptr, l_ptr, N, parts, stride_xm, BLOCK: tl.constexpr):
    """m[row, part], l[row, part] of BLOCK elements of x; one program takes one part of one row."""
    row = (tl.program_id(0) // parts).to(tl.int64)
    part = tl.program_id(0) % parts
    offs_n = part * BLOCK + tl.arange(0, BLOCK)
    ### BEGIN SOLUTION
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=offs_n < N, other=-float("inf")).to(tl.float32)
    m, l = part_stats(x)
    tl.store(m_ptr + row * parts + part, m)
    tl.store(l_ptr + row * parts + part, l)
    ### END SOLUTION


@triton.jit
def normalise_kernel(
    x_ptr, m_ptr, l_ptr, out_ptr, lse_ptr, N, parts, stride_xm, stride_om, BLOCK: tl.constexpr, BLOCK_P: tl.constexpr
):
    """out = exp(x - m) / l for one part of one row, with (m, l) of the whole row; lse[row] = m + log(l)."""
    row = (tl.program_id(0) // parts).to(tl.int64)
    part = tl.program_id(0) % parts
    offs_n = part * BLOCK + tl.arange(0, BLOCK)
    offs_p = tl.arange(0, BLOCK_P)
    ### BEGIN SOLUTION
    ms = tl.load(m_ptr + row * parts + offs_p, mask=offs_p < parts, other=-float("inf"))
    ls = tl.load(l_ptr + row * parts + offs_p, mask=offs_p < parts, other=0.0)
    m, l = merged_stats(ms, ls)
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * stride_om + offs_n, tl.exp(x - m) / l, mask=offs_n < N)
    if part == 0:
        tl.store(lse_ptr + row, m + tl.log(l))
    ### END SOLUTION


# %% cell="given" id="split_softmax"
def split_softmax(x, out, lse, BLOCK=8192):
    M, N = x.shape
    parts = triton.cdiv(N, BLOCK)
    m, l = torch.empty(2, M, parts, dtype=torch.float32, device=x.device)
    grid, sizes = (M * parts,), dict(BLOCK=BLOCK, num_warps=16)
    stats_kernel[grid](x, m, l, N, parts, x.stride(0), **sizes)
    BLOCK_P = max(16, triton.next_power_of_2(parts))
    normalise_kernel[grid](x, m, l, out, lse, N, parts, x.stride(0), out.stride(0), BLOCK_P=BLOCK_P, **sizes)


lab.tiny("12_online_softmax/split_softmax")

# %% cell="check" exercise="12_online_softmax/split_softmax"
lab.check("12_online_softmax/split_softmax")

# %% [markdown]
# ## 3 One launch, and each element from memory once
#
# The second launch reads x again when all of it has been read, and 800 MB are long gone from an L2 cache of 50 MB.
# If y of a row were computed soon after its statistics, x would still be there. So mix both jobs in one launch: while
# some programs take the statistics of row r, others finish row r − `LAG`.
#
# A finisher must wait until all `parts` of its row are in. Waiting is dangerous: if the GPU is full of programs that
# wait for one that was never started, nothing ends. Nobody promises that programs start in the order of their
# `program_id`. Therefore each takes a *ticket* first, `tl.atomic_add(counters_ptr, 1)`: whoever holds a lower ticket
# runs already, or has ended. Jobs go by ticket, and a job waits only for jobs of lower tickets: the launch always ends.
#
# The job of a ticket, and `counters_ptr[1 + row]`, which counts the parts of a row that are in, are given.
#
# <details><summary>Hint 1</summary>Statistics: as <code>stats_kernel</code>, then add 1 to the row's counter, after the
# two stores. The atomic is a release: it publishes the two scalars, which the same thread stored. For tiles, which
# other threads of the program store, <code>tl.debug_barrier()</code> belongs before it.</details>
# <details><summary>Hint 2</summary>Wait: <code>while tl.atomic_add(ready_ptr, 0) &lt; parts: pass</code>. Adding 0
# reads the counter in such a way that whatever came before it can be seen; a plain load may show an old value for
# ever.</details>
# <details><summary>Hint 3</summary>Then go on as <code>normalise_kernel</code>.
# <code>eviction_policy="evict_first"</code> in load and store tells the L2 that neither is needed again.</details>


# %% cell="solution" id="one_launch_kernel"
@triton.jit
def one_launch_kernel(
    x_ptr, m_ptr, l_ptr, counters_ptr, out_ptr, lse_ptr, M, N, parts, stride_xm, stride_om, LAG,
    BLOCK: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    """out = softmax of each row of x, lse = its log-sum-exp, in one launch of 2 · parts · (M + LAG) programs.

    counters_ptr  (1 + M,)  zeros: tickets taken, then for each row the parts whose statistics are in
    The others as in stats_kernel and normalise_kernel.
    """
    ticket = tl.atomic_add(counters_ptr, 1)
    step, job = ticket // (2 * parts), ticket % (2 * parts)
    part = job % parts
    offs_n = part * BLOCK + tl.arange(0, BLOCK)
    offs_p = tl.arange(0, BLOCK_P)
    if job < parts:  # statistics of row `step`
        if step < M:
            row = step.to(tl.int64)
            ready_ptr = counters_ptr + 1 + row
            ### BEGIN SOLUTION
            x = tl.load(x_ptr + row * stride_xm + offs_n, mask=offs_n < N, other=-float("inf")).to(tl.float32)
            m, l = part_stats(x)
            tl.store(m_ptr + row * parts + part, m)
            tl.store(l_ptr + row * parts + part, l)
            tl.atomic_add(ready_ptr, 1)  # publishes the two stores before it
            ### END SOLUTION
    else:  # output of row `step` - LAG
        if step >= LAG:
            row = (step - LAG).to(tl.int64)
            ready_ptr = counters_ptr + 1 + row
            ### BEGIN SOLUTION
            while tl.atomic_add(ready_ptr, 0) < parts:
                pass
            ms = tl.load(m_ptr + row * parts + offs_p, mask=offs_p < parts, other=-float("inf"))
            ls = tl.load(l_ptr + row * parts + offs_p, mask=offs_p < parts, other=0.0)
            m, l = merged_stats(ms, ls)
            # the last use of x: the L2 may drop it, and need not keep y
            x_ptrs = x_ptr + row * stride_xm + offs_n
            x = tl.load(x_ptrs, mask=offs_n < N, other=0.0, eviction_policy="evict_first").to(tl.float32)
            y = tl.exp(x - m) / l
            tl.store(out_ptr + row * stride_om + offs_n, y, mask=offs_n < N, eviction_policy="evict_first")
            if part == 0:
                tl.store(lse_ptr + row, m + tl.log(l))
            ### END SOLUTION


# %% cell="given" id="one_launch_softmax"
KEPT = 12 * 2**20  # bytes of x between statistics and output: a part of the L2, and more than programs run at once


def one_launch_softmax(x, out, lse, BLOCK=8192):
    M, N = x.shape
    parts = triton.cdiv(N, BLOCK)
    lag = min(M, max(1, KEPT // (N * x.element_size())))
    m, l = torch.empty(2, M, parts, dtype=torch.float32, device=x.device)
    counters = torch.zeros(1 + M, dtype=torch.int32, device=x.device)
    one_launch_kernel[(2 * parts * (M + lag),)](
        x, m, l, counters, out, lse, M, N, parts, x.stride(0), out.stride(0), lag,
        BLOCK=BLOCK, BLOCK_P=max(16, triton.next_power_of_2(parts)), num_warps=16,
    )  # fmt: skip


lab.tiny("12_online_softmax/one_launch_softmax")

# %% cell="check" exercise="12_online_softmax/one_launch_softmax"
lab.check("12_online_softmax/one_launch_softmax")

# %% [markdown]
# ## Measure
#
# 1024 rows of 200 000 columns, fp32: 820 MB in, 820 MB out. Predict from the ledger: what share of the copy's bandwidth
# can a kernel reach that reads x twice from memory, and what share one that reads it once?

# %%
print("Stored (H200, 1024 × 200000 fp32), GB/s of 2MN elements: torch.softmax 2044, one_launch_softmax 3272,")
print("the extra level's cluster_softmax 3879, copy 4266.")
for name in ("online_softmax", "split_softmax", "one_launch_softmax") if lab.device.has_gpu() else ["online_softmax"]:
    print(lab.benchmark(f"12_online_softmax/{name}") or "")

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** Which share did you predict for two reads and a write, and for one of each? (On your GPU: what did you
# measure?) Why is a `LAG` of one row too little, and one of 100 rows too much?
#
# ### BEGIN SOLUTION
# Three passes where the copy has two: 67 %. With the second read from the L2: close to the copy, less what waiting,
# tickets and reductions cost. With a LAG of one row the finishers come at once after the statistics they need, which
# are still running on other SMs, and stand waiting. 100 rows are 80 MB, more than the L2 holds: x has been dropped by
# the time it is wanted again, and is read from memory twice after all.
# ### END SOLUTION

# %% [markdown]
# ## Extra: a row in a cluster
#
# No exercise: a level to read. Running it takes a Hopper GPU (compute capability 9.0); elsewhere the emulator does.
#
# `one_launch_softmax` reads x twice. The second time it comes from the L2, which is not free either: three transfers
# for each element go through it, and they set the pace. To read once, a row must stay on chip. 200 000 floats are
# 800 KB: more than the registers of one SM hold, less than those of eight.
#
# Hopper starts blocks in *clusters*: up to eight (16 by opt-in) that run at the same time, close to each other, and may
# write to each other's shared memory. So:
#
# - each of 8 blocks has an eighth of the row in registers, 25 000 floats, up to 28 for a thread;
# - meanwhile its part of the next row is on its way to shared memory (`cp.async`), so that memory hardly rests;
# - each block sends the pair (m, l) of its part to all eight (`store_async`), an mbarrier counts the bytes that come,
#   and each block merges eight pairs. That is the update you proved above;
# - clusters stay on their SMs and go from row to row. Tickets, counters and `LAG` are gone.
#
# The launcher takes 2, 4 or 8 blocks, as many as the row needs. Rows may begin anywhere and have any length up to
# 8 × 28 668: a part moves in quads of 16 bytes, and at its ends float by float. The rest goes to `one_launch_softmax`:
# longer rows, other types, other GPUs, gaps between rows, and x and out that begin at different bytes of 16.

# %% cell="given" id="cluster_softmax_kernel"
# %%cuda cluster_softmax_kernel<2,128>
# #include <cuda_pipeline.h>
# #include <lab/hopper.cuh>
#
# __device__ float warp_max(float v) {
#     for (int s = 16; s > 0; s /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, s));
#     return v;
# }
# __device__ float warp_sum(float v) {
#     for (int s = 16; s > 0; s /= 2) v += __shfl_xor_sync(0xffffffff, v, s);
#     return v;
# }
# __device__ float zero_for_none(float m) { return m == -INFINITY ? 0.0f : m; }
# // merged_sum, of the 32 pairs (m, l) of a warp
# __device__ float2 merged(float2 pair) {
#     float m = warp_max(pair.x);
#     return make_float2(m, warp_sum(pair.y * __expf(pair.x - zero_for_none(m))));
# }
#
# // A part of a row, in quads: 16 aligned bytes. Its own floats are [before, end), counted from its first quad.
# struct Part {
#     const float *x;
#     float *out;
#     int before, end;
#     __device__ Part(const float *first, float *to, int columns) {
#         before = reinterpret_cast<uint64_t>(first) / 4 % 4;
#         end = before + columns;
#         x = first - before;
#         out = to - before;
#     }
#     __device__ bool has(int i) const { return before <= i && i < end; }
#     __device__ bool whole(int i) const { return before <= i && i + 4 <= end; }  // quad i, i + 1, i + 2, i + 3
#     __device__ void fetch(float *to, int i) const {
#         if (whole(i)) __pipeline_memcpy_async(to + i, x + i, 16);
#         else if (i < end)
#             for (int j = i; j < i + 4; j++)
#                 if (has(j)) __pipeline_memcpy_async(to + j, x + j, 4);
#                 else to[j] = -INFINITY;
#     }
#     __device__ void store(int i, float4 v) const {
#         float each[4] = {v.x, v.y, v.z, v.w};
#         if (whole(i)) *reinterpret_cast<float4 *>(out + i) = v;
#         else if (i < end)
#             #pragma unroll
#             for (int j = 0; j < 4; j++)
#                 if (has(i + j)) out[i + j] = each[j];
#     }
# };
#
# // out = softmax of each row of x (M, N), lse = its log-sum-exp. A cluster has a row, each of its blocks has `size`
# // columns of it, and `clusters` rows further on is its next.
# template <int BLOCKS, int THREADS>
# __global__ void __launch_bounds__(THREADS)
# cluster_softmax_kernel(const float *x, float *out, float *lse, int M, int N, int size) {
#     extern __shared__ __align__(16) float memory[];
#     float2 *of_warps = reinterpret_cast<float2 *>(memory), *of_blocks = of_warps + 32;  // two sets, for rows in turn
#     uint64_t *come = reinterpret_cast<uint64_t *>(of_blocks + 2 * BLOCKS);
#     float *next = memory + 128;
#     const float4 none = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
#     const float2 nothing = make_float2(-INFINITY, 0.0f);
#     int t = threadIdx.x, lane = t % 32, warp = t / 32, rank = cluster_rank(), clusters = gridDim.x / BLOCKS;
#     int first = min(rank * size, N), columns = min(size, N - first), turn = 0;
#     auto part_of = [&](int row) {
#         size_t at = (size_t)row * N + first;
#         return Part(x + at, out + at, columns);
#     };
#     auto fetch = [&](int row) {  // a thread reads what it fetched itself: no barrier between
#         #pragma unroll
#         for (int k = 0; k < 7; k++)
#             if (row < M) part_of(row).fetch(next, 4 * (t + k * THREADS));
#         __pipeline_commit();
#     };
#     if (t < 2) mbarrier_init(&come[t], 1);
#     mbarrier_fence();
#     cluster_sync();
#     fetch(blockIdx.x / BLOCKS);
#     for (int row = blockIdx.x / BLOCKS; row < M; row += clusters, turn++) {
#         Part part = part_of(row);
#         float4 v[7];
#         float m = -INFINITY, l = 0.0f;
#         __pipeline_wait_prior(0);
#         #pragma unroll
#         for (int k = 0; k < 7; k++) {
#             int i = 4 * (t + k * THREADS);
#             v[k] = i < part.end ? *reinterpret_cast<float4 *>(next + i) : none;
#             m = fmaxf(m, fmaxf(fmaxf(v[k].x, v[k].y), fmaxf(v[k].z, v[k].w)));
#         }
#         fetch(row + clusters);
#         float shift = zero_for_none(m);
#         #pragma unroll
#         for (int k = 0; k < 7; k++) {
#             v[k] = make_float4(__expf(v[k].x - shift), __expf(v[k].y - shift),
#                                __expf(v[k].z - shift), __expf(v[k].w - shift));
#             l += v[k].x + v[k].y + v[k].z + v[k].w;
#         }
#
#         // (m, l) of the warp, of the block, of the row
#         int set = turn % 2;  // a fast block may send the next row's pair while another still reads this row's
#         float2 *pairs = of_blocks + set * BLOCKS, pair = merged(make_float2(m, l));
#         if (lane == 0) of_warps[warp] = pair;
#         __syncthreads();
#         if (warp == 0) {
#             pair = merged(lane < THREADS / 32 ? of_warps[lane] : nothing);
#             if (lane == 0) mbarrier_expect(&come[set], 8 * BLOCKS);
#             if (lane < BLOCKS) store_async(&pairs[rank], pair, &come[set], lane);
#         }
#         mbarrier_wait(&come[set], turn / 2 % 2);
#         pair = merged(lane < BLOCKS ? pairs[lane] : nothing);
#
#         float scale = __expf(m - pair.x) / pair.y;  // v is relative to this thread's m
#         #pragma unroll
#         for (int k = 0; k < 7; k++)
#             part.store(4 * (t + k * THREADS),
#                        make_float4(v[k].x * scale, v[k].y * scale, v[k].z * scale, v[k].w * scale));
#         if (rank == 0 && t == 0) lse[row] = pair.x + __logf(pair.y);
#     }
#     cluster_sync();
# }


# %% cell="given" id="cluster_softmax"
def cluster_softmax(x, out, lse):
    M, N = x.shape
    threads = 1024 if x.is_cuda else 128  # the emulator's clusters have 1024 threads in all
    most = 28 * threads - 4  # 7 quads a thread; the first and the last of a part may hold less
    blocks = next((b for b in (2, 4, 8) if b * most >= N), None)
    plain = x.dtype == torch.float32 and x.is_contiguous() and out.is_contiguous()
    alike = x.data_ptr() % 16 == out.data_ptr() % 16
    if blocks is None or not plain or not alike or (x.is_cuda and not lab.device.runs(90)):
        one_launch_softmax(x, out, lse)
        return
    kernel = cluster_softmax_kernel.module[f"cluster_softmax_kernel<{blocks},{threads}>"].clustered(blocks)
    size, shared = triton.cdiv(N, 4 * blocks) * 4, 512 + threads * 28 * 4
    grid = blocks * min(M, kernel.clusters(threads, shared))  # as many as the GPU runs at once, and they stay
    kernel[grid, threads, shared](x, out, lse, M, N, size)


clusters.try_out(cluster_softmax, {"one_launch_softmax": one_launch_softmax})

# %% [markdown]
# **Next levels.** Let the second loop of `online_softmax` run backwards, from the end of the row: when does that find
# data in the L2? Keep x in registers between the two jobs of a part, in programs that stay on their SMs. Use
# `tl.exp2` throughout, with log₂ e multiplied in once.
#
# **In practice** the pair (m, l) is what makes FlashAttention possible: there a third thing is carried along, the
# output, and rescaled with l (`17_flash_attention`). Splitting a row and merging by (m, l) is flash-decoding
# (`19_decode_attention`).
#
# **Reading.** [Milakov and Gimelshein, Online normalizer calculation for
# softmax](https://arxiv.org/abs/1805.02867): the update. [Merrill and Garland, Single-pass
# Parallel Prefix Scan with Decoupled Look-back](https://research.nvidia.com/publication/2016-03_single-pass-parallel-prefix-scan-decoupled-look-back):
# tickets, and programs that wait for earlier ones.
