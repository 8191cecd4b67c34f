"""The roofline: from bytes and FLOPs to the least time a kernel can take. Pure maths; numbers in bytes, FLOP, seconds.

x, y = nbytes(4096, 4096, dtype="float16"), nbytes(4096, dtype="float32")
row_sum = Ledger({"x": x}, {"y": y}, flops=4096 * 4096)
roof = Roof.of(device.find("H200"), "fp32")
roof.ridge, roof.bound(row_sum), roof.predict(row_sum).seconds
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .device import GPU

ITEM_BYTES = {
    **dict.fromkeys(("float64", "int64"), 8.0),
    **dict.fromkeys(("float32", "int32"), 4.0),
    **dict.fromkeys(("float16", "bfloat16"), 2.0),
    **dict.fromkeys(("float8", "int8", "uint8", "bool"), 1.0),
    "float4": 0.5,
}


def nbytes(*shape: int, dtype: str = "float32") -> float:
    """Bytes of an array: `nbytes(M, N, dtype="float16")`."""
    return math.prod(shape) * ITEM_BYTES[dtype]


@dataclass(frozen=True)
class Ledger:
    """What a piece of work reads from memory and writes to it, in bytes by array, and the FLOPs that it does.

    Ledgers add: consecutive kernels move the sum of their bytes. `fuse` puts them into one kernel.
    """

    reads: Mapping[str, float] = field(default_factory=dict)
    writes: Mapping[str, float] = field(default_factory=dict)
    flops: float = 0.0
    name: str = ""

    def __post_init__(self):
        if min([self.flops, *self.reads.values(), *self.writes.values()], default=0) < 0:
            raise ValueError("bytes and FLOPs cannot be negative")

    @property
    def read(self) -> float:
        return float(sum(self.reads.values()))

    @property
    def written(self) -> float:
        return float(sum(self.writes.values()))

    @property
    def bytes(self) -> float:
        return self.read + self.written

    @property
    def intensity(self) -> float:
        """Arithmetic intensity in FLOP per byte; infinite for work that moves nothing."""
        return self.flops / self.bytes if self.bytes else math.inf

    def __add__(self, other: Ledger) -> Ledger:
        if not isinstance(other, Ledger):
            return NotImplemented
        return Ledger(
            Counter(self.reads) + Counter(other.reads),
            Counter(self.writes) + Counter(other.writes),
            self.flops + other.flops,
            " + ".join(n for n in (self.name, other.name) if n),
        )

    def __radd__(self, other) -> Ledger:
        """So that sum() works, which starts with 0."""
        return self if other == 0 else NotImplemented

    def __mul__(self, times: float) -> Ledger:
        """The same work so many times, each with arrays of its own."""
        return Ledger(
            {n: times * b for n, b in self.reads.items()},
            {n: times * b for n, b in self.writes.items()},
            times * self.flops,
            self.name,
        )

    __rmul__ = __mul__

    def __str__(self) -> str:
        own = f"{self.name}: " if self.name else ""
        return (
            f"{own}reads {units(self.read, 'B')}, writes {units(self.written, 'B')}, {units(self.flops, 'FLOP')}, "
            f"{self.intensity:.3g} FLOP/byte"
        )


def fuse(*parts: Ledger, keep: Iterable[str] = (), name: str = "") -> Ledger:
    """All parts in one kernel: each array is read once, and what one part writes for a later one stays on the chip.

    Arrays in `keep` are needed afterwards too, so they are still written. Arithmetic stays the same.
    """
    keep, reads, writes, inner = set(keep), {}, {}, set()
    for part in parts:
        for array, size in part.reads.items():
            if array in writes:
                inner.add(array)
            else:
                reads[array] = max(size, reads.get(array, 0.0))
        for array, size in part.writes.items():
            writes[array] = max(size, writes.get(array, 0.0))
    if unknown := keep - set(writes):
        raise ValueError(f"no part writes {', '.join(sorted(unknown))}")
    writes = {array: size for array, size in writes.items() if array not in inner - keep}
    return Ledger(reads, writes, sum(p.flops for p in parts), name or " & ".join(p.name for p in parts if p.name))


@dataclass(frozen=True)
class Prediction:
    """The least time of some work under a roof, and what it is made of."""

    seconds: float
    memory_s: float
    compute_s: float
    bound: str

    def __str__(self) -> str:
        return (
            f"{units(self.seconds, 's')} ({self.bound}-bound: memory {units(self.memory_s, 's')}, "
            f"arithmetic {units(self.compute_s, 's')})"
        )


@dataclass(frozen=True)
class Roof:
    """What a GPU can do at most: `flops` in FLOP/s of one pipe, `bandwidth` of its memory in bytes/s."""

    name: str
    flops: float
    bandwidth: float
    source: str = "datasheet"

    def __post_init__(self):
        if not (self.flops > 0 and self.bandwidth > 0):
            raise ValueError("a roof needs a positive rate and a positive bandwidth")

    @staticmethod
    def of(gpu: GPU, precision: str = "fp32") -> Roof:
        """The roof of a GPU by its datasheet; `precision` is "fp32" (ordinary cores) or a tensor one ("fp16", …)."""
        peak = gpu.peak(precision)
        if peak is None or gpu.bandwidth_gbs is None:
            raise ValueError(f"the catalogue has no {precision} peak or no bandwidth of {gpu.name}")
        return Roof(f"{gpu.name} {precision}", peak * 1e12, gpu.bandwidth_gbs * 1e9)

    @property
    def ridge(self) -> float:
        """Intensity, in FLOP per byte, at which memory and arithmetic take equally long."""
        return self.flops / self.bandwidth

    def attainable(self, intensity: float) -> float:
        """FLOP/s at most, at this intensity."""
        return min(self.flops, intensity * self.bandwidth)

    def bound(self, work: Ledger | float) -> str:
        """ "memory" or "compute", for a ledger or an intensity."""
        intensity = work.intensity if isinstance(work, Ledger) else work
        return "memory" if intensity < self.ridge else "compute"

    def predict(self, work: Ledger, tail: float = 1.0, overhead_s: float = 0.0) -> Prediction:
        """The least time of `work`, if memory and arithmetic overlap perfectly.

        `tail` is the share of the places in all waves that hold a block (`occupancy.waves`): idle SMs do no
        arithmetic, while the others can still keep the memory busy. `overhead_s` comes on top, as a launch may.
        """
        if not 0 < tail <= 1:
            raise ValueError("tail is a share: more than 0, at most 1")
        memory, compute = work.bytes / self.bandwidth, work.flops / self.flops / tail
        bound = "memory" if memory > compute else "compute"
        return Prediction(max(memory, compute) + overhead_s, memory, compute, bound)


def in_flight(bandwidth: float, latency_s: float) -> float:
    """Little's law: bytes that must be in flight at any time to reach `bandwidth` (bytes/s) at this latency."""
    return bandwidth * latency_s


PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"))


def units(value: float, unit: str) -> str:
    """A number with three digits and a prefix by powers of ten: `units(3.2e9, "B")` is "3.2 GB"."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g} {unit}"
    for factor, prefix in PREFIXES:
        if abs(value) >= 0.9995 * factor and not (unit == "B" and factor < 1):
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value * 1e9:.3g} n{unit}" if unit != "B" else f"{value:.3g} B"
