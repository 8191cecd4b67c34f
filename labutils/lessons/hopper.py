"""What unit 16 shows: functions of lab/hopper.cuh, Hopper's machine instructions, and the speed of its levels."""

from __future__ import annotations

import inspect
import math
import re
import textwrap
from collections.abc import Callable, Mapping
from functools import partial

from .. import environment
from ..cuda import nvrtc
from ..cuda.kernel import Kernel
from ..gpu import device
from . import skinny_kernel
from .tiles_kernel import SOURCE, Tile, kernel

SM = 90

CLAIM = """Claim: "an asynchronous pipeline reaches 91 % of the peak, tensor cores by themselves 70 %."
On an H200 this is false: level 2, without a pipeline, reaches 54 %, the ring 66 %, level 4 and cuBLAS 74 %.
The peak is for a clock rate of 1830 MHz; under such a load, the power limit makes it lower."""

H200 = {"tile": 539, "Gluon": 631, "ring": 655, "persistent": 727, "cuBLAS": 732}
"""TFLOP/s of unit 16's levels at M = N = K = 4096, fp16, b stored (N, K): NVIDIA H200, torch 2.11, one run of
`python -m bench.hopper`. At 8192³: 580, 625, 701, 743, 735."""

ENGINES = {
    "UTMALDG": "TMA loads",
    "UTMASTG": "TMA stores",
    "SYNCS": "mbarrier",
    "HGMMA": "wgmma",
    "STSM": "stmatrix",
    "UCGABAR": "cluster barriers",
    "LDG": "loads by threads",
    "STG": "stores by threads",
}
"""Prefix of a machine instruction's name -> what it is."""


def show(*names: str) -> None:
    """Print functions of lab/hopper.cuh with their comments."""
    text = (nvrtc.OWN_HEADERS / "lab" / "hopper.cuh").read_text(encoding="utf-8")
    for name in names:
        head = rf"((?:^//[^\n]*\n)*)(?:^template[^\n]*\n)?^LAB_DEVICE [^\n]*\b{name}\("
        found = re.search(head + r"(?:[^\n]*\}\n|.*?^\}\n)", text, re.M | re.S)
        print(found.group(0) if found else f"lab/hopper.cuh has no {name}")


def show_gluon() -> None:
    """Print the producer and the consumer of the same ring in Gluon."""
    from . import ring_gluon

    for part in (ring_gluon.produce, ring_gluon.consume):
        print(inspect.getsource(part.fn))


def show_ping_pong() -> None:
    """Print what the consumers of level 5 do before they store a tile."""
    loop = re.search(r"^ +int other = .*?(?=^\n +// Store the tile)", SOURCE, re.M | re.S)
    print(textwrap.dedent(loop.group(0)))


def tile_launcher(tile: Tile, clusters: int, transposed: bool, relu: bool) -> Callable[..., None]:
    """Launch level 6 with so many clusters: f(map of a, of b, of c, M, N, K); transposed: b is (K, N)."""
    return kernel(tile, transposed, relu)[2 * clusters, 384, tile.memory[2]]


def skinny(a, b, c) -> None:
    """Compute c = a @ b.T in the cut that is expected to be fastest: a (M, K), b (N, K), M or N at most 240."""
    threads = None if c.is_cuda else 1024  # the emulator runs no larger clusters
    cut, *_ = skinny_kernel.cuts(*c.shape, a.shape[1], b.stride(1) != 1, threads)
    skinny_kernel.multiply(cut, a, b, c)


def show_cuts(*sizes: tuple[int, int, int], count: int = 4) -> None:
    """Print the cuts with the least estimates for products (M, N, K), b stored (K, N); on a Hopper GPU, time them."""
    for M, N, K in sizes:
        cuts, taken = skinny_kernel.cuts(M, N, K, True)[:count], {}
        if device.runs(SM) and not environment.grading_in_progress():
            levels = {str(cut): partial(skinny_kernel.multiply, cut) for cut in cuts}
            taken = {name: 1e6 * s for name, s in _seconds(levels, M, N, K, transposed=True).items()}
        print(f"{M} × {N}, K = {K}" + (f": cuBLAS takes {taken['cuBLAS']:.1f} µs" if taken else ""))
        for cut in cuts:
            blocks = math.prod(cut.blocks(M, N))
            expected = f"{skinny_kernel.estimate_us(cut, M, N, K, True):.1f} µs expected"
            measured = f", {taken[str(cut)]:.1f} µs measured" if str(cut) in taken else ""
            print(f"  {cut}: {blocks} blocks, {expected}{measured}")


def instructions(*kernels: Kernel) -> None:
    """Print how many instructions for each engine the kernels' machine code for sm_90a has; needs no GPU."""
    from ..cuda import cubin

    if environment.grading_in_progress():
        return
    made = [k for k in kernels if isinstance(k, Kernel)]
    try:
        counts, resources = {}, {}
        for kernel in made:
            compiled = kernel.compiled(SM)
            symbol = compiled.lowered[kernel.name]
            mix = cubin.mix(cubin.sass(compiled.cubin)[symbol])
            resources[kernel.signature.name] = cubin.resources(compiled.cubin)[symbol]
            counts[kernel.signature.name] = {
                head: sum(n for opcode, n in mix.items() if opcode.startswith(head)) for head in ENGINES
            }
    except (nvrtc.Unavailable, cubin.ToolMissing) as e:
        print(e)
        return
    print("Instructions in the machine code for sm_90a\n")
    print(f"{'':28}" + "".join(f"{name:>20}" for name in counts))
    for head, meaning in ENGINES.items():
        print(f"{head:9}{meaning:19}" + "".join(f"{c[head]:20}" for c in counts.values()))
    print(f"{'registers per thread':28}" + "".join(f"{r.registers:20}" for r in resources.values()))


def try_out(multiply: Callable, M: int = 300, N: int = 520, K: int = 328) -> None:
    """Run a product of small matrices with both layouts of B, and print the difference from PyTorch's.

    Where a kernel of `multiply` is not written yet, print that.
    """
    import torch

    if environment.grading_in_progress():
        return
    place = "cuda" if device.runs(SM) else "cpu"
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.randn(n, K, generator=generator).half().to(place) for n in (M, N))
    expected = a.float() @ b.float().T
    for what, stored in (("N × K", b), ("K × N", b.T.contiguous().T)):
        c = torch.full((M, N), torch.nan, dtype=torch.float16, device=place)
        try:
            multiply(a, stored, c)
        except NotImplementedError as e:
            print(e)
            return
        error = float((c.float() - expected).abs().max())
        print(f"{M} × {N}, K = {K}, B stored {what}: largest difference from fp32 {error:.3f}")
    if place == "cpu":
        print("Run in the emulator; timing it needs a Hopper GPU.")


def rates(levels: Mapping[str, Callable], size: int = 4096) -> dict[str, float]:
    """TFLOP/s of each level at size³, interleaved with cuBLAS, B stored (N, K). Needs a Hopper GPU."""
    return {name: 2 * size**3 / s / 1e12 for name, s in _seconds(levels, size, size, size).items()}


def _seconds(levels: Mapping[str, Callable], M: int, N: int, K: int, transposed: bool = False) -> dict[str, float]:
    """Medians of the levels that compute a @ b.T, interleaved with cuBLAS; transposed: b is stored (K, N)."""
    import torch

    from ..timing import stopwatch

    def matrix(rows: int, columns: int):
        return torch.randn(rows, columns, device="cuda", dtype=torch.float16)

    pairs = [(matrix(M, K), matrix(K, N).T if transposed else matrix(N, K)) for _ in range(2)]
    c = torch.empty(M, N, device="cuda", dtype=torch.float16)
    calls = {name: f for name, f in levels.items() if _right(name, f, *pairs[0], c)}
    calls["cuBLAS"] = lambda a, b, c: torch.matmul(a, b.T, out=c)
    taken = stopwatch.Stopwatch().take_turns({k: [partial(f, a, b, c) for a, b in pairs] for k, f in calls.items()})
    return {name: sample.median for name, sample in taken.items()}


def _right(name: str, multiply: Callable, a, b, c) -> bool:
    """Whether it runs and computes a @ b.T. Prints the reason if not."""
    import torch

    try:
        c.fill_(torch.nan)
        multiply(a, b, c)
        difference = (c[:256].float() - a[:256].float() @ b.float().T).abs().max().item()
    except Exception as e:  # one level that does not compile or run must not hide the others
        print(f"{name}: left out: {type(e).__name__}: {str(e)[:100]}")
        return False
    if not difference < 0.5:
        print(f"{name}: left out: wrong by {difference:.3g}")
    return difference < 0.5


def ladder(levels: Mapping[str, Callable]):
    """The levels, the Gluon ring, cuBLAS and the peak, as text and picture; without a Hopper GPU, an H200's figures."""
    from .ladder import picture

    if environment.grading_in_progress():
        return None
    print(CLAIM)
    if not device.runs(SM):
        text = ", ".join(f"{name}: {rate:g}" for name, rate in H200.items())
        print(f"This machine has no Hopper GPU. Measured on an H200, in TFLOP/s: {text}; its peak is 989.")
        return None
    from . import ring_gluon

    found, gpu = rates({"Gluon": ring_gluon.ring, **levels}), device.current()
    for name, rate in found.items():
        share = f", {rate / gpu.peak('fp16'):.1%} of the peak" if gpu.peak("fp16") else ""
        print(f"{name:12} {rate:6.0f} TFLOP/s, {rate / found['cuBLAS']:.2f} × cuBLAS{share}")
    return picture(found, gpu)
