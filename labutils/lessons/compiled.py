"""What the Triton compiler allocates for one launch: registers, spills and shared memory. Needs no GPU.

compiled.resources([(kernel, (x, out, n), dict(BLOCK=1024, num_warps=4)), …], capability=(9, 0))
compiled.stages(kernel, x, out, n, BLOCK=1024, num_warps=4)
compiled.resident(kernel, x, out, n, BLOCK=1024, num_warps=4)
compiled.persistent_grid(kernel, x, out, n, BLOCK=1024, num_warps=4)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .. import environment
from ..backends.offline import Compiler, CompilerFailed, NotExtractable, launch_spec
from ..cuda import cubin
from ..gpu import device
from ..gpu.occupancy import occupancy

WITHOUT_GPU = 8
"""What `resident` returns without a GPU: few programs, so that even in small cases each one loops."""

ROUNDS = 16
"""`persistent_grid` starts this many times the programs that the GPU runs at once. `python -m bench.softmax --tune`,
H200, rows of 256: 1 round 3.90, 8 rounds 4.07, 16 rounds 4.10 TB/s; one program per tile 4.10."""


def resources(launches: Sequence[tuple], capability: tuple[int, int] | None = None) -> list[cubin.Resources]:
    """For each launch (kernel, arguments, constants and options): the resources of one program on that GPU.

    Compiles in a second process, because this one may use the interpreter. The default is this machine's GPU, else an
    H100. Raises `offline.CompilerFailed` if the compiler fails.
    """
    gpu = device.current()
    capability = capability or (gpu.capability if gpu else (9, 0))
    target = 10 * capability[0] + capability[1]
    specs = [launch_spec(kernel, arguments, options) for kernel, arguments, options in launches]
    found = []
    for done in Compiler((target,)).cubins(specs):
        code, shared = done[target]
        (one,) = cubin.resources(code).values()
        found.append(cubin.Resources(one.registers, one.stack, max(one.shared, shared)))
    return found


def table(launches: Mapping[str, tuple], capability: tuple[int, int] | None = None) -> None:
    """Print for each launch: registers and spilled bytes per thread, and the programs that fit on an SM."""
    if environment.grading_in_progress():
        return
    try:
        found = resources(list(launches.values()), capability)
    except (CompilerFailed, NotExtractable, cubin.ToolMissing) as e:
        print(f"Not compiled: {e}")
        return
    gpu = device.current()
    capability = capability or (gpu.capability if gpu else (9, 0))
    print(f"{f'sm_{capability[0]}{capability[1]}':24} {'registers':>9} {'spilled bytes':>14} {'programs per SM':>18}")
    for (name, (_, _, options)), needs in zip(launches.items(), found, strict=True):
        fits = needs.occupancy(capability, 32 * options.get("num_warps", 4))
        print(f"{name:24} {needs.registers:9} {needs.stack:14} {fits.blocks:18}")


STAGES = {
    "ttir": ("Triton IR: blocks of values", r"tt\.(load|store)|arith\.(add|mul)f"),
    "ttgir": ("Triton GPU IR: a layout tells which thread holds which elements", r"#blocked\d* =|tt\.(load|store)"),
    "ptx": ("PTX: one thread", r"(ld|st)\.global|\t(add|mul|fma)\S*\.f32"),
    "sass": ("SASS: machine instructions", r"\b(LDG|STG|FADD|FMUL|FFMA)"),
}
"""Stage: what it is, and the lines that are worth a look."""


def stages(kernel, *arguments, lines: int = 4, **options) -> None:
    """Print the lines of each stage of compilation that load, store, add and multiply, at most `lines` of each."""
    if environment.grading_in_progress():
        return
    gpu = device.current()
    major, minor = gpu.capability if gpu else (9, 0)
    try:
        texts, code = Compiler((10 * major + minor,)).listings(launch_spec(kernel, arguments, options))
        (instructions,) = cubin.sass(code).values()
    except (CompilerFailed, NotExtractable, cubin.ToolMissing) as e:
        print(f"Not compiled: {e}")
        return
    texts["sass"] = "\n".join(i.text for i in instructions)
    for name, (title, pattern) in STAGES.items():
        found = [line for line in texts[name].splitlines() if re.search(pattern, line)]
        print(f"{title}, {len(texts[name].splitlines())} lines")
        for line in found[:lines]:
            print("   ", re.sub(r" loc\(.*\)$", "", line.strip())[:110])


def resident(kernel, *arguments, **options) -> int:
    """How many programs of this launch the GPU runs at the same time, from the compiled kernel's resources."""
    gpu = device.current()
    if gpu is None:
        return WITHOUT_GPU
    done = kernel.warmup(*arguments, grid=(1,), **options)
    done._init_handles()
    fits = occupancy(gpu.limits, 32 * done.metadata.num_warps, done.n_regs, done.metadata.shared)
    return gpu.sms * max(fits.blocks, 1)


def persistent_grid(kernel, *arguments, **options) -> int:
    """The grid size of a persistent kernel: ROUNDS times the number of programs that the GPU runs at once.

    With one round, all programs load at the same time and later all store. With more rounds, some programs load while
    others store.
    """
    return (ROUNDS if device.has_gpu() else 1) * resident(kernel, *arguments, **options)
