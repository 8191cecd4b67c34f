"""What Triton's compiler makes of one launch: registers, spills and shared memory, with or without a GPU.

compiled.resources([(kernel, (x, out, n), dict(BLOCK=1024, num_warps=4)), …], capability=(9, 0))
compiled.resident(kernel, x, out, n, BLOCK=1024, num_warps=4)
compiled.staying(kernel, x, out, n, BLOCK=1024, num_warps=4)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .. import environment
from ..backends.offline import Compiler, CompilerFailed, NotExtractable, launch_spec
from ..cuda import cubin
from ..gpu import device
from ..gpu.occupancy import occupancy

WITHOUT_GPU = 8
"""Programs that `resident` answers where there is no GPU: few, so that small cases make each of them work twice."""

ROUNDS = 16
"""How many times as many programs as the GPU holds `staying` starts. `python -m bench.softmax --tune`, H200, rows of
256: 1 round 3.8, 8 rounds 4.07, 16 rounds 4.09 TB/s; a program for each tile 4.10."""


def resources(launches: Sequence[tuple], capability: tuple[int, int] | None = None) -> list[cubin.Resources]:
    """For each launch (kernel, arguments, constants and options) what one program needs on that GPU.

    Compiled in a second process, so that it works beside the interpreter; by default for the GPU at hand, else an
    H100. Raises `offline.CompilerFailed` where the compiler refuses.
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
    """Print what each launch needs: registers and spilled bytes of a thread, and how many programs an SM then holds."""
    if environment.grading_in_progress():
        return
    try:
        found = resources(list(launches.values()), capability)
    except (CompilerFailed, NotExtractable, cubin.ToolMissing) as e:
        print(f"Not compiled: {e}")
        return
    gpu = device.current()
    capability = capability or (gpu.capability if gpu else (9, 0))
    print(f"{f'sm_{capability[0]}{capability[1]}':24} {'registers':>9} {'spilled bytes':>14} {'programs on an SM':>18}")
    for (name, (_, _, options)), needs in zip(launches.items(), found, strict=True):
        fits = needs.occupancy(capability, 32 * options.get("num_warps", 4))
        print(f"{name:24} {needs.registers:9} {needs.stack:14} {fits.blocks:18}")


def resident(kernel, *arguments, **options) -> int:
    """How many programs of this launch the GPU holds at the same time, from the compiled kernel's own needs."""
    gpu = device.current()
    if gpu is None:
        return WITHOUT_GPU
    done = kernel.warmup(*arguments, grid=(1,), **options)
    done._init_handles()
    fits = occupancy(gpu.limits, 32 * done.metadata.num_warps, done.n_regs, done.metadata.shared)
    return gpu.sms * max(fits.blocks, 1)


def staying(kernel, *arguments, **options) -> int:
    """How many programs to start when each takes one tile after another: ROUNDS times what the GPU holds at once.

    With one round all programs begin together, then all load, then all store; when programs come and go, loads of some
    meet stores of others.
    """
    return (ROUNDS if device.has_gpu() else 1) * resident(kernel, *arguments, **options)
