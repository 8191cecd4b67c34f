"""Attention of units 17 and 18 beside PyTorch's FlashAttention-2 and cuDNN: TFLOP/s, forward and backward, and memory.

python -m bench.attention [--json FILE]
python -m bench.attention --tune [--json FILE]     all variants, to choose tiles, warps, stages and registers

FLOPs are counted as papers do: 4·B·H·N²·D forward, half of it causal, 2.5 times as many backward, whatever a kernel
really computes.
"""

import functools
import itertools
import multiprocessing
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import labutils as lab
from bench.common import Table, fail, largest_error, run, solution
from bench.precompile import share_of
from labutils.lessons import flash_backward_gluon, flash_gluon
from labutils.lessons.attention import backends, flops, formula, forward, peak_bytes
from labutils.timing.stopwatch import ratio

UNIT, BACKWARD = "17_flash_attention", "18_flash_backward"


@dataclass(frozen=True)
class Shape:
    """Sequences, heads, keys, head size; and what we want to reach: times FlashAttention-2, times cuDNN."""

    B: int
    H: int
    N: int
    D: int
    causal: bool
    goals: tuple[float, float]

    @property
    def name(self) -> str:
        return f"({self.B}, {self.H}, {self.N}, {self.D}){' causal' if self.causal else ''}"

    @property
    def flops(self) -> float:
        return flops(self.B, self.H, self.N, self.D, self.causal)


FORWARD = (
    Shape(4, 32, 4096, 128, False, (1.65, 0.95)),
    Shape(2, 16, 16384, 128, True, (1.5, 0.90)),
    Shape(4, 32, 4096, 64, False, (1.5, 1.0)),
    Shape(2, 16, 16384, 64, True, (1.5, 0.9)),
    Shape(4, 32, 3968, 64, False, (1.5, 1.0)),
    Shape(4, 32, 3968, 128, True, (1.5, 0.9)),
)
GRADIENTS = (
    Shape(4, 32, 4096, 128, True, (1.8, 1.0)),
    Shape(2, 16, 16384, 128, True, (1.8, 1.0)),
    Shape(4, 32, 4096, 128, False, (1.8, 1.0)),
)
UNTUNED = (Shape(3, 20, 6144, 128, True, (1.5, 1.0)), Shape(1, 24, 2432, 128, True, (1.3, 0.9)))
"""Timed as the others, forward and backward; no tile, schedule or number of stages was chosen on them."""


def inputs(shape: Shape, N: int = 0, count: int = 3) -> list:
    import torch

    size = (shape.B, shape.H, N or shape.N, shape.D)
    return [torch.randn(size, device="cuda", dtype=torch.bfloat16) for _ in range(count)]


def outputs(q) -> list:
    """out and lse for q (B, H, N, D), with heads of all sequences along one axis."""
    import torch

    return [torch.empty_like(q.flatten(0, 1)), torch.empty(q.flatten(0, 1).shape[:2], device="cuda")]


def flat(*arrays) -> list:
    return [x.detach().flatten(0, 1) for x in arrays]


def close(name: str, got, expected, most: float = 2e-2) -> None:
    """A wrong kernel's time means nothing."""
    error = largest_error(got, expected)
    if not error < most:
        fail(f"{name} is wrong: its largest error is {error:.2g} of the largest element")


def rates(table: Table, title: str, work: float, rings: Mapping[str, Sequence[Callable]]) -> dict[str, float]:
    """Time all in turns, print TFLOP/s; the first is ours."""
    samples = table.watch.take_turns(rings)
    ours, found = next(iter(samples)), {}
    print(title)
    for who, sample in samples.items():
        times = ratio(sample, samples[ours])
        said = "" if who == ours else f", ours is {times.value:.3f} × as fast ({times.low:.3f} … {times.high:.3f})"
        found[who] = work / sample.median / 1e12
        print(f"  {who:20} {sample.median * 1e3:8.3f} ms {found[who]:6.0f} TFLOP/s{said}", flush=True)
    table.rows.append({"name": title, "flops": work, "seconds": {n: s.median for n, s in samples.items()}})
    return found


def goal(found: Mapping[str, float], goals: tuple[float, float]) -> None:
    ours = next(iter(found.values()))
    for name, wanted in zip(("FlashAttention-2", "cuDNN"), goals, strict=True):
        if wanted and name in found:
            reached = ours / found[name]
            print(f"  {'reached' if reached >= wanted else 'MISSED '} {reached:.2f} of {wanted:.2f} × {name}")


def launchers(unit, q, k) -> dict[str, Callable]:
    """The forward passes that work on this GPU for these arrays, the fastest first."""
    found = {"flash": unit.flash}
    if flash_gluon.usable(q.flatten(0, 1), k.flatten(0, 1)) and gluon_works():
        found = {"Gluon": flash_gluon.launcher(unit.overlap)} | found
    return found


@functools.cache
def gluon_works() -> bool:
    """A first launch in a process of its own: programs that wait for each other may wait for ever."""
    trial = multiprocessing.get_context("spawn").Process(target=try_gluon)
    trial.start()
    trial.join(120)
    if trial.is_alive():
        trial.kill()
        print("Gluon: the first launch did not end; left out")
        return False
    return trial.exitcode == 0


def try_gluon() -> None:
    """Whole programs and one in part, full and ragged tiles, shared key heads, both head sizes, with and without a
    mask, beside the formula in fp32: the output, and the gradients where the kernel takes the arrays. Ends the process
    with 1 if wrong."""
    import torch

    unit = solution(UNIT)
    for N, D, causal in itertools.product((128, 200, 512, 640), (64, 128), (False, True)):
        q, k, v, dout = flat(*inputs(Shape(1, 4, N, D, causal, (0, 0)), count=4))
        k, v = k[:2], v[:2]
        out, lse = torch.empty_like(q), torch.empty(q.shape[:2], device="cuda")
        flash_gluon.launcher(unit.overlap)(q, k, v, out, lse, causal)
        exact = [x.float().requires_grad_() for x in (q, k, v)]
        right = formula(*exact, causal)
        where = f"Gluon, N = {N}, D = {D}, causal {causal}"
        close(where, out, right[0])
        close(f"lse of {where}", lse, right[1])
        if flash_backward_gluon.usable(q, k):
            gradients = [torch.empty_like(x) for x in (q, k, v)]
            flash_backward_gluon.backward(q, k, v, out, dout, lse, *gradients, causal)
            for got, expected, what in zip(
                gradients, torch.autograd.grad(right[0], exact, dout.float()), ("dq", "dk", "dv"), strict=True
            ):
                close(f"{what} of {where}", got, expected)


def measure(table: Table) -> None:
    unit, backward = solution(UNIT), solution(BACKWARD)
    for shape in FORWARD + UNTUNED:
        rings: dict[str, list] = {}
        for _ in range(2):
            q, k, v = inputs(shape)
            theirs = backends(q, k, v, shape.causal)
            expected = next(iter(theirs.values()))().flatten(0, 1)
            for name, fn in launchers(unit, q, k).items():
                out, lse = outputs(q)
                fn(*flat(q, k, v), out, lse, shape.causal)
                close(name, out, expected)
                x = flat(q, k, v)
                rings.setdefault(name, []).append(
                    lambda fn=fn, x=x, out=out, lse=lse, causal=shape.causal: fn(*x, out, lse, causal)
                )
            if not shape.causal:
                out, lse = outputs(q)
                rings.setdefault("forward, pointers", []).append(
                    lambda x=x, out=out, lse=lse: unit.forward(*x, out, lse)
                )
            for name, call in theirs.items():
                rings.setdefault(name, []).append(call)
        goal(rates(table, f"forward {shape.name} bf16", shape.flops, rings), shape.goals)
        del rings, q, k, v, x, out, lse, theirs, expected
    measure_backward(table, backward)
    measure_memory(table, unit)


def measure_backward(table: Table, unit) -> None:
    for shape in GRADIENTS + UNTUNED:
        rings, parts = backward_rings(unit, shape)
        goal(rates(table, f"backward {shape.name} bf16", 2.5 * shape.flops, rings), shape.goals)
        if shape is GRADIENTS[0]:
            for name, products in (("dkdv", 4), ("dq", 3)):
                work = products * shape.flops / 2
                rates(table, f"  {name} alone, its own {products} products", work, {name: parts[name]})
            rates(table, "  delta alone", 2.0 * shape.B * shape.H * shape.N * shape.D, {"delta": parts["delta"]})


def backward_rings(unit, shape: Shape) -> tuple[dict[str, list], dict[str, list]]:
    """Calls of each backward pass on two sets of arrays, the Gluon kernel's first where it runs; and of each kernel of
    unit 18 by itself. Every result agrees with PyTorch's, or the benchmark ends."""
    import torch

    rings: dict[str, list] = {}
    parts: dict[str, list] = {"delta": [], "dkdv": [], "dq": []}
    causal = shape.causal
    for _ in range(2):
        q, k, v = (x.requires_grad_() for x in inputs(shape))
        (dout,) = inputs(shape, count=1)
        x, gradients = flat(q, k, v, dout), [torch.empty_like(y) for y in flat(q, k, v)]
        out, lse = forward(*x[:3], causal)
        rows = torch.empty_like(lse)

        def ours(x=x, out=out, lse=lse, rows=rows, gradients=gradients):
            unit.delta(out, x[3], rows)
            unit.dkdv(*x, lse, rows, *gradients[1:], int(causal))
            unit.dq(*x, lse, rows, gradients[0], int(causal))

        def gluon(x=x, out=out, lse=lse, gradients=gradients):
            flash_backward_gluon.backward(*x[:3], out, x[3], lse, *gradients, causal)

        mine = {"three kernels": ours}
        if flash_backward_gluon.usable(*x[:2]) and gluon_works():
            mine = {"Gluon": gluon} | mine
        theirs = {name: call() for name, call in backends(q, k, v, causal).items()}
        for who, fn in mine.items():
            for y in gradients:
                y.fill_(torch.nan)
            fn()
            for kept in theirs.values():
                right = torch.autograd.grad(kept, (q, k, v), dout, retain_graph=True)
                for got, expected, what in zip(gradients, right, ("dq", "dk", "dv"), strict=True):
                    close(f"{what} of {who}", got, expected.flatten(0, 1))
            rings.setdefault(who, []).append(fn)
        for name, kept in theirs.items():
            rings.setdefault(name, []).append(
                lambda kept=kept, x=(q, k, v), dout=dout: torch.autograd.grad(kept, x, dout, retain_graph=True)
            )
        parts["delta"].append(lambda x=x, out=out, rows=rows: unit.delta(out, x[3], rows))
        parts["dkdv"].append(lambda x=x, lse=lse, rows=rows, g=gradients: unit.dkdv(*x, lse, rows, *g[1:], int(causal)))
        parts["dq"].append(lambda x=x, lse=lse, rows=rows, g=gradients: unit.dq(*x, lse, rows, g[0], int(causal)))
    return rings, parts


def measure_memory(table: Table, unit) -> None:
    """Peak memory beyond the inputs, for one head: the output and lse, N · (2·D + 4) bytes."""
    D, taken = 128, {}
    print("memory of a causal forward pass beyond its inputs, 4 heads, D = 128, fp16")
    for N in (2**12, 2**13, 2**14, 2**15, 2**16, 2**17):
        taken[N] = peak_bytes(unit.flash, 4, N, D)
        predicted = 4 * N * (2 * D + 4)
        print(
            f"  {N:7} keys {taken[N] / 2**20:8.2f} MiB, predicted {predicted / 2**20:8.2f}; "
            f"scores {8 * N * N / 2**20:9.0f}"
        )
    table.rows.append({"name": "memory", "bytes": taken})


# --- variants ------------------------------------------------------------------------------------------------------


def named(config: Mapping) -> str:
    return ", ".join(f"{k.removeprefix('BLOCK_').removeprefix('num_')} {v}" for k, v in config.items())


def grid(**options) -> list[dict]:
    return [dict(zip(options, values, strict=True)) for values in itertools.product(*options.values())]


CHANGES = {
    "": (),
    "; scores scaled first": (
        ("tl.max(s, 1) * scale)\n    p = tl.exp2(s * scale - m_new[:, None])",
         "tl.max(s * scale, 1))\n    p = tl.exp2(s * scale - m_new[:, None])"),
    ),
    "; heads first": (
        ("pid_m = tl.num_programs(0) - 1 - tl.program_id(0)\n    head = tl.program_id(1)",
         "pid_m = tl.num_programs(1) - 1 - tl.program_id(1)\n    head = tl.program_id(0)"),
        ("flash_kernel[(triton.cdiv(M, BLOCK_M), H)]", "flash_kernel[(H, triton.cdiv(M, BLOCK_M))]"),
    ),
}  # fmt: skip
"""Variants of the text of `flash`."""


def forward_configs(D: int) -> list[dict]:
    wide = grid(BLOCK_M=(128,), BLOCK_N=(32, 64, 128), num_warps=(4, 8), num_stages=(2, 3))
    wide += grid(BLOCK_M=(64,), BLOCK_N=(64, 128), num_warps=(4,), num_stages=(2, 3))
    if D == 64:
        wide += grid(BLOCK_M=(128,), BLOCK_N=(64, 128, 256), num_warps=(4, 8), num_stages=(4,))
        wide += grid(BLOCK_M=(256,), BLOCK_N=(64, 128), num_warps=(8,), num_stages=(2, 3))
    else:
        wide += grid(BLOCK_M=(128,), BLOCK_N=(64,), num_warps=(4,), num_stages=(2, 3), maxnreg=(224, 255))
    return wide


def backward_configs(name: str) -> list[dict]:
    owned, walked = ("BLOCK_M", "BLOCK_N") if name == "dq" else ("BLOCK_N", "BLOCK_M")
    some = grid(**{owned: (128,), walked: (32, 64, 128)}, num_warps=(8,), num_stages=(1, 2, 3))
    some += grid(**{owned: (64,), walked: (32, 64, 128)}, num_warps=(4,), num_stages=(1, 2, 3))
    return some + grid(**{owned: (128,), walked: (32, 64)}, num_warps=(4,), num_stages=(2,))


def gluon_configs(shape: Shape) -> list[dict]:
    if lab.device.current().capability[0] != 9 or not gluon_works():
        return []
    return grid(BLOCK_N=(64, 128), STAGES=(2,) if shape.D == 128 else (2, 3, 4))


def gradient_data(shape: Shape) -> tuple:
    import torch

    x = flat(*inputs(shape, count=4))
    lse, delta = torch.randn(2, *x[0].shape[:2], device="cuda")
    return (*x, lse + 8, delta, *(torch.empty_like(y) for y in x[:3]))


def backward_call(unit, name: str, config: dict) -> Callable:
    def go(q, k, v, dout, lse, delta, dq, dk, dv):
        if name == "dkdv":
            unit.dkdv(q, k, v, dout, lse, delta, dk, dv, 1, config=dict(config))
        else:
            unit.dq(q, k, v, dout, lse, delta, dq, 1, config=dict(config))

    return go


def tune(table: Table) -> None:
    modules = {change: solution(UNIT, *texts) for change, texts in CHANGES.items()}
    for shape in FORWARD:
        ring = [(*flat(*inputs(shape)), *outputs(inputs(shape, count=1)[0])) for _ in range(2)]
        variants = {
            named(c) + change: (lambda *d, m=modules[change], c=c, s=shape: m.flash(*d, s.causal, config=dict(c)))
            for c, change in itertools.product(forward_configs(shape.D), CHANGES)
            if not change or (c["num_stages"] == 2 and c["BLOCK_N"] == 64) or (shape.D == 64 and c["BLOCK_N"] == 128)
        }
        variants |= {
            "Gluon, " + named(c): lambda *d, c=c, s=shape: flash_gluon.launcher(modules[""].overlap)(*d, s.causal, **c)
            for c in gluon_configs(shape)
        }
        tflops(table, f"forward {shape.name}", shape.flops, variants, ring)
        del ring
    unit = solution(BACKWARD)
    shape = GRADIENTS[0]
    ring = [gradient_data(shape) for _ in range(2)]
    for name, products in (("dkdv", 4), ("dq", 3)):
        variants = {named(c): backward_call(unit, name, c) for c in backward_configs(name)}
        tflops(table, f"{name}, its own {products} products", products * shape.flops / 2, variants, ring)


def tflops(table: Table, title: str, work: float, variants: Mapping[str, Callable], ring, best: int = 12) -> None:
    times, failed = {}, {}
    for name, fn in share_of(variants.items()):
        try:
            times[name] = table.quick(fn, ring, 15)
        except Exception as e:  # a variant that does not fit this GPU is a finding
            failed[name] = f"{type(e).__name__}: {str(e).splitlines()[0][:90] if str(e) else ''}"
    print(f"{title}: {len(times)} variants, {len(failed)} failed")
    for name in sorted(times, key=times.__getitem__)[:best]:
        print(f"  {work / times[name] / 1e12:6.0f} TFLOP/s  {name}", flush=True)
    for name, why in list(failed.items())[:3]:
        print(f"  failed  {name}: {why}")
    table.rows.append({"name": title, "flops": work, "seconds": times, "failed": failed})


if __name__ == "__main__":
    sys.exit(run(__doc__, "python -m bench.attention", measure, tune))
