"""Reports of Nsight Compute, stored, and what each bottleneck looks like in them.

The reports are of kernels of this course on an H200, each with one known bottleneck
(`python -m bench.profile_reports`). A report maps the profiler's names of metrics to numbers; times are in ns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

STORED = Path(__file__).with_name("reports_h200.json")

Report = Mapping[str, float]

TIME = "gpu__time_duration.sum"
WAVES = "launch__waves_per_multiprocessor"
ACTIVE_AVG, ACTIVE_MAX = "sm__cycles_active.avg", "sm__cycles_active.max"
LOCAL = tuple(f"l1tex__t_requests_pipe_lsu_mem_local_op_{way}.sum" for way in ("ld", "st"))
THREADS = "smsp__thread_inst_executed_per_inst_executed.ratio"
WAVEFRONTS = tuple(f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{way}.sum" for way in ("ld", "st"))
SHARED = tuple(f"smsp__inst_executed_op_shared_{way}.sum" for way in ("ld", "st"))
USED = tuple(f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{way}.ratio" for way in ("ld", "st"))
SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"

READ = (TIME, WAVES, ACTIVE_AVG, ACTIVE_MAX, *LOCAL, THREADS, *WAVEFRONTS, *SHARED, *USED, SM, DRAM)
"""The metrics that tell the bottlenecks apart."""


@cache
def reports() -> tuple[dict, ...]:
    """All stored reports: name, bottleneck, source, metrics."""
    return tuple(json.loads(STORED.read_text(encoding="utf-8"))["reports"])


def balance(report: Report) -> float:
    """Share of the longest SM's time in which the average SM works."""
    return report[ACTIVE_AVG] / max(report[ACTIVE_MAX], 1)


def local(report: Report) -> float:
    return sum(report[name] for name in LOCAL)


def wavefronts(report: Report) -> float:
    """Wavefronts per access to shared memory; 1 without such accesses."""
    accesses = sum(report[name] for name in SHARED)
    return sum(report[name] for name in WAVEFRONTS) / accesses if accesses else 1.0


def used(report: Report) -> float:
    """Bytes used of each sector, by loads or by stores, whichever is less; 32 without such accesses."""
    return min((report[name] for name in USED if report[name]), default=32.0)


@dataclass(frozen=True)
class Evidence:
    """What a bottleneck looks like: a value of the report, the words for it, and whether it says so."""

    value: Callable[[Report], float]
    words: str
    shows: Callable[[float], bool]
    otherwise: Callable[[Report], str] = lambda report: ""
    """What to say where the value says nothing; "" where it does."""

    def present(self, report: Report) -> bool:
        return self.shows(self.value(report))

    def line(self, report: Report) -> str:
        return self.otherwise(report) or self.words.format(self.value(report))


def busier(report: Report, one: str, other: str) -> float:
    """A throughput in percent of its peak; 0 if the other one is the greater."""
    return report[one] if report[one] > report[other] else 0.0


EVIDENCE = {
    "launch-bound": Evidence(
        lambda r: r[TIME] / 1000, "the kernel takes {:,.1f} µs, and a launch about 7 µs", lambda us: us < 5
    ),
    "tail wave": Evidence(
        lambda r: balance(r) if r[WAVES] > 1 else 1.0,
        "after the first wave, the average SM is active for {:.0%} of the busiest SM's cycles",
        lambda share: share < 0.85,
        lambda r: "" if r[WAVES] > 1 else f"there are only {r[WAVES]:.2g} waves, and a tail needs more than 1",
    ),
    "spills": Evidence(local, "there are {:,.0f} requests to local memory", lambda requests: requests > 0),
    "divergence": Evidence(
        lambda r: r[THREADS], "{:.1f} of 32 threads are active per instruction", lambda threads: threads < 24
    ),
    "compute-bound": Evidence(
        lambda r: busier(r, SM, DRAM), "the SMs, if busier than DRAM, reach {:.0f} % of their peak",
        lambda percent: percent >= 50,
        lambda r: "" if r[SM] > r[DRAM]
        else f"DRAM is busier, {r[DRAM]:.0f} % of its peak, than the SMs, {r[SM]:.0f} %",
    ),
    "bank conflicts": Evidence(
        wavefronts, "an access to shared memory takes {:.1f} wavefronts", lambda count: count > 4
    ),
    "uncoalesced": Evidence(used, "{:.0f} of the 32 bytes of a sector are used", lambda share: share < 16),
    "memory-bound": Evidence(lambda r: r[DRAM], "DRAM reaches {:.0f} % of its peak", lambda percent: percent >= 50),
    "latency-bound": Evidence(
        lambda r: max(r[SM], r[DRAM]),
        "the busier of the SMs and DRAM reaches {:.0f} % of its peak",
        lambda percent: percent < 50,
    ),
}  # fmt: skip
"""By bottleneck, a cause before what it causes. The last one always holds where no other does."""


def diagnose(report: Report) -> str:
    """The first bottleneck of the list whose evidence the report shows."""
    return next(name for name, evidence in EVIDENCE.items() if evidence.present(report))
