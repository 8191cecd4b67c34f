# %% [markdown]
# # Keep the queue full
#
# **You will** predict when a queue of kernels is done, copy and compute at the same time, repair a step so that a CUDA
# graph can replay it, put a hundred small kernels into one, and count the pages that unified memory moves.
#
# **You will learn to**
# - say whether the host or the GPU is the bottleneck, and what a graph changes;
# - order work with streams and events, and see which wait is missing and which is one too many;
# - find what keeps a step from being captured;
# - tell faults from prefetches in unified memory.
#
# **You need** `04_benchmarking` and `06_elementwise_triton`. About 90 minutes. Works without a GPU: plans run on a
# simulated machine, and only times need a real one.

# %% cell="setup"

# %% [markdown]
# ## 1 One by one, or as a graph
#
# A launch costs the host some microseconds and returns at once. Many kernels of a model take less than that. Then the
# GPU waits for the host:
#
# ```
# host  |launch 0|launch 1|launch 2|                     a launch takes longer than a kernel:
# GPU            |k0|     |k1|     |k2|                   the GPU idles between kernels
# ```
#
# A **CUDA graph** records the launches once (*capture*), is prepared once (*instantiate*), and is then launched as a
# whole (*replay*): one call, and the GPU goes from node to node by itself, each at least `per_node` long.
#
# **Predict.** `kernels` are durations in µs, in order. *Eager*: the launch of kernel i ends at (i + 1)·`launch`; the
# kernel begins when its launch is over and the kernel before it is done. *Graph*: one launch of `graph_launch` µs, then
# all nodes after each other, each as long as its kernel and at least `per_node`. When is everything done? Without
# kernels eager takes 0; a graph without nodes still costs its launch.
#
# <details><summary>Hint 1</summary>Draw 100 kernels of 2 µs after one of 300 µs: how far is the host when the long one
# ends? Now put the long one last.</details>
# <details><summary>Hint 2</summary>Eager needs one variable, the time at which the GPU gets free, and a
# loop.</details>
# <details><summary>Hint 3</summary><code>free = max(free, (i + 1) * launch) + kernel</code></details>


# %% cell="solution" id="finish_times"
def finish_times(kernels, launch, graph_launch, per_node):
    """(eager, graph): µs from the first call until the last kernel is done."""
    ### BEGIN SOLUTION
    free = 0.0
    for i, kernel in enumerate(kernels):
        free = max(free, (i + 1) * launch) + kernel
    return free, graph_launch + sum(max(kernel, per_node) for kernel in kernels)
    ### END SOLUTION


# %% cell="check" exercise="21_launch_overhead/finish_times"
lab.check("21_launch_overhead/finish_times")

# %% [markdown]
# ## 2 Copy and compute at the same time
#
# Data that does not fit on the GPU goes through it in pieces: copy in, kernel, copy out. A GPU has an engine for each
# of the three, so all three can work at once, on different pieces. A **stream** is a queue that works in order; streams
# know nothing of each other until one *waits* for an **event** of another.
#
# | call | as in PyTorch | meaning |
# |---|---|---|
# | `s = machine.stream()` | `torch.cuda.Stream()` | a new stream |
# | `machine.pin()` | `tensor.pin_memory()` | page-lock host memory; slow, so once and before anything else |
# | `machine.copy_in(piece, slot, s)` | `x.copy_(…, non_blocking=True)` | host → input buffer of the slot |
# | `machine.kernel(piece, slot, s)` | `kernel[grid](…)` | input buffer → output buffer of the slot |
# | `machine.copy_out(piece, slot, s)` | `….copy_(y, non_blocking=True)` | output buffer → host |
# | `e = machine.record(s)` | `event.record(s)` | an event behind what is in `s` now |
# | `machine.wait(s, e)` | `s.wait_event(e)` | what follows in `s` begins after `e`; the host goes on |
# | `machine.synchronize()` | `torch.cuda.synchronize()` | the host waits until everything is done |
#
# Copies from *pageable* memory, which is what `malloc` gives, return only when they are done. There are **two slots**,
# 0 and 1, each with an input and an output buffer; piece i uses slot i % 2. So three rules must hold: a piece's kernel
# comes after its copy-in, and its copy-out after its kernel; a copy-in must not overwrite an input that a kernel has
# still to read; a kernel must not overwrite an output that has still to be copied.
#
# **Predict** first: n pieces, and each of the three steps takes one unit of time. How long with one stream? How long at
# best? Then write `pipeline`. The check runs your plan on a simulated machine. A missing wait is refused even where the
# times happen to fall well, and the plan may take 5 % longer than the best.
#
# <details><summary>Hint 1</summary>One stream for each engine. In a loop over pieces, queue copy-in, kernel and
# copy-out of piece i, with a wait before each.</details>
# <details><summary>Hint 2</summary>Keep the events: one behind each kernel, one behind each copy-out. Piece i waits for
# events of piece i − 2.</details>
# <details><summary>Hint 3</summary>copy-in i waits for kernel i − 2; kernel i for copy-in i and copy-out i − 2;
# copy-out i for kernel i. Synchronize once, at the end.</details>

# %% cell="solution" id="pipeline"
from labutils import queues


def pipeline(machine, pieces):
    """Bring pieces 0 to pieces - 1 through copy-in, kernel and copy-out; results are on the host at the end."""
    ### BEGIN SOLUTION
    machine.pin()
    up, compute, down = machine.stream(), machine.stream(), machine.stream()
    computed, copied = [], []
    for i in range(pieces):
        if i >= 2:
            machine.wait(up, computed[i - 2])  # the input buffer has been read
            machine.wait(compute, copied[i - 2])  # the output buffer has been copied
        machine.copy_in(i, i % 2, up)
        arrived = machine.record(up)
        machine.wait(compute, arrived)
        machine.kernel(i, i % 2, compute)
        computed.append(machine.record(compute))
        machine.wait(down, computed[i])
        machine.copy_out(i, i % 2, down)
        copied.append(machine.record(down))
    machine.synchronize()
    ### END SOLUTION


def pipeline_plan(pieces):
    return queues.plan_of(pipeline, pieces)


# %% cell="check" exercise="21_launch_overhead/pipeline"
lab.check("21_launch_overhead/pipeline")

# %%
queues.report(pipeline)
queues.picture(pipeline, 6)

# %% [markdown]
# | what you see | a common cause |
# |---|---|
# | `overwritten: …` | the slot is used again, and nobody waited for its reader |
# | "the wrong stream" | the event was recorded in the stream that waits for it |
# | 3·n units of time | one stream, pageable memory, or a `synchronize` in the loop |
# | a kernel begins later than it could | its stream waits for another piece's copy-out |
#
# ## 3 A step that can be captured
#
# While a graph is captured nothing runs: calls are written down, with the addresses of their tensors. A replay runs the
# same kernels on the same addresses. No Python runs again. So in a step that is to be captured
#
# - the host must not wait for a value of the GPU: there is none yet;
# - inputs are *overwritten in place* before each replay, and results appear in the same memory each time;
# - whatever Python computes or decides stays as it was at capture.
#
# `wobbly` has four faults of this kind. Write `steady`: the same numbers, in `out` and `running`, which are changed in
# place. Without a GPU a recorder stands in for the capture: it writes down your operations as a *tape*, and the check
# replays the tape on five inputs that your Python never sees.
#
# <details><summary>Hint 1</summary>The faults: <code>.item()</code>; <code>if</code> on data;
# <code>torch.tensor(…)</code>, a copy from the host; <code>running = …</code> and the result, new memory.</details>
# <details><summary>Hint 2</summary>Dividing by the peak only if it is above 1 is dividing by max(peak, 1): a
# <code>clamp</code> of a tensor that never leaves the GPU.</details>
# <details><summary>Hint 3</summary><code>running += 0.25 * (h.mean(0) - running)</code> changes memory in place, and
# <code>torch.sub(h, running, out=out)</code> writes to out.</details>

# %% cell="solution" id="steady"
import torch

from labutils import graphs


def wobbly(x, weight, running):
    h = torch.relu(x @ weight)
    peak = h.max().item()
    if peak > 1.0:
        h = h / peak
    rate = torch.tensor(0.25, device=x.device)
    running = running + rate * (h.mean(0) - running)
    return h - running, running


def steady(x, weight, running, out):
    """What wobbly does, in place: x (rows, 16), weight (16, columns), running (columns,), out (rows, columns)."""
    ### BEGIN SOLUTION
    h = torch.relu(x @ weight)
    h = h / h.max().clamp(min=1.0)
    running += 0.25 * (h.mean(0) - running)
    torch.sub(h, running, out=out)
    ### END SOLUTION


def steady_tape(rows, columns):
    return graphs.tapes(steady, rows, columns)


# %% cell="check" exercise="21_launch_overhead/steady"
lab.check("21_launch_overhead/steady")

# %% [markdown]
# ## 4 One kernel in place of a hundred
#
# A graph takes away the host's part. Each node still reads its input from memory and writes its result. Where a chain
# of small updates works element by element, one kernel can do all of it in registers: x ← a·x + b, `STEPS` times, with
# another pair (a, b) each time. **Predict** the bytes of 100 launches and of one, for n floats.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x_ptr`, `out_ptr` | (n,) | input, output, fp32 |
# | `coef_ptr` | (STEPS, 2) | a and b of each step, in order |
#
# One program computes `BLOCK` elements. About 8 lines. The check also counts bytes: at most 1.05 times what must move.
#
# <details><summary>Hint 1</summary>Load x once, under a mask, before the loop; store once, after it.</details>
# <details><summary>Hint 2</summary>Pair i: <code>tl.load(coef_ptr + 2 * i)</code> and
# <code>tl.load(coef_ptr + 2 * i + 1)</code>, scalars that all lanes share.</details>
# <details><summary>Hint 3</summary><code>for i in range(STEPS): x = a * x + b</code></details>

# %% cell="solution" id="chain_kernel"
import triton
import triton.language as tl


@triton.jit
def chain_kernel(x_ptr, coef_ptr, out_ptr, n, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """x = coef[i, 0] * x + coef[i, 1] for i = 0, 1, … STEPS - 1, for BLOCK elements.

    x_ptr, out_ptr  (n,)        coef_ptr  (STEPS, 2)
    """
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ### BEGIN SOLUTION
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    for i in range(STEPS):
        a = tl.load(coef_ptr + 2 * i)
        b = tl.load(coef_ptr + 2 * i + 1)
        x = a * x + b
    tl.store(out_ptr + offs, x, mask=mask)
    ### END SOLUTION


def chain(x, coef, out, BLOCK=1024):
    n = x.numel()
    chain_kernel[(triton.cdiv(n, BLOCK),)](x, coef, out, n, STEPS=len(coef), BLOCK=BLOCK)


# %% cell="check" exercise="21_launch_overhead/chain"
lab.check("21_launch_overhead/chain")

# %% [markdown]
# ## 5 Pages that move by themselves
#
# *Unified memory* (`cudaMallocManaged`) has one address on both sides. Where it is not coherent in hardware, a page is
# on one side at a time, and moves when the other side touches it: a **page fault**, some tens of µs. A **prefetch**
# (`cudaMemPrefetchAsync`) moves pages beforehand, without a fault.
#
# `accesses` is a list of (side, first byte, last byte, prefetch), in order: side is `"gpu"` or `"host"`, both bytes
# belong to the access, and with `prefetch` the pages are only brought to that side. All pages begin on the host. Count
# the pages that move to the GPU, those that move to the host, and faults: pages that move because they are touched.
#
# <details><summary>Hint 1</summary>Bytes 4095 and 4096 are on two pages of 4096 bytes. Which pages does an access
# touch?</details>
# <details><summary>Hint 2</summary>Keep a set of the pages that are on the GPU. For each page of an access: is it on
# the right side already?</details>
# <details><summary>Hint 3</summary><code>range(first // page, last // page + 1)</code>; on a host access a page leaves
# the set.</details>


# %% cell="solution" id="migrations"
def migrations(accesses, page):
    """(pages moved to the GPU, pages moved to the host, faults) for accesses (side, first, last, prefetch)."""
    ### BEGIN SOLUTION
    on_gpu = set()
    to_gpu = to_host = faults = 0
    for side, first, last, prefetch in accesses:
        for p in range(first // page, last // page + 1):
            if (p in on_gpu) == (side == "gpu"):
                continue  # it is there already
            if side == "gpu":
                on_gpu.add(p)
                to_gpu += 1
            else:
                on_gpu.remove(p)
                to_host += 1
            faults += not prefetch
    return to_gpu, to_host, faults
    ### END SOLUTION


# %% cell="check" exercise="21_launch_overhead/migrations"
lab.check("21_launch_overhead/migrations")

# %%
from labutils import launches

launches.hundred(finish_times, chain)  # as launches, as a graph, as one kernel: your prediction beside the clock
graphs.race(wobbly, steady)
launches.managed()  # pages that fault, and pages that were prefetched

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** A model generates one token in 9 ms; its 1200 kernels take 4 ms together. A colleague wants faster
# kernels. Another wants a graph, but the batch grows and shrinks, and the step samples with `.item()`. What would each
# gain, and what has to change first?
#
# ### BEGIN SOLUTION
# 1200 launches of 7.5 µs are 9 ms: the host sets the pace, and the GPU idles for more than half of the time. Faster
# kernels gain nothing. A graph brings the step near 4 ms. Before that, sampling must stay on the GPU (argmax or a
# sampled index in a tensor, the end of a sequence checked later), inputs and cache must keep their addresses, and since
# sizes are fixed in a graph, one is captured for each of a few batch sizes and smaller batches are padded. Then the
# kernels set the pace, and faster or fewer of them count again.
# ### END SOLUTION

# %% [markdown]
# **Next levels.** Give `pipeline` pieces of different sizes: does their order matter? Capture the pipeline itself:
# events become edges of the graph. Let `steady` draw random numbers, with a generator that the graph knows.
#
# **In practice** `torch.compile(mode="reduce-overhead")` captures graphs for you, and falls back where a step cannot be
# captured. Inference servers keep one graph for each batch size. Data loaders pin memory and copy ahead, as you did.
#
# **Reading.** [CUDA Programming Guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/): asynchronous concurrent
# execution, CUDA graphs, unified memory. [PyTorch, CUDA semantics](https://docs.pytorch.org/docs/stable/notes/cuda.html):
# streams, graphs, pinned buffers.
