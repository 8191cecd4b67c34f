"""`lab.claims`: a unit's claims with one number left out. Predict it, then see it counted, calculated or measured.

The cards are data (`claims.json`) that `python -m grader build` collects. A card's line of code is run here; a time of
another GPU is a stored number with its source.
"""

from __future__ import annotations

import difflib
import functools
import html
import importlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..language.show import shown
from ..plots.explorer import VIEW, live
from . import reference

PATH = Path(__file__).with_name("claims.json")

BLANK = "___"

RIGHT, NEAR = 1.1, 2.0
"""Up to these factors the prediction of a measurement is right, or near. What is counted or calculated has one answer,
so a prediction is right or wrong."""


@dataclass(frozen=True)
class ClaimCard:
    """One claim. `line` is the code that gives its number; without one, `number` was measured, and `source` says where.

    `unit` is what the number counts.
    """

    name: str
    claim: str
    unit: str
    line: str = ""
    number: float | None = None
    source: str = ""

    def measure(self) -> float:
        """The claim's number."""
        if not self.line:
            return float(self.number)
        lab = importlib.import_module(__package__.partition(".")[0])
        return float(eval(self.line, {"lab": lab, "math": math}))

    @property
    def verb(self) -> str:
        """What was done to get the number."""
        if not self.line or "stored()" in self.line:  # stored measurements of a GPU
            return "measured"
        return "counted" if "counted(" in self.line else "calculated"

    @property
    def how(self) -> str:
        """Where the number comes from, in words."""
        return self.line or self.source

    def result(self, predicted: float) -> str:
        """Predicted beside measured, with the ratio."""
        found = self.measure()
        text = f"{_digits(predicted)} predicted, {' '.join([_digits(found), *self.unit.split()])} {self.verb}"
        if self.verb != "measured" or not found or found * predicted <= 0:
            return f"{text}: {'right' if same(predicted, found) else _wrong(found)}. {self.how}"
        ratio = predicted / found
        factor = max(ratio, 1 / ratio)
        verdict = "right" if factor <= RIGHT else "near" if factor <= NEAR else "off"
        return f"{text}: {ratio:.3g} times, {verdict}. {self.how}"


def _wrong(exact: float) -> str:
    """The verdict on a prediction that is not `same`, with what would be right."""
    return "wrong (a whole number must be met)" if _whole(exact) else "wrong (all digits, at least two, must be right)"


def _whole(exact: float) -> bool:
    return math.isclose(exact, round(exact), rel_tol=1e-9)


def same(predicted: float, exact: float) -> bool:
    """Is a prediction the exact number, or that number rounded to as many digits as were given, at least two? A whole
    number must be met."""
    if _whole(exact):
        return math.isclose(predicted, exact, rel_tol=1e-9)
    given = len(f"{abs(predicted):.12g}".replace(".", "").strip("0"))
    return float(f"{exact:.{max(2, given)}g}") == predicted


@dataclass(frozen=True)
class Quiz:
    """The cards of a unit, with the predictions made so far: boxes to fill in a notebook, text elsewhere."""

    unit: str
    cards: tuple[ClaimCard, ...]
    predicted: Mapping[str, float]

    def __repr__(self) -> str:
        lines = [f"Predict, then count: {len(self.cards)} claims of {self.unit}."]
        for card in self.cards:
            lines.append(f"  {card.claim}")
            if card.name in self.predicted:
                lines.append(f"    {card.result(self.predicted[card.name])}")
            else:
                lines.append(f'    Your prediction: lab.claims("{self.unit}", {card.name}=…)')
        return "\n".join(lines)

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, Any]:
        bundle: dict[str, Any] = {"text/plain": repr(self)}
        if live():
            bundle[VIEW] = self.widget()._repr_mimebundle_()[VIEW]
        return bundle

    def widget(self):
        """The ipywidget: for each card the claim, a box for the prediction, a button, and the result."""
        import ipywidgets as w

        return w.VBox([self._row(w, card) for card in self.cards])

    def _row(self, w, card: ClaimCard):
        known = self.predicted.get(card.name)
        box = w.FloatText(value=known or 0.0, description=shown("predict"), layout=w.Layout(width="16em"))
        button = w.Button(description=shown("compare"), layout=w.Layout(width="7em"))
        result = w.HTML(_paragraph(card.result(known)) if known is not None else "")

        def show(_=None) -> None:
            result.value = _paragraph(card.result(box.value) if box.value else "Type your prediction first.")

        button.on_click(show)
        claim = w.HTML(_paragraph(card.claim))
        return w.VBox([claim, w.HBox([box, w.HTML(html.escape(shown(card.unit))), button]), result])


@functools.cache
def stored() -> Mapping[str, list[dict]]:
    """Cards by unit."""
    return json.loads(PATH.read_text(encoding="utf-8"))


def quiz(unit: str, **predicted: float) -> Quiz | None:
    """The cards of a unit; prints why and returns None where there are none."""
    found = stored().get(unit)
    if found is None:
        near = difflib.get_close_matches(unit, stored(), 1)
        print(f"lab.claims: there are no cards of {unit!r}" + (f"; did you mean {near[0]!r}?" if near else "."))
        return None
    cards = tuple(ClaimCard(**card) for card in found)
    if unknown := sorted(predicted.keys() - {card.name for card in cards}):
        names = ", ".join(card.name for card in cards)
        print(f"lab.claims: {unit} has no card {', '.join(unknown)}; there are {names}.")
        return None
    return Quiz(unit, cards, {name: float(value) for name, value in predicted.items()})


def counted(exercise_id: str, count: str, per: str = "") -> float:
    """A count of the reference solution in the case that `lab.explain` shows, such as "global_load_sectors". With
    `per`, it is in units of another count.

    Your own kernel's: `lab.explain(exercise_id).yours.counts`.
    """
    figures = reference.of(exercise_id)
    if figures is None:
        raise KeyError(f"there are no figures of {exercise_id}")
    for name in (count, *([per] if per else [])):
        if name not in figures.counts:
            raise KeyError(f"{exercise_id} has no count {name!r}; there are {', '.join(sorted(figures.counts))}")
    return figures.counts[count] / (figures.counts[per] if per else 1)


def _paragraph(text: str) -> str:
    return f'<p role="status" style="line-height:1.4;max-width:48em;margin:0">{html.escape(shown(text))}</p>'


def _digits(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
