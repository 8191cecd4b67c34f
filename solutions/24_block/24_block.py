# %% [markdown]
# # Plan the kernels of a transformer block
#
# **You will** decide which operations of a [transformer block](../glossary.md#transformer-block) share a
# [kernel](../glossary.md#kernel), and write a function that decides this for any block.
#
# **You will learn to**
#
# - count the bytes that a set of kernels moves;
# - recognize which operations can share a kernel;
# - choose kernels by a search, as a compiler does.
#
# **You need** `13_fusion` and `17_flash_attention`. About 50 minutes. You need no GPU. In `24_capstone`, you write the
# kernels that you plan here.
#
# ## 1 A block is a graph
#
# A transformer block is a graph. Its nodes are operations, and an operation's inputs are results of other nodes. The
# nodes below are those of a block of the language model Llama 3, for 8 sequences of 2048 tokens. Each result has one
# row per token. A node has a `kind`. A node of kind `row` also has a number `over`:
#
# | kind | what it computes | nodes |
# |---|---|---|
# | `input` | nothing: its rows are already in memory | `x` |
# | `row` | one number per `over` columns of a row | `rms1`, `rms2`: 1 / root mean square of a whole row |
# | `elementwise` | each element from elements of the same row and head | `scale1`, `rope`, `swiglu`, … |
# | `matmul` | each row times a matrix of weights | `qkv`, `out`, `gate_up`, `down` |
# | `attention` | each row from all rows of its sequence | `attention` |
#
# So RMSNorm is two nodes here: `rms1` computes one factor per row, and `scale1` multiplies the row by this factor and
# by the norm's weights. `rope` rotates queries and keys by an angle that grows with the token's position. `swiglu`
# multiplies one half of its input by the SiLU of the other half. `residual1` adds x to the result of `out`, and
# `residual2` adds the result of `residual1` to that of `down`.
#
# A *partition* puts each node (except inputs) into exactly one kernel. A kernel reads its inputs from memory, keeps
# intermediate results in registers and shared memory, and stores the results that other kernels need.
#
# **Predict** the traffic: write `traffic`, which returns the bytes that all kernels of a partition move:
#
# - A kernel reads each result that its nodes need. It reads this result only once, and not at all if it computes the
#   result itself.
# - A kernel stores each of its results that another kernel needs. It also stores a result that no node needs: the
#   result of the whole block.
#
# Leave out the weights, because each weight is read once in every partition.
#
# <details><summary>Hint 1</summary>Handle one kernel at a time. Collect the names that it reads in a set, and the names
# that it stores in another set.</details>
# <details><summary>Hint 2</summary>The readers of a node are all nodes that have its name in their
# <code>inputs</code>.</details>
# <details><summary>Hint 3</summary>A kernel stores a result if no node reads it, or if at least one reader is in
# another kernel.</details>

# %% cell="setup"

# %% cell="given" id="graph"
import itertools

from labutils import blocks

graph = blocks.graph()
blocks.show(graph)
print(graph["rms1"])


# %% cell="solution" id="traffic"
def traffic(graph, kernels):
    """Return the bytes that the kernels read and store, without weights.

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
# Which nodes can share a kernel? In a kernel without a matmul, each program computes whole rows, so any `row` and
# `elementwise` nodes can share it. A program of a matmul computes only a [tile](../glossary.md#tile) of 128 rows and at
# most 256 columns. These are the rules:
#
# 1. **No cycle.** A kernel starts when all its inputs are in memory. So two kernels must not need each other's results,
#    not even through other kernels.
# 2. **One matmul.** A kernel has at most one `matmul` or `attention`.
# 3. **After a matmul** (the [epilogue](../glossary.md#epilogue)), elementwise nodes are allowed. A `row` node is
#    allowed only if `over` is at most 256: a program never holds a whole row of 4096 columns.
# 4. **Before a matmul** (the [prologue](../glossary.md#prologue)), elementwise nodes are allowed. They run in the loop
#    along K, when a tile of the input is loaded. All programs of one row of tiles compute the same elements of the
#    prologue. They would store them several times, so a kernel must not store results of its prologue.
# 5. **A norm before a matmul.** The loop along K reads whole rows, so it can also compute each row's root mean square.
#    The *factor* of a row, 1 / root mean square, is known only after the loop. But all elements of the row have the
#    same factor, so the kernel can multiply the row of the *product* by it instead. This rule holds only for the chain
#    `row`, elementwise, `matmul` with no other node between them, and only if the `row` node reduces all columns that
#    the loop reads.
# 6. **Nothing before attention**: each program reads the keys and values of many rows, and in a merged kernel, other
#    programs would compute them.
#
# **Predict.** What is the smallest number of kernels for the block? Which results do they store?
#
# Write `partition`, which returns the kernels for any such graph. The check also uses other blocks: some compute
# attention and MLP in parallel, and some have norms in other places. Your partition may move at most 2 % more bytes
# than the best one. `blocks.problem(graph, kernels)` returns a sentence about a violated rule, or None if the kernels
# follow all rules.
#
# <details><summary>Hint 1</summary>Start with one kernel for each node. Merge two kernels at a time.</details>
# <details><summary>Hint 2</summary>Try all pairs of kernels. Of all merges that break no rule, choose the one with the
# smallest <code>traffic</code> afterward.</details>
# <details><summary>Hint 3</summary>Stop when no merge lowers the traffic. <code>itertools.combinations(kernels,
# 2)</code> gives all pairs.</details>


# %% cell="solution" id="partition"
def partition(graph):
    """Return a list of kernels, each a list of names, that compute the graph and move few bytes."""
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
lab.claims("24_block")  # a two-minute quiz: predict each number, then compare
blocks.show(graph, partition(graph))

# %% [markdown]
# | what the check prints | common cause |
# |---|---|
# | "a cycle" | kernels A and B are merged, although A → C → B: C needs a result of A, and B one of C |
# | "a tile of … has only …" | a norm is merged with the matmul before it |
# | "no kernel stores it" | a norm that two matmuls read is merged with one of them |
# | "merging … saves" | the search stops too early, or does not try every pair |
#
# `torch.compile` works like your `partition`: it checks rules, and scores pairs of nodes by the bytes that a merge
# saves. But it calls a library for most matmuls, and fuses nothing into these calls. The printed table shows how many
# more bytes `torch.compile` moves because of this. A kernel that moves fewer bytes is not always faster: a matmul is
# compute-bound, and a prologue can slow down its loop. So you measure in `24_capstone`: you implement this plan except
# for one fusion, and compare the block's time with that of `torch.compile`.

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** Compare your prediction with the partition that your function found: how many kernels are there, and
# which results do they store? Why does rule 5 multiply the rows of the *product* by the factor? Name a fusion that
# would save bytes but that a rule forbids. What would a kernel need for this fusion?
#
# ### BEGIN SOLUTION
# Five kernels: one for each matmul and one for attention. Stored are the rotated queries, keys and values, the result
# of attention, both residual sums, and the result of SwiGLU. The factor of a row is known only after the loop along K,
# when the products are already summed. But it multiplies every term of the row's sums, so it can multiply the sums
# instead. Rule 3 forbids a norm after a matmul in the same kernel: a program would need the whole row of 4096 columns,
# but its tile has only 256. The programs of a row could exchange their sums of squares, for example in a cluster of
# blocks on Hopper.
# ### END SOLUTION

# %% [markdown]
# **Next.** Try all partitions of the graph. How many more bytes does the partition of your search move than the best
# one?
#
# **In practice**, PyTorch's Inductor, XLA and TVM choose fusions with such searches, over graphs of thousands of nodes.
#
# **Reading.** [PyTorch 2](https://docs.pytorch.org/assets/pytorch2-2.pdf), section “Scheduling”: how Inductor fuses.
