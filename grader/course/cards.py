"""A unit's claim cards as data, for `lab.claims`.

`solutions/UNIT/cards.toml` has two to four tables:

    [sectors]
    claim = "A warp that reads 32 adjacent fp32 numbers touches ___ sectors."
    unit = "sectors"                     # what the number counts
    line = "lab.counted(…) / …"          # the line of code that gives it, with `lab` and `math`
    measured = "h200_copy"               # or in place of `line`: a measured claim with a `number` (claims.toml)
    why = "32 numbers are 128 bytes."    # optional: why it is this number, in a sentence
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from grader.course.claims import Claim, read_claims
from grader.course.regions import BuildError
from labutils.study.claims import BLANK

FILE = "cards.toml"

LEAST, MOST = 2, 4
"""Cards of a unit: a quiz takes two minutes."""


def cards(unit: Path, claims: dict[str, Claim]) -> list[dict]:
    """The cards of a unit. Raises BuildError with file and card."""
    try:
        tables = tomllib.loads((unit / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except tomllib.TOMLDecodeError as problem:
        raise BuildError(f"{unit.name}/{FILE}: {problem}") from None
    if not LEAST <= len(tables) <= MOST:
        raise BuildError(f"{unit.name}/{FILE} has {len(tables)} cards, not {LEAST} to {MOST}")
    found = []
    for name, table in tables.items():
        if problem := _problem(name, table, claims):
            raise BuildError(f"{unit.name}/{FILE}: {name} {problem}")
        card = {"name": name, "claim": " ".join(table["claim"].split()), "unit": table["unit"]}
        card |= {"why": " ".join(table["why"].split())} if "why" in table else {}
        if "line" in table:
            found.append(card | {"line": table["line"]})
        else:
            claim = claims[table["measured"]]
            gpu = f" on an {claim.gpu}" if claim.gpu else ""
            found.append(card | {"number": claim.number, "source": f"{claim.source}{gpu}."})
    return found


def texts(unit: Path) -> list[str]:
    """What a reader sees of a unit's cards in words: claims, what they count, and sources."""
    shown = cards(unit, read_claims(unit.parent))
    return list(
        dict.fromkeys(card[key] for card in shown for key in ("claim", "unit", "source", "why") if card.get(key))
    )


def _problem(name: str, table, claims: dict[str, Claim]) -> str:
    if not name.isidentifier():
        return "must be a name that Python takes as an argument"
    known = set(table) - {"why"} if isinstance(table, dict) else set()
    if known not in ({"claim", "unit", "line"}, {"claim", "unit", "measured"}):
        return "must have claim and unit, and either line or measured"
    if table["claim"].count(BLANK) != 1:
        return f"must leave out one number, {BLANK}"
    if "measured" in table and (table["measured"] not in claims or claims[table["measured"]].number is None):
        return f"names {table['measured']}, which is no claim with a number"
    return ""


def released(root: Path) -> str:
    """The file: the cards of all units, a unit a line."""
    claims = read_claims(root / "solutions")
    units = sorted(path.parent for path in (root / "solutions").glob(f"*/{FILE}"))
    rows = [f"  {json.dumps(unit.name)}: {json.dumps(cards(unit, claims), ensure_ascii=False)}" for unit in units]
    return "{\n" + ",\n".join(rows) + "\n}\n"
