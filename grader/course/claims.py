"""Claims are data: numbers that a text takes from a source or a GPU stand in `solutions/UNIT/claims.toml`.

    [h200_l2_latency]
    value = "264 cycles"                    # as the text prints it
    number = 264                            # optional: the number in `value`, in the unit that `value` prints
    source = "measured, docs/measured.md"   # or a data sheet, paper or guide with its section, or "unverified"
    gpu = "H200"                            # where it was measured
    date = "2026-11"
    compute = "lab.…"                       # optional: an expression that recomputes `number`

A text cell of any unit says `{claim: h200_l2_latency}`, and the build puts `value` there. `compute` may use `lab`
(labutils), `claims` (the numbers of all units by key), `math`, and a few functions of Python.
"""

import ast
import math
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

from nbformat import NotebookNode

import labutils as lab
from grader.course.regions import BuildError

FILE = "claims.toml"

_USE = re.compile(r"\{\s*claim\b\s*:?\s*([^{}]*?)\s*\}")
_IN_CODE = re.compile(r"\{claim: [a-z]\w*\}")  # {claim:>9} formats a variable
_KEY = re.compile(r"[a-z][a-z0-9_]*")
_TEXT = ("value", "source", "gpu", "date", "compute")
_DATE = re.compile(r"\d{4}-\d{2}(-\d{2})?")
_NUMBER = re.compile(r"\d+(?:[, \u00a0\u202f]\d{3}(?!\d))*(?:\.\d+)?")
_FUNCTIONS = {f.__name__: f for f in (abs, float, int, len, max, min, round, sum)}


@dataclass(frozen=True)
class Claim:
    """One number of the text and where it comes from."""

    key: str
    unit: str
    value: str
    source: str
    number: float | None = None
    gpu: str | None = None
    date: str | None = None
    compute: str | None = None


def read_claims(solutions: Path) -> dict[str, Claim]:
    """The claims of all units in the folder `solutions`, by key. Raises BuildError with file and key."""
    found: dict[str, Claim] = {}
    for path in sorted(solutions.glob(f"*/{FILE}")):
        place = f"{path.parent.name}/{FILE}"
        try:
            tables = tomllib.loads(path.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as problem:
            raise BuildError(f"{place}: {problem}") from None
        for key, fields in tables.items():
            if not _KEY.fullmatch(key):
                raise BuildError(f"{place}: the key {key!r} must be lower-case letters, digits and '_'")
            if key in found:
                raise BuildError(f"{place}: {key} is a claim of {found[key].unit} already")
            if problem := _problem(fields):
                raise BuildError(f"{place}: {key} {problem}")
            found[key] = Claim(key, path.parent.name, **fields)
    return found


def fill(notebook: NotebookNode, claims: Mapping[str, Claim], unit: str) -> None:
    """Put the values of the claims into the text cells, in place. Raises BuildError for an unknown key."""
    for number, cell in enumerate(notebook.cells, start=1):
        place = f"{unit}.py, cell {number}"
        if cell.cell_type == "markdown":
            cell.source = filled(cell.source, claims, place)
        elif _IN_CODE.search(cell.source):
            raise BuildError(f"{place}: a claim stands in a code cell; only text cells take claims")


def filled(text: str, claims: Mapping[str, Claim], place: str) -> str:
    """A text with the values of its claims. Raises BuildError for an unknown key."""
    return _USE.sub(lambda use: _value(use[1], claims, place), text)


def unused(solutions: Path, claims: Mapping[str, Claim], units: Collection[str] = ()) -> list[str]:
    """A sentence for each claim (of `units`, or of all) that no text and no `compute` of any unit uses."""
    paths = [path for pattern in ("*/*.py", "*/walkthroughs.toml") for path in solutions.glob(pattern)]
    used = {use[1] for path in paths for use in _USE.finditer(path.read_text(encoding="utf-8"))}
    for claim in claims.values():
        used |= _names(claim.compute) - {claim.key}
    return [
        f"{claim.unit}/{FILE}: nothing uses {key}; write {{claim: {key}}} in a text cell, or delete it"
        for key, claim in claims.items()
        if key not in used and (not units or claim.unit in units)
    ]


def computed(claim: Claim, claims: Mapping[str, Claim]) -> float:
    """What `compute` gives. Raises whatever the expression raises."""
    numbers = SimpleNamespace(**{c.key: c.number for c in claims.values() if c.number is not None})
    names = {"__builtins__": _FUNCTIONS, "lab": lab, "claims": numbers, "math": math}
    return float(eval(compile(claim.compute, f"compute of {claim.key}", "eval"), names))


def printed(value: str) -> tuple[float, float]:
    """The first number in `value`, and half a unit of its last printed digit. Raises ValueError if it has none."""
    match = _NUMBER.search(value)
    if match is None:
        raise ValueError(f"{value!r} holds no number")
    digits = Decimal(re.sub(r"[^\d.]", "", match[0]))
    return float(digits), 0.5 * 10.0 ** digits.as_tuple().exponent


def wrong_number(claim: Claim, claims: Mapping[str, Claim]) -> str | None:
    """Why `number` differs from what `value` prints or from what `compute` gives, or None."""
    if claim.number is None:
        return None
    shown, half = printed(claim.value)
    half *= 1 + 1e-9  # a number exactly between two printed ones may be rounded either way
    if abs(abs(claim.number) - shown) > half:
        return f"{claim.unit}/{FILE}: {claim.key} prints {claim.value!r}, but its number is {claim.number}"
    if claim.compute and abs((result := computed(claim, claims)) - claim.number) > half:
        return f"{claim.unit}/{FILE}: {claim.key} is {claim.number}, but compute gives {result:.6g}"
    return None


def _value(key: str, claims: Mapping[str, Claim], place: str) -> str:
    if key not in claims:
        raise BuildError(f"{place}: no unit's {FILE} has the claim {key!r}")
    return claims[key].value


def _problem(fields) -> str | None:
    """What is wrong with a claim's table, or None."""
    if not isinstance(fields, dict):
        return "must be a table, [key]"
    if extra := set(fields) - {*_TEXT, "number"}:
        return f"has the unknown field {min(extra)}"
    for name in ("value", "source"):
        if name not in fields:
            return f"has no {name}"
    for name in _TEXT:
        text = fields.get(name, "-")
        if not isinstance(text, str) or not text.strip() or "\n" in text:
            return f"needs one line of text as its {name}"
    number = fields.get("number", 0)
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not math.isfinite(number):
        return "needs a finite number as its number"
    if "number" in fields and not _NUMBER.search(fields["value"]):
        return "has a number, but its value prints none"
    if not _DATE.fullmatch(fields.get("date", "2026-01")):
        return f"has the date {fields['date']!r}; write YYYY-MM"
    if "compute" in fields:
        return _compute_problem(fields)
    return None


def _compute_problem(fields: dict) -> str | None:
    if "number" not in fields:
        return "has compute, but no number to compare it with"
    try:
        compile(fields["compute"], "compute", "eval")
    except SyntaxError as problem:
        return f"has a compute that is no expression: {problem.msg}"
    return None


def _names(expression: str | None) -> set[str]:
    """The keys that an expression takes from `claims`."""
    nodes = ast.walk(ast.parse(expression or "0", mode="eval"))
    return {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "claims"
    }
