# %% [markdown]
# # Run, fill, check: write your first GPU kernel
#
# **You will** complete three small exercises: a formula, a [kernel](../glossary.md#kernel) in
# [Triton](../glossary.md#triton), and the same kernel in [CUDA C++](../glossary.md#cuda-c).
#
# **You will learn to**
# - run a cell, fill in a [stub](../glossary.md#stub), and read the output of `lab.check`;
# - compute how many [programs](../glossary.md#program) a kernel needs;
# - load and store only the elements that exist, with a [mask](../glossary.md#mask).
#
# **You need** Python and a little PyTorch: what a tensor is, and that `x * 2` doubles every element.
#
# About 35 minutes. You need a GPU only to measure times, at the end.

# %% cell="setup"

# %% [markdown]
# The output of the cell above names the device that runs your kernels. Without a [GPU](../glossary.md#gpu), kernels run
# on the CPU: Triton kernels in Triton's [interpreter](../glossary.md#interpreter), CUDA C++ kernels in the course's
# [emulator](../glossary.md#emulator).
#
# | | with a GPU | without a GPU |
# |---|---|---|
# | your kernel | is compiled and runs on the GPU | runs slowly on the CPU; it is also compiled, to find errors |
# | wrong results, out-of-bounds accesses, [races](../glossary.md#race) | are found | are found by the same test cases |
# | bytes read and written | are counted | are counted, with the same result |
# | time | is measured | is not measured, because CPU times say nothing about a GPU |
#
# ## 1 How many programs?
#
# A GPU executes a kernel many times at once. Each execution is a *program*, and processes one *block* of consecutive
# elements. Ten elements in blocks of four need three programs, and the last block is only half full:
#
# ```
# element   0 1 2 3 | 4 5 6 7 | 8 9 . .
# program      0         1         2
# ```
#
# In the next cell, complete `number_of_programs`: how many programs do `n` elements need if a block has `block`
# elements? Write your code in place of the line that raises an error. Run the cell (Shift+Enter), then run the check
# below it.

# %% cell="solution" id="number_of_programs"
def number_of_programs(n, block):
    """Return the number of blocks of `block` elements that cover `n` elements. The last block may be partly empty."""
    ### BEGIN SOLUTION
    return (n + block - 1) // block
    ### END SOLUTION


# %% cell="check" exercise="00_start/number_of_programs"
lab.check("00_start/number_of_programs")

# %% [markdown]
# A check prints one line per test case. At the first failure, the check explains what is wrong and suggests a fix. At
# the end, the check prints your points.
#
# <details><summary>Hint 1</summary>Integer division rounds down, so it drops a partly filled last block.</details>
# <details><summary>Hint 2</summary>Add something to <code>n</code> before you divide, but not so much that you count an
# extra block when the last block is full.</details>
# <details><summary>Hint 3</summary>The most you can add is <code>block - 1</code>. Division that rounds up is called
# ceiling division; <code>triton.cdiv</code> does this.</details>
#
# ## 2 Read a finished kernel
#
# The kernel `fill_kernel` in the next cell writes the same number into every element of an array. Read the four lines
# of its body:
#
# - `pid` is the [ID of this program](../glossary.md#program-id);
# - `offs` holds the [offsets](../glossary.md#offset) (indices) of the program's elements: 4, 5, 6, 7 in program 1;
# - `mask` tells which of these elements exist;
# - `tl.store` writes `value` to the existing elements.
#
# `@triton.jit` marks a function as a kernel. [`tl.constexpr`](../glossary.md#constexpr) marks an argument whose value
# is known at compile time. The function `fill` starts the kernel. The tuple in square brackets holds the number of
# programs; `triton.cdiv` divides and rounds up ([ceiling division](../glossary.md#ceiling-division)).

# %% cell="given"
import torch
import triton
import triton.language as tl


@triton.jit
def fill_kernel(out_ptr, value, n, BLOCK: tl.constexpr):
    """out[i] = value for i < n; one program fills BLOCK elements."""
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out_ptr + offs, value, mask=mask)


def fill(out, value):
    n = out.numel()
    fill_kernel[(triton.cdiv(n, 4),)](out, value, n, BLOCK=4)


lab.access_map(fill, torch.empty(10), 7.0, title="fill: 10 elements in blocks of 4")

# %% [markdown]
# In the picture above, a filled mark is an element that a program stored. A hollow mark is an offset at which the mask
# prevented a store: elements 10 and 11 do not exist. Without the mask, program 2 would overwrite the memory after the
# array.
#
# ## 3 Your first kernel: scale a vector
#
# Compute `out[i] = factor · x[i]`. The kernel reads each element of `x` once and writes each element of `out` once. An
# [fp32](../glossary.md#fp32) element has 4 bytes, so for `n` elements the kernel moves `2 · 4 · n` bytes.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x_ptr` | (n,) | input: a [pointer](../glossary.md#pointer), which is the address of the first element |
# | `factor` | scalar | multiplier |
# | `out_ptr` | (n,) | output, also a pointer |
# | `n` | scalar | number of elements |
# | `BLOCK` | constant | elements per program, a power of two |
#
# Program `pid` computes elements `pid·BLOCK` to `pid·BLOCK + BLOCK − 1` of `out`, except those that do not exist. The
# function `scale`, in the cell after the kernel, is the kernel's [launcher](../glossary.md#launcher). A launcher
# chooses the [grid](../glossary.md#grid), here the number of programs, and [launches](../glossary.md#launch) the
# kernel.
#
# <details><summary>Hint 1</summary>Two steps are missing: load this program's elements of <code>x</code>, and store the
# results. <code>fill_kernel</code> shows the second step.</details>
# <details><summary>Hint 2</summary><code>tl.load</code> takes pointers, as <code>tl.store</code> does, and returns the
# values. A pointer to an element is the array's pointer plus the element's offset.</details>
# <details><summary>Hint 3</summary>Pass <code>mask=mask</code> to the load as well as to the store: reading past the
# end of an array is also an error.</details>


# %% cell="solution" id="scale_kernel"
@triton.jit
def scale_kernel(x_ptr, factor, out_ptr, n, BLOCK: tl.constexpr):
    """Multiply a vector by a number.

    out[i] = factor * x[i] for i < n

    x_ptr    (n,)  input
    out_ptr  (n,)  output
    One program computes BLOCK elements, starting at pid * BLOCK.
    """
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    ### BEGIN SOLUTION
    x = tl.load(x_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, factor * x, mask=mask)
    ### END SOLUTION


# %% cell="given" id="scale"
# The launcher is an ordinary Python function.
def scale(x, factor, out, BLOCK=1024):
    n = x.numel()
    scale_kernel[(triton.cdiv(n, BLOCK),)](x, factor, out, n, BLOCK=BLOCK)


def scale_in_fours(x, factor, out):
    scale(x, factor, out, BLOCK=4)


lab.tiny("00_start/scale")  # shows your result for a small input
lab.access_map(scale_in_fours, torch.arange(10.0), 2.0, torch.empty(10), title="scale: 10 elements in blocks of 4")

# %% cell="check" exercise="00_start/scale"
lab.check("00_start/scale")

# %% [markdown]
# | the check [reports](../glossary.md#check-code) | common cause |
# |---|---|
# | `tail-unmasked` | a load or a store has no mask |
# | `not-written` | the kernel does not store |
# | `input-overwritten` | the kernel stores to `x_ptr` |
# | `wrong-formula` | the kernel adds where it must multiply, or does not use `factor` |
# | `first-block-only` | the store uses `tl.arange(0, BLOCK)` instead of `offs` |
# | `wrong-values` | only the load uses `tl.arange(0, BLOCK)` instead of `offs` |
# | `does-not-compile` | the kernel contains Python that Triton cannot compile, such as a NumPy call |
#
# If your kernel passes, break it on purpose: remove the mask from your store, run the kernel's cell and the check
# again, and read the diagnosis. Then put the mask back.
#
# ## 4 The same kernel in CUDA C++
#
# In Triton you write what one program does with a whole block of elements. In CUDA C++ you write what *one*
# [thread](../glossary.md#thread) does, usually with one element. In CUDA, a [block](../glossary.md#block) is a group of
# threads, not of elements.
#
# | | Triton | CUDA C++ |
# |---|---|---|
# | index of this block | `tl.program_id(0)` | `blockIdx.x` |
# | size of a block | `BLOCK` elements | `blockDim.x` threads |
# | position in the block | `tl.arange(0, BLOCK)`: all positions at once | `threadIdx.x`: the position of this thread |
# | bounds check | `mask=offs < n` | `if (i < n)` |
# | load and store | `tl.load`, `tl.store` | `x[i]`, `out[i] = …` |
#
# A cell that starts with `%%cuda` holds C++ (`//` begins a comment, `;` ends a statement). `__global__` marks a kernel.
# Running the cell compiles the code; you can then launch its kernels from Python.
#
# <details><summary>Hint</summary>The last block has threads beyond the end of the array. Each thread must first test
# whether its element exists. If the element exists, one statement reads it, multiplies it and writes the
# result.</details>

# %% cell="solution" id="scale_cuda_kernel"
# %%cuda
# // out[i] = factor * x[i] for i < n. x and out have n elements; one thread computes one element.
# __global__ void scale_cuda_kernel(const float* x, float factor, float* out, int n) {
#     int i = blockIdx.x * blockDim.x + threadIdx.x;
#     // ### BEGIN SOLUTION
#     if (i < n) {
#         out[i] = factor * x[i];
#     }
#     // ### END SOLUTION
# }


# %% cell="given" id="scale_cuda"
def scale_cuda(x, factor, out):
    n = x.numel()
    scale_cuda_kernel[triton.cdiv(n, 256), 256](x, factor, out, n)  # blocks, threads per block


lab.tiny("00_start/scale_cuda")

# %% cell="check" exercise="00_start/scale_cuda"
lab.check("00_start/scale_cuda")

# %% [markdown]
# ## 5 How fast is it?
#
# Per element, each of your kernels moves eight bytes and does only one multiplication, so [memory
# bandwidth](../glossary.md#bandwidth) (bytes per second) limits both kernels. The benchmark compares your kernels with
# a plain copy on the same GPU. Predict first: what fraction of the copy's bandwidth will your kernels reach?

# %%
lab.claims("00_start")  # a two-minute quiz: predict each number, then compare
print(lab.benchmark("00_start/scale") or "")
lab.benchmark("00_start/scale_cuda")

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** Suppose your kernel did ten multiplications per element instead of one. Would it take longer on a GPU?
# Explain in two sentences.
#
# ### BEGIN SOLUTION
# Hardly. The kernel spends its time moving eight bytes per element while the arithmetic units idle: a GPU does tens of
# multiplications in the time it takes to move eight bytes, so ten multiplications still fit.
# ### END SOLUTION

# %% [markdown]
# ## Between exercises
#
# - `lab.explain("00_start/scale")` compares your kernel with the reference solution (bytes moved, machine code,
#   predicted times on five GPUs) and suggests what to change next. It works for every exercise with a kernel.
# - `lab.hint("00_start/scale")` prints the next hint of an exercise.
# - `lab.walkthrough("00_start/scale")` shows a solution, why it is written so, and what comes next. It opens after full
#   points, or with `anyway=True`. A course may keep it back until the deadline.
# - `lab.claims("00_start")` is a two-minute quiz: predict numbers of the unit, then compare. Every unit has one, except
#   the bug hunts.
# - `lab.progress()` shows your points, what you have done, and what to do next if you have a day, a week or a term.
#   Your points are stored in one file on this machine and never sent anywhere.
# - `lab.play` steps through a CUDA C++ launch: `lab.play(scale_cuda, torch.ones(300), 2.0, torch.empty(300))`.
#
# **AI assistants.** In a course, your instructor's rules apply. If you learn alone, write the first version yourself.
# The aim of this course is that you can predict what a kernel does; the predictions and explanations in the notebooks
# show whether you can. Afterwards, an assistant may explain a compiler's message, a term, or each line of a kernel. An
# assistant's statements about speed are guesses until you count or measure. State what you used an assistant for.
#
# ## Submit
#
# Run *Kernel → Restart and run all*, make sure every check shows its points, save, and submit. Grading runs your
# solution cells again, with other input sizes and values.
#
# **Next.** `01_hardware` explains how GPUs are built, and why. `06_elementwise_triton` continues with more Triton
# kernels.
#
# **In practice** you would not write a kernel that only scales a vector. You would [fuse](../glossary.md#fusion) the
# multiplication into the kernel that computes `x` or reads `out`.
#
# **Reading.** [Triton's first tutorial](https://triton-lang.org/main/getting-started/tutorials/01-vector-add.html) adds
# two vectors with a kernel of the same structure.
