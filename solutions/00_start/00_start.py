# %% [markdown]
# # Run, fill, check: write your first GPU kernel
#
# **You will** fill in three small exercises: a formula, a kernel in Triton, and the same kernel in CUDA C++.
#
# **You will learn to**
# - run a cell, fill a cell that holds a stub, and read what `lab.check` says about it;
# - work out how many programs a kernel needs for `n` elements;
# - write the load and the store of a kernel, with a mask for the tail.
#
# **You need** Python and a little PyTorch: what a tensor is, and that `x * 2` doubles every element.
#
# About 35 minutes. Works without a GPU; only the times at the end need one.

# %% cell="setup"

# %% [markdown]
# The line above is the *device card*. It says what your kernels run on:
#
# | | with a GPU | without one |
# |---|---|---|
# | your kernel is | compiled and run on the GPU | run on the CPU, slowly, and compiled as a test |
# | wrong results, wild addresses, races | found | found, by the same cases |
# | bytes moved | counted | counted, the same numbers |
# | time | measured | not measured: it would say nothing about a GPU |
#
# ## 1 How many programs?
#
# A GPU kernel is run by many *programs* at once. Each takes care of one *block* of elements, and all blocks have the
# same size. Ten elements in blocks of four need three programs; the last one has only two elements to do:
#
# ```
# element   0 1 2 3 | 4 5 6 7 | 8 9 . .
# program      0         1         2
# ```
#
# Write a function that says how many programs cover `n` elements in blocks of `block`. Fill the cell below: put your
# code in place of the line that raises. Then run it (Shift+Enter), and run the check after it.

# %% cell="solution" id="number_of_programs"
def number_of_programs(n, block):
    """How many blocks of `block` elements cover `n` elements; the last may be partly empty."""
    ### BEGIN SOLUTION
    return (n + block - 1) // block
    ### END SOLUTION


# %% cell="check" exercise="00_start/number_of_programs"
lab.check("00_start/number_of_programs")

# %% [markdown]
# A check prints a line for each case. After the first failure it says what is wrong and what to try; the last line is
# your points. You may run it as often as you like.
#
# <details><summary>Hint 1</summary>Plain division rounds down, and that loses the last block when it is only partly
# full.</details>
# <details><summary>Hint 2</summary>Enlarge <code>n</code> a little before you divide: so little that a full last block
# does not become two.</details>
# <details><summary>Hint 3</summary>The largest amount that is safe to add is one less than a block. Triton has this as
# <code>triton.cdiv</code>, for "ceiling division".</details>
#
# ## 2 A kernel to look at
#
# This kernel is finished. It writes the same number into every element. Read it from top to bottom: which program am I
# (`pid`), which elements are mine (`offs`), which of those exist (`mask`), store.

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
# Filled marks are elements that a program stored. Hollow ones are lanes that the mask switched off: program 2 points at
# elements 10 and 11, which do not exist. Without the mask it would overwrite whatever lies behind the array.
#
# ## 3 Your first kernel: scale a vector
#
# `out[i] = factor · x[i]`. Every element is read once and written once, so `n` fp32 elements move `2 · 4 · n` bytes.
#
# | argument | shape | meaning |
# |---|---|---|
# | `x_ptr` | (n,) | input: the address of its first element |
# | `factor` | number | what to multiply by |
# | `out_ptr` | (n,) | output |
# | `n` | number | how many elements there are |
# | `BLOCK` | constant | elements of one program, a power of two |
#
# One program computes `out[pid·BLOCK]` to `out[pid·BLOCK + BLOCK − 1]`, as far as these exist.


# %% cell="solution" id="scale_kernel"
@triton.jit
def scale_kernel(x_ptr, factor, out_ptr, n, BLOCK: tl.constexpr):
    """Multiply a vector by a number.

    out[i] = factor * x[i] for i < n

    x_ptr    (n,)  input
    out_ptr  (n,)  output
    One program computes BLOCK elements, from pid * BLOCK on.
    """
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    ### BEGIN SOLUTION
    x = tl.load(x_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, factor * x, mask=mask)
    ### END SOLUTION


# %% [markdown]
# <details><summary>Hint 1</summary>Two steps are missing: bring this program's elements of x in, and put the results
# out. <code>fill_kernel</code> shows the second.</details>
# <details><summary>Hint 2</summary><code>tl.load</code> takes pointers, as <code>tl.store</code> does, and gives the
# values. A pointer to one element is the array's pointer plus that element's offset.</details>
# <details><summary>Hint 3</summary>Pass <code>mask=mask</code> to both: reading past the end is as wrong as writing
# past it.</details>
#
# The *launcher* is plain Python. It chooses the grid, that is the number of programs, and starts the kernel.


# %% cell="given" id="scale"
def scale(x, factor, out, BLOCK=1024):
    n = x.numel()
    scale_kernel[(triton.cdiv(n, BLOCK),)](x, factor, out, n, BLOCK=BLOCK)


def scale_in_fours(x, factor, out):
    scale(x, factor, out, BLOCK=4)


lab.tiny("00_start/scale")

# %% cell="check" exercise="00_start/scale"
lab.check("00_start/scale")

# %% [markdown]
# When it fails:
#
# | what the check says | a common cause |
# |---|---|
# | `tail-unmasked` | a load or a store without its mask |
# | `not-written` | no store, or a store to `x_ptr` |
# | `wrong-formula` | `+` for `·`, or the factor left out |
# | `first-block-only` | `offs` lost its `pid * BLOCK` |
# | `does-not-compile` | something that is Python but not Triton, such as NumPy, inside the kernel |
#
# Does it pass? Then break it on purpose: take the mask out of your store, run kernel and check again, and read the
# diagnosis. Put it back afterwards. Now look at your own kernel at work:

# %%
lab.access_map(scale_in_fours, torch.arange(10.0), 2.0, torch.empty(10), title="scale: 10 elements in blocks of 4")

# %% [markdown]
# ## 4 The same kernel in CUDA C++
#
# A Triton program handles a whole block of elements. In CUDA C++ you write what *one thread* does, mostly with one
# element; a block is a group of threads.
#
# | | Triton | CUDA C++ |
# |---|---|---|
# | number of this block | `tl.program_id(0)` | `blockIdx.x` |
# | elements in a block | `BLOCK` | `blockDim.x` threads |
# | place in the block | `tl.arange(0, BLOCK)`, all at once | `threadIdx.x`, this thread's |
# | only where it exists | `mask=offs < n` | `if (i < n)` |
# | load and store | `tl.load`, `tl.store` | `x[i]`, `out[i] = …` |
#
# A cell that starts with `%%cuda` holds C++ (`//` begins a comment, a `;` ends a statement). Running it compiles it
# and makes its kernels known to Python.
#
# <details><summary>Hint</summary>The last block has threads beyond the end. Each thread asks by itself whether its
# element exists, and only then reads, multiplies and writes, all in one statement.</details>

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
    scale_cuda_kernel[triton.cdiv(n, 256), 256](x, factor, out, n)  # blocks, threads in each


lab.tiny("00_start/scale_cuda")

# %% cell="check" exercise="00_start/scale_cuda"
lab.check("00_start/scale_cuda")

# %% [markdown]
# ## 5 How fast is it?
#
# Both kernels do one multiplication for eight bytes moved, so memory sets their speed. The fair comparison is a plain
# copy of as many bytes on the same GPU. Before you run the cell: what fraction of the copy's speed do you expect?

# %%
print(lab.benchmark("00_start/scale") or "")
lab.benchmark("00_start/scale_cuda")

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** Suppose the multiplication were replaced by ten of them. Would the kernel become slower on a GPU? Say
# why, in two sentences.
#
# ### BEGIN SOLUTION
# Hardly. The time goes into moving eight bytes for each element, and the arithmetic units idle meanwhile: a GPU does
# tens of FLOPs in the time that it takes to move one float, so ten multiplications still fit into that wait.
# ### END SOLUTION

# %% [markdown]
# ## Hand in
#
# *Kernel → Restart and run all*, look that every check shows its points, save, submit. What counts is your solution
# cells: the course runs them again elsewhere, with other sizes and values.
#
# **Next.** `01_hardware` says why a GPU is built like this. `06_elementwise_triton` continues from here.
#
# **In practice** nobody writes a kernel to scale a vector: it is fused into the kernel before or after it, which saves
# the whole trip through memory.
#
# **Reading.** [Triton's first tutorial](https://triton-lang.org/main/getting-started/tutorials/01-vector-add.html): the
# same structure, with two inputs.
