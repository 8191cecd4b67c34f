"""Compile first, time afterwards: most of a benchmark's first run goes into compilers, and GPUs wait for it.

    for i in 0 1 2 3; do BENCH_REHEARSE=$i/4 python -m bench.softmax --tune & done; wait

goes through the work in four shares, calls everything once and times nothing. What it compiled lies in the compilers'
caches; the benchmark itself then only measures.
"""

import os
from collections.abc import Iterable

from labutils.timing.stopwatch import Sample, Stopwatch

SHARE: tuple[int, int] | None = None
"""Which share of how many this process goes through, or None where it measures."""
if said := os.environ.get("BENCH_REHEARSE"):
    SHARE = tuple(map(int, said.split("/")))


def share_of(work: Iterable) -> list:
    """All of it, or this process's share in a rehearsal."""
    return list(work) if SHARE is None else list(work)[SHARE[0] :: SHARE[1]]


MAX_SECONDS = 2.0
"""How long one comparison may take: there are many shapes, and each stops earlier once its ratios are settled."""


class Rehearsal(Stopwatch):
    """Calls every competitor once; its seconds mean nothing."""

    def take_turns(self, competitors):
        for name, ring in competitors.items():
            try:
                ring[0]()
            except Exception as e:  # said when it is timed
                print(f"{name}: {type(e).__name__}")
        self.machine.synchronize()
        return {name: Sample(name, (1.0, 1.0)) for name in competitors}


def stopwatch() -> Stopwatch:
    return Stopwatch(max_seconds=MAX_SECONDS) if SHARE is None else Rehearsal(max_seconds=MAX_SECONDS)
