# %% [markdown]
# # Plan the kernels of a transformer block
#
# **You will** decide which operations of a [transformer block](../glossary.md#transformer-block) share a
# [kernel](../glossary.md#kernel), and write the search that decides it for any block.
#
# **You will learn to**
#
# - count the bytes that a set of kernels moves;
# - tell which operations can share a kernel, and which cannot;
# - write the search that a compiler uses to choose kernels.
#
# **You need** `13_fusion` and `17_flash_attention`. About 50 minutes. No GPU needed. `24_capstone` writes the kernels
# of this plan.
#
# ## 1 A block is a graph
#
# A transformer block is a graph of operations. The [nodes](../glossary.md#node) below are those of a block of Llama 3,
# for 8 sequences of 2048 tokens. Each result has one row per token. A node has a `kind`:
#
# | kind | what it computes | nodes |
# |---|---|---|
# | `input` | nothing: its rows are in memory | `x` |
# | `row` | one number from each row, or from every `over` columns of a row | `rms1`, `rms2`: 1 / root mean square |
# | `elementwise` | each element from elements of the same row and head | `scale1`, `rope`, `swiglu`, … |
# | `matmul` | each row times a matrix of weights | `qkv`, `out`, `gate_up`, `down` |
# | `attention` | each row from all rows of its sequence | `attention` |
#
# So RMSNorm is two nodes here: `rms1` computes one factor per row, and `scale1` multiplies the row by the factor and by
# the norm's weights. `rope` rotates queries and keys by an angle that grows with the position of the token. `swiglu`
# multiplies one half of its input by the SiLU of the other half. `residual1` and `residual2` add the input of a branch
# to its result.
#
# A *partition* puts each node (except inputs) into exactly one kernel. A kernel reads what its nodes need from memory,
# keeps intermediate results in registers and shared memory, and stores the results that other kernels need.
#
# **Predict.** `traffic` returns the bytes that all kernels of a partition move:
#
# - A kernel reads each result that its nodes need and that it does not compute itself. It reads each only once.
# - A kernel stores each of its results that another kernel needs. It also stores a result that no node needs, because
#   this is a result of the block.
#
# Weights are left out. Each weight is read once in every partition.
#
# <details><summary>Hint 1</summary>Handle one kernel at a time. Collect the names that it reads in a set, and the names
# that it stores in another set.</details>
# <details><summary>Hint 2</summary>The readers of a node are all nodes that have its name in their
# <code>inputs</code>.</details>
# <details><summary>Hint 3</summary>A result need not be stored only if it has readers, and all of them are in its own
# kernel.</details>

# %% cell="setup"

# %% cell="given" id="graph"
import itertools

from labutils import blocks

graph = blocks.graph()
blocks.show(graph)
print(graph["rms1"])


# %% cell="solution" id="traffic"
def traffic(graph, kernels):
    """Return the bytes that the kernels read and store.

    graph    name -> {"kind": ..., "inputs": [names], "columns": ..., "bytes": bytes of the result}
    kernels  a list of lists of names
    """
    ### BEGIN SOLUTION
    total = 0
    for kernel in kernels:
        moved = {i for name in kernel for i in graph[name]["inputs"] if i not in kernel}
        for name in kernel:
            readers = [other for other in graph if name in graph[other]["inputs"]]
            if not readers or any(r not in kernel for r in readers):
                moved.add(name)
        total += sum(graph[name]["bytes"] for name in moved)
    return total
    ### END SOLUTION


# %% cell="check" exercise="24_block/traffic"
lab.check("24_block/traffic")

# %% [markdown]
# ## 2 Choose the kernels
#
# Which nodes can share a kernel? A kernel without a matmul gives whole rows to each program, so all its nodes fit. A
# program of a matmul computes a [tile](../glossary.md#tile) of 128 rows and at most 256 columns. These are the rules:
#
# 1. **No cycle.** A kernel starts when all its inputs are in memory. Two kernels must not wait for each other.
# 2. **One matmul.** A kernel has at most one `matmul` or `attention`.
# 3. **After a matmul** (the [epilogue](../glossary.md#epilogue)), elementwise nodes are allowed. A `row` node is
#    allowed only if `over` is at most 256: a program never holds a whole row of 4096 columns.
# 4. **Before a matmul** (the [prologue](../glossary.md#prologue)), elementwise nodes are allowed. They run in the loop
#    along K, when a tile of the input is loaded. Every column of tiles computes them again, so their results cannot be
#    stored for other kernels.
# 5. **A norm before a matmul.** The loop along K reads whole rows, so it can also compute the root mean square of each
#    row. The factor of a row is known only after the loop. But the factor multiplies the whole row, so it can multiply
#    the row of the *product* instead. This works only for the chain `row`, elementwise, `matmul` with nothing between,
#    and only if the `row` node reduces all columns that the loop reads.
# 6. **Nothing before attention**, because it reads keys and values that other programs compute.
#
# **Predict.** How few kernels can the block have? Which results must be stored?
#
# Write `partition`, which finds kernels for any such graph. The check uses blocks that differ from this one, such as
# blocks whose attention and MLP run in parallel, or blocks with norms elsewhere. Your partition may move at most 2 %
# more bytes than the best one. `blocks.problem(graph, kernels)` returns the violated rule as a sentence, or None.
#
# <details><summary>Hint 1</summary>Start with one kernel for each node. Merge two kernels at a time.</details>
# <details><summary>Hint 2</summary>Try all pairs of kernels. Of all merges that break no rule, keep the one after which
# your <code>traffic</code> is smallest.</details>
# <details><summary>Hint 3</summary>Stop when no merge lowers the traffic. <code>itertools.combinations(kernels,
# 2)</code> gives all pairs.</details>


# %% cell="solution" id="partition"
def partition(graph):
    """Return kernels, as lists of names, that compute the graph and move few bytes."""
    ### BEGIN SOLUTION
    kernels = [[name] for name in graph if graph[name]["kind"] != "input"]
    while True:
        best = kernels
        for a, b in itertools.combinations(kernels, 2):
            merged = [k for k in kernels if k is not a and k is not b] + [a + b]
            if traffic(graph, merged) < traffic(graph, best) and blocks.problem(graph, merged) is None:
                best = merged
        if best is kernels:
            return kernels
        kernels = best
    ### END SOLUTION


# %% cell="check" exercise="24_block/partition"
lab.check("24_block/partition")

# %%
blocks.show(graph, partition(graph))

# %% [markdown]
# | what the check prints | common cause |
# |---|---|
# | `a cycle` | two kernels were merged although a third one lies between them |
# | `a tile of … has only 256` | a norm was merged with the matmul before it |
# | `no kernel stores it` | a norm that two matmuls read was merged with one of them |
# | "merging … saves" | the search stopped too early, or does not try every pair |
#
# `torch.compile` works like your `partition`: its scheduler scores pairs of nodes by the bytes that a merge saves, and
# checks rules. But it calls a library for most matmuls, and fuses nothing into those. The printed table shows what that
# costs in bytes. Fewer bytes are not always less time: a matmul is compute-bound, and a prologue can slow its loop
# down. So measure. `24_capstone` implements this plan, gives up one of its fusions, and races the block against
# `torch.compile`.

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** Compare your prediction with the partition that your function found: how many kernels does it have, and
# which results does it store? Why does rule 5 multiply the rows of the *product* by the factor? Name a fusion that a
# rule forbids although it would save bytes, and say what a kernel would need to do it.
#
# ### BEGIN SOLUTION
# Five kernels: one for each matmul and one for attention. Stored are the rotated queries, keys and values, the result
# of attention, both residual sums, and the result of SwiGLU. The factor of a row is known only after the loop along K,
# when the products are summed already; but the same factor multiplies every term of a row's sum, so it can multiply the
# sum. A norm behind a matmul is forbidden by rule 3: a program would need the whole row of 4096 columns, but its tile
# has 256. The programs of a row could exchange sums of squares, as in a cluster of blocks on Hopper.
# ### END SOLUTION

# %% [markdown]
# **Next.** Let `partition` try all ways to cut the graph, and compare. How much worse is the greedy search?
#
# **In practice**, PyTorch's Inductor, XLA and TVM choose fusions with such searches, over graphs of thousands of nodes.
#
# **Reading.** [PyTorch 2](https://docs.pytorch.org/assets/pytorch2-2.pdf), section “Scheduling”, on Inductor's fusion.
