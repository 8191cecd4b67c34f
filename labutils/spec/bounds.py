"""Bounds on counts: what an exercise asks of a kernel beside the right answer.

Most are ratios, and each ratio has a bound on a total, so that work that is cheap does not hide work that is not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Bound:
    """A count that a good kernel keeps within a bound, and what that earns.

    The value is `count / per` of the largest case ("global_load_sectors" per "global_load_requests"), or the bare
    `count`. Exactly one of `at_most` and `at_least` is given. An atomic counts as a load and as a store. A ratio to
    nothing is not met, and neither is a bound on traffic by a kernel of which less was counted than it must move.

    A ratio is an average, and more work that is cheap would dilute it: further requests lower the sectors per request,
    further wide loads raise the bytes per request. So every ratio has a bound on the total, too: of what dilutes it
    (`diluted_by`), no more counts than `margin` times `reference`, the reference solution's own number. A kernel that
    does more is judged by the ratio that is left. A floor, at least so many of an instruction, is met by useless ones:
    `also` is the bound on what these are to replace, without which the floor is not met. A ratio of loads may have one
    for the stores, too, and a share of active lanes one for what nobody needs. Nothing that `also` counts keeps it.
    """

    text: str
    count: str
    per: str | None = None
    at_most: float | None = None
    at_least: float | None = None
    points: float = 1.0
    reference: float | None = None
    margin: float = 1.25
    also: Bound | None = None

    def __post_init__(self):
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError(f"the bound {self.text!r} needs either at_most or at_least")

    @property
    def diluted_by(self) -> str:
        """The count of which more makes a ratio better without making the rest of the kernel better; else empty.

        What must move is the same for every kernel, and no access needs fewer wavefronts than is ideal.
        """
        if self.per in (None, "compulsory_bytes"):
            return ""
        if self.at_most is None:
            return self.count
        return "" if self.per == f"ideal_{self.count}" and self.at_most <= 1 else self.per

    @property
    def most(self) -> float:
        """The total of what dilutes the ratio up to which it counts."""
        return math.inf if self.reference is None else self.margin * self.reference

    def value(self, counts: Mapping[str, Any]) -> float:
        """The count, or the ratio; NaN for a ratio to nothing."""
        return self._value(counts, math.inf)

    def _value(self, counts: Mapping[str, Any], most: float) -> float:
        """The count, or the ratio with no more than `most` of what dilutes it."""
        count = with_atomics(counts, self.count)
        if self.per is None:
            return float(count)
        per = with_atomics(counts, self.per)
        if self.at_most is None:
            count = min(count, most)
        else:
            per = min(per, most)
        return count / per if per else math.nan

    @property
    def problem(self) -> str:
        """How useless work would meet this bound as it is declared; empty if it would not."""
        if self.diluted_by and self.reference is None:
            return (
                f"it is a ratio, and more {self.diluted_by} would dilute it: `reference` must give how many the "
                "reference solution has"
            )
        if self.per is None and self.at_least is not None and self.also is None:
            return f"useless {self.count} would meet it: `also` must bound what they replace"
        return ""

    def met(self, counts: Mapping[str, Any]) -> bool:
        if self._is_of_traffic and not counted_whole(counts) or not self._keeps_also(counts):
            return False
        return self._within(counts, self.most)

    def _keeps_also(self, counts: Mapping[str, Any]) -> bool:
        return not self.also or with_atomics(counts, self.also.count) == 0 or self.also.met(counts)

    def missed(self, counts: Mapping[str, Any]) -> Bound:
        """Which bound a kernel misses that does not meet this one: this, or only the one in `also`."""
        return self.also if self.also and self._within(counts, self.most) and not self._keeps_also(counts) else self

    def _within(self, counts: Mapping[str, Any], most: float) -> bool:
        slack, value = 1e-9, self._value(counts, most)
        return value <= self.at_most + slack if self.at_most is not None else value >= self.at_least - slack

    @property
    def _is_of_traffic(self) -> bool:
        return any(name.startswith(("global_", "moved_", "tma_")) for name in (self.count, self.per or ""))

    def line(self, counts: Mapping[str, Any]) -> str:
        """One line of a report: "✓ sectors per load request: 4 (at most 4), 1 point"."""
        limit = f"at most {_short(self.at_most)}" if self.at_most is not None else f"at least {_short(self.at_least)}"
        mark = "✓" if self.met(counts) else "✗"
        value = self.value(counts)
        shown = _short(value) if not math.isnan(value) else f"no {self.per} were counted"
        if self._is_of_traffic and not counted_whole(counts):
            shown += ", and less was counted than must move"
        line = f"  {mark} {self.text}: {shown} ({limit}), {self.points:g} point{'s' * (self.points != 1)}"
        if self._within(counts, math.inf) and not self._within(counts, self.most):
            total = with_atomics(counts, self.diluted_by)
            line += (
                f": not met, since your kernel has {total:,.0f} {self.diluted_by}, and at most {self.most:,.0f} count, "
                f"{self.margin:g} × the reference solution's. Remove work that the result does not need"
            )
        if self.missed(counts) is self.also:
            most = f"at most {_short(self.also.at_most)}"
            line += f": not met, since {self.also.text}: {_short(self.also.value(counts))} ({most})"
        return line


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


_ATOMICS = {
    **{f"global_{way}_{unit}": f"global_atomic_{unit}" for way in ("load", "store")
       for unit in ("requests", "sectors", "bytes")},
    **{f"shared_{way}_{unit}": f"shared_atomic_{unit}" for way in ("load", "store")
       for unit in ("requests", "wavefronts", "bytes")},
    **{f"ideal_shared_{way}_wavefronts": "ideal_shared_atomic_wavefronts" for way in ("load", "store")},
}  # fmt: skip
"""Counts of loads and of stores, and the counts of atomics that are added to them where points are at stake."""


def with_atomics(counts: Mapping[str, Any], name: str) -> float:
    """A count in which atomics are loads and stores too; one whose result nobody uses (RED) is a store alone.

    Nsight Compute counts them apart (…_op_atom and …_op_red beside …_op_ld and …_op_st), and so do the counters of a
    run. A bound adds them up: otherwise a kernel that loads and stores by atomics would move nothing.
    """
    atomics = _ATOMICS.get(name, "")
    reductions = atomics.replace("atomic", "reduction") if name.startswith("global_load") else ""
    return counts.get(name, 0) + counts.get(atomics, 0) - counts.get(reductions, 0)


def counted_whole(counts: Mapping[str, Any]) -> bool:
    """Did the counted accesses read and write at least what the exercise must read and write?"""
    return counts.get("load_bytes", 0) >= counts.get("compulsory_read", 0) and counts.get(
        "store_bytes", 0
    ) >= counts.get("compulsory_written", 0)
