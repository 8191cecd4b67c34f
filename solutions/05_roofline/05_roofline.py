# %% [markdown]
# # Tell from bytes and FLOPs how fast a kernel can be
#
# **You will** keep ledgers of what kernels move and compute, predict their least time, and say of measured kernels what
# holds them back.
#
# **You will learn to**
# - write a byte and FLOP ledger for a formula, and see what fusing saves;
# - find ridge, intensity and bound, and the size at which a matmul changes sides;
# - place measured kernels under the roof, and tell a bound kernel from one that merely waits;
# - check three claims that course material repeats.
#
# **You need** `04_benchmarking`. About 60 minutes. Works without a GPU: measurements of an H200 are stored.

# %% cell="setup"

# %% [markdown]
# ## 1 Two clocks, and the slower one counts
#
# A kernel has to move its bytes and do its FLOPs. Memory moves at most `bandwidth` bytes a second, the cores do at most
# `peak` FLOP/s, and with enough warps both happen at the same time.
#
# **Predict.** What is the least time that a kernel can take?


# %% cell="solution" id="least_time"
def least_time(bytes_moved, flops, bandwidth, peak):
    """Seconds at least."""
    ### BEGIN SOLUTION
    return max(bytes_moved / bandwidth, flops / peak)
    ### END SOLUTION


# %% cell="check" exercise="05_roofline/least_time"
lab.check("05_roofline/least_time")

# %% [markdown]
# Both are equal at `flops / bytes = peak / bandwidth`. The left side, *arithmetic intensity*, belongs to the kernel;
# the right side, the *ridge*, to the GPU. Less intensity than the ridge: memory-bound. More: compute-bound.
#
# ## 2 Ledgers
#
# A `Ledger` holds bytes read and written by array, and FLOPs. Ledgers add, as kernels after each other do. `fuse` puts
# them into one kernel: an array that one part writes and a later one reads never leaves the chip, and an array read by
# two parts is read once. Here is a neighbour of your exercises, scale and shift:

# %% cell="given" id="neighbour"
from labutils import Ledger, Roof, fuse, units


def scale_and_shift(n, itemsize):
    x = n * itemsize
    scale = Ledger({"x": x, "s": x}, {"t": x}, flops=n, name="scale")
    shift = Ledger({"t": x, "b": x}, {"y": x}, flops=n, name="shift")
    return scale, shift


parts = scale_and_shift(2**27, 4)
h200 = Roof.of(lab.device.find("H200"), "fp32")
for work in (*parts, sum(parts), fuse(*parts)):
    print(work, "→", h200.predict(work))

# %% [markdown]
# Write ledgers of four fused kernels: each input element is read once, each result written once. `itemsize` is bytes
# per element; count each +, −, ·, /, max, exp as one FLOP, and leave out what is done once per row.
#
# | kernel | for each row of N elements, M rows | arrays |
# |---|---|---|
# | softmax | m = max x; e = exp(x − m); y = e / Σe | x, y: M × N |
# | LayerNorm | c = x − Σx/N; rstd from Σc²; y = c · rstd · w + b | x, y: M × N; w, b: N |
# | matmul | C = A·B | A: M × K, B: K × N, C: M × N |
# | RMSNorm + residual | s = x + r; rstd from Σs²; y = s · rstd · w | x, r, s, y: M × N; w: N |
#
# s is a result too: the next layer adds to it.
#
# <details><summary>Hint 1</summary>Write a list of arrays first. Is each read, written, or only between?</details>
# <details><summary>Hint 2</summary>FLOPs: go through the formula and count what happens to one element. A sum over a
# row is one addition for each element.</details>
# <details><summary>Hint 3</summary>softmax: max, −, exp, +, / are five. A matmul's result is a sum of K
# products.</details>


# %% cell="solution" id="norms"
def softmax_ledger(M, N, itemsize):
    """Ledger of a fused softmax over rows."""
    ### BEGIN SOLUTION
    x = M * N * itemsize
    return Ledger({"x": x}, {"y": x}, flops=5 * M * N, name="softmax")
    ### END SOLUTION


def layer_norm_ledger(M, N, itemsize):
    """Ledger of LayerNorm with weight and bias."""
    ### BEGIN SOLUTION
    x, row = M * N * itemsize, N * itemsize
    return Ledger({"x": x, "w": row, "b": row}, {"y": x}, flops=7 * M * N, name="LayerNorm")
    ### END SOLUTION


# %% cell="check" exercise="05_roofline/softmax"
lab.check("05_roofline/softmax")

# %% cell="check" exercise="05_roofline/layer_norm"
lab.check("05_roofline/layer_norm")


# %% cell="solution" id="products"
def matmul_ledger(M, N, K, itemsize):
    """Ledger of C = A B, each matrix moved once."""
    ### BEGIN SOLUTION
    reads = {"a": M * K * itemsize, "b": K * N * itemsize}
    return Ledger(reads, {"c": M * N * itemsize}, flops=2 * M * N * K, name="matmul")
    ### END SOLUTION


def rms_norm_residual_ledger(M, N, itemsize):
    """Ledger of s = x + r and y = RMSNorm(s) in one kernel; fuse may help."""
    ### BEGIN SOLUTION
    x, row = M * N * itemsize, N * itemsize
    add = Ledger({"x": x, "r": x}, {"s": x}, flops=M * N)
    norm = Ledger({"s": x, "w": row}, {"y": x}, flops=4 * M * N)
    return fuse(add, norm, keep=["s"], name="RMSNorm + residual")
    ### END SOLUTION


# %% cell="check" exercise="05_roofline/matmul"
lab.check("05_roofline/matmul")

# %% cell="check" exercise="05_roofline/rms_norm_residual"
lab.check("05_roofline/rms_norm_residual")

# %% [markdown]
# ## 3 Which bound holds?
#
# From what side M = N = K on is a matmul compute-bound? And of a *measured* kernel, `work` in so many `seconds`: what
# holds it? Call it `"memory"` or `"compute"` if it reaches at least half of the roof above it, else `"neither"`: then
# it waits for something that is on no roof, such as a launch, too few warps, or scattered addresses.
#
# <details><summary>Hint 1</summary>Set the intensity from your ledger equal to the ridge and solve for M.</details>
# <details><summary>Hint 2</summary><code>roof.predict(work)</code> has <code>.seconds</code> and <code>.bound</code>.
# </details>
# <details><summary>Hint 3</summary>At half the roof, a kernel takes twice its least time.</details>


# %% cell="solution" id="bounds"
def crossover(itemsize, peak, bandwidth):
    """Side of a square matmul whose intensity is the ridge."""
    ### BEGIN SOLUTION
    # 2 M^3 / (3 M^2 itemsize) = peak / bandwidth
    return 1.5 * itemsize * peak / bandwidth
    ### END SOLUTION


def verdict(work, seconds, roof):
    """ "memory", "compute" or "neither": what holds a kernel that was measured."""
    ### BEGIN SOLUTION
    least = roof.predict(work)
    return least.bound if least.seconds >= seconds / 2 else "neither"
    ### END SOLUTION


# %% cell="check" exercise="05_roofline/crossover"
lab.check("05_roofline/crossover")

# %% cell="check" exercise="05_roofline/verdict"
lab.check("05_roofline/verdict")

# %% [markdown]
# ## 4 Measured kernels under the roof
#
# Roofs are measured too: a plain copy, and the library's best matmul. On a GPU the points are yours, elsewhere an
# H200's. Before you look: which of them will lie on the roof, which below?

# %% cell="given" id="placed"
import torch

from labutils import plots, roofs

gpu, ceilings = lab.device.has_gpu(), roofs.here()
n, rows = 2**27, (4096, 8192)
KERNELS = {  # name: (ledger, pipe, function, shapes, stored seconds on an H200)
    "GeLU": (Ledger({"x": 4 * n}, {"y": 4 * n}, 12 * n), "fp32", torch.nn.functional.gelu, [(n,)], 257e-6),
    "softmax": (softmax_ledger(*rows, 4), "fp32", lambda x: torch.softmax(x, -1), [rows], 142e-6),
    "sum": (Ledger({"x": 8 * n}, {}, 2 * n), "fp32", torch.sum, [(2 * n,)], 260e-6),
    "transposed copy": (
        Ledger({"x": 2**28}, {"y": 2**28}, 1), "fp32", lambda x, y: y.copy_(x.T), 2 * [(8192, 8192)], 465e-6,
    ),
    **{
        f"matmul {m}": (matmul_ledger(m, m, m, 2), "fp16", torch.mm, 2 * [(m, m)], stored)
        for m, stored in ((512, 7.3e-6), (1024, 9.5e-6), (4096, 199e-6))
    },
}  # fmt: skip


def seconds_of(pipe, fn, shapes, stored):
    if not gpu:
        return stored
    kinds = {"fp16": torch.float16, "fp32": torch.float32}
    timed = lab.benchmark(fn, *(torch.randn(s, device="cuda", dtype=kinds[pipe]) for s in shapes))
    return timed.median if timed else stored


def place():
    fig = plots.figure(8, 4)
    axis = fig.subplots()
    for pipe, colour, style in (("fp32", plots.PALETTE[0], "-"), ("fp16", plots.PALETTE[5], "--")):
        roof = ceilings.roof(pipe)
        at = sorted([*(2.0**k for k in range(-4, 13)), roof.ridge])
        axis.plot(at, [roof.attainable(i) / 1e12 for i in at], style, color=colour, label=f"{pipe} roof, measured")
    for name, (work, pipe, *how) in KERNELS.items():
        took, roof = seconds_of(pipe, *how), ceilings.roof(pipe)
        print(f"{name:16} {units(took, 's'):>8}, least {units(roof.predict(work).seconds, 's'):>8}", end=": ")
        print(verdict(work, took, roof))
        if work.flops > 1:
            axis.plot(work.intensity, work.flops / took / 1e12, "o", color="black", ms=4)
            axis.annotate(name, (work.intensity, work.flops / took / 1e12), fontsize=8, xytext=(4, -9),
                          textcoords="offset points")  # fmt: skip
    axis.set(xscale="log", yscale="log", xlabel="FLOP per byte", ylabel="TFLOP/s", title=ceilings.gpu)
    axis.legend(fontsize=8)
    fig.alt = f"Roofline of {ceilings.gpu}: elementwise kernels on the slope, a large matmul at the flat roof."
    return fig


place()

# %% [markdown]
# | what you see | a common cause |
# |---|---|
# | a point above the roof | bytes counted that came from the L2, or FLOPs counted that were skipped |
# | memory-bound, below the slope | uncoalesced or narrow accesses, too few bytes in flight |
# | compute-bound, below the flat part | no tensor cores, register spills, the last wave |
# | far below both, and short | launch and ramp-up: make the work larger, or launch fewer kernels |
#
# ## 5 Three claims
#
# *An A100's ridge is about 10. A square matmul's intensity is about M. In a transformer 0.02 % of the FLOPs took 39 %
# of the time.* The cell works them out: the third for one layer of BERT-large (forward, fp16, batch 8, 512 tokens),
# each operation a kernel of its own.

# %% cell="given" id="claims"
a100, m = lab.device.find("A100 40GB"), 4096
ridges = ", ".join(f"{p} {Roof.of(a100, p).ridge:.0f}" for p in ("fp32", "tf32", "fp16"))
here = ", ".join(f"{p} {ceilings.roof(p).ridge:.0f}" for p in ceilings.tflops)
print(f"ridge: claim, A100: 10; its datasheet: {ridges}; measured on {ceilings.gpu}: {here} FLOP/byte")
print(f"intensity: claim M = {m}; from the ledger: {matmul_ledger(m, m, m, 2).intensity:.0f} = M / 3 in fp16")

T, H, heads, L, item = 8 * 512, 1024, 16, 512, 2


def elementwise(elements, inputs, flops_each):
    return Ledger({"in": inputs * elements * item}, {"out": elements * item}, flops_each * elements)


scores = 8 * heads * L * L
contractions = [matmul_ledger(T, k * H, H, item) for k in (3, 1, 4)] + [matmul_ledger(T, H, 4 * H, item)]
contractions += [128 * matmul_ledger(L, L, H // heads, item), 128 * matmul_ledger(L, H // heads, L, item)]
others = [softmax_ledger(scores // L, L, item), elementwise(scores, 1, 1), elementwise(scores, 2, 1)]  # scale, mask
others += [elementwise(scores, 2, 1), elementwise(4 * T * H, 1, 12), 2 * elementwise(T * H, 2, 1)]  # dropout, GeLU
others += [elementwise(k * T * H, 1, 1) for k in (3, 1, 4, 1)]  # biases
others += [2 * elementwise(T * H, 2, 1), 2 * layer_norm_ledger(T, H, item)]  # residuals, norms
flops = sum(others).flops / sum(contractions + others).flops
for roof in (Roof.of(lab.device.find("V100 SXM2"), "fp16"), ceilings.roof("fp16")):
    slow, fast = (sum(roof.predict(w).seconds for w in part) for part in (others, contractions))
    print(f"not matmul: claim 0.02 % of FLOPs, 39 % of time; {roof.name}: {flops:.2%}, {slow / (slow + fast):.0%}")


def layer(x, w_qkv, w_out, w_up, w_down):
    q, k, v = (x @ w_qkv).view(8, L, 3, heads, H // heads).permute(2, 0, 3, 1, 4)
    p = torch.dropout(torch.softmax(q @ k.mT * 0.125, -1), 0.1, True)
    x = torch.layer_norm(x + torch.dropout((p @ v).transpose(1, 2).reshape(T, H) @ w_out, 0.1, True), (H,))
    return torch.layer_norm(x + torch.dropout(torch.nn.functional.gelu(x @ w_up) @ w_down, 0.1, True), (H,))


shapes = ((T, H), (H, 3 * H), (H, H), (H, 4 * H), (4 * H, H))
if gpu and (seen := lab.profile(layer, *(torch.randn(s, device="cuda", dtype=torch.float16) / 32 for s in shapes))):
    slow = sum(row.us for row in seen.rows if "matmul" not in row.kernel.operation)
    print(f"measured on {seen.gpu}, PyTorch without compiling: {slow / seen.busy_us:.0%} of the time is not matmul")

# %% [markdown] cell="manual" id="explain" points=1
# **Explain.** Say for each claim what is right about it and what is missing. For the third: where does a small share of
# the FLOPs become a large share of the time, and does a GPU with faster tensor cores make it better or worse?
#
# ### BEGIN SOLUTION
# A ridge of 10 is that of fp32 on ordinary cores (12.5 for the 40 GB part, 9.6 for the 80 GB one); with tensor cores it
# is 100 to 200. A matmul's intensity grows with M, but is M/3 in fp16 when each matrix moves once. The third: the study
# that is quoted (Ivanov and others, 2021, Table 1: BERT on a V100) found 0.17 % of the FLOPs in normalizations and 0.03
# % in elementwise operations, together 0.20 % for 39 % of the time, so 0.02 % has lost a factor of ten. The ledger
# agrees in size: these operations do about one FLOP per byte, hundreds of times below the ridge, so their time is that
# of their bytes. Tensor cores have grown faster than bandwidth, which raises the ridge and makes the share larger;
# fusing is what helps.
# ### END SOLUTION

# %% [markdown]
# **Next levels.** Fuse scale, mask, softmax and dropout of the layer above: what share of the time is left? Put the L2
# in: a second slope, for kernels whose data stay there.
#
# **In practice** Nsight Compute draws this picture with bytes that the hardware counted; a kernel whose counted bytes
# exceed its ledger moves something twice.
#
# **Reading.** [Williams, Waterman and Patterson, Roofline](https://dl.acm.org/doi/10.1145/1498765.1498785): the idea.
# [Ivanov et al., Data Movement Is All You Need](https://arxiv.org/abs/2007.00072): the study behind the third claim.
