# %% [markdown]
# # Many GPUs: split the work, count the messages
#
# **You will** write an [all-reduce](../glossary.md#all-reduce), and split the two layers of an MLP over several GPUs.
#
# **You will learn to**
#
# - predict how long a [collective](../glossary.md#collective) takes, from the bandwidth and latency of a link;
# - write a collective from messages, and recognize a deadlock;
# - split the weights of a model so that its GPUs communicate once per pass.
#
# **You need** `05_roofline`. About 90 minutes. Works without a GPU: the checks simulate the links, and the timings use
# processes on the CPU. With two GPUs or more, the timings use NCCL.
#
# ## 1 How long does an all-reduce take?
#
# Each process of a program on p GPUs has a number, its [rank](../glossary.md#rank), from 0 to p − 1. An all-reduce adds
# the buffers of all ranks element by element and gives the sum to every rank. Training with several copies of a model
# ([data parallelism](../glossary.md#data-parallelism)) adds up the gradients like this in each step.
#
# A message over a link takes *latency + bytes / bandwidth*. Two ways to build an all-reduce from messages are:
#
# - **Ring.** Each rank sends to the next rank, and the last rank to rank 0. The buffer is cut into p chunks. The first
#   half, the [reduce-scatter](../glossary.md#reduce-scatter), takes p − 1 steps. After these steps, each rank has the
#   complete sum of one chunk. The second half, the [all-gather](../glossary.md#all-gather), sends these sums around in
#   p − 1 more steps. In each step, all ranks send one chunk at the same time.
# - **Tree.** In each step, half of the remaining ranks send their whole buffers to the other half, which add them to
#   their own. The senders are then done. After ⌈log2 p⌉ steps, one rank has the sum. Sending the sum back to all ranks
#   takes as many steps.
#
# **Predict** the time of ring and tree in µs: write `all_reduce_us`. `both_gbs` is the figure of the data sheet, such
# as {claim: nvlink_4_gbs} for the NVLink of an H200. This figure counts both directions together, so a rank sends at
# half of it.
#
# <details><summary>Hint 1</summary>1 GB/s is 1000 bytes in a microsecond. How many bytes per µs go in one
# direction?</details>
# <details><summary>Hint 2</summary>A step of the ring moves bytes / gpus. A step of the tree moves all bytes. Each step
# takes one latency.</details>
# <details><summary>Hint 3</summary>The ring has 2 (gpus − 1) steps, the tree
# <code>2 * math.ceil(math.log2(gpus))</code>.</details>

# %% cell="setup"

# %% cell="solution" id="all_reduce_us"
import math


def all_reduce_us(bytes, gpus, both_gbs, latency_us):
    """Return (ring, tree): the time of an all-reduce in µs.

    bytes       size of the buffer on each rank
    both_gbs    bandwidth of a link in GB/s, both directions together
    """
    ### BEGIN SOLUTION
    bytes_per_us = both_gbs / 2 * 1000
    ring = 2 * (gpus - 1) * (latency_us + bytes / gpus / bytes_per_us)
    tree = 2 * math.ceil(math.log2(gpus)) * (latency_us + bytes / bytes_per_us)
    return ring, tree
    ### END SOLUTION


# %% cell="check" exercise="23_many_gpus/all_reduce_us"
lab.check("23_many_gpus/all_reduce_us")

# %%
from labutils import ranks

ranks.times(all_reduce_us, gpus=8)  # at which size does the ring become faster?

# %% [markdown]
# ## 2 Write the ring
#
# Each rank runs the same function, with its own `rank` and `x`. `comm` sends and receives:
#
# | call | in `torch.distributed` | meaning |
# |---|---|---|
# | `comm.send(tensor, to)` | `send` | returns when rank `to` has received the tensor |
# | `comm.recv(buffer, source)` | `recv` | returns when the message of rank `source` is in the buffer |
# | `e = comm.exchange(tensor, to, buffer, source)` | `batch_isend_irecv` | starts both and returns at once |
# | `e.wait()` | `wait` | returns when both are complete; only then is the buffer filled |
#
# If all ranks call `send` first, no rank receives, and all wait forever: a [deadlock](../glossary.md#deadlock).
#
# Write `ring_all_reduce`. Rank r sends only to rank r + 1, and the last rank to rank 0. `world` is p.
# `x.tensor_split(world)` returns p chunks, which are views of x. The n elements of x need not be divisible by p, so the
# sizes of chunks may differ by one element.
#
# - *Reduce-scatter*: in step s = 0, …, p − 2, rank r sends chunk r − s (modulo p). It adds the chunk that it receives.
# - *All-gather*: rank r now has the sum of chunk r + 1, and sends it first. In each later step, rank r forwards the
#   chunk that it received in the step before.
#
# The check replays your messages on simulated links. It counts the elements on each link, and the time must be that of
# 2 (p − 1) steps. **Predict** first: how many elements does a rank send for n = 16 and p = 4?
#
# <details><summary>Hint 1</summary>Which chunk does the previous rank send in step s? Insert r − 1 for r in the formula
# of the reduce-scatter.</details>
# <details><summary>Hint 2</summary>A received chunk needs a buffer of its own size:
# <code>torch.empty_like(chunks[k])</code>. Add the buffer to your chunk after <code>wait()</code>.</details>
# <details><summary>Hint 3</summary>In step s of the second half, send chunk r + 1 − s and receive chunk r − s. Receive
# directly into x.</details>

# %% cell="solution" id="ring_all_reduce"
import torch

from labutils import ranks


def ring_all_reduce(rank, world, x, comm):
    """Replace x (n,) by its sum over all ranks, in place."""
    ### BEGIN SOLUTION
    chunks = x.tensor_split(world)
    to, source = (rank + 1) % world, (rank - 1) % world
    for step in range(world - 1):
        mine, theirs = (rank - step) % world, (rank - step - 1) % world
        buffer = torch.empty_like(chunks[theirs])
        comm.exchange(chunks[mine], to, buffer, source).wait()
        chunks[theirs].add_(buffer)
    for step in range(world - 1):
        mine, theirs = (rank + 1 - step) % world, (rank - step) % world
        comm.exchange(chunks[mine], to, chunks[theirs], source).wait()
    ### END SOLUTION


def ring_run(world, n):
    return ranks.all_reduce(ring_all_reduce, world, n)


# %% cell="check" exercise="23_many_gpus/ring_all_reduce"
lab.check("23_many_gpus/ring_all_reduce")

# %%
from labutils import distributed

distributed.race(ring_all_reduce, all_reduce_us)  # in real processes: your ring, the library's, the prediction
ranks.picture(ring_all_reduce, 4, 16)

# %% [markdown]
# | what the check prints | common cause |
# |---|---|
# | `deadlock: ranks 0 → 1 → …` | every rank calls `send`, or every rank calls `recv`, before the other |
# | "before its data arrived" | the buffer is read before `wait()` |
# | "more than once in its sum" | the second half adds what it should overwrite |
# | "no sum of elements" | the received chunk is added to another chunk |
# | "sends … elements" | the whole buffer is sent in each step |
#
# The printed *bus bandwidth* is 2 (p − 1) / p · bytes / time: what each rank sends per second. At best, it is the
# bandwidth of a link in one direction. On a CPU, other processes disturb these times.
#
# ## 3 Split an MLP
#
# An MLP computes y = relu(x · w_up + b_up) · w_down + b_down. The weights are too large for one GPU, so each of p ranks
# keeps a part of them ([tensor parallelism](../glossary.md#tensor-parallelism)). All ranks have the whole x.
#
# - Split `w_up` by **columns**. Each rank computes some columns of the hidden layer, completely. So it can apply ReLU,
#   which needs the whole sum: relu(a + b) is not relu(a) + relu(b).
# - Split `w_down` by **rows**: each rank keeps the rows that belong to its hidden columns. Its product then has the
#   shape of y, but is only a part of the sum. One all-reduce adds the parts.
#
# `b_up` has one number for each hidden column, so it is split, too. `b_down` is added once, to the complete sum, so
# each rank keeps all of it. `shard` returns the contiguous part of a rank; rank 0 has the first hidden columns.
# `hidden` is divisible by `world`.
#
# <details><summary>Hint 1</summary>How many hidden columns has a rank? At which column does rank r start?</details>
# <details><summary>Hint 2</summary>One <code>slice</code> serves three of the four tensors.</details>
# <details><summary>Hint 3</summary><code>w_up[:, own], b_up[own], w_down[own], b_down</code></details>


# %% cell="solution" id="shard"
def shard(w_up, b_up, w_down, b_down, rank, world):
    """Return this rank's part of the four tensors.

    w_up    (width, hidden)     b_up    (hidden,)
    w_down  (hidden, width)     b_down  (width,)
    """
    ### BEGIN SOLUTION
    each = w_up.shape[1] // world
    own = slice(rank * each, (rank + 1) * each)
    return w_up[:, own], b_up[own], w_down[own], b_down
    ### END SOLUTION


def shards(width, hidden, world):
    return ranks.shards(shard, width, hidden, world)


# %% cell="check" exercise="23_many_gpus/shard"
lab.check("23_many_gpus/shard")

# %% [markdown]
# ## 4 Forward and backward
#
# Write `mlp` and `mlp_backward` with the part that `shard` returned. `comm.all_reduce(tensor)` replaces a tensor by its
# sum over all ranks. `comm.all_gather(tensor)` returns the tensors of all ranks. **Predict** first: how many
# collectives does each pass need?
#
# The backward pass gets dy, the same on all ranks, and returns the gradients of x and of the rank's four pieces. With
# h = relu(x · w_up + b_up):
#
# | gradient | formula |
# |---|---|
# | dh | dy · w_downᵀ where the input of ReLU is > 0, else 0 |
# | dx | dh · w_upᵀ |
# | dw_up, db_up | xᵀ · dh, sum of dh over tokens |
# | dw_down, db_down | hᵀ · dy, sum of dy over tokens |
#
# The check uses whole numbers, so results must be exact. It also counts collectives: one all-reduce of (tokens, width)
# in each pass.
#
# <details><summary>Hint 1</summary>To which results does every rank add a part? Only these need a sum over
# ranks.</details>
# <details><summary>Hint 2</summary>The gradients of a rank's hidden columns need nothing from other ranks. All ranks
# use the same x, so each rank adds a part to dx.</details>
# <details><summary>Hint 3</summary>Forward, sum the product with <code>w_down</code>, then add <code>b_down</code>.
# Backward, sum only dx.</details>


# %% cell="solution" id="mlp"
def mlp(x, part, comm):
    """Return y (tokens, width) on every rank. part is what shard returned."""
    ### BEGIN SOLUTION
    w_up, b_up, w_down, b_down = part
    y = torch.relu(x @ w_up + b_up) @ w_down
    comm.all_reduce(y)
    return y + b_down
    ### END SOLUTION


def mlp_backward(x, part, dy, comm):
    """Return dx (tokens, width), the same on every rank, and dw_up, db_up, dw_down, db_down of this rank's part."""
    ### BEGIN SOLUTION
    w_up, b_up, w_down, _ = part
    before = x @ w_up + b_up
    dh = (dy @ w_down.T) * (before > 0)
    dx = dh @ w_up.T
    comm.all_reduce(dx)
    return dx, x.T @ dh, dh.sum(0), torch.relu(before).T @ dy, dy.sum(0)
    ### END SOLUTION


def mlp_run(tokens, width, hidden, world):
    return ranks.mlp(shard, mlp, mlp_backward, tokens, width, hidden, world)


# %% cell="check" exercise="23_many_gpus/mlp"
lab.check("23_many_gpus/mlp")

# %%
distributed.mlp_step(shard, mlp, mlp_backward)  # in real processes: the result, and the time of a step

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** A layer's all-reduce moves 16 KB in decoding one token, and 128 MB in training. A colleague wants to buy
# links with twice the bandwidth for both. Use your `all_reduce_us` for 8 GPUs: how much faster does each all-reduce
# get? What would help more where the gain is small?
#
# ### BEGIN SOLUTION
# With 900 GB/s and 3 µs, a ring needs 42.06 µs for 16 KB, of which 42 µs are latency: 14 steps of 3 µs. Twice the
# bandwidth gains 0.03 µs. Fewer steps help: the tree takes 6 steps, 18.2 µs. One-step schemes, where each rank reads
# the buffers of all others, take even less. For 128 MB (2**27 bytes) the ring takes 564 µs, of which 522 µs are
# transfer: twice the bandwidth saves 261 µs. There, overlap with compute helps, too, or 2-byte instead of 4-byte
# elements.
# ### END SOLUTION

# %% [markdown]
# **Next.** `23_pipeline_parallel` splits a model by layers, and decides which split goes over which link.
#
# **In practice**, call `torch.distributed.all_reduce`: NCCL chooses ring or tree by size. It cuts buffers into pieces,
# so that the steps of a tree overlap and trees also reach high bandwidth. Within a node with NVSwitch, the switch can
# add (NVLink SHARP). Real MLPs use GeLU or SwiGLU; the split is the same.
#
# **Reading.** Shoeybi et al., [Megatron-LM](https://arxiv.org/abs/1909.08053): the split of this notebook.
# [NCCL tests](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md): algorithm and bus bandwidth.
# [`torch.distributed`](https://docs.pytorch.org/docs/stable/distributed.html): the calls.
