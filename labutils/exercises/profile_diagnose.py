"""Unit 25: which bottleneck a report of Nsight Compute shows."""

from __future__ import annotations

import random
from collections.abc import Mapping

from ..spec.exercise import Case, PlainExercise, Points, register
from ._reports import DRAM, EVIDENCE, LOCAL, SHARED, SM, THREADS, TIME, USED, WAVEFRONTS, WAVES, diagnose, reports

UNIT = "25_profile"

GROUPS = ((TIME,), (WAVES, "sm__cycles_active.avg", "sm__cycles_active.max"), LOCAL, (THREADS,), (*WAVEFRONTS, *SHARED),
          USED, (SM, DRAM))  # fmt: skip
"""Metrics that belong together: a drawn report takes each group from one of the stored reports."""

TRADED = 3
"""Groups that a drawn report has from other reports, at most."""


def drawn_report(seed: int) -> dict[str, float]:
    """A stored report in which up to three groups of metrics are those of other reports."""
    rng = random.Random(seed)
    report = dict(rng.choice(reports())["metrics"])
    for group in rng.sample(GROUPS, rng.randrange(TRADED + 1)):
        other = rng.choice(reports())["metrics"]
        report |= {name: other[name] for name in group}
    return report


def public() -> dict[str, int]:
    """Bottleneck -> number of its first stored report."""
    first: dict[str, int] = {}
    for number, report in enumerate(reports()):
        first.setdefault(report["bottleneck"], number)
    return {name: first[name] for name in EVIDENCE}


def _arguments(report: int, seed: int) -> dict[str, Mapping[str, float]]:
    return {"report": drawn_report(seed) if seed else dict(reports()[report]["metrics"])}


def _examine(sizes, arguments, yours) -> tuple[str, str] | None:
    report = arguments["report"]
    right = diagnose(report)
    if yours == right:
        return None
    if not isinstance(yours, str) or yours not in EVIDENCE:
        return f"diagnose returned {str(yours)[:40]!r}", f"Return one of the names in the table: {', '.join(EVIDENCE)}."
    problem = f"diagnose returned {yours!r}, expected {right!r}"
    named, first = EVIDENCE[yours].line(report), EVIDENCE[right].line(report)
    if EVIDENCE[yours].present(report):
        return problem, f"Both rows of the table hold, and {right} comes first: {first}."
    return problem, f"A metric rules out {yours}: {named}. For {right}, {first}."


SEEDS = (2, 4, 8, 21, 298, 983)
"""Public drawn reports: a cause beside its effect, few wide accesses, and kernels without loads or stores."""


register(
    PlainExercise(
        id=f"{UNIT}/diagnose",
        title="Find the bottleneck",
        entry="diagnose",
        points=Points(correct=2),
        make=_arguments,
        examine=_examine,
        cases=(
            *(Case(f"report {k}: {reports()[k]['source']}", {"report": k, "seed": 0}) for k in public().values()),
            *(Case(f"metrics of up to four kernels ({seed})", {"report": 0, "seed": seed}) for seed in SEEDS),
        ),
        draw=lambda rng: rng.choice([
            {"report": rng.choice([k for k in range(len(reports())) if k not in public().values()]), "seed": 0},
            *[{"report": 0, "seed": rng.randrange(1, 10**6)}] * 2,
        ]),
    )
)  # fmt: skip
