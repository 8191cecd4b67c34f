"""The card that `lab.explain` shows: a kernel's figures beside the reference solution's, each with its source."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..check.figures import TARGET, Code, Figures
from ..gpu import device
from ..gpu.occupancy import occupancy
from ..gpu.roofline import units
from ..plots.base import PALETTE, Unavailable
from ..spec import traffic
from ..spec.exercise import KernelExercise
from . import prediction
from .advice import Advice, conflicts, next_step, wavefronts

GPU = device.find("H100 SXM")
"""Whose limits the occupancy is calculated with: the machine code is for its compute capability."""

EMULATED, INTERPRETED = "counted by the emulator", "counted by the interpreter"
READ = f"read from the machine code, sm_{TARGET}"
CALCULATED = "calculated"
MODEL = "predicted by labutils/study/prediction.py"

LIMITED = {
    "blocks": "limited by the blocks of an SM", "warps": "limited by its warps",
    "registers": "limited by its registers", "shared memory": "limited by its shared memory",
}  # fmt: skip
"""By what limits the occupancy."""


@dataclass(frozen=True)
class Row:
    """One figure of both kernels, as text; `how` says where it comes from. `ratio`: yours in units of the reference's,
    where more is worse."""

    name: str
    yours: str
    reference: str
    how: str
    ratio: float | None = None


@dataclass(frozen=True)
class Card:
    """What `lab.explain` returns: a notebook shows it as a table with a picture, a terminal as text."""

    exercise: KernelExercise
    yours: Figures
    reference: Figures

    @property
    def rows(self) -> list[Row]:
        """The table."""
        return [*_counts(self), *_code(self), *_times(self)]

    @property
    def advice(self) -> Advice:
        """What to change next."""
        return next_step(self.yours, self.reference)

    @property
    def head(self) -> str:
        """Which case was counted, and what must move there."""
        counts = self.yours.counts
        read, written = (units(counts[f"compulsory_{way}"], "B") for way in ("read", "written"))
        return (
            f'{self.exercise.id}, case "{self.yours.case}": at least {read} must be read and {written} written '
            f"({CALCULATED})"
        )

    def __repr__(self) -> str:
        rows = [("", "yours", "reference", ""), *((r.name, r.yours, r.reference, r.how) for r in self.rows)]
        wide = [max(len(row[k]) for row in rows) for k in range(3)]
        table = [f"  {a:{wide[0]}}  {b:>{wide[1]}}  {c:>{wide[2]}}  {d}".rstrip() for a, b, c, d in rows]
        return "\n".join([self.head, *table, *self.yours.notes, f"Next: {self.advice}"])

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, str]:
        return {"text/html": self.to_html(), "text/plain": repr(self)}

    def to_html(self) -> str:
        """The table, what to change next, and the picture."""
        cell = "padding:2px 10px;text-align:"
        body = "".join(
            f'<tr><th scope="row" style="{cell}left;font-weight:normal">{html.escape(r.name)}</th>'
            f'<td style="{cell}right;white-space:nowrap">{html.escape(r.yours)}{_bar(r.ratio)}</td>'
            f'<td style="{cell}right;white-space:nowrap">{html.escape(r.reference)}</td>'
            f'<td style="{cell}left;opacity:.75">{html.escape(r.how)}</td></tr>'
            for r in self.rows
        )
        head = "".join(f'<th scope="col" style="{cell}{side}">{text}</th>' for text, side in
                       (("", "left"), ("yours", "right"), ("reference", "right"), ("how", "left")))  # fmt: skip
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.yours.notes)
        return (
            f'<div style="max-width:960px"><p>{html.escape(self.head)}</p>'
            f"<p><b>Next:</b> {html.escape(str(self.advice))}</p>{self._picture()}"
            f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
            f"{notes}</div>"
        )

    def figure(self):
        """What takes the time on an H100, and both kernels on its roofline, at the FLOP per byte of the table."""
        from .. import plots

        pair = (("yours", self.yours), ("reference", self.reference))
        times = {name: prediction.predict(self.exercise, f, GPU) for name, f in pair}
        parts = {name: {prediction.NAMES[k]: s for k, s in made.parts.items()} for name, made in times.items() if made}
        roofs = [prediction.roof(self.exercise, self.yours, GPU)]
        theirs = prediction.roof(self.exercise, self.reference, GPU)
        roofs += [theirs] if theirs.name != roofs[0].name else []
        points = {name: (self.intensity(f), None) for name, f in pair if self.intensity(f)}
        title = f"Predicted for an {GPU.name}"
        return plots.parts_and_roofline(parts, {n: m.seconds for n, m in times.items() if m}, roofs, points, title)

    def intensity(self, figures: Figures) -> float:
        """FLOP per byte that memory moves, at the benchmark's size as predicted for the GPU; 0 without such a size or
        without FLOPs."""
        made = prediction.predict(self.exercise, figures, GPU)
        return prediction.work(self.exercise).flops / made.bytes if made and made.bytes else 0.0

    def _picture(self) -> str:
        if not self.exercise.bench:
            return ""
        try:
            return self.figure().to_html()
        except Unavailable as e:
            return f"<p>No picture: {html.escape(str(e))}</p>"


def _bar(ratio: float | None) -> str:
    """How many times the reference's count, drawn; the number is in the text as well."""
    if ratio is None or ratio <= 1.005:
        return ""
    width = min(60, round(20 * (ratio - 1)) + 4)
    return (
        f' <span title="{ratio:.2f} times the reference" style="display:inline-block;height:.7em;width:{width}px;'
        f'background:{PALETTE[1]}"></span>'
    )


def _ratio(mine: float, theirs: float) -> float | None:
    return mine / theirs if theirs else None


def _counts(card: Card) -> Iterator[Row]:
    """What was counted in the case."""
    mine, theirs = card.yours.counts, card.reference.counts
    how = INTERPRETED if card.exercise.language == "triton" else EMULATED
    least = mine["compulsory_bytes"]

    def row(name: str, value: Callable[[dict], float], text: Callable[[dict], str]) -> Row:
        return Row(name, text(mine), text(theirs), how, _ratio(value(mine), value(theirs)))

    yield row(
        "bytes requested by lanes", traffic.requested,
        lambda c: f"{traffic.requested(c):,} ({traffic.requested(c) / least:.2f} ×)",
    )  # fmt: skip
    yield row("bytes in their sectors", traffic.in_sectors, lambda c: f"{traffic.in_sectors(c):,.0f}")
    yield row("sectors of 32 bytes", traffic.sectors, lambda c: f"{traffic.sectors(c):,.0f} ({_needed(c)})")
    if card.exercise.language == "cuda":
        yield row(
            "sectors per request", _per_request, lambda c: f"{_per_request(c):.3g}" if _per_request(c) else "none"
        )
        yield row(
            "bank conflicts, wavefronts", conflicts, lambda c: f"{conflicts(c):,} of {wavefronts(c):,} ({_degree(c)})"
        )
        yield row(
            "divergent branches", lambda c: c.get("divergent_branches", 0),
            lambda c: f"{c.get('divergent_branches', 0):,} of {c.get('branches', 0):,}",
        )  # fmt: skip
        yield row("barriers that blocks wait at", lambda c: c.get("barriers", 0), lambda c: f"{c.get('barriers', 0):,}")
    else:
        yield Row("bank conflicts", *(_laid_out(f) for f in (card.yours, card.reference)), READ)
        yield Row("divergent branches", "none", "none", "a Triton program branches as a whole; masks disable lanes")
    lanes = "active lanes" if card.exercise.language == "cuda" else "lanes that masks leave on"
    yield Row(lanes, *(_lanes(c) for c in (mine, theirs)), how)
    yield row("kernels launched", lambda c: c.get("launches", 0), lambda c: f"{c.get('launches', 0):,}")


def _laid_out(figures: Figures) -> str:
    """Triton's compiler chooses the layout of shared memory, so its accesses are not counted one by one."""
    found = [code.schedule for code in figures.code if code.schedule]
    accesses = sum(s.once.shared + s.loop.shared for s in found)
    return f"layout by Triton, {accesses} accesses of a warp" if accesses else "no shared memory"


def _needed(counts: dict) -> str:
    """Share of the requested sectors that could not be left out."""
    asked = traffic.sectors(counts)
    return f"{counts['needed_sectors'] / asked:.0%} needed" if asked else "none"


def _per_request(counts: dict) -> float:
    asked = sum(counts.get(f"global_{way}_requests", 0) for way in ("load", "store"))
    return sum(counts.get(f"global_{way}_sectors", 0) for way in ("load", "store")) / asked if asked else 0.0


def _degree(counts: dict) -> str:
    ideal = wavefronts(counts) - conflicts(counts)
    return f"{wavefronts(counts) / ideal:.3g}-way" if ideal else "no shared memory"


def _lanes(counts: dict) -> str:
    return f"{counts['lanes'] / counts['lane_slots']:.0%}" if counts.get("lane_slots") else "none counted"


def _code(card: Card) -> Iterator[Row]:
    """What the compiler made of it; of several kernels one figure each, in the order of their launches."""
    pair, gpu = (card.yours.code, card.reference.code), GPU.name

    def row(name: str, text: Callable[[Code], str], how: str = READ) -> Row:
        return Row(name, *(" · ".join(map(text, codes)) or "unknown" for codes in pair), how)

    yield row("threads per block", lambda c: str(c.threads), "set by the launch")
    yield row("registers per thread", lambda c: str(c.registers))
    yield row("local memory per thread, bytes", lambda c: str(c.local))
    yield row("shared memory per block, bytes", lambda c: f"{c.shared:,}")
    yield row(f"occupancy on an {gpu}", _occupancy, CALCULATED)
    yield row("widest global load, bytes", lambda c: "TMA" if c.tma else str(c.load or "none"))
    yield row("loads in flight per thread, bytes", _in_flight)
    yield row("barrier instructions in the code", lambda c: str(_barriers(c)))
    yield row("tensor cores", lambda c: c.matrix or "none")


def _in_flight(code: Code) -> str:
    if code.schedule is None:
        return "unknown"
    return "to shared memory" if code.schedule.copies else str(code.schedule.flight)


def _barriers(code: Code) -> int | str:
    return code.schedule.once.barriers + code.schedule.loop.barriers if code.schedule else "unknown"


def _occupancy(code: Code) -> str:
    found = occupancy(GPU.limits, code.threads, code.registers, code.shared)
    return f"{found.fraction:.0%}, {LIMITED[found.limiter]}"


def _times(card: Card) -> Iterator[Row]:
    """FLOP per byte, and predicted times with what takes longest, for the size of the benchmark."""
    cost, pair = prediction.work(card.exercise), (card.yours, card.reference)
    if cost is None:
        return
    size = ", ".join(f"{k} = {v}" for k, v in card.exercise.bench.items())
    if cost.flops:
        ridges = {f"{roof.name}: {roof.ridge:.3g}" for roof in (prediction.roof(card.exercise, f, GPU) for f in pair)}
        how = f"{MODEL}, for {size}; ridge of {', '.join(sorted(ridges))}"
        yield Row("FLOP per byte of memory", *(f"{card.intensity(f):.3g}" for f in pair), how)
    for number, gpu in enumerate(prediction.GPUS):
        mine, theirs = (prediction.predict(card.exercise, f, device.find(gpu)) for f in pair)
        row = (f"{made} ({prediction.NAMES[made.bound]})" for made in (mine, theirs))
        how = f"{MODEL}, for {size}; its longest part in parentheses" if number == 0 else "as above"
        yield Row(f"time on {gpu}", *row, how, mine.seconds / theirs.seconds)
