"""Softmax of units 11 and 12 beside PyTorch's, torch.compile's and a plain copy, over row lengths and types.

python -m bench.softmax [--json FILE]
python -m bench.softmax --tune [--json FILE]     all variants, to choose tiles, warps, stages and cache hints
"""

import functools
import itertools
import sys

import labutils as lab
from bench.common import Table, fail, geometric_mean, run, solution
from bench.precompile import share_of

LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
SHAPES = ((4096, 1024), (4096, 4096), (4096, 8192), (16384, 4096), (8192, 32768))
LONG = ((1024, 200_000), (16, 4_000_000), (4096, 50_257))
ELEMENTS = 2**26

LOOPS = [
    "num_stages={}):\n        offs_n = start + tl.arange(0, BLOCK_N)\n"
    "        x = tl.load(x_ptr + offs_n, mask=offs_n < N, other=" + other
    for other in ("-float", "0.0")
]
"""How the two loops of `online_softmax_kernel` begin."""


def data(M: int, N: int, dtype="float32", lse: bool = False, count: int = 2) -> list[tuple]:
    """Distinct inputs with an output each."""
    import torch

    kind = getattr(torch, dtype)
    ring = []
    for _ in range(max(count, -(-(2**28) // (M * N * kind.itemsize)))):
        x = torch.randn(M, N, device="cuda").to(kind)
        ring.append((x, torch.empty_like(x), *([torch.empty(M, device="cuda")] if lse else [])))
    return ring


def wrong(x, out) -> str | None:
    """Why `out` is not the softmax of x's rows, or None."""
    import torch

    some = slice(0, max(1, 2**24 // x.shape[1]))
    expected = torch.softmax(x[some].double(), 1)
    # fp16 has no more than 2^-24 between its smallest numbers
    most = 3e-5 * expected if x.dtype == torch.float32 else 1e-2 * expected + 2**-24
    error = ((out[some].double() - expected).abs() / most).max().item()
    return None if error < 1 and not torch.isnan(out).any() else f"{error:.2g} of the error allowed"


def check(name: str, fn, ring) -> None:
    """A wrong kernel's time means nothing."""
    x, out = ring[0][:2]
    fn(*ring[0])
    if said := wrong(x, out):
        fail(f"{name} is wrong at {tuple(x.shape)}: {said}")


def compiled_softmax():
    import torch

    return torch.compile(lambda x: torch.softmax(x, 1), dynamic=False)


def measure(table: Table) -> None:
    import torch

    torch._dynamo.config.cache_size_limit = 64
    unit, online = solution("11_softmax"), solution("12_online_softmax")
    compiled = compiled_softmax()
    others = {
        "torch.softmax": lambda x, out, *_: torch.softmax(x, 1),
        "torch.compile": lambda x, out, *_: compiled(x),
    }
    gains = {"softmax": [], "persistent_softmax": []}
    shapes = [(ELEMENTS // n, n, "float32") for n in LENGTHS] + [(m, n, "float32") for m, n in SHAPES]
    shapes += [(ELEMENTS // n, n, kind) for kind in ("float16", "bfloat16") for n in (1024, 4096, 16384)]
    for M, N, kind in share_of(shapes):
        ring = data(M, N, kind)
        ours = {"persistent_softmax": unit.persistent_softmax, "softmax": unit.softmax}
        for name, fn in ours.items():
            check(name, fn, ring)
        extra = {"naive": lambda x, out: unit.naive_softmax(x)} if (M, N) == (16384, 4096) else {}
        if kind == "float32" and N == 1024:
            extra["warp_softmax (CUDA)"] = unit.warp_softmax
        if kind == "float32" and 1024 < N <= 32768:
            extra["block_softmax (CUDA)"] = unit.block_softmax
        rings = {n: [lambda f=f, d=d: f(*d) for d in ring] for n, f in (ours | others | extra).items()}
        seconds = table.compare(f"{M} × {N} {kind}", 2 * M * N * ring[0][0].element_size(), rings)
        if kind == "float32" and M * N == ELEMENTS and len(gains["softmax"]) < len(LENGTHS):
            for name, values in gains.items():
                values.append(seconds["torch.softmax"] / seconds[name])
        del ring, rings
    for name, values in gains.items():
        print(f"{name}: {geometric_mean(values):.2f} × torch.softmax, geometric mean of {LENGTHS}")
    print()
    for M, N in share_of(LONG):
        ring = data(M, N, lse=True)
        ours = {
            "one_launch_softmax": online.one_launch_softmax,
            "split_softmax": online.split_softmax,
            "online_softmax": lambda x, out, lse: online.online_softmax(x, out),
        }
        if N <= 8 * 28_668 and lab.device.runs(90):
            ours["cluster_softmax (CUDA)"] = online.cluster_softmax
        for name, fn in ours.items():
            check(name, fn, ring)
        rings = {n: [lambda f=f, d=d: f(*d) for d in ring] for n, f in (ours | others).items()}
        table.compare(f"{M} × {N} float32", 2 * M * N * 4, rings)
        del ring, rings


# --- variants ------------------------------------------------------------------------------------------------------


def tune(table: Table) -> None:
    for N in LENGTHS:
        tune_rows(table, N)
    tune_hints(table)
    tune_long(table)


def tune_rows(table: Table, N: int) -> None:
    """The fused and the persistent kernel: tile, warps, stages, and one program per tile or a persistent grid."""
    import triton

    from labutils.lessons import compiled

    unit = solution("11_softmax")
    M = ELEMENTS // N
    ring = data(M, N)
    width = triton.next_power_of_2(N)

    def fused(warps):
        def go(x, out):
            unit.softmax_kernel[(M,)](x, out, N, N, N, BLOCK_N=width, num_warps=warps)

        return go

    def persistent(rows, warps, stages, stay):
        options = dict(BLOCK_M=rows, BLOCK_N=width, STAGES=stages, num_warps=warps)
        x, tiles = ring[0][0], triton.cdiv(M, rows)

        @functools.cache
        def programs():
            fit = compiled.resident(unit.persistent_softmax_kernel, x, x, M, N, N, N, **options) if stay else tiles
            return min(tiles, fit)

        def go(x, out):
            unit.persistent_softmax_kernel[(programs(),)](x, out, M, N, N, N, **options)

        return go

    variants = {f"fused, {w} warps": fused(w) for w in (1, 2, 4, 8, 16, 32) if 4 <= width // (32 * w) <= 64}
    for tile in (1024, 2048, 4096, 8192) if N <= 4096 else (N,):
        for each in (8, 16, 32, 64):  # elements a thread
            rows, warps = max(1, tile // width), max(tile, width) // (32 * each)
            if not 1 <= warps <= 32:
                continue
            for stages, stay in ((1, False), (1, True), (2, True), (3, True)):
                name = f"{rows} rows, {warps} warps, {stages} stages, {'stay' if stay else 'a program a tile'}"
                variants[name] = persistent(rows, warps, stages, stay)
    table.tune(f"{M} × {N}", 2 * M * N * 4, variants, ring, best=8)


def tune_hints(table: Table) -> None:
    """Cache hints on the load and the store of the fused kernels."""
    load, store = 'mask=mask_n, other=-float("inf")).to', "e / tl.sum(e), mask=mask_n)"
    loads = {"": load, "load evict_first": load.replace(").to", ', eviction_policy="evict_first").to')}
    stores = {
        "": store,
        "store evict_first": store[:-1] + ', eviction_policy="evict_first")',
        "store .cs": store[:-1] + ', cache_modifier=".cs")',
        "store .wt": store[:-1] + ', cache_modifier=".wt")',
    }
    for N in (1024, 4096, 16384):
        M = ELEMENTS // N
        variants = {
            f"fused; {a or 'load as it is'}; {b or 'store as it is'}": solution(
                "11_softmax", (load, new_load), (store, new_store)
            ).softmax
            for a, new_load in loads.items()
            for b, new_store in stores.items()
        }
        table.tune(f"{M} × {N}, hints", 2 * M * N * 4, variants, data(M, N), best=8)


def tune_long(table: Table) -> None:
    """Rows of 200 000: loop, two launches, one launch, and one that keeps x in registers while it waits."""
    long = _Long(*LONG[0])
    for tune_one in (tune_loop, tune_split, tune_one_launch, tune_resident):
        tune_one(table, long)


class _Long:
    """Long rows, and the scratch of the kernels that split them."""

    def __init__(self, M: int, N: int):
        self.M, self.N, self.moved = M, N, 2 * M * N * 4
        self.ring = data(M, N, lse=True)
        self.sizes = [(B, w) for B in (4096, 8192, 16384) for w in (4, 8, 16, 32) if 8 <= B // (32 * w) <= 32]

    def scratch(self, BLOCK: int):
        """Blocks of a row, arrays for their maxima and sums, and the number of blocks as a power of two."""
        import torch
        import triton

        parts = triton.cdiv(self.N, BLOCK)
        m, l = torch.empty(2, self.M, parts, device="cuda")  # noqa: E741
        return parts, m, l, max(16, triton.next_power_of_2(parts))

    def tune(self, table: Table, title: str, variants: dict, **more) -> None:
        table.tune(f"{self.M} × {self.N}, {title}", self.moved, variants, self.ring, **more)


def tune_loop(table: Table, long: _Long) -> None:
    """One program a row."""
    M, N = long.M, long.N

    def loop(module, BLOCK, warps):
        def go(x, out, lse):
            module.online_softmax_kernel[(M,)](x, out, N, N, N, BLOCK_N=BLOCK, num_warps=warps)

        return go

    variants = {}
    for stages in (1, 2, 3, 4):
        module = solution("12_online_softmax", *((t.format(3), t.format(stages)) for t in LOOPS))
        for BLOCK, each in itertools.product((2048, 4096, 8192, 16384), (8, 16, 32)):
            warps = BLOCK // (32 * each)
            if 4 <= warps <= 32:
                variants[f"loop, block {BLOCK}, {warps} warps, {stages} stages"] = loop(module, BLOCK, warps)
    long.tune(table, "online_softmax", variants)


def tune_split(table: Table, long: _Long) -> None:
    """Two launches: statistics of each block, then the division."""
    M, N, module = long.M, long.N, solution("12_online_softmax")

    def two(BLOCK, warps):
        parts, m, l, BLOCK_P = long.scratch(BLOCK)  # noqa: E741

        def go(x, out, lse):
            grid, sizes = (M * parts,), dict(BLOCK=BLOCK, num_warps=warps)
            module.stats_kernel[grid](x, m, l, N, parts, N, **sizes)
            module.normalize_kernel[grid](x, m, l, out, lse, N, parts, N, N, BLOCK_P=BLOCK_P, **sizes)

        return go

    long.tune(table, "split_softmax", {f"block {b}, {w} warps": two(b, w) for b, w in long.sizes})


def tune_one_launch(table: Table, long: _Long) -> None:
    """One launch, whose programs divide while their row may still be in the L2."""
    import torch

    M, N = long.M, long.N

    def one(module, BLOCK, warps, kept):
        parts, m, l, BLOCK_P = long.scratch(BLOCK)  # noqa: E741
        lag = min(M, max(1, kept // (4 * N)))

        def go(x, out, lse):
            counters = torch.zeros(1 + M, dtype=torch.int32, device="cuda")
            module.one_launch_kernel[(2 * parts * (M + lag),)](
                x, m, l, counters, out, lse, M, N, parts, N, N, lag, BLOCK=BLOCK, BLOCK_P=BLOCK_P, num_warps=warps
            )

        return go

    hint = ', eviction_policy="evict_first"'
    first_load = 12 * " " + 'x = tl.load(x_ptr + row * stride_xm + offs_n, mask=offs_n < N, other=-float("inf"))'
    modules = {
        "hints as they are": solution("12_online_softmax"),
        "no hints": solution("12_online_softmax", *((t + hint, t) for t in ("other=0.0", "y, mask=offs_n < N"))),
        "first load evict_last": solution(
            "12_online_softmax", (first_load, first_load[:-1] + ', eviction_policy="evict_last")')
        ),
        "programs in the order of their ids": solution(
            "12_online_softmax", ("ticket = tl.atomic_add(counters_ptr, 1)", "ticket = tl.program_id(0)")
        ),
    }
    variants = {
        f"block {b}, {w} warps, {kept} MiB kept, {name}": one(module, b, w, kept * 2**20)
        for b, w in long.sizes
        for kept in (6, 12, 20, 28)
        for name, module in modules.items()
        if kept == 12 or name == "hints as they are"
    }
    long.tune(table, "one_launch_softmax", variants, best=10)


def tune_resident(table: Table, long: _Long) -> None:
    """One cooperative launch that keeps x in registers while it waits."""
    import torch

    from bench.resident_kernel import resident_kernel
    from labutils.lessons import compiled

    M, N = long.M, long.N

    def held(BLOCK, warps):
        parts, m, l, BLOCK_P = long.scratch(BLOCK)  # noqa: E741
        options = dict(BLOCK=BLOCK, BLOCK_P=BLOCK_P, num_warps=warps)
        counters = torch.zeros(M, dtype=torch.int32, device="cuda")
        x, out, lse = long.ring[0]
        fit = compiled.resident(resident_kernel, x, out, lse, m, l, counters, M, N, parts, N, N, **options)
        programs = min(M, fit // parts) * parts
        if not programs:
            raise ValueError("a row does not fit")

        def go(x, out, lse):
            counters.zero_()
            resident_kernel[(programs,)](
                x, out, lse, m, l, counters, M, N, parts, N, N, launch_cooperative_grid=True, **options
            )

        return go

    variants = {}
    for b, w in long.sizes:
        try:
            variants[f"held, block {b}, {w} warps"] = held(b, w)
        except Exception as e:
            print(f"  held, block {b}, {w} warps: {type(e).__name__}: {str(e)[:100]}")
    for fn in list(variants.values())[:1]:
        check("held", fn, long.ring)
    long.tune(table, "held in registers", variants)


if __name__ == "__main__":
    sys.exit(run(__doc__, "python -m bench.softmax", measure, tune))
