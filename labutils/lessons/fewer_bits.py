"""Unit 22: codes compared with the library's, errors of formats, matmul races, gradient underflow, and claims."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch

from .. import environment
from ..exercises import get
from ..exercises._codes import E2M1, E4M3, decode, encode
from ..exercises.low_precision_blocks import mx_code
from ..exercises.low_precision_weights import _of as weights_sizes
from ..gpu import device
from ..gpu.formats import FORMATS
from ..spec.inputs import make_run

HOPPER = 90
H200_FP8 = {"yours": 909, "Gluon": 1214, "fp16, cuBLAS": 751, "fp8, one scale": 1479, "fp8, blocks of 128": 1304}
"""TFLOP/s at 8192³ on one NVIDIA H200, torch 2.11, Triton 3.6; one run of bench.precision."""

H200_W4 = {
    1: {"the exercise's kernel": 1.00, "fragment order": 3.03},
    4: {"the exercise's kernel": 1.00, "fragment order": 2.58},
    16: {"the exercise's kernel": 1.00, "fragment order": 2.50},
    64: {"the exercise's kernel": 0.76, "fragment order": 1.35},
}
"""Speedup over `torch.nn.functional.linear` in fp16, by rows of a: 28 672 × 8192 weights, the same machine."""


# --- codes ---------------------------------------------------------------------------------------------------------


def beside_casts(quantize_rows: Callable) -> None:
    """How many of the learner's codes differ from PyTorch's cast and from the GPU's cast instruction."""
    if environment.grading_in_progress():
        return
    place = "cuda" if device.has_gpu() else "cpu"
    M, N = (4096, 4096) if place == "cuda" else (16, 512)
    x = torch.randn(M, N, generator=torch.Generator().manual_seed(1)).half()
    x = (x * torch.exp2(torch.arange(M)[:, None] % 9 - 4.0).half()).to(place)
    q = torch.empty(M, N, dtype=torch.uint8, device=place)
    scale = torch.empty(M, device=place)
    try:
        quantize_rows(x, q, scale)
    except Exception as e:
        print(f"Your kernel does not run yet: {type(e).__name__}")
        return
    y = x.float() * (1 / scale)[:, None]
    casts = {"PyTorch's cast": y.to(torch.float8_e4m3fn).view(torch.uint8)}
    gpu = device.current()
    if gpu and gpu.capability >= (8, 9):
        casts["the GPU's instruction"] = instruction_cast(y)
    for name, codes in casts.items():
        print(f"{int((codes != q).sum())} of {q.numel()} codes differ from {name}")


def instruction_cast(y: torch.Tensor) -> torch.Tensor:
    """E4M3 codes of y (fp32, contiguous, on a GPU from sm_89 on) from the instruction cvt.rn.satfinite."""
    from .fewer_bits_kernels import cast_kernel

    codes = torch.empty(y.shape, dtype=torch.uint8, device=y.device)
    cast_kernel[(-(-y.numel() // 1024),)](y, codes, y.numel(), BLOCK=1024)
    return codes


# --- errors --------------------------------------------------------------------------------------------------------


def _scaled(x, size: int, scale_of: Callable, of) -> torch.Tensor:
    """x (M, K) after a round trip through codes with one scale per `size` elements of a row."""
    blocks = x.reshape(len(x), -1, size)
    scale = scale_of(blocks.abs().amax(-1, keepdim=True))
    return (decode(encode(blocks / scale, of), of) * scale).reshape(x.shape)


def _nv_scale(amax, tensor_scale):
    code = encode(amax / (6 * tensor_scale), E4M3)
    return (decode(code, E4M3) * tensor_scale).clamp_min(1e-12)


def stored(x: torch.Tensor) -> dict[str, tuple[float, torch.Tensor]]:
    """For each way to store x (M, K), float64: bits per element including scales, and x after the round trip."""
    K = x.shape[1]
    nv = float(x.abs().max()) / (6 * 448)
    return {
        "fp16": (16, x.half().double()),
        "bf16": (16, x.bfloat16().double()),
        "E4M3, a scale per row": (8 + 32 / K, _scaled(x, K, lambda a: a / 448, E4M3)),
        "E4M3, blocks of 128": (8 + 32 / 128, _scaled(x, 128, lambda a: a / 448, E4M3)),
        "E2M1, a scale per row": (4 + 32 / K, _scaled(x, K, lambda a: a / 6, E2M1)),
        "MXFP4": (4 + 8 / 32, _scaled(x, 32, lambda a: torch.exp2(mx_code(a.reshape(-1, 1)) - 127).view_as(a), E2M1)),
        "NVFP4": (4 + 8 / 16, _scaled(x, 16, lambda a: _nv_scale(a, nv), E2M1)),
    }


RATES = {
    "fp16": "1",
    "bf16": "1",
    "E4M3, a scale per row": "2",
    "E4M3, blocks of 128": "2",
    "MXFP4": "4*",
    "NVFP4": "4*",
}
"""Tensor core peaks relative to fp16: data sheets of H100 and B200, dense; * on Blackwell."""


def error_table(K: int = 1024) -> list[tuple[str, float, float, float]]:
    """(name, bits, error of products, error of elements in a row with an outlier): relative root mean squares.

    Products are those of normal (128, K) matrices. Then each row gets one element a thousand times as large, and what
    the others lose is listed.
    """
    g = torch.Generator().manual_seed(2)
    a, b = (torch.randn(128, K, generator=g, dtype=torch.float64) for _ in range(2))
    spiked, others = a.clone(), torch.ones_like(a, dtype=torch.bool)
    at = torch.arange(128), torch.randint(0, K, (128,), generator=g)
    spiked[at] *= 1000
    others[at] = False
    rows = []
    for (name, (bits, left)), (_, right), (_, beside) in zip(
        stored(a).items(), stored(b).items(), stored(spiked).items(), strict=True
    ):
        product = (left @ right[1].T - a @ b.T).square().mean().sqrt() / (a @ b.T).square().mean().sqrt()
        kept = (beside[1] - a)[others].square().mean().sqrt() / a[others].square().mean().sqrt()
        rows.append((name, bits, float(product), float(kept)))
    return rows


def errors() -> None:
    """Print the table of errors, bits and peaks."""
    if environment.grading_in_progress():
        return
    print(f"{'stored as':26}{'bits':>7}{'peak':>6}{'error of products':>20}{'of elements, with an outlier':>32}")
    for name, bits, plain, beside in error_table():
        print(f"{name:26}{bits:7.2f}{RATES.get(name, '-'):>6}{plain:20.2%}{beside:32.2%}")
    print("bits include scales; peak relative to fp16 (* Blackwell); relative errors; the outlier is 1000 times larger")


# --- products ------------------------------------------------------------------------------------------------------


def blocks_of_128(x: torch.Tensor, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes (M, K), uint8, and scales (M / rows, K / 128) of x (M, K), whose sizes are multiples of the blocks'."""
    M, K = x.shape
    blocks = x.float().view(M // rows, rows, K // 128, 128)
    scale = blocks.abs().amax((1, 3), keepdim=True) / 448
    codes = (blocks / scale).to(torch.float8_e4m3fn).view(torch.uint8).view(M, K)
    return codes, scale[:, 0, :, 0].contiguous()


def fp8_calls(size: int) -> tuple[dict[str, Callable], torch.Tensor, torch.Tensor]:
    """(calls by name, the first 128 rows of the right product, the output of ours) for products of size³ on Hopper.

    Ours is called as f(a, b, sa, sb, c): "Gluon". The others are PyTorch's.
    """
    from .fp8_gluon import fp8_matmul as gluon

    x, y = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
    (a, sa), (b, sb) = blocks_of_128(x, 1), blocks_of_128(y, 128)
    sa = sa.T.contiguous().T  # column-major: an iteration reads one column of scales
    c = torch.empty(size, size, device="cuda", dtype=torch.float16)
    a8, b8, one = a.view(torch.float8_e4m3fn), b.view(torch.float8_e4m3fn), torch.ones((), device="cuda")
    in_blocks = b8.float().view(size // 128, 128, size // 128, 128) * sb[:, None, :, None]
    right = (a8[:128].float().view(128, -1, 128) * sa[:128, :, None]).view(128, size) @ in_blocks.view(size, size).T
    del in_blocks

    def library(scale_a, scale_b, **more):
        return torch._scaled_mm(a8, b8.T, scale_a, scale_b, out_dtype=torch.bfloat16, **more)

    calls = {
        "Gluon": functools.partial(gluon, a, b, sa, sb, c),
        "fp16, cuBLAS": functools.partial(torch.matmul, x, y.T),
        "fp8, one scale": functools.partial(library, one, one, use_fast_accum=True),
        "fp8, blocks of 128": functools.partial(library, sa, sb.T),
    }
    return calls | {"arguments": (a, b, sa, sb, c)}, right, c


def fp8_race(fp8_matmul: Callable, size: int = 8192) -> None:
    """Print the loop of the Gluon kernel, then race all products on a Hopper GPU; elsewhere, stored H200 figures."""
    if environment.grading_in_progress():
        return
    try:
        print(_loop())
    except ImportError as e:
        print(f"This Triton has no Gluon: {e}")
    if not device.runs(HOPPER):
        told = ", ".join(f"{name} {rate}" for name, rate in H200_FP8.items())
        print(f"No Hopper GPU here. Measured on an H200, {size}³, TFLOP/s: {told}.")
        return
    for name, rate in fp8_rates(fp8_matmul, size).items():
        print(f"  {name:20} {rate:6.0f} TFLOP/s")


def _loop() -> str:
    """The loop over steps of `multiply`, as text."""
    from . import fp8_gluon

    lines = inspect.getsource(fp8_gluon.multiply.fn).splitlines()
    first = next(i for i, line in enumerate(lines) if "for k in range(steps)" in line)
    last = next(i for i, line in enumerate(lines) if "turn += 1" in line)
    return inspect.cleandoc("\n" + "\n".join(lines[first : last + 1]))


def fp8_rates(fp8_matmul: Callable, size: int, more: Mapping[str, Callable] = MappingProxyType({})) -> dict[str, float]:
    """TFLOP/s of the learner's kernel, the Gluon kernel and the library, interleaved; wrong results are left out.

    `more` are further products of fp16 matrices, called as f(x, y.T, c).
    """
    from ..timing.stopwatch import Stopwatch

    calls, right, c = fp8_calls(size)
    arguments, (x, y) = calls.pop("arguments"), calls["fp16, cuBLAS"].args
    calls = {"yours": functools.partial(fp8_matmul, *arguments)} | calls
    calls |= {name: functools.partial(f, x, y, c) for name, f in more.items()}
    good = {}
    for name, call in calls.items():
        try:
            c.fill_(torch.nan)
            result = call()
            result = c if result is None else result
            torch.cuda.synchronize()
        except Exception as e:
            print(f"  {name}: left out: {type(e).__name__}: {str(e).splitlines()[0][:90] if str(e) else ''}")
            continue
        error = ((result[:128].float() - right).abs().max() / right.abs().max()).item()
        if error < (0.1 if name.startswith("fp16") else 0.01) or name == "fp8, one scale":  # that has other scales
            good[name] = [call]
        else:
            print(f"  {name}: left out: wrong by {error:.2g} of the largest element")
    taken = Stopwatch().take_turns(good)
    return {name: 2 * size**3 / sample.median / 1e12 for name, sample in taken.items()}


# --- 4-bit weights ---------------------------------------------------------------------------------------------


def w4_race(w4a16: Callable, N: int = 28672, K: int = 8192) -> None:
    """Speedup over fp16 weights for M = 1 to 64, interleaved on a GPU; elsewhere, stored H200 figures."""
    if environment.grading_in_progress():
        return
    bound = 16 / (4 + 16 / 128)
    print(f"Bytes of fp16 weights over bytes of 4-bit weights and scales: {bound:.2f}")
    if not device.has_gpu():
        for M, found in H200_W4.items():
            print(f"  H200, M = {M:2}: " + ", ".join(f"{name} {x:.2f} ×" for name, x in found.items()))
        return
    for M, found in w4_times(w4a16, N, K).items():
        first = found["fp16"]
        print(f"  M = {M:2}: " + ", ".join(f"{n} {first / s:.2f} × ({s * 1e6:.0f} µs)" for n, s in found.items()))


def w4_arguments(M: int, N: int, K: int, place: str = "cuda") -> tuple[list, torch.Tensor]:
    """Arguments of the exercise at that size, and its weights in fp16."""
    exercise = get("22_sub_byte/w4a16")
    from ..spec.exercise import Case

    run = make_run(exercise, Case("race", weights_sizes(M, N, K // 128)), 1, place)
    a, words, scales, out = run.arguments
    rows = torch.arange(0, N, 2048).tolist()
    fp16 = torch.cat([_unpacked(words[r : r + 2048], scales[r : r + 2048]) for r in rows])
    return [a, words, scales, out], fp16


def _unpacked(words: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    codes = torch.stack([words >> 4 * j & 15 for j in range(8)], -1).flatten(1)
    return ((codes - 8).float() * scales.float().repeat_interleave(128, 1)).half()


def w4_times(w4a16: Callable, N: int, K: int, rows=(1, 4, 16, 64)) -> dict[int, dict[str, float]]:
    """Seconds by M: fp16 weights, the learner's kernel, the kernel with weights in fragment order, and a kernel that
    only reads as many bytes as 4-bit weights and scales have.

    The L2 is clean at the start: these kernels write next to nothing.
    """
    from ..timing.read_kernel import read
    from ..timing.stopwatch import Stopwatch
    from .fewer_bits_kernels import in_fragments, rows_for
    from .fewer_bits_kernels import w4a16 as fast

    watch, found = Stopwatch(clean=True), {}
    bytes_ = torch.zeros((N * K // 2 + 2 * N * K // 128) // 4, device="cuda")
    for M in rows:
        (a, words, scales, out), fp16 = w4_arguments(M, N, K)
        ordered, right = in_fragments(words, scales, rows_for(M)), torch.nn.functional.linear(a, fp16).float()
        calls = {
            "yours": functools.partial(w4a16, a, words, scales, out),
            "fragment order": functools.partial(fast, a, *ordered, out),
        }
        good = {"fp16": [functools.partial(torch.nn.functional.linear, a, fp16)], "reading": [lambda: read(bytes_)]}
        for name, call in calls.items():
            try:
                out.fill_(torch.nan)
                call()
                error = ((out.float() - right).abs().max() / right.abs().max()).item()
            except Exception as e:
                print(f"  {name}: left out: {type(e).__name__}: {str(e).splitlines()[0][:90] if str(e) else ''}")
                continue
            if error < 0.01:
                good[name] = [call]
            else:
                print(f"  {name}: left out: wrong by {error:.2g} of the largest element")
        found[M] = {name: sample.median for name, sample in watch.take_turns(good).items()}
    return found


# --- gradients and claims ------------------------------------------------------------------------------------------


def gradients(lost: Callable, count: int = 4000) -> None:
    """Gradients of all magnitudes around 2^-22, as in the mixed-precision paper: the fraction each format loses."""
    if environment.grading_in_progress():
        return
    g = torch.Generator().manual_seed(4)
    sizes = torch.exp2(torch.randn(count, generator=g, dtype=torch.float64) * 4 - 22)
    values = sizes.tolist()
    print(f"{'fraction that becomes 0':22}" + "".join(f"{f'scale 2^{p}':>13}" for p in (0, 8, 16, 24)))
    for name in ("fp16", "bf16", "fp8 e5m2", "fp8 e4m3"):
        f = FORMATS[name]
        try:
            shares = [lost(values, f.smallest, 2.0**p) for p in (0, 8, 16, 24)]
        except Exception as e:
            print(f"`lost` does not run yet: {type(e).__name__}")
            return
        over = [max(values) * 2.0**p > f.largest for p in (0, 8, 16, 24)]
        print(f"{name:22}" + "".join(f"{s:11.1%} {'!' if o else ' '}" for s, o in zip(shares, over, strict=True)))
    print("! the largest gradient overflows: then the scale is halved")


def claims(facts: Callable) -> None:
    """Popular claims about low precision, compared with the learner's formulas and the data sheets."""
    if environment.grading_in_progress():
        return
    weights = 405e9
    rows = {"fp32": 32, "fp16": 16, "fp8, blocks of 128 × 128": 8 + 32 / 128**2, "NVFP4": 4.5, "MXFP4": 4.25}
    print('"FP4 shrinks a model of 405 billion weights from 140 GB in FP32 to 17.5 GB":')
    print("  " + ", ".join(f"{name} {weights * bits / 8e9:.0f} GB" for name, bits in rows.items()))
    print("  140 GB is a model of 70 billion in fp16, and 17.5 GB one of 35 billion in 4 bits without scales.")
    b200 = device.catalogue()["B200"]
    print('"A B200 does 2250 TFLOP/s in FP8 and 4500 in FP4"; "9000 in FP8 and 20 000 in FP4":')
    print(
        f"  dense {b200.peak('fp8'):.0f} and {b200.peak('fp4'):.0f}: the first is fp16 and fp8, the second is sparse."
    )
    try:
        largest = {name: facts(4, 3, top)[0] for name, top in (("IEEE", "ieee"), ("OCP", "nan"))}
    except Exception as e:
        print(f"`facts` does not run yet: {type(e).__name__}")
        return
    print('"E4M3 reaches 240":')
    print(f"  {largest['IEEE']:g} with infinities as IEEE has them; {largest['OCP']:g} as GPUs have it (OCP's format).")
