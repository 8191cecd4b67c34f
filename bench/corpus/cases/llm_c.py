"""llm.c (Andrej Karpathy): every kernel of dev/cuda, of llmc/ and of train_gpt2_fp32.cu.

Products that it leaves to cuBLAS and cuDNN are no kernels of its own; where one stands between two of them, each has a
case of its own.
"""

import functools
from math import sqrt

import numpy as np
import torch

from ..cuda import Case, bf16, f32, full, integers, normal, out, scratch, uniform, values

case = functools.partial(Case, "llm.c")

CASES: list[Case] = []

B, T, C, NH = 2, 32, 64, 2
HS = C // NH
EPS = 1e-5


HOST = (
    "FILE", "glob_t", "ncclComm_t", "cublasLtHandle_t", "DataLoader", "EvalLoader", "Tokenizer", "GPT2", "GPT2Config",
    "tuple", "cudnnHandle_t", "NvtxRange", "fe", "unordered_map",
)  # fmt: skip
"""Types of the host: declarations with them are no device code."""


def add(path, kernel, setup="#include <cuda_bf16.h>", drop=(), **more):
    """A case; cuBLAS's headers bring `cuda_bf16.h` with them."""
    CASES.append(case(path, kernel, setup=setup, drop=(*HOST, *drop), **more))


def dev(name, kernel, **more):
    add(f"dev/cuda/{name}.cu", kernel, **more)


def fp32(kernel, **more):
    add("train_gpt2_fp32.cu", kernel, **more)


def llmc(name, kernel, **more):
    add(f"llmc/{name}.cuh", kernel, **more)


# --- references ----------------------------------------------------------------------------------------------------


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def causal(x, scale):
    """Softmax of the lower triangle of (…, T, T), zero above it."""
    size = x.shape[-1]
    masked = np.where(np.tri(size, dtype=bool), scale * x, -np.inf)
    return np.nan_to_num(softmax(masked))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def gelu_gradient(x):
    s = sqrt(2 / np.pi)
    t = s * (x + 0.044715 * x**3)
    return 0.5 * (1 + np.tanh(t)) + x * 0.5 / np.cosh(t) ** 2 * s * (1 + 3 * 0.044715 * x**2)


def normalized(x):
    """(mean, 1 / standard deviation, normalized x) of each row."""
    mean = x.mean(-1)
    rstd = 1 / np.sqrt(x.var(-1) + EPS)
    return mean, rstd, (x - mean[..., None]) * rstd[..., None]


def layernorm(inp, weight, bias):
    mean, rstd, n = normalized(inp)
    return dict(out=n * weight + bias, mean=mean, rstd=rstd)


def triangle(inp):
    """Scaled scores in the 8 × 8 tiles on or below the diagonal, zero above."""
    q, k, _ = split_heads(inp).values()
    tile = np.arange(q.shape[2]) // 8
    return dict(out=np.where(tile[:, None] >= tile, q @ k.swapaxes(-1, -2) / sqrt(q.shape[-1]), 0))


def layernorm_gradient(dinp, dweight, dbias, dout, inp, weight, mean, rstd):
    n = (inp - mean[:, None]) * rstd[:, None]
    d = weight * dout
    gradient = (d - d.mean(-1, keepdims=True) - n * (d * n).mean(-1, keepdims=True)) * rstd[:, None]
    return dict(dinp=dinp + gradient, dweight=dweight + (n * dout).sum(0), dbias=dbias + dout.sum(0))


def to_temporaries(dinp, dout, inp, weight, mean, rstd):
    result = layernorm_gradient(dinp, 0, 0, dout, inp, weight, mean, rstd)
    return dict(dinp=result["dinp"], dweight_tmp=result["dweight"], dbias_tmp=result["dbias"])


def split_heads(inp):
    """q, k and v, each (B, NH, T, HS), of (B, T, 3, NH, HS)."""
    return dict(zip("qkv", np.moveaxis(inp, (2, 3), (0, 2)), strict=True))


def attention(inp):
    """Scaled scores with -inf above the diagonal, their softmax, and the output (B, T, C), of (B, T, 3, NH, HS)."""
    q, k, v = split_heads(inp).values()
    scores = q @ k.swapaxes(-1, -2) / sqrt(HS)
    preatt = np.where(np.tri(T, dtype=bool), scores, -np.inf)
    att = softmax(preatt)
    return preatt, att, (att @ v).swapaxes(1, 2).reshape(B, T, C)


def flash_attention(Q, K, V):
    """With the rows' maxima and sums, as FlashAttention keeps them."""
    scores = np.where(np.tri(T, dtype=bool), Q @ K.swapaxes(-1, -2) / sqrt(HS), -np.inf)
    most = scores.max(-1)
    return dict(O=softmax(scores) @ V, m=most, l=np.exp(scores - most[..., None]).sum(-1))


def softmax_gradient(datt, att, scale):
    """Through a causal softmax; zero above the diagonal, where `att` is zero."""
    return scale * att * (datt - (att * datt).sum(-1, keepdims=True))


# --- elementwise ---------------------------------------------------------------------------------------------------

N = 1000
OPTIMIZER = dict(
    learning_rate=1e-3, beta1=0.9, beta2=0.999, beta1_correction=1 - 0.9**10, beta2_correction=1 - 0.999**10, eps=1e-8,
    weight_decay=0.1,
)  # fmt: skip


def adamw(params, grads, m, v):
    beta1, beta2 = (float(np.float32(OPTIMIZER[name])) for name in ("beta1", "beta2"))
    m = beta1 * m + (1 - beta1) * grads
    v = beta2 * v + (1 - beta2) * grads**2
    update = (m / (1 - 0.9**10)) / (np.sqrt(v / (1 - 0.999**10)) + 1e-8) + 0.1 * params
    return dict(params=params - 1e-3 * update, m=m, v=v)


def adamw_with_master(master, grads, m, v):
    result = adamw(master, 0.5 * grads, m, v)
    return result | dict(master=result["params"])


STATE = dict(params=normal(N), grads=normal(N), m=normal(N, scale=0.1), v=uniform(N, high=0.1))
for kernel in ("adamw_kernel1", "adamw_kernel2"):
    dev("adamw", kernel, grid=2, block=512, arguments=STATE | dict(num_parameters=N) | OPTIMIZER, expect=adamw)
fp32("adamw_kernel2", grid=2, block=512, arguments=STATE | dict(num_parameters=N) | OPTIMIZER, expect=adamw)
llmc(
    "adamw",
    "adamw_kernel3<float, __nv_bfloat16>",
    grid=(2, 2),
    block=512,
    arguments=dict(
        params=normal(2 * N), master=normal(2 * N), grads=normal(2 * N, dtype=bf16), m=normal(2 * N, scale=0.1),
        v=uniform(2 * N, high=0.1), num_parameters=N, w_stride=N, g_stride=N, s_stride=N, **OPTIMIZER, grad_scale=0.5,
        seed=7,
    ),
    expect=adamw_with_master,
)  # fmt: skip
llmc(
    "adamw",
    "init_from_master_kernel<__nv_bfloat16>",
    grid=(2, 2),
    block=512,
    arguments=dict(
        params=out(2 * N, dtype=bf16), master=normal(2 * N), num_parameters=N, w_stride=N, s_stride=N, seed=3
    ),
    expect=lambda master: master,
)

ACTIVATIONS = 8 * 512
for path, kernel, dtype, width, block, more in (
    ("dev/cuda/gelu_forward.cu", "gelu_forward_kernel1", bf16, 1, 256, dict(N=ACTIVATIONS)),
    ("dev/cuda/gelu_forward.cu", "gelu_forward_kernel2", bf16, 8, 128, dict(N=ACTIVATIONS)),
    ("llmc/gelu.cuh", "gelu_forward_kernel2", bf16, 8, 512, {}),
    ("train_gpt2_fp32.cu", "gelu_forward_kernel", f32, 1, 128, dict(N=ACTIVATIONS)),
):
    add(
        path,
        kernel,
        grid=ACTIVATIONS // (width * block),
        block=block,
        arguments=dict(out=out(ACTIVATIONS, dtype=dtype), inp=normal(ACTIVATIONS, dtype=dtype), **more),
        expect=lambda inp: gelu(inp),
    )
for path, kernel, dtype, width in (
    ("dev/cuda/gelu_backward.cu", "gelu_backward1", bf16, 1),
    ("dev/cuda/gelu_backward.cu", "gelu_backward2", bf16, 8),
    ("train_gpt2_fp32.cu", "gelu_backward_kernel", f32, 1),
):
    add(
        path,
        kernel,
        grid=ACTIVATIONS // (width * 128),
        block=128,
        arguments=dict(
            dinp=out(ACTIVATIONS, dtype=dtype), inp=normal(ACTIVATIONS, dtype=dtype),
            dout=normal(ACTIVATIONS, dtype=dtype), N=ACTIVATIONS,
        ),
        expect=lambda inp, dout: gelu_gradient(inp) * dout,
    )  # fmt: skip
llmc(
    "gelu",
    "gelu_backward_inplace_kernel",
    grid=ACTIVATIONS // (8 * 128),
    block=128,
    arguments=dict(dout=normal(ACTIVATIONS, dtype=bf16), inp=normal(ACTIVATIONS, dtype=bf16)),
    expect=lambda inp, dout: dict(dout=gelu_gradient(inp) * dout),
)

for path, kernel, dtype, width, more in (
    ("dev/cuda/residual_forward.cu", "residual_forward_kernel1", bf16, 1, dict(N=ACTIVATIONS)),
    ("dev/cuda/residual_forward.cu", "residual_forward_kernel2", bf16, 8, dict(N=ACTIVATIONS)),
    ("dev/cuda/fused_residual_forward.cu", "residual_forward_kernel1", bf16, 1, dict(N=ACTIVATIONS)),
    ("llmc/layernorm.cuh", "residual_forward_kernel", bf16, 8, {}),
    ("train_gpt2_fp32.cu", "residual_forward_kernel", f32, 1, dict(N=ACTIVATIONS)),
):
    add(
        path,
        kernel,
        grid=ACTIVATIONS // (width * 256),
        block=256,
        arguments=dict(
            out=out(ACTIVATIONS, dtype=dtype), inp1=normal(ACTIVATIONS, dtype=dtype),
            inp2=normal(ACTIVATIONS, dtype=dtype), **more,
        ),
        expect=lambda inp1, inp2: inp1 + inp2,
    )  # fmt: skip

dev("nccl_all_reduce", "set_vector", grid=4, block=256, arguments=dict(data=out(N), N=N, value=2.5), expect=lambda: 2.5)
dev(
    "permute",
    "permute_kernel",
    grid=5,
    block=256,
    arguments=dict(matrix=normal(4, 5, 6, 7), out=out(7, 6, 4, 5), dim1=4, dim2=5, dim3=6, dim4=7),
    expect=lambda matrix: matrix.transpose(3, 2, 0, 1),
)

# --- encoder -------------------------------------------------------------------------------------------------------

VOCABULARY = 50


def encoded(inp, wte, wpe):
    return wte[inp] + wpe


for path, kernel, dtype, blocks in (
    ("dev/cuda/encoder_forward.cu", "encoder_forward_kernel1", bf16, 1),
    ("dev/cuda/encoder_forward.cu", "encoder_forward_kernel2", bf16, B * T * C // 128),
    ("dev/cuda/encoder_forward.cu", "encoder_forward_kernel3", bf16, B * T * C // 1024),
    ("llmc/encoder.cuh", "encoder_forward_kernel3", bf16, B * T * C // 1024),
    ("train_gpt2_fp32.cu", "encoder_forward_kernel3", f32, B * T * C // 512),
):
    add(
        path,
        kernel,
        grid=blocks,
        block=128,
        arguments=dict(
            out=out(B, T, C, dtype=dtype), inp=integers(B, T, high=VOCABULARY),
            wte=normal(VOCABULARY, C, dtype=dtype), wpe=normal(T, C, dtype=dtype), B=B, T=T, C=C,
        ),
        expect=encoded,
    )  # fmt: skip


def encoder_gradient(dwte, dwpe, dout, inp):
    np.add.at(dwte, inp, dout)
    return dict(dwte=dwte, dwpe=dwpe + dout.sum(0))


for path, kernel, blocks in (
    ("dev/cuda/encoder_backward.cu", "encoder_backward_kernel1", B * T * C // 256),
    ("dev/cuda/encoder_backward.cu", "encoder_backward_kernel2", 1),
    ("train_gpt2_fp32.cu", "encoder_backward_kernel", B * T * C // 256),
):
    add(
        path,
        kernel,
        grid=blocks,
        block=256,
        arguments=dict(
            dwte=normal(VOCABULARY, C), dwpe=normal(T, C), dout=normal(B, T, C), inp=integers(B, T, high=VOCABULARY),
            B=B, T=T, C=C,
        ),
        expect=encoder_gradient,
        steps=32,
    )  # fmt: skip

WIDE = 256
"""Channels that a warp of 16-byte loads of bf16 covers."""


def buckets(inp):
    """What the launcher of `wte_backward_kernel` makes of the tokens: (bucket_info, workload_indices)."""
    info, indices = [], []
    for token in sorted(set(inp.reshape(-1)), key=lambda t: -(inp == t).sum()):
        where = np.flatnonzero(inp.reshape(-1) == token)
        info.append((len(indices), len(where), token, 0))
        indices += list(where)
    return np.array(info), np.array(indices)


TOKENS = np.arange(B * T).reshape(B, T) * 7 % 13
llmc(
    "encoder",
    "wte_backward_kernel<256>",
    grid=13,
    block=256,
    arguments=dict(
        dwte=normal(VOCABULARY, WIDE, dtype=bf16), bucket_info=values(lambda _: buckets(TOKENS)[0], torch.int32),
        workload_indices=values(lambda _: buckets(TOKENS)[1], torch.int32), dout=normal(B, T, WIDE, dtype=bf16),
        inp=values(lambda _: TOKENS, torch.int32), seed=5, B=B, T=T, C=WIDE,
    ),
    expect=lambda dwte, dout: dict(dwte=encoder_gradient(dwte, 0, dout, TOKENS)["dwte"]),
)  # fmt: skip
llmc(
    "encoder",
    "wpe_backward_kernel",
    grid=T * C // (8 * 256),
    block=256,
    arguments=dict(
        dwpe=normal(T, C, dtype=bf16), dout=normal(B, T, C, dtype=bf16), inp=integers(B, T, high=VOCABULARY), B=B, T=T,
        C=C, seed=5,
    ),
    expect=lambda dwpe, dout: dict(dwpe=dwpe + dout.sum(0)),
)  # fmt: skip

# --- attention -----------------------------------------------------------------------------------------------------

QKV = normal(B, T, 3, NH, HS)
dev(
    "attention_forward",
    "attention_query_key_kernel1",
    grid=B * NH * T * T // 256,
    block=256,
    arguments=dict(preatt=out(B, NH, T, T), inp=QKV, B=B, T=T, C=C, NH=NH),
    expect=lambda inp: attention(inp)[0],
)
dev(
    "attention_forward",
    "attention_softmax_kernel1",
    grid=1,
    block=128,
    arguments=dict(att=out(B, NH, T, T), preatt=normal(B, NH, T, T), B=B, T=T, NH=NH),
    expect=lambda preatt: causal(preatt, 1.0),
)
dev(
    "attention_forward",
    "attention_value_kernel1",
    grid=1,
    block=128,
    arguments=dict(out=out(B, T, C), att=uniform(B, NH, T, T, high=0.1), inp=QKV, B=B, T=T, C=C, NH=NH),
    expect=lambda att, inp: (np.tril(att) @ split_heads(inp)["v"]).swapaxes(1, 2).reshape(B, T, C),
    steps=32,
)
dev(
    "attention_forward",
    "attention_forward_fused1",
    grid=(T // 4, NH, B),
    block=128,
    arguments=dict(
        out=out(B, T, C), preatt=full(-np.inf, B, NH, T, T), att=full(0, B, NH, T, T), inp=QKV, B=B, T=T, C=C, NH=NH
    ),
    expect=lambda inp: dict(zip(("preatt", "att", "out"), attention(inp), strict=True)),
    steps=32,
    fault="lanes read the scores that lane 0 wrote, with no __syncwarp() between",
)
dev(
    "attention_forward",
    "attention_forward_kernel2",
    grid=(B, NH),
    block=32,
    shared=4 * (3 * 32 * HS + 32 * 32),
    arguments=dict(
        Q=normal(B, NH, T, HS), K=normal(B, NH, T, HS), V=normal(B, NH, T, HS), N=T, d=HS, Tc=1, Tr=1, Bc=32, Br=32,
        softmax_scale=1 / sqrt(HS), l=full(0, B, NH, T), m=full(-10000, B, NH, T), O=full(0, B, NH, T, HS),
    ),
    expect=flash_attention,
    steps=64,
)  # fmt: skip
dev(
    "attention_forward",
    "scale_kernel",
    grid=B * NH * T * T // 256,
    block=256,
    arguments=dict(inp=normal(B, NH, T, T), scale=0.125, B=B, NH=NH, T=T),
    expect=lambda inp: dict(inp=np.where(np.tri(T, dtype=bool), 0.125 * inp, -np.inf)),
)


def softmax_rows(path, kernel, dtype, **more):
    """A causal softmax, one warp for each row; what is above the diagonal stays."""
    add(
        path,
        kernel,
        grid=B * NH * T // 8,
        block=256,
        arguments=dict(
            out=full(0, B * NH, T, T, dtype=dtype), inv_temperature=0.5, inp=normal(B * NH, T, T, dtype=dtype),
            N=B * NH, T=T,
        ),
        expect=lambda inp: dict(out=causal(inp, 0.5)),
        **more,
    )  # fmt: skip


def permuted(path, suffix, dtype, accumulates=False, input_type=None):
    """(B, T, 3, NH, HS) to three (B, NH, T, HS), back, and the gradients."""
    one = dict(B=B, N=T, NH=NH, d=HS)
    launch = dict(grid=B * T * C // 256, block=256)
    heads, input_type = (B, NH, T, HS), input_type or dtype
    begin = normal if accumulates else out
    add(
        path,
        f"permute_kernel{suffix}",
        **launch,
        arguments={n: out(*heads, dtype=dtype) for n in "qkv"} | dict(inp=normal(B, T, 3, NH, HS, dtype=input_type))
        | one,
        expect=split_heads,
    )  # fmt: skip
    add(
        path,
        f"unpermute_kernel{suffix}",
        **launch,
        arguments=dict(inp=normal(*heads, dtype=dtype), out=out(B, T, NH, HS, dtype=input_type)) | one,
        expect=lambda inp: inp.swapaxes(1, 2),
    )
    if suffix or path.endswith("forward.cu"):
        return
    add(
        path,
        "permute_kernel_backward",
        **launch,
        arguments=dict(dinp=begin(B, T, 3, NH, HS, dtype=dtype))
        | {n: normal(*heads, dtype=dtype) for n in ("dq", "dk", "dv")}
        | one,
        expect=lambda dinp, dq, dk, dv: dict(
            dinp=np.moveaxis(np.stack((dq, dk, dv)), (0, 2), (2, 3)) + (dinp if accumulates else 0)
        ),
    )
    add(
        path,
        "unpermute_kernel_backward",
        **launch,
        arguments=dict(dinp=begin(*heads, dtype=dtype), dout=normal(B, T, NH, HS, dtype=dtype)) | one,
        expect=lambda dinp, dout: dict(dinp=dout.swapaxes(1, 2) + (dinp if accumulates else 0)),
    )


permuted("dev/cuda/attention_forward.cu", "", f32)
permuted("dev/cuda/attention_forward.cu", "_lowp", bf16, input_type=f32)
permuted("dev/cuda/attention_backward.cu", "", f32, accumulates=True)
permuted("llmc/attention.cuh", "", bf16)
permuted("train_gpt2_fp32.cu", "", f32)
softmax_rows("dev/cuda/attention_forward.cu", "softmax_forward_kernel5", f32)
softmax_rows("dev/cuda/attention_forward.cu", "softmax_forward_kernel5_lowp", bf16)
softmax_rows("dev/cuda/attention_backward.cu", "softmax_forward_kernel5", f32)
softmax_rows("llmc/attention.cuh", "softmax_forward_kernel5", bf16)
softmax_rows("train_gpt2_fp32.cu", "softmax_forward_kernel5", f32)
dev(
    "trimat_forward",
    "permute_kernel",
    grid=B * T * C // 256,
    block=256,
    arguments={n: out(B, NH, T, HS) for n in "qkv"} | dict(inp=QKV, B=B, T=T, NH=NH, HS=HS),
    expect=split_heads,
)
LOW = dict(grid=16, block=64, setup="#define ENABLE_CUDNN\n#include <cuda_bf16.h>")
dev(
    "attention_forward",
    "fp32_to_lowp_kernel",
    **LOW,
    arguments=dict(out=out(1024, dtype=bf16), inp=normal(1024)),
    expect=lambda inp: inp,
)
dev(
    "attention_forward",
    "lowp_to_fp32_kernel",
    **LOW,
    arguments=dict(inp=normal(1024, dtype=bf16), out=out(1024)),
    expect=lambda inp: inp,
)


def probabilities(*shape, dtype=f32):
    """A causal softmax of random scores."""
    return values(lambda rng: causal(rng.normal(size=shape), 1.0), dtype)


RACE = "block_acc is cleared by the first warp and written by all of them, with no barrier between: a sum can be lost"


def attention_gradient(path, kernel, grid, block, last, T=T, **more):
    heads = (B * NH, T, T)
    add(
        path,
        kernel,
        grid=grid,
        block=block,
        arguments=dict(dpreatt=full(0, *heads), datt=normal(*heads), att=probabilities(*heads), B=B, T=T, C=C) | last,
        expect=lambda datt, att: dict(dpreatt=softmax_gradient(datt, att, 1 / sqrt(HS))),
        steps=32,
        **more,
    )


for kernel, grid, block in (
    ("1", 1, 32),
    ("2", (1, B * NH), 32),
    ("3", (T // 4, B * NH), 128),
    ("4", (T // 8 // 4, B * NH), 128),
    ("5", (T // 8 // 4, B * NH), 128),
    ("6<32>", (T, B * NH), 32),
):
    attention_gradient(
        "dev/cuda/attention_backward.cu", f"softmax_autoregressive_backward_kernel{kernel}", grid, block, dict(NH=NH)
    )
for kernel, grid in (("7<64>", (64, B * NH)), ("8<64>", (64 // 4, B * NH))):
    attention_gradient(
        "dev/cuda/attention_backward.cu", f"softmax_autoregressive_backward_kernel{kernel}", grid, 64,
        dict(scale=1 / sqrt(HS)), T=64, fault=RACE,
    )  # fmt: skip
attention_gradient(
    "train_gpt2_fp32.cu", "softmax_autoregressive_backward_kernel", (T // 4, B * NH), 256, dict(scale=1 / sqrt(HS)),
    fault=RACE,
)  # fmt: skip
llmc(
    "attention",
    "softmax_autoregressive_backward_inplace_kernel",
    grid=(T // 4, B * NH),
    block=256,
    arguments=dict(
        datt=normal(B * NH, T, T, dtype=bf16), att=probabilities(B * NH, T, T, dtype=bf16), B=B, T=T, C=C,
        scale=1 / sqrt(HS),
    ),
    expect=lambda datt, att: dict(datt=softmax_gradient(datt, att, 1 / sqrt(HS))),
    fault="blockReduce is called in a loop without its last barrier: the next row's sums overwrite those still read",
)  # fmt: skip

# --- softmax -------------------------------------------------------------------------------------------------------

SOFTMAX_FAULTS = {
    "softmax_forward_kernel4": "the warps' sums overwrite the maximum that other warps still read: no barrier between",
    "softmax_forward_kernel7": "past the row's end it reads the last element, which another thread writes; it does not "
    "use what it read",
}
for kernel, rows, block, shared in (
    ("softmax_forward_kernel1", 64, 64, 0),
    ("softmax_forward_kernel2", 1, 128, 512),
    ("softmax_forward_kernel3", 1, 32, 128),
    ("softmax_forward_kernel4", 1, 128, 16),
    ("softmax_forward_online_kernel1", 64, 64, 0),
    ("softmax_forward_online_kernel2", 4, 128, 0),
    ("softmax_forward_kernel7", 1, 128, 32),
    ("softmax_forward_online_kernel8", 4, 128, 0),
):
    dev(
        "softmax_forward",
        kernel,
        grid=64 // rows,
        block=block,
        shared=shared,
        arguments=dict(out=out(64, 300), inp=normal(64, 300), N=64, C=300),
        expect=lambda inp: softmax(inp),
        steps=32,
        fault=SOFTMAX_FAULTS.get(kernel, ""),
    )
dev(
    "attention_forward",
    "softmax_forward_kernel4",
    grid=64,
    block=128,
    shared=32,
    arguments=dict(out=out(64, 300), inp=normal(64, 300), N=64, C=300),
    expect=lambda inp: softmax(inp),
    steps=32,
)

# --- classifier ----------------------------------------------------------------------------------------------------

ROWS, V, P = 8, 500, 512
"""V is a multiple of four and P one of 64, as in GPT-2 with padding."""


def padded(dtype=f32, width=V):
    """Logits (ROWS, P); the padding is not read."""
    return values(lambda rng: np.pad(rng.normal(size=(ROWS, width)), ((0, 0), (0, P - width))), dtype)


def classified(logits, dlosses, targets, V):
    """Losses, probabilities and gradients, these with zeros where the padding is."""
    p = softmax(logits[:, :V])
    hot = np.eye(V)[targets]
    gradients = (p - hot) * np.reshape(dlosses, (-1, 1))
    around = ((0, 0), (0, P - V))
    return dict(losses=-np.log((p * hot).sum(-1)), probs=np.pad(p, around), dlogits=np.pad(gradients, around))


def in_place(logits, dlosses, targets, V):
    result = classified(logits, dlosses, targets, V)
    return dict(losses=result["losses"], probs=result["probs"], logits=result["dlogits"])


for kernel, blocks, block, probs in (
    ("fused_classifier_kernel1", ROWS // 4, 128, False),
    ("fused_classifier_kernel2", ROWS, 128, True),
    ("fused_classifier_kernel3", ROWS, 128, True),
    ("fused_classifier_kernel4", ROWS, 128, True),
    ("fused_classifier_kernel5<true, true>", ROWS, 128, True),
):
    dev(
        "classifier_fused",
        kernel,
        grid=blocks,
        block=block,
        arguments=dict(dlogits=full(0, ROWS, P), losses=out(ROWS))
        | (dict(probs=full(0, ROWS, P)) if probs else {})
        | dict(logits=padded(), dlosses=uniform(ROWS), targets=integers(ROWS, high=V), B=2, T=ROWS // 2, V=V, P=P),
        expect=classified,
        steps=32,
    )
fp32(
    "fused_classifier_kernel3",
    grid=ROWS,
    block=128,
    arguments=dict(
        logits=padded(), losses=out(ROWS), probs=full(0, ROWS, P), dlosses=uniform(ROWS),
        targets=integers(ROWS, high=V), B=2, T=ROWS // 2, V=V, P=P,
    ),
    expect=in_place,
    steps=32,
    fault="thread 0 reads the target's logit while another thread may overwrite it with the gradient (llmc/ has a "
    "barrier there)",
)  # fmt: skip
llmc(
    "fused_classifier",
    "fused_classifier_kernel5<true, true>",
    grid=ROWS,
    block=32,  # with more threads than V / 16 its size_t index wraps below zero and the loop has no end
    arguments=dict(
        logits=padded(bf16, 500), losses=full(0, ROWS), probs=full(0, ROWS, P, dtype=bf16), dlosses=0.25,
        targets=integers(ROWS, high=500), B=2, T=ROWS // 2, V=500, P=P, write=True,
    ),
    expect=in_place,
    steps=8,
    fault="after the last whole vector every thread takes the same elements in place: i++ for i += blockDim.x",
)  # fmt: skip
dev(
    "crossentropy_forward",
    "crossentropy_forward_kernel1",
    grid=1,
    block=64,
    arguments=dict(
        losses=out(B, T), probs=uniform(B, T, 100, low=0.01), targets=integers(B, T, high=100), B=B, T=T, V=100
    ),
    expect=lambda probs, targets: -np.log(np.take_along_axis(probs, targets[..., None], -1)[..., 0]),
)
dev(
    "crossentropy_softmax_backward",
    "crossentropy_softmax_backward_kernel1",
    grid=25,
    block=256,
    arguments=dict(
        dlogits=normal(B, T, 100), dlosses=normal(B, T), probs=uniform(B, T, 100), targets=integers(B, T, high=100),
        B=B, T=T, V=100,
    ),
    expect=lambda dlogits, dlosses, probs, targets: dict(
        dlogits=dlogits + (probs - np.eye(100)[targets]) * dlosses[..., None]
    ),
)  # fmt: skip

# --- layernorm -----------------------------------------------------------------------------------------------------

TOKENS_N = B * T


def norm_arguments(dtype, statistics):
    return dict(
        out=out(TOKENS_N, WIDE, dtype=dtype), mean=out(TOKENS_N, dtype=statistics),
        rstd=out(TOKENS_N, dtype=statistics), inp=normal(TOKENS_N, WIDE, dtype=dtype), weight=normal(WIDE, dtype=dtype),
        bias=normal(WIDE, dtype=dtype), N=TOKENS_N, C=WIDE,
    )  # fmt: skip


for path, kernel, dtype, statistics, grid, block, shared in (
    ("dev/cuda/layernorm_forward.cu", "layernorm_forward_kernel1", f32, f32, 1, 64, 0),
    ("dev/cuda/layernorm_forward.cu", "layernorm_forward_kernel3", f32, f32, TOKENS_N // 4, 128, 0),
    ("dev/cuda/layernorm_forward.cu", "layernorm_forward_kernel4", f32, f32, TOKENS_N // 4, 128, 0),
    ("dev/cuda/layernorm_forward.cu", "layernorm_forward_kernel5", f32, f32, TOKENS_N, 128, 0),
    ("dev/cuda/layernorm_forward.cu", "layernorm_forward_kernel6", f32, f32, TOKENS_N // 4, (32, 4), 6 * WIDE * 4),
    ("dev/cuda/fused_residual_forward.cu", "layernorm_forward_kernel1", bf16, bf16, 1, 64, 0),
    ("llmc/layernorm.cuh", "layernorm_forward_kernel3", bf16, f32, TOKENS_N // 8, 256, 0),
    ("llmc/layernorm.cuh", "layernorm_forward_kernel6", bf16, f32, TOKENS_N // 8, (32, 8), 10 * WIDE * 2),
    ("train_gpt2_fp32.cu", "layernorm_forward_kernel3", f32, f32, TOKENS_N // 4, 128, 0),
):
    add(
        path,
        kernel,
        grid=grid,
        block=block,
        shared=shared,
        arguments=norm_arguments(dtype, statistics),
        expect=layernorm,
        steps=32 if dtype == f32 else 8,
    )
dev(
    "layernorm_forward",
    "mean_kernel",
    grid=TOKENS_N,
    block=128,
    shared=512,
    arguments=dict(mean=out(TOKENS_N), inp=normal(TOKENS_N, C), N=TOKENS_N, C=C, block_size=128),
    expect=lambda inp: inp.mean(-1),
    steps=32,
)
dev(
    "layernorm_forward",
    "rstd_kernel",
    grid=TOKENS_N,
    block=128,
    shared=512,
    arguments=dict(rstd=out(TOKENS_N), inp=normal(TOKENS_N, C), mean=normal(TOKENS_N), N=TOKENS_N, C=C, block_size=128),
    expect=lambda inp, mean: 1 / np.sqrt(((inp - mean[:, None]) ** 2).mean(-1) + EPS),
    steps=32,
)
dev(
    "layernorm_forward",
    "normalization_kernel",
    grid=TOKENS_N * C // 256,
    block=256,
    arguments=dict(
        out=out(TOKENS_N, C), inp=normal(TOKENS_N, C), mean=normal(TOKENS_N), rstd=uniform(TOKENS_N), weight=normal(C),
        bias=normal(C), B=B, T=T, C=C,
    ),
    expect=lambda inp, mean, rstd, weight, bias: (inp - mean[:, None]) * rstd[:, None] * weight + bias,
)  # fmt: skip


def fused(inp1, inp2, weight, bias):
    residual = inp1 + inp2
    mean, rstd, n = normalized(residual)
    return dict(residual=residual, normed=n * weight + bias, mean=mean, rstd=rstd)


PAST = "idx > N lets the thread of token N pass, one past the last"
for path, kernel, statistics, tokens, grid, block, shared in (
    ("dev/cuda/fused_residual_forward.cu", "fused_residual_forward2", bf16, TOKENS_N, 2, 32, 0),
    ("dev/cuda/fused_residual_forward.cu", "fused_residual_forward3", bf16, TOKENS_N - 3, TOKENS_N // 4, (32, 4), 0),
    ("dev/cuda/fused_residual_forward.cu", "fused_residual_forward_kernel4", bf16, TOKENS_N, TOKENS_N // 4, (32, 4), 0),
    (
        "dev/cuda/fused_residual_forward.cu", "fused_residual_forward_kernel5", bf16, TOKENS_N, TOKENS_N // 4, (32, 4),
        6 * WIDE * 2,
    ),
    (
        "dev/cuda/fused_residual_forward.cu", "fused_residual_forward_kernel6", bf16, TOKENS_N, 16, (32, 1, 4),
        6 * WIDE * 2 + 64 * 4 * 4,
    ),
    ("llmc/layernorm.cuh", "fused_residual_forward_kernel5", f32, TOKENS_N, TOKENS_N // 8, (32, 8), 10 * WIDE * 2),
):  # fmt: skip
    add(
        path,
        kernel,
        grid=grid,
        block=block,
        shared=shared,
        arguments=dict(
            residual=out(tokens, WIDE, dtype=bf16), normed=out(tokens, WIDE, dtype=bf16),
            mean=out(tokens, dtype=statistics), rstd=out(tokens, dtype=statistics),
            inp1=normal(tokens, WIDE, dtype=bf16), inp2=normal(tokens, WIDE, dtype=bf16),
            weight=normal(WIDE, dtype=bf16), bias=normal(WIDE, dtype=bf16), N=tokens, C=WIDE,
        ),
        expect=fused,
        precision=bf16,
        fault=PAST if tokens % 4 else "",
    )  # fmt: skip


def norm_gradient(path, kernel, dtype, grid, block, shared, middle=None, last=None, accumulates=True, **more):
    """`middle` are the arguments behind `dbias`, `last` those behind C."""
    parameters = normal if accumulates else functools.partial(full, 0)
    statistics = more.pop("statistics", dtype)
    add(
        path,
        kernel,
        grid=grid,
        block=block,
        shared=shared,
        arguments=dict(
            dinp=normal(TOKENS_N, WIDE, dtype=dtype), dweight=parameters(WIDE, dtype=dtype),
            dbias=parameters(WIDE, dtype=dtype),
        )
        | (middle or {})
        | dict(
            dout=normal(TOKENS_N, WIDE, dtype=dtype), inp=normal(TOKENS_N, WIDE, dtype=dtype),
            weight=normal(WIDE, dtype=dtype), mean=normal(TOKENS_N, dtype=statistics, scale=0.1),
            rstd=uniform(TOKENS_N, low=0.8, high=1.2, dtype=statistics), B=B, T=T, C=WIDE,
        )
        | (last or {}),
        steps=64 if dtype == f32 else 8,
        **more,
    )  # fmt: skip


FOUR = "<__nv_bfloat16, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16>"
norm_gradient("dev/cuda/layernorm_backward.cu", "layernorm_backward_kernel1", f32, 1, 64, 0, expect=layernorm_gradient)
for number, grid in (("2", 16), ("3", 4), ("4", 4)):
    norm_gradient(
        "dev/cuda/layernorm_backward.cu",
        f"layernorm_backward_kernel{number}{FOUR}",
        bf16,
        grid,
        128,
        2 * WIDE * 4,
        last=dict(dweight_tmp=full(0, WIDE), dbias_tmp=full(0, WIDE)) if number == "2" else {},
        expect=to_temporaries if number == "2" else layernorm_gradient,
    )
UNFENCED = "the last block reads what other blocks wrote, and no __threadfence() comes before their tickets"
for number, scratch_size, shared, accumulates, fault in (
    (f"5{FOUR}", 4 * 2 * WIDE + 1, 2 * WIDE + 1, True, ""),
    (f"6{FOUR}", 2 * WIDE + 1, 2 * WIDE + 1, False, ""),
    ("7", 2 * WIDE + 1, 2 * WIDE + 1, False, ""),
    ("8", 2 * WIDE + 1, 2 * WIDE + 1, True, ""),
    ("9", 32 + 4 * 2 * WIDE, 2 * WIDE + 2 * 128 + 1, True, UNFENCED),
    ("10", 32 + 4 * 2 * WIDE, 2 * WIDE + 2 * 96 * 4, True, UNFENCED),
):
    norm_gradient(
        "dev/cuda/layernorm_backward.cu", f"layernorm_backward_kernel{number}", bf16, 4, 128, 4 * shared,
        middle=dict(scratch=scratch(scratch_size)), accumulates=accumulates, expect=layernorm_gradient, fault=fault,
    )  # fmt: skip
norm_gradient(
    "llmc/layernorm.cuh", "layernorm_backward_kernel10", bf16, 4, 128, 4 * (2 * WIDE + 2 * 96 * 4),
    middle=dict(scratch=scratch(32 + 4 * 2 * WIDE)), statistics=f32, expect=layernorm_gradient, fault=UNFENCED,
)  # fmt: skip
norm_gradient("train_gpt2_fp32.cu", "layernorm_backward_kernel2", f32, 16, 128, 2 * WIDE * 4, expect=layernorm_gradient)
dev(
    "layernorm_backward",
    "copy_to_dweight_dbias<__nv_bfloat16>",
    grid=2,
    block=64,
    arguments=dict(
        C=N, dbias=out(N, dtype=bf16), dweight=out(N, dtype=bf16), dbias_tmp=normal(N), dweight_tmp=normal(N)
    ),
    expect=lambda dbias_tmp, dweight_tmp: dict(dbias=dbias_tmp, dweight=dweight_tmp),
)

# --- norms and sums ------------------------------------------------------------------------------------------------

LONG = 5000
for number, dtype in (("1", bf16), ("2", bf16), ("3", f32)):
    dev(
        "global_norm",
        f"norm_kernel{number}<{'float' if dtype == f32 else '__nv_bfloat16'}>",
        grid=4,
        block=128,
        arguments=dict(out=full(0, 1), data=normal(LONG, dtype=dtype), count=LONG),
        expect=lambda data: dict(out=(data**2).sum()),
        steps=64,
    )


def block_sums(data, blocks=4, block=128):
    squares = np.pad(data**2, (0, -data.size % (blocks * block)))
    return squares.reshape(-1, blocks, block).sum((0, 2))


dev(
    "global_norm",
    "norm_kernel4<__nv_bfloat16>",
    grid=4,
    block=128,
    arguments=dict(out=out(4), data=normal(LONG, dtype=bf16), count=LONG),
    expect=lambda data: block_sums(data),
    steps=64,
)
for path in ("dev/cuda/global_norm.cu", "llmc/global_norm.cuh"):
    add(
        path,
        "global_norm_aggregate_kernel",
        block=1024,
        arguments=dict(sums=normal(500), count=500),
        expect=lambda sums: dict(sums=np.concatenate(([sums.sum()], sums[1:]))),
        steps=64,
    )
llmc(
    "global_norm",
    "global_norm_squared_kernel<float>",
    grid=(4, 2),
    block=128,
    arguments=dict(out=normal(8), data=normal(2 * LONG), count=LONG, stride=LONG),
    expect=lambda out, data: dict(out=out + np.concatenate([block_sums(part) for part in data.reshape(2, LONG)])),
    steps=64,
)
llmc(
    "cuda_utils",
    "global_sum_single_block_kernel<__nv_bfloat16>",
    block=1024,
    arguments=dict(result=out(1), values=normal(LONG, dtype=bf16), count=LONG),
    expect=lambda values: values.sum(),
    steps=64,
)
llmc(
    "cuda_utils",
    "copy_and_cast_kernel<float, __nv_bfloat16>",
    grid=(2, 3),
    block=512,
    arguments=dict(dst=out(3 * N), src=normal(3 * N, dtype=bf16), n=N, stride_dst=N, stride_src=N),
    expect=lambda src: src,
)

OC = 256
BIAS = dict(B=B, T=T, OC=OC)


def bias_gradient(path, kernel, grid, block, shared=0, dtype=bf16, result=None, accumulates=True, last=None, **more):
    add(
        path,
        kernel,
        grid=grid,
        block=block,
        shared=shared,
        arguments=dict(
            dbias=(normal if accumulates else out)(OC, dtype=result or dtype), dout=normal(B * T, OC, dtype=dtype)
        )
        | BIAS
        | (last or {}),
        expect=lambda dbias, dout: dict(dbias=dout.sum(0) + (dbias if accumulates else 0)),
        steps=8 if (result or dtype) == bf16 else 32,
        **more,
    )


for kernel, grid, shared in (
    ("matmul_backward_bias_kernel_naive", 2, 0),
    ("matmul_backward_bias_kernel_faster", OC, 512),
):
    bias_gradient("dev/cuda/matmul_backward.cu", kernel, grid, 128, shared, dtype=f32, accumulates=False)
for kernel, grid, shared in (
    ("matmul_backward_bias_kernel1", OC, 512),
    ("matmul_backward_bias_kernel2", OC // 4, 0),
    ("matmul_backward_bias_kernel3", OC, 0),
    ("matmul_backward_bias_kernel4", OC // 32, 512),
):
    bias_gradient("dev/cuda/matmul_backward_bias.cu", kernel, grid, 128, shared)
bias_gradient(
    "dev/cuda/matmul_backward_bias.cu", "matmul_backward_bias_kernel5", (2, 4), 128, dtype=f32, drop=("ENABLE_BF16",)
)
bias_gradient(
    "dev/cuda/matmul_backward_bias.cu", "matmul_backward_bias_kernel7", (1, 2), (32, 8), 4 * OC, result=f32,
    last=dict(block_size=256),
)  # fmt: skip
bias_gradient(
    "dev/cuda/matmul_backward_bias.cu", "matmul_backward_bias_kernel8<float, true>", (OC // 64, 2), (4, 8, 4),
    result=f32, last=dict(atomic=True),
)  # fmt: skip
for path in ("dev/cuda/matmul_backward_bias.cu", "llmc/matmul.cuh"):
    bias_gradient(
        path, "matmul_backward_bias_kernel9<__nv_bfloat16, false>", (OC // 64, 1), (4, 8, 4), last=dict(buffer=False)
    )
    add(
        path,
        "reduce_add_sum_kernel",
        block=64,
        arguments=dict(dst=normal(OC, dtype=bf16), src=normal(4, OC), n=OC, m=4),
        expect=lambda dst, src: dict(dst=dst + src.sum(0)),
    )
dev(
    "matmul_backward_bias",
    "cast_and_add_kernel",
    grid=1,
    block=256,
    arguments=dict(dst=normal(OC, dtype=bf16), src=normal(OC), n=OC),
    expect=lambda dst, src: dict(dst=dst + src),
)
bias_gradient("train_gpt2_fp32.cu", "matmul_backward_bias_kernel4", OC // 32, 128, 512, dtype=f32)

# --- matrix products -----------------------------------------------------------------------------------------------

for path, kernel, launch in (
    ("dev/cuda/matmul_forward.cu", "matmul_forward_kernel1", dict(grid=(8, 16), block=(16, 16))),
    ("dev/cuda/matmul_forward.cu", "matmul_forward_kernel4", dict(grid=(1, 2), block=(16, 16))),
    ("train_gpt2_fp32.cu", "matmul_forward_kernel4", dict(grid=(1, 2), block=(16, 16))),
):
    add(
        path,
        kernel,
        **launch,
        arguments=dict(out=out(128, 256), inp=normal(128, C), weight=normal(256, C), bias=normal(256))
        | (dict(BT=128) if kernel.endswith("1") else {})
        | dict(C=C, OC=256),
        expect=lambda inp, weight, bias: inp @ weight.T + bias,
        steps=64,
    )
dev(
    "matmul_forward",
    "add_bias",
    grid=4,
    block=256,
    arguments=dict(out=normal(B, T, OC), bias=normal(OC), B=B, T=T, OC=OC),
    expect=lambda out, bias: dict(out=out + bias),
)
for variant in ("matmul_tri_naive", "matmul_tri_registers", "matmul_tri3", "matmul_tri4"):
    dev(
        "trimat_forward",
        f"trimul_global<{variant}>",
        grid=(2, 2, 1),
        block=(16, 16),
        arguments=dict(out=full(0, 1, 1, 256, 256), inp=normal(1, 256, 3, 1, 32), T=256, C=32, NH=1),
        expect=lambda inp: triangle(inp),
        steps=64,
    )
