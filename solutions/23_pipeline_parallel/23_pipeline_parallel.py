# %% [markdown]
# # Pipelines of GPUs: who waits, and where to split
#
# **You will** split a model by layers, choose the order of each GPU's work, and choose how to split models of 70 and
# 405 billion parameters over a cluster.
#
# **You will learn to**
#
# - write a schedule called 1F1B, and see in a picture how long its GPUs wait and what they keep in memory;
# - compute how long each GPU of a pipeline waits;
# - estimate the memory and time of a training step, and find the fastest split that fits into memory.
#
# **You need** `23_many_gpus`. About 75 minutes. Works without a GPU.
#
# ## 1 One forward, one backward
#
# In [pipeline parallelism](../glossary.md#pipeline-parallelism), each of p GPUs holds some consecutive layers: a
# *stage*. A training step processes a *batch* of sequences, which is cut into
# [microbatches](../glossary.md#microbatch). Each microbatch passes forward through stages 0 to p − 1 and then backward
# through stages p − 1 to 0. A stage works on one microbatch at a time. While the first microbatches arrive and the last
# ones leave, some stages are idle. This idle time is the [bubble](../glossary.md#pipeline-bubble).
#
# A *schedule* has one list of passes for each stage, in the order in which the stage runs them: `("F", 2)` is the
# forward pass of microbatch 2, and `("B", 2)` is its backward pass. A pass starts as soon as its stage is free and the
# passes that it needs have ended:
#
# - `("F", i)` needs `("F", i)` of the previous stage.
# - `("B", i)` needs `("B", i)` of the next stage, and `("F", i)` of its own stage.
#
# A stage keeps the [activations](../glossary.md#activation-function) of a microbatch from the microbatch's forward pass
# to its backward pass. The simplest schedule, *GPipe* (shown in the picture below), runs all forward passes first, so a
# stage keeps the activations of all m microbatches. **1F1B** (one forward, one backward) is as fast, but a stage keeps
# the activations of at most p microbatches. Each stage starts with a few forward passes, and then alternates between
# one forward and one backward pass.
#
# **Predict.** On each stage, a forward pass takes 1 ms, and a backward pass takes 2 ms. How many ms do m microbatches
# take on p stages in the fastest schedule? Then write `schedule`. The check accepts every schedule that is as fast as
# possible and never keeps the activations of more than p microbatches on a stage.
#
# <details><summary>Hint 1</summary>The last stage can run <code>("B", 0)</code> directly after <code>("F", 0)</code>.
# By then, how many forward passes can the previous stage have started?</details>
# <details><summary>Hint 2</summary>Stage s first runs <code>stages - 1 - s</code> forward passes, or all its forward
# passes if there are fewer microbatches. Then it alternates.</details>
# <details><summary>Hint 3</summary>Let <code>ahead</code> be the number of hint 2. For each microbatch i, add
# <code>("F", i + ahead)</code> if it exists, then <code>("B", i)</code>.</details>

# %% cell="setup"

# %%
from labutils import pipelines

pipelines.picture(pipelines.gpipe(stages=4, microbatches=8))


# %% cell="solution" id="schedule"
def schedule(stages, microbatches):
    """Return for each stage a list of ("F", microbatch) and ("B", microbatch)."""
    ### BEGIN SOLUTION
    plan = []
    for stage in range(stages):
        ahead = min(stages - 1 - stage, microbatches)
        passes = [("F", m) for m in range(ahead)]
        for m in range(microbatches):
            if m + ahead < microbatches:
                passes.append(("F", m + ahead))
            passes.append(("B", m))
        plan.append(passes)
    return plan
    ### END SOLUTION


# %% cell="check" exercise="23_pipeline_parallel/schedule"
lab.check("23_pipeline_parallel/schedule")

# %%
pipelines.picture(schedule(4, 8))

# %% [markdown]
# | what the check prints | common cause |
# |---|---|
# | "for its own forward pass" | in a list, a backward pass comes before the forward pass of the same microbatch |
# | "deadlock: stages …" | a backward pass needs the next stage's, which needs a forward pass that comes later |
# | "holds the activations of …" | too many forward passes at the start |
# | "correct, but slow" | too few forward passes at the start, or the same number on all stages |
#
# If a forward pass takes f ms and a backward pass b ms, every stage works for m (f + b) ms. Each stage also waits (p −
# 1)(f + b) ms while the pipeline fills and drains. So the bubble's share of the step is (p − 1) / (m + p − 1): 27 % for
# p = 4 and m = 8. More microbatches make this share smaller, but the batch size of a training step is limited.
#
# ## 2 The time in which GPUs wait
#
# Real stages take different times: the last stage also computes the loss. Sending a result to another stage takes time,
# too.
#
# **Predict.** Write `lost_ms`. Its arguments are a schedule, the times of a forward and of a backward pass on each
# stage, and the time that a result needs to reach another stage. The function returns how long each stage waits, from
# time 0 until *all* stages have ended their last pass. While a stage sends a result, it can run other passes.
#
# <details><summary>Hint 1</summary>Keep a dict with the end of each finished pass, and a list with the time when each
# stage becomes free.</details>
# <details><summary>Hint 2</summary>Go over the stages again and again. On each stage, run passes until the next pass
# needs a result that is not there yet.</details>
# <details><summary>Hint 3</summary>A pass starts when its stage is free and each result that it needs is there. A
# result is there when its pass ends, plus <code>send</code> if the pass ran on another stage. A stage waits whenever it
# runs no pass.</details>


# %% cell="solution" id="lost_ms"
def lost_ms(plan, forward, backward, send):
    """Return for each stage the ms in which it waits.

    plan               what schedule returns
    forward, backward  ms of a pass, for each stage
    send               ms until a result is on the previous or next stage
    """
    ### BEGIN SOLUTION
    stages, done = len(plan), {}
    free, busy, todo = [0.0] * stages, [0.0] * stages, [list(passes) for passes in plan]
    while any(todo):
        for s in range(stages):
            while todo[s]:
                kind, m = todo[s][0]
                needed = [("F", s - 1)] if kind == "F" else [("F", s), ("B", s + 1)]
                needed = [(k, other, m) for k, other in needed if 0 <= other < stages]
                if any(n not in done for n in needed):
                    break
                arrived = [done[n] + (send if n[1] != s else 0.0) for n in needed]
                took = forward[s] if kind == "F" else backward[s]
                free[s] = done[kind, s, m] = max([free[s], *arrived]) + took
                busy[s] += took
                todo[s].pop(0)
    return [max(free) - b for b in busy]
    ### END SOLUTION


# %% cell="check" exercise="23_pipeline_parallel/lost_ms"
lab.check("23_pipeline_parallel/lost_ms")

# %%
plan = schedule(4, 8)
print("equal stages          ", lost_ms(plan, [1] * 4, [2] * 4, 0))
print("last stage 25 % slower", lost_ms(plan, [1, 1, 1, 1.25], [2, 2, 2, 2.5], 0))

# %% [markdown]
# If one stage is slow, all other stages wait for it at each microbatch. So give the last stage, which also computes the
# loss, fewer layers.
#
# ## 3 Memory and time of a placement
#
# A *placement* (dp, tp, pp) splits a model over dp · tp · pp GPUs. There are dp copies of the model ([data
# parallelism](../glossary.md#data-parallelism)). The layers of each copy are divided into pp stages, and each layer is
# split over tp GPUs. Write `cost`, which estimates the memory of a GPU and the time of a training step with this table.
# A microbatch is one sequence.
#
# | quantity | formula |
# |---|---|
# | m, the microbatches of a copy | batch / dp |
# | L, the layers of the largest stage | layers / pp, rounded up |
# | parameters of a GPU | parameters · L / layers / tp |
# | bytes of a parameter: 2 + 2 for weight and gradient in bf16, 3 · 4 for the optimizer Adam | 16 |
# | bytes of activations on a GPU | 34 · sequence · width / tp for each of L layers, times min(pp, m) microbatches |
# | **compute**: FLOPs of a microbatch on a GPU | 6 · parameters of a GPU · sequence, at `tflops` |
# | **reduce**: 4 all-reduces over tp ranks for each of the L layers | 2 · sequence · width bytes each, at `node_gbs` |
# | **transfer**: 2 messages for each microbatch, if pp > 1 | 2 · sequence · width / tp bytes each, at `net_gbs` |
# | **gradients**: one all-reduce over dp ranks | 2 bytes for each parameter of a GPU, at `net_gbs` |
# | time of a step, from the times of the rows above | (m + pp − 1) · (compute + reduce + transfer) + gradients |
#
# An all-reduce of n bytes on p ranks takes 2 (p − 1) / p · n / bandwidth: latency is left out here. A GB is 10⁹ bytes;
# bandwidths count one direction.
#
# <details><summary>Hint 1</summary>A TFLOP/s is 10⁹ FLOPs per ms, a GB/s is 10⁶ bytes per ms.</details>
# <details><summary>Hint 2</summary>Compute the parameters of a GPU first: memory, compute and gradients depend on
# them.</details>
# <details><summary>Hint 3</summary>reduce: <code>4 * L * 2 * (tp - 1) / tp * sent / (node_gbs * 1e6)</code> with
# <code>sent = 2 * sequence * width</code>.</details>

# %% cell="solution" id="cost"
import math


def cost(model, machine, dp, tp, pp):
    """Return (GB on a GPU of the first stage, ms of a step).

    model    {"parameters", "layers", "width", "sequence", "batch"}
    machine  {"gpus", "node", "memory_gb", "tflops", "node_gbs", "net_gbs"}
    """
    ### BEGIN SOLUTION
    m, layers = model["batch"] // dp, math.ceil(model["layers"] / pp)
    parameters = model["parameters"] * layers / model["layers"] / tp
    tokens, sent = model["sequence"], 2 * model["sequence"] * model["width"]
    node, net = machine["node_gbs"] * 1e6, machine["net_gbs"] * 1e6  # bytes per ms

    activations = 34 * tokens * model["width"] * layers * min(pp, m) / tp
    gb = (16 * parameters + activations) / 1e9

    compute = 6 * parameters * tokens / (machine["tflops"] * 1e9)
    reduce = 4 * layers * 2 * (tp - 1) / tp * sent / node
    transfer = 2 * sent / tp / net if pp > 1 else 0
    gradients = 2 * (dp - 1) / dp * 2 * parameters / net
    return gb, (m + pp - 1) * (compute + reduce + transfer) + gradients
    ### END SOLUTION


# %% cell="check" exercise="23_pipeline_parallel/cost"
lab.check("23_pipeline_parallel/cost")

# %% [markdown]
# ## 4 The best placement
#
# Write `place`, which returns the placement (dp, tp, pp) with the shortest step, or None if no placement follows these
# rules:
#
# - dp · tp · pp = `gpus`, and `batch` is divisible by dp.
# - tp divides `node`, the number of GPUs in a node (a server), because only links inside a node are fast.
# - pp is at most `layers`.
# - A GPU needs at most `memory_gb` of memory.
#
# **Predict** first: which of dp, tp and pp should grow if GPUs have little memory? Which should grow if the network is
# slow?
#
# <details><summary>Hint 1</summary>Two loops are enough: tp and pp determine dp.</details>
# <details><summary>Hint 2</summary>Try tp from 1 to <code>node</code> and pp from 1 to <code>layers</code>, and skip
# placements that break a rule.</details>
# <details><summary>Hint 3</summary>Make a list of <code>(ms, (dp, tp, pp))</code> for all placements that fit. Its
# <code>min</code> has the shortest step.</details>


# %% cell="solution" id="place"
def place(model, machine):
    """Return (dp, tp, pp), or None."""
    ### BEGIN SOLUTION
    fits = []
    for tp in range(1, machine["node"] + 1):
        for pp in range(1, model["layers"] + 1):
            dp, rest = divmod(machine["gpus"], tp * pp)
            if rest or dp == 0 or machine["node"] % tp or model["batch"] % dp:
                continue
            gb, ms = cost(model, machine, dp, tp, pp)
            if gb <= machine["memory_gb"]:
                fits.append((ms, (dp, tp, pp)))
    return min(fits)[1] if fits else None
    ### END SOLUTION


# %% cell="check" exercise="23_pipeline_parallel/place"
lab.check("23_pipeline_parallel/place")

# %%
lab.claims("23_pipeline_parallel")  # a two-minute quiz: predict each number, then compare
pipelines.placements(cost, place)

# %% [markdown]
# The last row of the table above agrees with the published choice for Llama 3 405B ({claim: llama_405b_placement}). But
# Llama 3 was trained on GPUs of 80 GB, for which your `place` finds no placement. In that training, Adam's numbers were
# split over the dp copies ([FSDP](https://arxiv.org/abs/2304.11277)), so a GPU needed less than 16 bytes per parameter.

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** Your cluster has 64 H200 in nodes of 8. Somebody uses tp = 16 for the 70B model of the table above,
# "because pipelines have bubbles". A step has 512 sequences of 8192 tokens. Use `cost` to compare the times of a step:
# with (dp, tp, pp) = (4, 16, 1), and with the placement that your `place` returns. The links inside a node have 450
# GB/s (`node_gbs`), the links between nodes 50 GB/s (`net_gbs`). With tp = 16, the all-reduces leave the node, so set
# both to 50. With tp = 16, there is no bubble. How many seconds does the bubble of your placement take?
#
# ### BEGIN SOLUTION
# For 70B with a batch of 512 on H200: (2, 8, 4) takes 81 s. With (4, 16, 1) and links of 50 GB/s, each of the 128
# microbatches of a copy needs 4 · 80 all-reduces of 134 MB. One takes 2 · 15/16 · 134 MB / 50 GB/s = 5.0 ms: 1.6 s for
# each microbatch and 206 s for all, in addition to 70 s of compute. The bubble of (2, 8, 4) is 3 of 259 microbatches: 1
# % of the step, about 1 s.
# ### END SOLUTION

# %% [markdown]
# **Next.** Let `cost` divide the optimizer's 12 bytes per parameter by dp; this method is called ZeRO-1. Which
# placements become possible with 80 GB per GPU?
#
# **In practice**, a GPU often holds several groups of layers (interleaved 1F1B). This makes the bubble smaller but
# needs more messages. The all-reduce of the gradients overlaps with the backward pass. Long sequences are also split
# over GPUs (context parallelism), and so are the experts of mixture-of-experts models.
#
# **Reading.** Narayanan et al., [Efficient large-scale training](https://arxiv.org/abs/2104.04473): 1F1B and
# placements. Huang et al., [GPipe](https://arxiv.org/abs/1811.06965). Korthikanti et al., [Reducing activation
# recomputation](https://arxiv.org/abs/2205.05198): why 34 bytes. Rajbhandari et al.,
# [ZeRO](https://arxiv.org/abs/1910.02054): why 16 bytes.
