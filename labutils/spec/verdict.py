"""What was found out about one submission of one exercise: results by case, the diagnosis, the text for the learner.

A verdict is plain data (`to_json` / `from_json`), so that it can cross a process border, be stored, and be shown again.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

REPEATED = "repeated work"
"""The reason of a verdict that says of a right kernel that its programs all do the same work."""


@dataclass(frozen=True)
class Diagnosis:
    """A refusal explained: `kind` is a key of `diagnose.KINDS`; `symptom` says what was seen, `advice` what to try.

    A `guess` rests on wrong values that look like a known mistake's: one case alone may look so by coincidence.
    """

    kind: str
    symptom: str
    advice: str
    details: str = ""
    guess: bool = False


@dataclass(frozen=True)
class CaseResult:
    """One case: refused when it has a diagnosis. `error` is the largest error in units of its tolerance, if known."""

    case: str
    diagnosis: Diagnosis | None = None
    error: float | None = None
    seconds: float = 0.0
    hidden: bool = False

    @property
    def passed(self) -> bool:
        return self.diagnosis is None


@dataclass
class Verdict:
    """The outcome of one exercise. `headline` is the most telling diagnosis of all refused cases.

    `timing` is what a judge measured beside the reference solution: `ratio` with `low` and `high`, `fairest` (the end
    of the interval that counts), medians in seconds, samples; empty where nothing was timed.

    `open` are points that are neither earned nor lost, because this machine cannot judge what they are for.
    """

    exercise: str
    backend: str
    results: list[CaseResult] = field(default_factory=list)
    headline: Diagnosis | None = None
    counts: dict[str, Any] = field(default_factory=dict)
    timing: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    printed: str = ""
    marks: float = 0.0
    points: float = 0.0
    open: float = 0.0
    reasons: dict[str, str] = field(default_factory=dict)
    """Why counts are missed, by the text of the bound, and REPEATED: for learners, where the kernel could run again."""
    explained: bool = False
    """Has the headline's cause been looked for? Then it stays as it is."""

    @property
    def passed(self) -> bool:
        return self.headline is None and bool(self.results) and all(r.passed for r in self.results)

    @property
    def unfilled(self) -> bool:
        return self.headline is not None and self.headline.kind == "unfilled"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Verdict:
        def diagnosis(d):
            return Diagnosis(**d) if d else None

        results = [CaseResult(**{**r, "diagnosis": diagnosis(r["diagnosis"])}) for r in data["results"]]
        return Verdict(**{**data, "results": results, "headline": diagnosis(data["headline"])})

    def text(self) -> str:
        """The report under a check cell: a line per case, then the diagnosis, then the points."""
        lines = [f"{self.exercise}   ({self.backend})"]
        for r in self.results:
            mark, tail = ("✓", "") if r.passed else ("✗", f"   {r.diagnosis.kind}")
            lines.append(f"  {mark} {'hidden: ' if r.hidden else ''}{r.case}{tail}")
        if self.headline:
            bad, count = sum(not r.passed for r in self.results), len(self.results)
            if not bad and count:
                lines.append(f"\nAll {count} cases give the right result here, but the kernel is refused:")
            elif self.results:
                what = "could not be judged here" if self.headline.kind == "needs-gpu" else "failed"
                lines.append(f"\n{bad} of {count} cases {what}.")
            wrong = "Not judged:    " if self.headline.kind == "needs-gpu" else "What is wrong: "
            lines.append(f"{wrong}{self.headline.symptom}")
            lines.append(f"What to try:   {self.headline.advice}")
            if self.headline.details:
                lines.append("\n" + self.headline.details)
        lines += self.notes
        if self.printed:
            lines.append("\nYour code printed:\n" + self.printed.rstrip())
        still = f", {self.open:g} still open: they need a GPU" if self.open else ""
        lines.append(f"\n{self.marks:g} of {self.points:g} points{still}")
        return "\n".join(lines)
