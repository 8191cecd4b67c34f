"""How long a kernel takes on GPUs that are not here: from its counts, its machine code and the GPUs' datasheets.

For each kernel, the time that each part of the GPU needs for its share of the work, and all of them together:

memory        bytes read and written, over the share of the datasheet's bandwidth that READ and WRITTEN give. What a
              block reads again comes from the L2 as far as the blocks that run at a time fit into it, else from memory;
              arrays that an earlier kernel left in the L2 are not read from memory.
in flight     the lifetime of a block, times the waves of blocks (Little's law): HBM_S for each time that a thread waits
              for all bytes that it has in flight, BARRIER_S for each barrier, CHAIN cycles for each instruction, and
              TURNOVER_S until its successor loads. Loads that a pipeline makes ahead overlap with instructions.
L2            sectors requested, over the L2's bandwidth. A store of part of a sector takes a slice of the L2 longer
              (PARTIAL), and memory reads the rest of the sector.
shared        wavefronts of shared memory and of the L1 cache, WAVEFRONTS per cycle and SM.
instructions  cycles of the busiest pipe of each of an SM's four schedulers, at ISSUED of the peak.
tail          in the last three, SMs idle while the last wave runs, or have no block at all.
dispatch      blocks over the rate at which the GPU starts them.
compute       FLOPs over the rate of long matmuls, on the tensor cores or in fp32 (REACHED, MMA_SYNC).
exponentials  those between matrix products, SPECIAL per cycle and SM. They are added to compute: the products of a tile
              need the exponentials of the same tile. Only warp specialization hides them.
launch        LAUNCH_S for the first kernel and NEXT_S for each further one.

Parts of one kernel overlap, but not perfectly. Memory and bytes in flight depend on each other, since latency grows
with the load: their times are combined as (sum of cubes) ** (1/3), see OVERLAP. All others overlap better, see APART.
Kernels run one after another. The clock rate is the boost clock.

Counts and machine code do not show how long atomic operations in a loop wait for each other, or how long a block waits
in a loop for another one. Such predictions are lower bounds ("at least").
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..check.figures import Code, Figures
from ..check.planned import Step, Work
from ..cuda.pipes import Schedule
from ..gpu.device import GPU, SECTOR
from ..gpu.occupancy import SUB_PARTITIONS, WARP, occupancy
from ..gpu.roofline import Roof, units
from ..spec.exercise import Cost, KernelExercise
from ..spec.inputs import torch_dtype
from ..spec.traffic import sectors

GPUS = ("T4", "A100 80GB", "H100 SXM", "RTX 4090", "B200")

READ, WRITTEN = 4573 / 4800, 4052 / 4800
"""Shares of the datasheet's bandwidth that long reads and long writes reach on an H200 (`hardware_h200.json`: 4573 GB/s
for reads; docs/measured.md: copies of 64 MiB to 4 GiB take 4.6 µs and 1 s / 4297 GB, which gives the writes)."""

HBM_S = 664 / 1980e6
"""Latency of a load from memory (`labutils/lessons/hardware_h200.json`: 664 cycles at 1980 MHz)."""

TURNOVER_S = 460e-9
"""Between a block's last load and the first one of its successor, besides its instructions. Fitted, with OVERLAP, to
the 18 copies of `hardware_h200.json` (occupancy 12.5 to 100 %, 1 to 4 loads of 16 bytes per thread): within 9 %."""

CHAIN = 2.5
"""Cycles from one instruction of a warp to its next one. An instruction that needs the one before it waits for 4.1
cycles (`hardware_h200.json`), an independent one for 1: an estimate between them."""

BARRIER_S = 2 * 23 / 1980e6
"""A barrier, and what was stored before it is read: twice shared memory's latency of 23 cycles (`hardware_h200.json`).
An estimate."""

OVERLAP, APART = 3.0, 8.0
"""1: parts run one after another; infinite: they overlap perfectly. APART was chosen on half of the kernels of
docs/measured.md, as was ISSUED."""

L2_BYTES = 64 * 0.88
"""Bytes per cycle and SM: 64 by the A100 whitepaper (5120 bytes per cycle for the whole GPU, and the same for its
successors), of which `hardware_h200.json` reaches 88 % (14 728 GB/s)."""

PARTIAL = 4
"""Whole sectors that an L2 slice moves while it stores part of one: it reads the sector, whose error-correcting bits it
must compute anew, and writes it. At 64 bytes per cycle these two cycles are four sectors. An estimate."""

DISPATCH = 0.84
"""Blocks per cycle that a GPU starts: 1.665 per ns on an H100 (1980 MHz), for blocks of one and of four warps that do
almost nothing (4 times within 1.5 %, the variants `small_tile` of `00_start/scale` and `small_block` of
`05_roofline/own_kernel`)."""

ISSUED = 0.8
"""Share of the cycles in which a scheduler with enough warps issues to its busiest pipe."""

WAVEFRONTS = 0.88
"""Share of the cycles with a wavefront: as L2_BYTES."""

REACHED = 0.75
"""Share of the datasheet's peak that cuBLAS reaches in long matmuls of random data, where power limits the clock rate:
on an H200 733 to 739 of 989 TFLOP/s in fp16, and 51.3 of 67 in fp32 (docs/measured.md)."""

MMA_SYNC = 0.63
"""The same for `mma.sync` since Hopper, whose full rate needs asynchronous matrix instructions (arXiv 2402.13499, for
an H100). Triton's compiler uses those in large tiles, whatever it uses in the counted case."""

SPECIAL = 16
"""Exponentials per cycle and SM (CUDA C++ Programming Guide, throughput of native arithmetic instructions)."""

LAUNCH_S = 4.6e-6
"""Of a kernel between two events: the intercept of the copies' times (see READ)."""

NEXT_S = 4e-6
"""Of a further kernel: docs/measured.md, the second launch of `rms_norm_backward`."""

IN_L2 = 0.5
"""Share of the L2 up to which an array that one kernel wrote or read is still there for the next."""

REPEATED = 1.2
"""Without a plan for the benchmark's size: from this many times the compulsory bytes on, they come from memory."""

PRECISION = {"float16": "fp16", "bfloat16": "bf16", "float32": "tf32", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8"}
"""Tensor-core peaks by element type of the inputs."""

NAMES = {
    "memory": "memory", "flight": "bytes in flight", "l2": "L2", "shared": "shared memory and L1",
    "issue": "instructions", "dispatch": "starts of blocks", "compute": "compute", "exponentials": "exponentials",
    "launch": "kernel launches",
}  # fmt: skip
"""What a reader sees of the parts."""


@dataclass(frozen=True)
class Prediction:
    """Seconds in all, and those that each part would need alone, by the keys of NAMES; `bound`: the longest. `bytes`:
    what memory reads and writes. `least`: why it takes at least so long, "" where the prediction is no lower bound."""

    seconds: float
    parts: Mapping[str, float]
    bytes: float
    least: str = ""

    @property
    def bound(self) -> str:
        return max(self.parts, key=self.parts.__getitem__)

    def __str__(self) -> str:
        return ("at least " if self.least else "") + units(self.seconds, "s")


def from_memory(counts: Mapping[str, int]) -> float:
    """Sectors that memory delivers or takes at most: of a Triton kernel, loads that neighboring programs share count
    once, as its recorder has it (`wave_load_sectors`)."""
    shared = counts.get("global_load_sectors", 0) + counts.get("global_atomic_sectors", 0)
    return sectors(counts) - max(0, shared - counts.get("wave_load_sectors", shared))


def work(exercise: KernelExercise, sizes: Mapping[str, int] | None = None) -> Cost | None:
    """What must move and be computed at these sizes, by default those of the benchmark; None without one."""
    sizes = sizes or exercise.bench
    return exercise.cost(sizes, torch_dtype(exercise.contract.dtype).itemsize) if sizes else None


def precision(exercise: KernelExercise, figures: Figures) -> str:
    """The peak that the kernel's arithmetic has: "fp32", or that of the tensor cores that its machine code uses."""
    on_tensor_cores = any(code.matrix for code in figures.code)
    return PRECISION.get(exercise.contract.dtype, "fp32") if on_tensor_cores else "fp32"


def roof(exercise: KernelExercise, figures: Figures, gpu: GPU) -> Roof:
    """The roofline of the pipe that the kernel uses."""
    wanted = precision(exercise, figures)
    name = wanted if gpu.peak(wanted) else "fp32"
    known = Roof.of(gpu, name)
    return Roof(known.name, known.flops, (READ + WRITTEN) / 2 * known.bandwidth, known.source)


def predict(
    exercise: KernelExercise, figures: Figures, gpu: GPU, sizes: Mapping[str, int] | None = None
) -> Prediction | None:
    """The time at these sizes, by default those of the benchmark; None where the exercise has no such size."""
    cost = work(exercise, sizes)
    if cost is None:
        return None
    known = next((w for w in figures.work if w.sizes == dict(sizes or exercise.bench)), None)
    compute = cost.flops / (_reached(exercise, figures, gpu) * roof(exercise, figures, gpu).flops)
    exponentials = cost.exponentials / (SPECIAL * gpu.sms * 1e6 * gpu.boost_mhz)
    parts = Counter(compute=compute, **({"exponentials": exponentials} if exponentials else {}))
    if known is None:
        moved = _without_plan(parts, cost, figures, gpu)
        kernels, launches = parts["memory"], figures.counts.get("launches", 1)
    else:
        agreed = not figures.counts.get("divergent_branches")
        moves = [_from_memory(k, known, figures.code, gpu) for k in range(len(known.steps))]
        moved = sum(move.read + move.written for move in moves)
        of_steps = [_parts(k, known, figures.code, gpu, agreed, move) for k, move in enumerate(moves)]
        for found in of_steps:
            parts.update(found)
        kernels = sum(_whole(found) for found in of_steps)
        launches = sum(step.launches + step.fills for step in known.steps)
    kernels = together([kernels, compute + exponentials], APART)
    parts["launch"] = LAUNCH_S + NEXT_S * (launches - 1)
    return Prediction(kernels + parts["launch"], dict(parts), moved, _least(figures))


def _reached(exercise: KernelExercise, figures: Figures, gpu: GPU) -> float:
    """The share of the peak of `roof`."""
    text = exercise.language == "cuda" and any(code.matrix == "mma.sync" for code in figures.code)
    return MMA_SYNC if text and gpu.capability[0] in (9, 10) else REACHED


def _least(figures: Figures) -> str:
    """What takes longer than the machine code shows."""
    schedules = [code.schedule for code in figures.code if code.schedule]
    if any(s.spins for s in schedules):
        return "blocks wait for other blocks"
    return "atomic operations in a loop" if any(s.atomics for s in schedules) else ""


def together(seconds: Iterable[float], power: float) -> float:
    """Times of parts that overlap, as one."""
    return sum(s**power for s in seconds) ** (1 / power)


def _whole(parts: Mapping[str, float]) -> float:
    """The time of one kernel."""
    memory = together([parts.get("memory", 0.0), parts.get("flight", 0.0)], OVERLAP)
    return together([memory, *(s for name, s in parts.items() if name not in ("memory", "flight"))], APART)


def _without_plan(parts: Counter, cost: Cost, figures: Figures, gpu: GPU) -> float:
    """The counted case's ratio of sectors to compulsory bytes, at a larger size. Gives the bytes."""
    repeated = SECTOR * from_memory(figures.counts) / figures.counts["compulsory_bytes"]
    repeated = repeated if repeated >= REPEATED else 1.0
    parts["memory"] = repeated * _memory(gpu, cost.read, cost.written)
    return repeated * cost.bytes


def _memory(gpu: GPU, read: float, written: float) -> float:
    return (read / READ + written / WRITTEN) / (gpu.bandwidth_gbs * 1e9)


@dataclass(frozen=True)
class _Move:
    """Bytes that memory reads and writes for one kernel, how many blocks run at a time, and the share of what blocks
    read again that misses the L2."""

    read: float
    written: float
    resident: float
    missed: float


def _from_memory(number: int, work: Work, codes: tuple[Code, ...], gpu: GPU) -> _Move:
    """What the L2 does not hold of one kernel's bytes."""
    step, l2 = work.steps[number], gpu.l2_mb * 2**20
    warm = lambda size: number > 0 and size / step.launches <= IN_L2 * l2  # noqa: E731
    read = sum(size for size in step.reads if not warm(size))
    resident = _resident(step, _code_of(step, codes), gpu)
    footprint = resident * (step.read + step.written) / max(1, step.blocks)
    missed = max(0.0, 1 - l2 / footprint) if footprint else 0.0
    filled = min(sum(step.writes), SECTOR * step.partial)
    return _Move(read + missed * step.again + filled, sum(step.writes), resident, missed)


def _code_of(step: Step, codes: tuple[Code, ...]) -> Code | None:
    return codes[step.code] if 0 <= step.code < len(codes) else None


def _parts(number: int, work: Work, codes: tuple[Code, ...], gpu: GPU, agreed: bool, move: _Move) -> dict[str, float]:
    """Seconds that each part of the GPU needs for one kernel. `agreed`: the lanes of a warp always take the same side
    of a condition."""
    step = work.steps[number]
    code = _code_of(step, codes)
    cycle = 1e-6 / gpu.boost_mhz
    resident = move.resident
    sms, idle = min(gpu.sms, resident), _tail(step, resident)
    parts = {
        "memory": _memory(gpu, move.read, move.written),
        "l2": SECTOR * (step.sectors + (PARTIAL - 1) * step.partial) / L2_BYTES / sms * cycle,
        "dispatch": max(step.blocks, resident) / DISPATCH * cycle,
    }
    schedule = code.schedule if code else None
    rounds = iterations(step, code) if schedule else 1.0
    wavefronts = step.wavefronts
    if schedule and not wavefronts:  # a Triton kernel: by its machine code, without conflicts
        warps = step.blocks * step.threads / WARP
        wavefronts = warps * (schedule.once.shared + rounds * schedule.loop.shared) + step.sectors / 4
    parts["shared"] = wavefronts / sms * cycle / WAVEFRONTS / idle
    if schedule:
        once, loop = (p.busy - p.either / 2 * agreed for p in (schedule.once, schedule.loop))
        cycles = once - (1 - _executed(step, schedule)) * schedule.once.skipped + rounds * loop
        busy = step.blocks * -(-step.threads // WARP) * cycles
        parts["issue"] = busy / (sms * SUB_PARTITIONS) * cycle / ISSUED / idle
        parts["flight"] = _flight(step, code, resident, rounds, move.read + (1 - move.missed) * step.again, cycle)
    return parts


def _resident(step: Step, code: Code | None, gpu: GPU) -> float:
    """Blocks that run at a time. A launcher that asked for the GPU, and without one launches a few blocks that move
    much, has a persistent kernel: it fills the GPU that it runs on."""
    if code is None:
        return float(min(step.blocks, gpu.sms))
    held = max(1, occupancy(gpu.limits, step.threads, code.registers, code.shared).blocks) * gpu.sms
    few = step.blocks < gpu.sms and step.read + step.written > PERSISTENT_BYTES * step.blocks
    return float(held if few and step.asked else min(step.blocks / step.launches, held))


PERSISTENT_BYTES = 1 << 20
"""Bytes that a block of a persistent kernel moves at least, where a launcher asked for a GPU and there was none: others
ask for its sizes, to choose tiles."""


def _tail(step: Step, resident: float) -> float:
    """Share of the places in all waves that hold a block."""
    waves = step.blocks / step.launches / resident
    return waves / math.ceil(waves) if waves > 1 else 1.0


def iterations(step: Step, code: Code) -> float:
    """How often a block's loops run, from the barriers or the bytes that it must come to."""
    schedule, blocks = code.schedule, max(1, step.blocks)
    if step.barriers and schedule.loop.barriers:
        return max(0.0, step.barriers / blocks - schedule.once.barriers) / schedule.loop.barriers
    if schedule.loop.load:
        return max(0.0, _loaded(step) - schedule.once.load) / schedule.loop.load
    return 1.0


def _loaded(step: Step) -> float:
    """Bytes that a thread loads."""
    return (step.read + step.again) / (max(1, step.blocks) * step.threads)


def _executed(step: Step, schedule: Schedule) -> float:
    """Share of what conditions may skip that a thread executes: as much as the bytes that it loads need."""
    once = schedule.once
    if not once.skipped_load or schedule.loop.load:
        return 1.0
    return min(1.0, max(0.0, _loaded(step) - once.load + once.skipped_load) / once.skipped_load)


def _flight(step: Step, code: Code, resident: float, rounds: float, read: float, cycle: float) -> float:
    """Seconds by Little's law."""
    schedule, blocks = code.schedule, max(1, step.blocks)
    ahead = code.shared if schedule.copies else 0
    in_flight = max(step.threads * schedule.flight, ahead)
    waits = HBM_S * max(1.0, read / blocks / in_flight) if in_flight and read else 0.0
    barriers = step.barriers / blocks or schedule.once.barriers + rounds * schedule.loop.barriers
    works = BARRIER_S * barriers + CHAIN * cycle * (schedule.once.issued + rounds * schedule.loop.issued)
    life = TURNOVER_S + (max(waits, works) if schedule.copies else waits + works)
    return life * blocks / resident
