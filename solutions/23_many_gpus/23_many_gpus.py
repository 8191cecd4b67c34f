# %% [markdown]
# # Many GPUs: split the work, count the messages
#
# **You will** write an [all-reduce](../glossary.md#all-reduce), and split an MLP (two linear layers with a ReLU between
# them) over several GPUs.
#
# **You will learn to**
#
# - predict the time of a [collective](../glossary.md#collective) from a link's bandwidth and latency;
# - build a collective out of messages, and recognize a deadlock;
# - split the weights of an MLP so that the GPUs communicate once in the forward pass and once in the backward pass.
#
# **You need** `05_roofline`. About 90 minutes. Works without a GPU: the checks simulate the links, and the measured
# times come from processes on the CPU. With two GPUs or more, you measure [NCCL](../glossary.md#nccl) on the GPUs
# instead.
#
# ## 1 How long does an all-reduce take?
#
# Each process of a program on p GPUs has a number, its [rank](../glossary.md#rank), from 0 to p − 1. An all-reduce adds
# the buffers of all ranks element by element and gives the sum to every rank. Training with several copies of a model
# ([data parallelism](../glossary.md#data-parallelism)) sums the copies' gradients with an all-reduce in each step.
#
# A message over a link takes *latency + bytes / bandwidth*. An all-reduce can be built from messages in two ways:
#
# - **Ring.** Each rank sends only to the next rank, and the last rank sends to rank 0. Each rank cuts its buffer into p
#   chunks. In each step, all ranks send one chunk each, at the same time. In phase 1, the
#   [reduce-scatter](../glossary.md#reduce-scatter), ranks add what they receive. After p − 1 steps, each rank has the
#   complete sum of one chunk. Phase 2, the [all-gather](../glossary.md#all-gather), takes p − 1 more steps and sends
#   these sums to all other ranks.
# - **Tree.** At first, all ranks are active. In each step, half of the active ranks send their whole buffers to the
#   other half. The receivers add these to their own buffers; the senders are no longer active. After ⌈log2 p⌉ steps,
#   one rank has the sum. Another ⌈log2 p⌉ steps send the sum back to all ranks.
#
# **Predict** the times of ring and tree in µs: write `all_reduce_us`. `both_gbs` is the bandwidth in the data sheet,
# such as {claim: nvlink_4_gbs} for the [NVLink](../glossary.md#nvlink) of an H200. This number counts both directions
# together, so a rank sends at half this rate.
#
# <details><summary>Hint 1</summary>1 GB/s is 1000 bytes per µs. How many bytes per µs can a rank send?</details>
# <details><summary>Hint 2</summary>In a step of the ring, a message has bytes / gpus bytes; in a step of the tree, it
# has all bytes. Add the latency once per step.</details>
# <details><summary>Hint 3</summary>The ring has 2 (gpus − 1) steps, the tree has
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

ranks.times(all_reduce_us, gpus=8)  # above which size is the ring faster than the tree?

# %% [markdown]
# ## 2 Write the ring
#
# Each rank calls the same function, with its own `rank` and `x`. The object `comm` sends and receives messages:
#
# | call | similar call in `torch.distributed` | meaning here |
# |---|---|---|
# | `comm.send(tensor, to)` | `send` | returns when rank `to` has received the tensor |
# | `comm.recv(buffer, source)` | `recv` | returns when the message of rank `source` is in the buffer |
# | `e = comm.exchange(tensor, to, buffer, source)` | `batch_isend_irecv` | starts to send and receive, and returns |
# | `e.wait()` | `wait` | returns when send and receive are complete; only then may you read the buffer |
#
# If every rank calls `send` first, no rank receives, so all ranks wait forever: a [deadlock](../glossary.md#deadlock).
#
# Write `ring_all_reduce`; `world` is p. Rank r sends only to rank r + 1 (the last rank to rank 0).
# `x.tensor_split(world)` returns p chunks, which are views of x. If n, the number of elements of x, is not divisible by
# p, some chunks have one element more than others.
#
# - *Reduce-scatter*: in step s = 0, …, p − 2, rank r sends its chunk r − s (modulo p). Rank r adds the chunk that it
#   receives to its own chunk with the same number.
# - *All-gather*: rank r now has the complete sum of chunk r + 1. In step 0, it sends this chunk; in each later step, it
#   sends the chunk that it received in the previous step. A received chunk replaces the rank's own chunk with the same
#   number.
#
# The check replays your messages on simulated links. It counts the elements sent over each link, and your function may
# take at most the time of 2 (p − 1) steps. **Predict** first: how many elements does a rank send in total for n = 16
# and p = 4?
#
# <details><summary>Hint 1</summary>Which chunk does the previous rank send in step s? The previous rank is r − 1, so
# you receive chunk r − 1 − s.</details>
# <details><summary>Hint 2</summary>A received chunk needs a buffer of its own size:
# <code>torch.empty_like(chunks[k])</code>. Add the buffer to your chunk after <code>wait()</code>.</details>
# <details><summary>Hint 3</summary>In step s of the all-gather, send chunk r + 1 − s and receive chunk r − s, directly
# into x (without a buffer).</details>

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

distributed.race(ring_all_reduce, all_reduce_us)  # times of your ring, of PyTorch's all-reduce, and your prediction
ranks.picture(ring_all_reduce, 4, 16)

# %% [markdown]
# | what the check prints | common cause |
# |---|---|
# | "deadlock: ranks … wait for each other" | every rank calls `send` first, or every rank calls `recv` first |
# | "before its data arrived" | the buffer is read before `wait()` |
# | "more than once in its sum" | the all-gather adds a received chunk instead of replacing the rank's own |
# | "no sum of elements" | a received chunk is added to a chunk with another number |
# | "sends … elements" | each step sends the whole buffer instead of one chunk |
#
# The printed *bus bandwidth* is 2 (p − 1) / p · bytes / time: the bytes that each rank of a ring sends per second. At
# best, it equals the bandwidth of a link in one direction. On a CPU, other processes disturb the measured times.
#
# ## 3 Split an MLP
#
# An MLP computes y = relu(x · w_up + b_up) · w_down + b_down. Each row of x is a token (one word of a text), and
# relu(…) is the *hidden layer*. If the weights are too large for one GPU, each of p ranks keeps a part of them ([tensor
# parallelism](../glossary.md#tensor-parallelism)). Every rank has the whole x.
#
# - Split `w_up` by **columns**: each rank computes some columns of the hidden layer. So each rank computes complete dot
#   products. ReLU needs them: relu(a + b) is not relu(a) + relu(b).
# - Split `w_down` by **rows**: each rank keeps the rows that belong to its hidden columns. The product of its hidden
#   columns and these rows has the shape of y, but is only one of p terms of a sum. One all-reduce adds the terms.
#
# `b_up` has one number for each hidden column, so split it, too. `b_down` is added to the complete sum, so each rank
# keeps all of it. Write `shard`, which returns a rank's part of the four tensors. A rank has adjacent hidden columns;
# rank 0 has the first ones. The number of hidden columns, `hidden`, is divisible by `world`.
#
# <details><summary>Hint 1</summary>How many hidden columns does each rank have? Which is the first column of rank
# r?</details>
# <details><summary>Hint 2</summary>You can use the same <code>slice</code> for three of the four tensors.</details>
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
# Write `mlp` and `mlp_backward`. Their argument `part` is what `shard` returned. `comm.all_reduce(tensor)` replaces a
# tensor by its sum over all ranks. `comm.all_gather(tensor)` returns the tensors of all ranks. **Predict** first: how
# many collectives does the forward pass need, and how many the backward pass?
#
# The backward pass gets dy, the gradient of y (the derivative of the loss with respect to y), which is the same on all
# ranks. It returns the gradients of x and of the rank's four tensors. On one GPU, with z = x · w_up + b_up and h =
# relu(z), these gradients are:
#
# | gradient | formula |
# |---|---|
# | dz | dy · w_downᵀ where z > 0, else 0 |
# | dx | dz · w_upᵀ |
# | dw_up, db_up | xᵀ · dz, sum of dz over tokens |
# | dw_down, db_down | hᵀ · dy, sum of dy over tokens |
#
# The check uses small integers, so your results must be exact. It also counts collectives: each pass may do one
# all-reduce, of a (tokens, width) tensor.
#
# <details><summary>Hint 1</summary>To which results does every rank contribute a term of a sum? Only these need an
# all-reduce.</details>
# <details><summary>Hint 2</summary>The gradients of a rank's own weights and biases need nothing from other ranks. But
# x goes into the hidden columns of all ranks, so each rank computes one term of dx.</details>
# <details><summary>Hint 3</summary>In the forward pass, all-reduce h · <code>w_down</code>, then add
# <code>b_down</code>. In the backward pass, all-reduce only dx.</details>


# %% cell="solution" id="mlp"
def mlp(x, part, comm):
    """Return y (tokens, width), the same on every rank. `part` is what `shard` returned."""
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
lab.claims("23_many_gpus")  # a two-minute quiz: predict each number, then compare
distributed.mlp_step(shard, mlp, mlp_backward)  # in real processes: is the result right, and how long is a step?

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** A layer's all-reduce has 16 KB when a model [decodes](../glossary.md#decode) one token, and 128 MB in
# training. A colleague wants to buy links with twice the bandwidth. Compute the time of the ring with your
# `all_reduce_us`, for 8 GPUs, 900 GB/s and a latency of 3 µs, and then with the new links. How many µs do they save for
# each of the two all-reduces? For one of the two, they save very little: what else would make this all-reduce faster?
#
# ### BEGIN SOLUTION
# A ring needs 42.06 µs for 16 KB, of which 42 µs are latency: 14 steps of 3 µs. Twice the bandwidth gains 0.03 µs.
# Fewer steps help more: the tree takes 6 steps and 18.2 µs. If each rank instead reads the buffers of all others in one
# step, it takes even less. For 128 MB (2**27 bytes), the ring takes 564 µs, of which 522 µs are transfer: twice the
# bandwidth gains 261 µs. Overlap with compute also helps this all-reduce, as do elements of 2 instead of 4 bytes.
# ### END SOLUTION

# %% [markdown]
# **Next.** `23_pipeline_parallel` splits a model by layers. It also shows which splits need fast links.
#
# **In practice**, call `torch.distributed.all_reduce`: NCCL chooses ring or tree by the buffer's size. For a tree, it
# cuts the buffer into pieces whose steps overlap, so trees reach high bandwidth, too. If a switch (NVSwitch) connects
# the GPUs of a server, the switch can add the buffers (NVLink SHARP). Real MLPs use GeLU or SwiGLU; the split is the
# same.
#
# **Reading.** Shoeybi et al., [Megatron-LM](https://arxiv.org/abs/1909.08053), the split of this notebook. [NCCL
# tests](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md): how NCCL's tests define algorithm
# bandwidth and bus bandwidth. [`torch.distributed`](https://docs.pytorch.org/docs/stable/distributed.html), all calls.
