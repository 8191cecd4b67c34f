# %% [markdown]
# # Launch overhead: keep the GPU busy
#
# **You will** solve five exercises:
#
# 1. Predict when a queue of kernels finishes.
# 2. Overlap copies with kernels.
# 3. Fix code so that a [CUDA graph](../glossary.md#cuda-graph) can replay it.
# 4. Fuse a hundred small kernels into one.
# 5. Count the pages that move in [unified memory](../glossary.md#unified-memory).
#
# **You will learn to**
#
# - find out whether the [host](../glossary.md#host) or the GPU is the bottleneck, and whether a CUDA graph helps;
# - order work with [streams](../glossary.md#stream) and [events](../glossary.md#event), and spot missing and
#   unnecessary waits;
# - find what prevents code from being recorded in a graph;
# - distinguish [page faults](../glossary.md#page-fault) from [prefetches](../glossary.md#prefetch).
#
# **You need** `04_benchmarking` and `06_elementwise_triton`. About 90 minutes. Works without a GPU: the checks simulate
# a GPU where they need one. You need a real GPU only to measure times.
#
# ## 1 Eager launches or a graph
#
# A [kernel launch](../glossary.md#launch) takes the host a few microseconds and returns before the kernel runs. In
# *eager* execution, PyTorch's default, the host launches every kernel when Python reaches it. Many kernels of a neural
# network run for less time than one launch takes. Then the GPU waits for the host:
#
# ```
# host  |launch 0|launch 1|launch 2|                     a launch takes longer than a kernel:
# GPU            |k0|     |k1|     |k2|                   the GPU idles between kernels
# ```
#
# A CUDA graph records the launches once (*capture*) and is prepared once (*instantiate*). After that, each *replay*
# launches the whole graph with one call. Each recorded kernel is a *node* of the graph. In this exercise, the GPU runs
# the nodes one after another.
#
# **Predict** when the last kernel is done. `kernels` holds the durations of the kernels in µs, in the order of their
# launches.
#
# - *Eager*: a launch takes `launch` µs, so the launch of kernel `i` ends at `(i + 1) * launch`. The kernel starts when
#   its launch has ended and the previous kernel is done. Without kernels, the time is 0.
# - *Graph*: the replay takes the host `graph_launch` µs. Then all nodes run in order. A node takes as long as its
#   kernel, but at least `per_node` µs. Without nodes, the time is `graph_launch`.
#
# <details><summary>Hint 1</summary>Let a launch take 7 µs. Draw one kernel of 300 µs, followed by 100 kernels of 2 µs.
# How many kernels has the host launched when the long kernel ends? Then draw the long kernel last: does the queue
# finish earlier or later?</details>
# <details><summary>Hint 2</summary>For the eager time, loop over the kernels and update one variable: when the GPU
# becomes free.</details>
# <details><summary>Hint 3</summary><code>free = max(free, (i + 1) * launch) + kernel</code></details>

# %% cell="setup"

# %% cell="solution" id="finish_times"
def finish_times(kernels, launch, graph_launch, per_node):
    """Return (eager, graph): the µs from the first call of the host to the end of the last kernel."""
    ### BEGIN SOLUTION
    free = 0.0
    for i, kernel in enumerate(kernels):
        free = max(free, (i + 1) * launch) + kernel
    return free, graph_launch + sum(max(kernel, per_node) for kernel in kernels)
    ### END SOLUTION


# %% cell="check" exercise="21_launch_overhead/finish_times"
lab.check("21_launch_overhead/finish_times")

# %% [markdown]
# ## 2 Overlap copies with compute
#
# Data that does not fit into GPU memory is processed in pieces. Each piece needs three operations: copy-in to the GPU,
# kernel, copy-out to the host. Most GPUs for data centers have separate hardware for each operation, so they can do all
# three at the same time, for different pieces. A stream is a queue that executes in order. An event marks a place in a
# stream. Different streams run independently, unless one stream *waits* for an event of another stream.
#
# `machine`, a simulated GPU, has memory for **two slots**, 0 and 1. A slot consists of an input buffer and an output
# buffer. Piece i uses slot i % 2.
#
# | call | in PyTorch | meaning |
# |---|---|---|
# | `s = machine.stream()` | `torch.cuda.Stream()` | creates a stream |
# | `machine.pin()` | `tensor.pin_memory()` | [page-locks](../glossary.md#pinned-memory) host memory; slow: call once |
# | `machine.copy_in(piece, slot, s)` | `x.copy_(…, non_blocking=True)` | copies the piece to the slot's input buffer |
# | `machine.kernel(piece, slot, s)` | `kernel[grid](…)` | computes the slot's output buffer from its input buffer |
# | `machine.copy_out(piece, slot, s)` | `….copy_(y, non_blocking=True)` | copies the slot's output buffer to the host |
# | `e = machine.record(s)` | `event.record(s)` | returns an event, complete when the work in `s` so far is done |
# | `machine.wait(s, e)` | `s.wait_event(e)` | later work in `s` starts when `e` is complete; the host does not wait |
# | `machine.synchronize()` | `torch.cuda.synchronize()` | the host waits until everything is done |
#
# With `non_blocking=True`, the host does not wait for the copy. Without `pin`, host memory is *pageable*. A copy from
# or to pageable memory blocks the host until the copy is done.
#
# Your function `pipeline` queues the operations of all pieces, with the necessary waits. Such a sequence of calls is a
# *plan*. A plan must follow four rules for each piece:
#
# 1. Its kernel starts after its copy-in has ended.
# 2. Its copy-out starts after its kernel has ended.
# 3. Its copy-in starts after the previous kernel *that uses the same slot* has ended.
# 4. Its kernel starts after the previous copy-out from the same slot has ended.
#
# **Predict** first: if each operation takes one time unit, how many units do n pieces take with one stream, and how
# many with the fastest plan? Then write `pipeline`. The check runs your plan. A missing wait is found even if the
# operations happen to run in a correct order. Your plan may take at most 5 % longer than the fastest plan.
#
# <details><summary>Hint 1</summary>Use one stream for each of the three operations. In a loop over the pieces, queue
# the copy-in, the kernel and the copy-out of piece i. Before each operation, queue its waits.</details>
# <details><summary>Hint 2</summary>Record an event after each copy-in, each kernel and each copy-out. Keep the events
# of kernels and of copy-outs in lists: the copy-in and the kernel of piece i each also wait for an operation of piece i
# − 2.</details>
# <details><summary>Hint 3</summary>Copy-in i waits for kernel i − 2. Kernel i waits for copy-in i and for copy-out
# i − 2. Copy-out i waits for kernel i. Synchronize once, at the end.</details>

# %% cell="solution" id="pipeline"
from labutils import queues


def pipeline(machine, pieces):
    """Run copy-in, kernel and copy-out for pieces 0 to pieces - 1. At the end, all results are on the host."""
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
# | what you see | common cause |
# |---|---|
# | `overwritten: …` | an operation overwrites a buffer without waiting for the operation that reads it |
# | "the wrong stream" | the event is recorded in the same stream that waits for it |
# | the time is 3·n units | there is only one stream, host memory is not pinned, or `synchronize` is in the loop |
# | kernel i starts late | its stream waits for copy-out i − 1 instead of copy-out i − 2 |
#
# ## 3 A step that can be captured
#
# A *step* is the work that a program repeats, such as one iteration of training. During the capture of a step, no
# kernel runs: CUDA records the launches and the addresses of their tensors. A replay runs the same kernels with the
# same addresses, without Python. So a step that you capture must follow these rules:
#
# - The host must not read a value from the GPU, because nothing is computed during capture.
# - The host must not copy a value from pageable memory to the GPU. The host would wait until this copy is done, but no
#   copy runs during capture.
# - Inputs and results must keep their addresses. So write results to existing tensors, *in place*. Before a replay, new
#   inputs are copied to the old input tensors.
# - No `if` in Python may depend on the data, because each replay repeats what the capture recorded.
#
# The step `wobbly` in the next cell breaks each of these rules. Write `steady`, which computes the same numbers but
# writes them to `out` and `running` in place. The check needs no GPU and no CUDA graph. It calls your function once and
# records all PyTorch operations in a list, the *tape*. Then it runs the recorded operations on five other inputs,
# without calling your function.
#
# <details><summary>Hint 1</summary><code>.item()</code> reads a value from the GPU. <code>torch.tensor(…)</code> copies
# a value to the GPU. <code>running = …</code> makes a new tensor, which the next replay does not see. The
# <code>if</code> depends on the data.</details>
# <details><summary>Hint 2</summary>To divide by the peak only if it exceeds 1, divide by max(peak, 1). Compute this
# maximum with <code>clamp</code>, which returns a tensor on the GPU.</details>
# <details><summary>Hint 3</summary><code>running += 0.25 * (h.mean(0) - running)</code> updates <code>running</code> in
# place, and <code>torch.sub(h, running, out=out)</code> writes to <code>out</code>.</details>

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
    """Compute what wobbly computes. Update running in place, and write the first result to out.

    x        (rows, 16)
    weight   (16, columns)
    running  (columns,)
    out      (rows, columns)
    """
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
# ## 4 Fuse a hundred kernels into one
#
# A graph needs only one launch by the host. But each node still reads its input from memory and writes its result. If a
# chain of small updates is [elementwise](../glossary.md#elementwise-kernel), one kernel can do all updates in
# [registers](../glossary.md#register) ([kernel fusion](../glossary.md#fusion)). In this exercise, the chain has `STEPS`
# updates. Each computes x ← a·x + b, with its own pair (a, b).
#
# **Predict**: how many bytes move if each of 100 launches does one update of n floats? How many if one launch does all
# 100 updates?
#
# | argument | shape | meaning |
# |---|---|---|
# | `x_ptr`, `out_ptr` | (n,) | input, output; fp32 |
# | `coef_ptr` | (STEPS, 2) | a and b of each update, in order |
#
# One program computes `BLOCK` elements. The check also counts bytes: the kernel may move at most 1.05 times the
# necessary bytes.
#
# <details><summary>Hint 1</summary>Load x once, with a mask, before the loop. Store x once, after the loop.</details>
# <details><summary>Hint 2</summary>Load the pair of update i by <code>tl.load(coef_ptr + 2 * i)</code> and
# <code>tl.load(coef_ptr + 2 * i + 1)</code>. Each load returns one number, which is used for all elements.</details>
# <details><summary>Hint 3</summary><code>for i in range(STEPS): x = a * x + b</code></details>

# %% cell="solution" id="chain_kernel"
import triton
import triton.language as tl


@triton.jit
def chain_kernel(x_ptr, coef_ptr, out_ptr, n, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """Update BLOCK elements by x = coef[i, 0] * x + coef[i, 1], for all i from 0 to STEPS - 1, and store them.

    x_ptr, out_ptr  (n,)
    coef_ptr        (STEPS, 2)
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
# ## 5 Unified memory
#
# Unified memory (`cudaMallocManaged`) has the same addresses on host and GPU. It is divided into pages, and each page
# is either in host memory or in GPU memory. If the GPU accesses a page in host memory (or the host accesses one in GPU
# memory), there is a page fault: the access waits until the page has moved, which takes {claim: page_fault_us}. (On
# some systems, host and GPU can access each other's memory without faults. Ignore these systems here.) A prefetch
# (`cudaMemPrefetchAsync`) moves pages in advance, without faults.
#
# A page has `page` bytes. `accesses` is a list of tuples (side, first byte, last byte, prefetch), in order. The side is
# `"gpu"` or `"host"`. The last byte belongs to the range. If `prefetch` is true, the tuple is a prefetch to this side,
# not an access. At first, all pages are on the host. Count the moves of pages to the GPU, the moves of pages to the
# host, and the faults. Each page that an access moves counts as one fault.
#
# <details><summary>Hint 1</summary>Bytes 4095 and 4096 are on two different pages of 4096 bytes. Which pages does an
# access need?</details>
# <details><summary>Hint 2</summary>Keep a set of the pages that are on the GPU. For each page of an access, test
# whether it is already on the side that accesses it.</details>
# <details><summary>Hint 3</summary>The pages of an access are <code>range(first // page, last // page + 1)</code>. A
# host access removes its pages from the set.</details>


# %% cell="solution" id="migrations"
def migrations(accesses, page):
    """Return (pages moved to the GPU, pages moved to the host, faults) for accesses (side, first, last, prefetch)."""
    ### BEGIN SOLUTION
    on_gpu = set()
    to_gpu = to_host = faults = 0
    for side, first, last, prefetch in accesses:
        for p in range(first // page, last // page + 1):
            if (p in on_gpu) == (side == "gpu"):
                continue  # it is already there
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

lab.claims("21_launch_overhead")  # a two-minute quiz: predict each number, then compare
launches.hundred(finish_times, chain)  # the time of 100 launches, of a graph with 100 nodes, and of one fused kernel
graphs.race(wobbly, steady)  # the time of both steps, and of a graph of `steady`
launches.managed()  # the time of page faults, and of prefetches

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** A language model generates one token in 9 ms. The 1200 kernels of this step take 4 ms in total. One
# colleague proposes faster kernels, another proposes a CUDA graph. The number of sequences in a batch varies, so shapes
# vary, too. At the end of each step, the host reads the new token with `.item()`. How much time per token can each
# proposal save? What must change in the step before a graph can be captured?
#
# ### BEGIN SOLUTION
# The host launches 1200 kernels in 9 ms, so a launch takes 7.5 µs. The host is the bottleneck, and the GPU idles for
# more than half of the time. Faster kernels save nothing. A graph saves almost 5 ms: the step then takes little more
# than the 4 ms of its kernels. Before the capture, change the step so that the new token stays in a tensor on the GPU;
# the host can test for the end of the sequence only later. Inputs and cache must keep their addresses. Shapes are fixed
# in a graph, so capture one graph for each of a few batch sizes, and pad smaller batches. With the graph, the kernels
# are the bottleneck, so faster or fewer kernels help.
# ### END SOLUTION

# %% [markdown]
# **Next.** On a GPU, capture the pipeline of part 2 in a graph. Each wait becomes an *edge*, which makes one node wait
# for another.
#
# **In practice**, `torch.compile(mode="reduce-overhead")` captures graphs for you, and launches kernels eagerly where
# capture is impossible. A graph has fixed shapes, so servers for language models keep one graph for each batch size.
#
# **Reading.** [CUDA Programming Guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/): asynchronous concurrent
# execution, CUDA graphs, unified memory.
# [PyTorch, CUDA semantics](https://docs.pytorch.org/docs/stable/notes/cuda.html): streams, graphs, pinned buffers.
