"""LeetCUDA (xlite-dev): kernels from elementwise functions to FlashAttention with mma instructions.

Launches are those of its own bindings and main functions, on smaller arrays.
"""

import math

import numpy as np
import torch

from ..cuda import Case, bf16, f16, f32, full, i8, i32, integers, normal, out, u8, uniform, values

CASES: list[Case] = []

SQUARE = 128
"""Rows, columns and terms of a matrix product in tiles of 128."""


UTILS = ("kernels/flash-attn/utils", "kernels/hgemm/utils")
"""Folders of headers that its builds name."""


def case(path, kernel, grid, block, arguments, expect, **more):
    folders = [folder for folder in UTILS if f"kernels/{path}".startswith(folder.removesuffix("utils"))]
    CASES.append(
        Case("LeetCUDA", f"kernels/{path}", kernel, grid, block, arguments, expect, folders=tuple(folders), **more)
    )


# --- functions of one element ---------------------------------------------------------------------------------------

WIDTHS = {"f32": 1, "f32x4": 4, "f16": 1, "f16x2": 2, "f16x8": 8, "f16x8_pack": 8}
"""Variant -> elements for each thread."""

N = 2048


def type_of(variant):
    return {"f3": f32, "f1": f16, "bf": bf16, "i8": i8, "fp": u8}[variant[:2]]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


UNARY = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": sigmoid,
    "swish": lambda x: x * sigmoid(x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "gelu": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hardshrink": lambda x: np.where(np.abs(x) > 0.5, x, 0),
}

for name, function in UNARY.items():
    for variant, width in WIDTHS.items():
        scale = 1 if name == "gelu" else 2  # exp(2 x) of a half is infinite where x is 4.06 or more, and gelu NaN
        arguments = dict(x=normal(N, dtype=type_of(variant), scale=scale), y=out(N, dtype=type_of(variant)), N=N)
        case(f"{name}/{name}.cu", f"{name}_{variant}_kernel", N // 256, 256 // width, arguments, function)
        if name == "relu":
            case("nvidia-nsight/relu.cu", f"relu_{variant}_kernel", N // 256, 256 // width, arguments, function)

for variant, width in WIDTHS.items():
    kind = type_of(variant)
    arguments = dict(a=normal(N, dtype=kind), b=normal(N, dtype=kind), c=out(N, dtype=kind), N=N)
    for path in ("elementwise/elementwise.cu", "nvidia-nsight/elementwise.cu"):
        case(path, f"elementwise_add_{variant}_kernel", N // 256, 256 // width, arguments, lambda a, b: a + b)

for variant, width in {"f32": 1, "f32x4": 4, "f32x4_pack": 4, "f16": 1, "f16x8": 8, "f16x8_pack": 8}.items():
    kind = type_of(variant)
    arguments = dict(idx=integers(16, high=50), weight=normal(50, 256, dtype=kind), output=out(16, 256, dtype=kind),
                     n=16, emb_size=256)  # fmt: skip
    case("embedding/embedding.cu", f"embedding_{variant}_kernel", 16, 256 // width, arguments,
         lambda idx, weight: weight[idx])  # fmt: skip


def rotated(x):
    """Rotary embedding of (tokens, 2 N): neighbors are pairs."""
    tokens, pairs = x.shape[0], x.shape[1] // 2
    angle = np.arange(tokens)[:, None] / 10000.0 ** (np.arange(pairs) / pairs)
    first, second = x[:, ::2], x[:, 1::2]
    turned = first * np.cos(angle) - second * np.sin(angle), first * np.sin(angle) + second * np.cos(angle)
    return np.stack(turned, axis=2).reshape(x.shape)


for kernel, count, grid, block in (
    ("rope_f32_kernel", 64, 4, 256), ("rope_f32_v2_kernel", 64, 16, 64), ("rope_f32x4_pack_kernel", 32, 2, 256),
):  # fmt: skip
    case("rope/rope.cu", kernel, grid, block,
         dict(x=normal(16, 128), out=out(16, 128), seq_len=16, N=count), rotated, steps=64)  # fmt: skip

# --- sums ------------------------------------------------------------------------------------------------------------


def decoded(a, kind):
    """Numbers of 8 bits as float64."""
    return torch.from_numpy(a).view(kind).double().numpy()


E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def eighth(kind):
    return values(lambda rng: torch.from_numpy(rng.uniform(0, 1, N)).to(kind).view(torch.uint8), u8)


for variant, width, accumulator in (
    *((v, w, "f32") for v, w in (("f32", 1), ("f32x4", 4))),
    *((v, w, a) for v, w in (("f16", 1), ("f16x2", 2), ("f16x8_pack", 8)) for a in ("f16", "f32")),
    *((v, w, a) for v, w in (("bf16", 1), ("bf16x2", 2), ("bf16x8_pack", 8)) for a in ("bf16", "f32")),
    *((v, w, "f16") for v, w in (("fp8_e4m3", 1), ("fp8_e5m2", 1), ("fp8_e4m3x16_pack", 16), ("fp8_e5m2x16_pack", 16))),
    *((v, w, "i32") for v, w in (("i8", 1), ("i8x16_pack", 16))),
):
    threads = max(32, 256 // width)
    kernel = f"block_all_reduce_sum_{variant}_{accumulator}_kernel<{threads}>"
    kind, y = type_of(variant), full(0, 1, dtype=i32 if accumulator == "i32" else f32)
    a = integers(N, low=-9, high=10, dtype=kind) if kind == i8 else uniform(N, dtype=kind)
    expect, precision = (lambda a: {"y": a.sum(dtype=a.dtype if a.dtype == float else int)}), kind
    if kind == u8:
        kind = E4M3 if "e4m3" in variant else E5M2
        a, expect, precision = eighth(kind), (lambda a, kind=kind: {"y": decoded(a, kind).sum()}), f16
    case("reduce/block_all_reduce.cu", kernel, N // threads // width, threads, dict(a=a, y=y, N=N), expect,
         precision=precision)  # fmt: skip

for variant, width in {"f32": 1, "f32x4": 4, "f16": 1, "f16x2": 2, "f16x8_pack": 8}.items():
    kind = type_of(variant)
    case("dot-product/dot_product.cu", f"dot_prod_{variant}_f32_kernel<{256 // width}>", N // 256, 256 // width,
         dict(a=uniform(N, dtype=kind), b=uniform(N, dtype=kind), y=full(0, 1), N=N), lambda a, b: {"y": a @ b},
         precision=kind)  # fmt: skip

for kernel, width in (("histogram_i32_kernel", 1), ("histogram_i32x4_kernel", 4)):
    case("histogram/histogram.cu", kernel, N // 256, 256 // width,
         dict(a=integers(N, high=64), y=full(0, 64, dtype=i32), N=N),
         lambda a: {"y": np.bincount(a, minlength=64)})  # fmt: skip

# --- rows: softmax and norms ----------------------------------------------------------------------------------------


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rms_norm(x, g):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g


def layer_norm(x, g, b):
    return rms_norm(x - x.mean(-1, keepdims=True), g) + b


ROWS, COLUMNS = 8, 256

for kernel, width, kind in (
    ("softmax_f32_per_token", 1, f32), ("softmax_f32x4_per_token", 4, f32), ("safe_softmax_f32_per_token", 1, f32),
    ("safe_softmax_f32x4_per_token", 4, f32), ("safe_softmax_f16_f32_per_token", 1, f16),
    ("safe_softmax_f16x2_f32_per_token", 2, f16), ("safe_softmax_f16x8_pack_f32_per_token", 8, f16),
    ("online_safe_softmax_f32_per_token", 1, f32), ("online_safe_softmax_f32x4_pack_per_token", 4, f32),
):  # fmt: skip
    threads = COLUMNS // width
    fault = "the first warp reads shared[0] to shared[31], but it has an element for each warp only"
    case("softmax/softmax.cu", f"{kernel}_kernel<{threads}>", ROWS, threads,
         dict(x=normal(ROWS, COLUMNS, dtype=kind), y=out(ROWS, COLUMNS, dtype=kind), N=ROWS * COLUMNS), softmax,
         steps=16, fault=fault if kernel.startswith("online") else "")  # fmt: skip

for norm, reference, numbers in (
    ("rms_norm", rms_norm, dict(g=1.5)), ("layer_norm", layer_norm, dict(g=1.5, b=0.25)),
):  # fmt: skip
    for variant, width in {
        "f32": 1, "f32x4": 4, "f16_f16": 1, "f16_f32": 1, "f16x2_f16": 2, "f16x8_f16": 8, "f16x8_f32": 8,
        "f16x8_pack_f16": 8, "f16x8_pack_f32": 8,
    }.items():  # fmt: skip
        if (norm, variant) == ("layer_norm", "f16x8_f32"):
            continue
        kind, threads = type_of(variant), COLUMNS // width
        arrays = dict(x=normal(ROWS, COLUMNS, dtype=kind, mean=0.5), y=out(ROWS, COLUMNS, dtype=kind))
        case(f"{norm.replace('_', '-')}/{norm}.cu", f"{norm}_{variant}_kernel<{threads}>", ROWS, threads,
             arrays | numbers | dict(N=ROWS, K=COLUMNS), reference, steps=32)  # fmt: skip

# --- transposes -----------------------------------------------------------------------------------------------------

for name, rows_each, columns_each in (
    ("f32_col2row", 1, 1), ("f32_row2col", 1, 1), ("f32x4_col2row", 1, 4), ("f32x4_row2col", 4, 1),
    ("f32_diagonal", 1, 1), ("f32x4_shared_col2row", 1, 4), ("f32x4_shared_row2col", 4, 1),
    ("f32x4_shared_bcf_col2row", 1, 4), ("f32x4_shared_bcf_row2col", 4, 1),
    ("f32x4_shared_bcf_merge_write_row2col", 4, 1),
):  # fmt: skip
    row, col = 64, 64 if "diagonal" in name else 128
    arguments = dict(x=normal(row, col), y=out(col, row), row=row, col=col)
    grid = (col // (16 * columns_each), row // (16 * rows_each))
    case("mat-transpose/mat_transpose.cu", f"mat_transpose_{name}2d_kernel", grid, (16, 16), arguments, lambda x: x.T)
    if "shared" not in name and "diagonal" not in name:
        grid = row * col // (rows_each * columns_each) // 256
        case("mat-transpose/mat_transpose.cu", f"mat_transpose_{name}_kernel", grid, 256, arguments, lambda x: x.T)

for name in ("naive", "padding", "swizzle"):
    case("swizzle/mat_trans_swizzle.cu", f"mat_trans_smem_{name}_kernel", (4, 2), (32, 32),
         dict(dev_A=integers(64, 128), M=64, N=128, dev_B=out(128, 64, dtype=i32)), lambda dev_A: dev_A.T)  # fmt: skip

# --- matrix times vector --------------------------------------------------------------------------------------------

for path, kernel, kind, k, a in (
    *(("sgemv/sgemv.cu", f"sgemv_{name}_kernel", f32, k, a) for name, k, a in (
        ("k32_f32", 96, "a"), ("k128_f32x4", 256, "a"), ("k16_f32", 16, "A"))),
    *(("hgemv/hgemv.cu", f"hgemv_{name}_kernel", f16, k, a) for name, k, a in (
        ("k32_f16", 96, "a"), ("k128_f16x4", 256, "a"), ("k16_f16", 16, "A"))),
    ("notes-v1.cu", "sgemv_k32", f32, 96, "a"), ("notes-v1.cu", "sgemv_k128", f32, 256, "a"),
    ("notes-v1.cu", "sgemv_k16", f32, 16, "A"),
):  # fmt: skip
    expect = (lambda A, x: A @ x) if a == "A" else (lambda a, x: a @ x)
    kernel += "<2>" if a == "A" else ""
    case(path, kernel, 4 if a == "A" else 8, (32, 4),
         {a: normal(32, k, dtype=kind), "x": normal(k, dtype=kind), "y": out(32, dtype=kind), "M": 32, "K": k},
         expect, steps=32)  # fmt: skip

# --- matrix times matrix --------------------------------------------------------------------------------------------


def product(path, kernel, kind, grid, block, m, n, k, transposed=False, names="abc", **more):
    """c = a b, or a b^T where b is given with its columns as rows."""
    a, b, c = names
    b_shape = (n, k) if transposed else (k, n)
    arrays = {a: normal(m, k, dtype=kind), b: normal(*b_shape, dtype=kind), c: out(m, n, dtype=kind)}
    expect = {
        "abc": (lambda a, b: a @ b.T) if transposed else (lambda a, b: a @ b),
        "ABC": (lambda A, B: A @ B.T) if transposed else (lambda A, B: A @ B),
    }[names]
    case(path, kernel, grid, block, arrays | dict(M=m, N=n, K=k), expect, **{"steps": k // 2, **more})


product("sgemm/sgemm.cu", "sgemm_naive_f32_kernel", f32, (2, 2), (32, 32), 64, 64, 48)
product("sgemm/sgemm.cu", "sgemm_sliced_k_f32_kernel<32, 32, 32>", f32, (2, 2), (32, 32), 64, 64, 64)
product("notes-v1.cu", "sgemm", f32, (2, 2), (32, 32), 64, 64, 64)
product("notes-v1.cu", "sgemm_thread_tile_vec4", f32, 1, (16, 16), SQUARE, SQUARE, 32)
for kernel in (
    "t_8x8_sliced_k_f32x4_kernel<128, 128, 8, 8, 8>", "t_8x8_sliced_k_f32x4_bcf_kernel<128, 128, 8, 8, 8, 4>",
    "t_8x8_sliced_k_f32x4_bcf_dbuf_kernel<128, 128, 8, 8, 8, 4>",
):  # fmt: skip
    product("sgemm/sgemm.cu", f"sgemm_{kernel}", f32, 1, (16, 16), SQUARE, SQUARE, 32)
for tile, sizes, m, n, block in (
    ("8x4", "64, 64, 16, 8, 4", 64, 64, (16, 8)), ("8x8", "128, 128, 16, 8, 8", 128, 128, (16, 16)),
    ("8x16", "128, 256, 16, 8, 16", 128, 256, (16, 16)),
):  # fmt: skip
    for how in ("dbuf", "dbuf_async"):
        kernel = f"sgemm_t_{tile}_sliced_k16_f32x4_bcf_{how}_kernel<{sizes}>"
        product("sgemm/sgemm_async.cu", kernel, f32, 1, block, m, n, 64)

product("hgemm/naive/hgemm.cu", "hgemm_naive_f16_kernel", f16, (2, 2), (32, 32), 64, 64, 48)
product("hgemm/naive/hgemm.cu", "hgemm_sliced_k_f16_kernel<32, 32, 32>", f16, (2, 2), (32, 32), 64, 64, 64)
for kernel, offset in (
    ("f16x4", ""), ("f16x4_pack", ""), ("f16x4_bcf", ""), ("f16x4_pack_bcf", ", 4"), ("f16x8_pack_bcf", ", 8"),
    ("f16x8_pack_bcf_dbuf", ", 8"),
):  # fmt: skip
    product("hgemm/naive/hgemm.cu", f"hgemm_t_8x8_sliced_k_{kernel}_kernel<128, 128, 8, 8, 8{offset}>", f16, 1,
            (16, 16), SQUARE, SQUARE, 32)  # fmt: skip
for tile, depth, block in (("8x8", 16, (16, 16)), ("8x8", 32, (16, 16)), ("16x8", 32, (16, 8))):
    for how in ("dbuf", "dbuf_async"):
        kernel = (
            f"hgemm_t_{tile}_sliced_k{depth}_f16x8_pack_{how}_kernel<128, 128, {depth}, {tile.replace('x', ', ')}, 8>"
        )
        product("hgemm/naive/hgemm_async.cu", kernel, f16, 1, block, SQUARE, SQUARE, 64)

# with wmma

product("hgemm/wmma/hgemm_wmma.cu", "hgemm_wmma_m16n16k16_naive_kernel<16, 16, 16>", f16, (2, 2), 32, 32, 32, 64,
        names="ABC")  # fmt: skip
for kernel, m, n in (
    ("m16n16k16_mma4x2_kernel<16, 16, 16, 4, 2>", 64, 32),
    ("m16n16k16_mma4x2_warp2x4_kernel<16, 16, 16, 4, 2, 2, 4>", 128, 128),
    ("m16n16k16_mma4x2_warp2x4_dbuf_async_kernel<16, 16, 16, 4, 2, 2, 4, 8>", 128, 128),
    ("m32n8k16_mma2x4_warp2x4_dbuf_async_kernel<32, 8, 16, 2, 4, 2, 4, 8>", 128, 128),
):  # fmt: skip
    product("hgemm/wmma/hgemm_wmma.cu", f"hgemm_wmma_{kernel}", f16, 1, 256, m, n, 64, names="ABC")


def stages(count, m, n, k, pad_a, pad_b, size=2, transposed=False):
    """Bytes of shared memory of `count` tiles of a and b."""
    return count * size * (m * (k + pad_a) + (n * (k + pad_b) if transposed else k * (n + pad_b)))


for kernel, tiles, warps, m, n, threads, shared in (
    ("mma4x2_warp2x4_stages", "4, 2", "2, 4", 128, 128, 256, 0),
    ("mma4x2_warp2x4_stages_dsmem", "4, 2", "2, 4", 128, 128, 256, stages(3, 128, 128, 16, 0, 16)),
    ("mma4x4_warp4x4_stages_dsmem", "4, 4", "4, 4", 256, 256, 512, stages(3, 256, 256, 16, 0, 16)),
    ("mma4x2_warp4x4_stages_dsmem", "4, 2", "4, 4, 1", 256, 128, 256, stages(3, 256, 128, 16, 0, 16)),
):
    kernel = f"hgemm_wmma_m16n16k16_{kernel}_kernel<16, 16, 16, {tiles}, {warps}, 0, 16, 3, true>"
    product("hgemm/wmma/hgemm_wmma_stage.cu", kernel, f16, 1, threads, m, n, 64, names="ABC", shared=shared)

case("sgemm/sgemm_wmma_tf32_stage.cu", "f32x4_tf32x4_kernel", 2, 256, dict(x=normal(N), y=out(N), N=N), lambda x: x,
     steps=1, precision="tf32")  # fmt: skip
for suffix, shared in (("", 0), ("_dsmem", stages(2, 128, 128, 8, 0, 0, size=4))):
    kernel = f"sgemm_wmma_m16n16k8_mma4x2_warp2x4_stages{suffix}_kernel<16, 16, 8, 4, 2, 2, 4, 0, 0, 2, false>"
    product("sgemm/sgemm_wmma_tf32_stage.cu", kernel, f32, 1, 256, SQUARE, SQUARE, 32, names="ABC", shared=shared,
            precision="tf32")  # fmt: skip

# with mma instructions

NAIVE, TILED = "<16, 8, 16>", "<16, 8, 16, 2, 4, 4, 4"
for path, kernel in (
    ("hgemm/mma/basic/hgemm_mma.cu", "hgemm_mma_m16n8k16_naive_kernel"),
    ("swizzle/hgemm_mma_swizzle.cu", "hgemm_mma_m16n8k16_naive_kernel"),
    ("swizzle/hgemm_mma_swizzle.cu", "hgemm_mma_m16n8k16_naive_smem_swizzle_kernel"),
):
    product(path, kernel + NAIVE, f16, (4, 2), 32, 32, 32, 64, names="ABC")
product("swizzle/mma_simple_swizzle.cu", "mma_simple_swizzle_kernel" + NAIVE, f16, 1, 32, 16, 8, 16, names="ABC")
for path, kernel, pads in (
    ("hgemm/mma/basic/hgemm_mma.cu", "hgemm_mma_m16n8k16_mma2x4_warp4x4_kernel", "8, 8"),
    ("swizzle/hgemm_mma_swizzle.cu", "hgemm_mma_m16n8k16_mma2x4_warp4x4_kernel", "0, 0"),
    ("swizzle/hgemm_mma_swizzle.cu", "hgemm_mma_m16n8k16_mma2x4_warp4x4_smem_swizzle_kernel", "0, 8"),
):
    product(path, f"{kernel}{TILED}, {pads}>", f16, 1, 256, SQUARE, SQUARE, 64, names="ABC")
for file, kernel, depth, pads, last, transposed in (
    ("basic/hgemm_mma_stage", "warp4x4_stages", 0, (8, 8), "true", False),
    ("basic/hgemm_mma_stage", "warp4x4_stages_dsmem", 1, (8, 8), "true, false", False),
    ("basic/hgemm_mma_stage", "warp4x4x2_stages_dsmem", 2, (8, 8), "true", False),
    ("basic/hgemm_mma_stage", "warp4x4x2_stages_dsmem_x4", 2, (8, 8), "true", False),
    ("basic/hgemm_mma_stage", "warp4x4x2_stages_dsmem_rr", 2, (8, 8), "true", False),
    ("basic/hgemm_mma_stage_tn", "warp4x4_stages_dsmem_tn", 1, (0, 8), "true", True),
    ("swizzle/hgemm_mma_stage_swizzle", "warp4x4x2_stages_dsmem_swizzle", 2, (0, 8), "true", False),
    ("swizzle/hgemm_mma_stage_tn_swizzle", "warp4x4_stages_dsmem_tn_swizzle", 1, (0, 8), "true", True),
    ("swizzle/hgemm_mma_stage_tn_swizzle_x2", "warp4x4x2_stages_dsmem_tn_swizzle_x2", 2, (0, 8), "true", True),
    ("swizzle/hgemm_mma_stage_tn_swizzle_x4", "warp4x4x2_stages_dsmem_tn_swizzle_x4", 2, (0, 0), "true, true", True),
):
    tile = f"{TILED}, 2" if depth == 2 else TILED
    kernel = f"hgemm_mma_m16n8k16_mma2x4_{kernel}_kernel{tile}, {pads[0]}, {pads[1]}, 2, {last}>"
    shared = stages(2 * depth, 128, 128, 16, *pads, transposed=transposed)
    product(f"hgemm/mma/{file}.cu", kernel, f16, 1, 256, SQUARE, SQUARE, 128, transposed, "ABC", shared=shared)

# --- attention ------------------------------------------------------------------------------------------------------

HEADS, LENGTH, WIDTH = 2, 128, 64


def attention(Q, K, V):  # noqa: N803
    return softmax(Q @ K.swapaxes(-1, -2) / math.sqrt(WIDTH)) @ V


def flash(file, kernel, shared, keys=8, tail="8, 8, 8", accumulator="1, ", queries="4, 1, 4, 1, 1", columns=False):
    """A kernel of 4 warps on 64 queries and `keys` times 8 keys, in two stages. `columns`: V is given transposed."""
    tiles = f"{queries}, {keys}, {queries[-1]}, {2 if queries[0] == '2' else 8}"
    arrays = {n: normal(1, HEADS, LENGTH, WIDTH, dtype=f16) for n in "QKV"}
    if columns:
        arrays["V"] = normal(1, HEADS, WIDTH, LENGTH, dtype=f16)
    expect = (lambda Q, K, V: attention(Q, K, V.swapaxes(-1, -2))) if columns else attention
    blocks, threads = (LENGTH // 64, HEADS), 256 if queries[0] == "2" else 128
    kernel = f"flash_attn_mma_stages_{kernel}_kernel<{WIDTH}, 16, 8, 16, {tiles}, {accumulator}2, {tail}>"
    arguments = arrays | dict(O=out(1, HEADS, LENGTH, WIDTH, dtype=f16), QKV_seqlen=LENGTH, QKV_head=HEADS)
    case(f"flash-attn/mma/{file}.cu", kernel, blocks, threads, arguments, expect, steps=64, shared=2 * shared)


PADDED = WIDTH + 8
flash("basic/flash_attn_mma_split_q", "split_q", (64 + 2 * 64 + 64) * PADDED, tail="8", accumulator="")
flash("basic/flash_attn_mma_split_kv", "split_kv", (64 + 2 * 64 + 64) * PADDED + 64 * (64 + 8), 2, "8", "",
      "2, 4, 2, 4, 2")  # fmt: skip
for file, kernel in (
    ("basic/flash_attn_mma_share_kv", "shared_kv"), ("basic/flash_attn_mma_share_kv_F32F16F16F32", "shared_kv_acc_f32"),
    ("others/flash_attn_mma_share_kv_F32F16F16F32_rr", "shared_kv_acc_f32_rr"),
):  # fmt: skip
    flash(file, f"split_q_{kernel}", (64 + 2 * 32) * PADDED, 4)
for file, kernel, accumulator in (
    ("basic/flash_attn_mma_share_qkv", "shared_qkv", "1, "),
    ("others/flash_attn_mma_share_qkv_Os2g", "shared_qkv_Os2g", ""),
    ("basic/flash_attn_mma_share_qkv_F32F16F16F32", "shared_qkv_acc_f32", "1, "),
    ("others/flash_attn_mma_share_qkv_F32F16F16F32_rr", "shared_qkv_acc_f32_rr", "1, "),
):  # fmt: skip
    flash(file, f"split_q_{kernel}", 64 * PADDED, 4, accumulator=accumulator)
for swizzled, pads in (("q", "0, 8, 8"), ("qk", "0, 0, 8"), ("qkv", "0, 0, 0")):
    widest = WIDTH if swizzled == "qkv" else PADDED
    for shared, elements in (("kv", 64 * WIDTH + 2 * 32 * widest), ("qkv", max(64 * WIDTH, 2 * 32 * widest))):
        name = f"{shared}_swizzle_{swizzled}"
        flash(
            f"swizzle/flash_attn_mma_share_{name}",
            f"split_q_shared_{name}",
            elements,
            4,
            pads,
            columns=pads == "0, 0, 0",
        )
    for tiling, kinds in (("qk", ("",)), ("qkv", ("", "F32F16F16F32"))):
        for kind in kinds:
            name = f"split_q_tiling_{tiling}{'_acc_f32' if kind else ''}_swizzle_{swizzled}"
            q_and_k = sum(2 * 64 * (16 + int(pad)) for pad in pads.split(", ")[:2])
            v = 2 * WIDTH * (16 + int(pads[-1])) if tiling == "qkv" or swizzled == "qkv" else 2 * 16 * PADDED
            file = f"swizzle/flash_attn_mma_tiling_{tiling}_swizzle_{swizzled}{'_' * bool(kind)}{kind}"
            flash(file, name, max(q_and_k, v), tail=pads, columns=tiling == "qk" and pads == "0, 0, 0")
for file, kernel in (
    ("basic/flash_attn_mma_tiling_qk", "tiling_qk"), ("basic/flash_attn_mma_tiling_qkv", "tiling_qkv"),
    ("basic/flash_attn_mma_tiling_qk_F32F16F16F32", "tiling_qk_acc_f32"),
    ("basic/flash_attn_mma_tiling_qkv_F32F16F16F32", "tiling_qkv_acc_f32"),
    ("others/flash_attn_mma_tiling_qk_F32F16F16F32_rr", "tiling_qk_acc_f32_rr"),
):  # fmt: skip
    flash(file, f"split_q_{kernel}", 2 * 128 * (16 + 8))


def merged(prefix_output, prefix_lse, suffix_output, suffix_lse):
    """Two parts of an attention: outputs (tokens, heads, width), logarithms of sums (heads, tokens)."""
    lse = np.logaddexp(prefix_lse, suffix_lse)
    first, second = (np.exp(part - lse).T[..., None] for part in (prefix_lse, suffix_lse))
    return {"output": first * prefix_output + second * suffix_output, "output_lse": lse}


case("openai-triton/merge-attn-states/cuda_merge_attn_states.cu", "merge_attn_states_kernel<__nv_bfloat16, 128>",
     2, 128, dict(
          output=out(8, 4, 64, dtype=bf16), output_lse=out(4, 8),
          prefix_output=normal(8, 4, 64, dtype=bf16), prefix_lse=normal(4, 8),
          suffix_output=normal(8, 4, 64, dtype=bf16), suffix_lse=normal(4, 8),
          num_tokens=8, num_heads=4, head_size=64), merged,
     setup="#include <cmath>\n#include <limits>\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>")  # fmt: skip

# --- others ---------------------------------------------------------------------------------------------------------

case("nms/nms.cu", "nms_kernel", 2, 32,
     dict(boxes=uniform(64, 4, high=10), scores=uniform(64), keep=full(1, 64, dtype=i32), num_boxes=64,
          iou_threshold=0.3), lambda: {},
     fault="a thread reads keep[i] of a better box while the thread of that box still decides it")  # fmt: skip

for name, kernel, block, expect in (
    ("block_all_reduce_sum", "<128>", 128, lambda a: {"y": a.sum()}),
    ("block_all_reduce_sum_vec4", "<32>", 32, lambda a: {"y": a.sum()}),
):
    case("notes-v1.cu", name + kernel, N // 128, block, dict(a=uniform(N), y=full(0, 1), N=N), expect)
for name, block in (("dot<128>", 128), ("dot_vec4<32>", 32)):
    case("notes-v1.cu", name, N // 128, block, dict(a=uniform(N), b=uniform(N), y=full(0, 1), N=N),
         lambda a, b: {"y": a @ b})  # fmt: skip
for name, block in (("histogram", 128), ("histogram_vec4", 32)):
    case("notes-v1.cu", name, N // 128, block, dict(a=integers(N, high=64), y=full(0, 64, dtype=i32), N=N),
         lambda a: {"y": np.bincount(a, minlength=64)})  # fmt: skip
for name, block in (("elementwise_add", 128), ("elementwise_add_vec4", 32)):
    case("notes-v1.cu", name, N // 128, block, dict(a=normal(N), b=normal(N), c=out(N), N=N),
         lambda a, b: a + b)  # fmt: skip
for name in ("sigmoid", "relu"):
    for suffix, block in (("", 128), ("_vec4", 32)):
        case("notes-v1.cu", name + suffix, N // 128, block, dict(x=normal(N), y=out(N), N=N), UNARY[name])
for name, reference, numbers in (
    ("rms_norm", rms_norm, dict(g=1.5)), ("layer_norm", layer_norm, dict(g=1.5, b=0.25)),
):  # fmt: skip
    for suffix, threads in (("", 128), ("_vec4", 32)):
        fault = "a semicolon is missing behind FLOAT4(x[idx])" if name + suffix == "layer_norm_vec4" else ""
        arguments = dict(x=normal(ROWS, 128, mean=0.5), y=out(ROWS, 128)) | numbers | dict(N=ROWS, K=128)
        case("notes-v1.cu", f"{name}{suffix}<{threads}>", ROWS, threads, arguments, reference, steps=16, fault=fault)
UNORDERED = "a block reads the total while others still add to it: a fence is no barrier of the grid"
for name, threads, fault in (
    ("softmax", 128, "block_smem is declared nowhere"), ("softmax_v2", 128, UNORDERED),
    ("softmax_v2_vec4", 32, UNORDERED),
):  # fmt: skip
    case("notes-v1.cu", f"{name}<{threads}>", 2, threads, dict(x=normal(256), y=out(256), total=full(0, 1), N=256),
         lambda x: {"y": softmax(x), "total": np.exp(x).sum()}, fault=fault)  # fmt: skip

CUTE = "CUTLASS's headers (CuTe)"
for path, kernel in (
    ("hgemv/hgemv_cute.cu", "hgemv_f16_cute_kernel<void, 1, 1>"),
    ("hgemv/hgemv_cute.cu", "hgemv_f16x8_cute_kernel<void, 1, 1, 1>"),
    ("hgemv/hgemv_cute.cu", "hgemv_tensor_core_cute_kernel<void>"),
    ("mat-transpose/mat_transpose_cute.cu", "mat_transpose_cute_reg_kernel<float, 1, 1, int, int>"),
    *(
        (
            "mat-transpose/mat_transpose_cute.cu",
            f"mat_transpose_cute_{name}_kernel<float, 1, 1, int, int, int, int>",
        )
        for name in ("smem", "smem_vectorized", "smem_vectorized_optimized")
    ),
    ("hgemm/cutlass/hgemm_mma_stage_tn_cute.cu", "hgemm_mma_stages_block_swizzle_tn_cute_kernel<half>"),
    ("cutlass/cute/vector_add.cu", "vector_add_local_tile_multi_elem_per_thread_half<8>"),
    ("flash-attn/cutlass/flash_attn_cute.cu", "flash_attn_cute_kernel<void>"),
):
    case(path, kernel, 1, 1, {}, lambda: {}, needs=CUTE)
