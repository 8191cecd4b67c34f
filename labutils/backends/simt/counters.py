"""What a launch cost, counted exactly as a GPU's profiler counts it: in total and for each source line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields

READ, WRITE, ATOMIC, BLOCK, _, COPY, _, REDUCTION = range(8)


@dataclass
class Counters:
    """Counts of warp-level requests. A request is one instruction of one warp, whatever its number of active lanes.

    `…_sectors` are 32-byte pieces of memory that requests touch, `ideal_…` the fewest that could hold their bytes;
    `…_wavefronts` are passes over the 32 banks of shared memory, `ideal_…` those without a conflict.
    `branches` are basic blocks that warps entered, `divergent_branches` those whose lanes then parted;
    `lanes` and `lane_slots` give the share of active lanes in them. `shared_copy_…` is what `cp.async` brings to shared
    memory; reading it from global memory counts as a load. Atomics are in `…_atomic_…` alone, as Nsight Compute has
    them apart; those whose result nobody uses, RED to a GPU, are in `…_reduction_…` too. Bounds that give points add
    them to loads and stores (`labutils.spec.exercise.with_atomics`). `square_roots` counts threads, not warps.
    `wgmma_drains` are waits of a warpgroup after which none of its products is in flight.
    """

    global_load_requests: int = 0
    global_load_sectors: int = 0
    global_load_bytes: int = 0
    ideal_load_sectors: int = 0
    global_store_requests: int = 0
    global_store_sectors: int = 0
    global_store_bytes: int = 0
    ideal_store_sectors: int = 0
    shared_load_requests: int = 0
    shared_load_wavefronts: int = 0
    shared_load_bytes: int = 0
    ideal_shared_load_wavefronts: int = 0
    shared_store_requests: int = 0
    shared_store_wavefronts: int = 0
    shared_store_bytes: int = 0
    ideal_shared_store_wavefronts: int = 0
    shared_copy_requests: int = 0
    shared_copy_wavefronts: int = 0
    global_atomic_requests: int = 0
    global_atomic_sectors: int = 0
    global_atomic_bytes: int = 0
    global_reduction_requests: int = 0
    global_reduction_sectors: int = 0
    global_reduction_bytes: int = 0
    shared_atomic_requests: int = 0
    shared_atomic_wavefronts: int = 0
    shared_atomic_bytes: int = 0
    ideal_shared_atomic_wavefronts: int = 0
    atomics: int = 0
    branches: int = 0
    divergent_branches: int = 0
    lanes: int = 0
    lane_slots: int = 0
    barriers: int = 0
    collectives: int = 0
    tma_loads: int = 0
    tma_load_bytes: int = 0
    tma_stores: int = 0
    tma_store_bytes: int = 0
    wgmmas: int = 0
    square_roots: int = 0
    wgmma_drains: int = 0

    def add(self, other: Counters) -> None:
        for f in fields(self):
            setattr(self, f.name, getattr(self, f.name) + getattr(other, f.name))

    @property
    def global_requests(self) -> int:
        return self.global_load_requests + self.global_store_requests

    @property
    def global_sectors(self) -> int:
        return self.global_load_sectors + self.global_store_sectors

    @property
    def global_bytes(self) -> int:
        return self.global_load_bytes + self.global_store_bytes

    @property
    def shared_requests(self) -> int:
        return self.shared_load_requests + self.shared_store_requests

    @property
    def shared_wavefronts(self) -> int:
        return self.shared_load_wavefronts + self.shared_store_wavefronts

    @property
    def coalescing(self) -> float:
        """Share of the global sectors that was needed: 1.0 when all is used."""
        ideal = self.ideal_load_sectors + self.ideal_store_sectors
        return ideal / self.global_sectors if self.global_sectors else 1.0

    @property
    def conflict_degree(self) -> float:
        """Wavefronts for each one that is needed: 1.0 without bank conflicts, 32.0 at worst."""
        ideal = self.ideal_shared_load_wavefronts + self.ideal_shared_store_wavefronts
        return self.shared_wavefronts / ideal if ideal else 1.0

    @property
    def warp_efficiency(self) -> float:
        """Average share of a warp's lanes that were active."""
        return self.lanes / self.lane_slots if self.lane_slots else 1.0

    def to_json(self) -> dict:
        return asdict(self)


@dataclass(frozen=True)
class Access:
    """The requests that one source line makes of one kind, on one array, with one size."""

    line: int
    operation: str
    space: str
    array: str
    size: int
    requests: int
    lanes: int
    bytes: int
    sectors: int
    ideal_sectors: int
    wavefronts: int
    ideal_wavefronts: int

    @property
    def sectors_per_request(self) -> float:
        return self.sectors / self.requests

    @property
    def conflict_degree(self) -> float:
        return self.wavefronts / self.ideal_wavefronts if self.ideal_wavefronts else 1.0


@dataclass
class Report:
    """Counters in total and by line, and the accesses of each line."""

    total: Counters = field(default_factory=Counters)
    lines: dict[int, Counters] = field(default_factory=dict)
    accesses: list[Access] = field(default_factory=list)


OPERATIONS = {READ: "load", WRITE: "store", ATOMIC: "atomic", COPY: "copy", REDUCTION: "atomic"}
_SITE = ("pc", "op", "array", "size", "requests", "lanes", "bytes", "sectors", "ideal_sectors", "wavefronts",
         "ideal_wavefronts", "issues", "active", "divergent")  # fmt: skip
_TOTALS = ("barriers", "collectives", "tma_loads", "tma_load_bytes", "tma_stores", "tma_store_bytes", "wgmmas",
           "square_roots", "wgmma_drains")  # fmt: skip
"""Counts that belong to no instruction."""


def collect(raw: dict, line_of: Mapping[int, int], array_name: Callable[[int], str]) -> Report:
    """Counters from the runtime's list of instructions."""
    report = Report()
    rows: dict[tuple, list[int]] = {}
    for values in raw["sites"]:
        site = dict(zip(_SITE, values, strict=True))
        line = line_of.get(site["pc"], 0)
        report.lines.setdefault(line, Counters()).add(_counters(site))
        if site["op"] == BLOCK:
            continue
        shared = site["array"] >= 254
        key = (line, OPERATIONS[site["op"]], "shared" if shared else "global",
               "" if shared else array_name(site["array"]), site["size"])  # fmt: skip
        sums = rows.setdefault(key, [0] * 7)
        for i, name in enumerate(_SITE[4:11]):
            sums[i] += site[name]
    for counters in report.lines.values():
        report.total.add(counters)
    for name in _TOTALS:
        setattr(report.total, name, raw[name])
    report.lines = dict(sorted(report.lines.items()))
    report.accesses = [Access(*key, *sums) for key, sums in sorted(rows.items()) if sums[0]]
    return report


def _counters(site: dict) -> Counters:
    c = Counters(divergent_branches=site["divergent"])
    op, shared = site["op"], site["array"] >= 254
    if op == BLOCK:
        c.branches, c.lanes, c.lane_slots = site["issues"], site["active"], 32 * site["issues"]
    elif op == COPY:
        c.shared_copy_requests, c.shared_copy_wavefronts = site["requests"], site["wavefronts"]
    elif op in (ATOMIC, REDUCTION):
        c.atomics = site["lanes"]
        if shared:
            c.shared_atomic_requests, c.shared_atomic_bytes = site["requests"], site["bytes"]
            c.shared_atomic_wavefronts, c.ideal_shared_atomic_wavefronts = site["wavefronts"], site["ideal_wavefronts"]
        else:
            c.global_atomic_requests, c.global_atomic_bytes = site["requests"], site["bytes"]
            c.global_atomic_sectors = site["sectors"]
            if op == REDUCTION:
                c.global_reduction_requests, c.global_reduction_bytes = site["requests"], site["bytes"]
                c.global_reduction_sectors = site["sectors"]
    else:
        what = "load" if op == READ else "store"
        space = "shared" if shared else "global"
        setattr(c, f"{space}_{what}_requests", site["requests"])
        setattr(c, f"{space}_{what}_bytes", site["bytes"])
        if shared:
            setattr(c, f"shared_{what}_wavefronts", site["wavefronts"])
            setattr(c, f"ideal_shared_{what}_wavefronts", site["ideal_wavefronts"])
        else:
            setattr(c, f"global_{what}_sectors", site["sectors"])
            setattr(c, f"ideal_{what}_sectors", site["ideal_sectors"])
    return c
