"""What a run's counts say about memory traffic: one place for each figure that cards, advice and benchmarks show.

Lanes request bytes; memory moves them in whole sectors. The two differ where a sector holds bytes that nobody requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..gpu.device import SECTOR
from .bounds import with_atomics


def requested(counts: Mapping[str, Any]) -> int:
    """Bytes that active lanes load and store, atomics included."""
    return counts.get("load_bytes", 0) + counts.get("store_bytes", 0)


def sectors(counts: Mapping[str, Any]) -> float:
    """Sectors that loads, stores and atomics request, and those that bulk copies move."""
    return sum(with_atomics(counts, f"global_{way}_sectors") for way in ("load", "store")) + _bulk(counts)


def in_sectors(counts: Mapping[str, Any]) -> float:
    """Bytes of these sectors: what moves between an SM and its caches."""
    return SECTOR * sectors(counts)


def needed(lines: Iterable[Mapping[str, Any]], whole: Mapping[str, Any]) -> int:
    """How many of these sectors could not be left out: for each source line, no more than its bytes fill. `whole` are
    the counts of the run, with its bulk copies. A line's loads of one element by all lanes need that element's sector.
    """
    found = 0
    for counts in lines:
        for way in ("load", "store"):
            filled = -(-with_atomics(counts, f"global_{way}_bytes") // SECTOR)
            found += min(with_atomics(counts, f"global_{way}_sectors"), filled)
    return round(found + _bulk(whole))


def _bulk(counts: Mapping[str, Any]) -> float:
    return sum(counts.get(f"tma_{way}_bytes", 0) for way in ("load", "store")) / SECTOR
