"""What notebooks say: names exist, a check reports the codes in tables, no answer stands above its quiz."""

import ast
import functools
import re
import tomllib
from itertools import pairwise

import nbformat
import pytest

from grader.course.cells import is_cuda, python_text
from grader.course.locales import catalogs
from grader.course.place import ROOT
from labutils import exercises
from labutils.check.diagnose import KINDS
from labutils.study import claims

UNITS = sorted(path.stem for path in (ROOT / "notebooks").glob("*/*.ipynb") if path.stem == path.parent.name)
SHOWN = {"access_map", "banks", "coalescing", "play"}
"""Functions that return a picture, and print nothing."""

FOLDERS = ["notebooks", *(f"notebooks/{edition.name}" for edition in catalogs.editions(ROOT))]
"""Of the notebooks in English and of the editions."""

ITEM = re.compile(r" {0,3}(?:[-+*]|\d{1,9}[.)]) ")

WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@functools.cache
def cells(unit: str, folder: str = "notebooks"):
    """The cells of a released notebook."""
    return nbformat.read(ROOT / folder / unit / f"{unit}.ipynb", 4).cells


@pytest.mark.parametrize("unit", UNITS)
def test_exercises_and_units_that_a_text_names_exist(unit):
    known = set(exercises.all_exercises()) | set(UNITS)
    for cell in cells(unit):
        for name in re.findall(r"[`\"](\d\d_\w+(?:/\w+)?)[`\"]", cell.source):
            assert name in known


@pytest.mark.parametrize("unit", UNITS)
def test_pictures_are_displayed(unit):
    """A value that is not a cell's last expression is shown to nobody."""
    for cell in cells(unit):
        if cell.cell_type == "code" and not is_cuda(cell.source):
            for statement in ast.parse(python_text(cell.source) or "").body[:-1]:
                call = statement.value if isinstance(statement, ast.Expr) else None
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                    assert call.func.attr not in SHOWN, ast.unparse(statement)


@pytest.mark.parametrize("unit", UNITS)
def test_the_codes_in_a_table_are_reported_for_mutants_of_the_unit(unit):
    tables = [tomllib.loads(path.read_text()) for path in (ROOT / "solutions" / unit / "mutants").glob("*.toml")]
    reported = {mutant.get("expect") for table in tables for mutant in table.values() if isinstance(mutant, dict)}
    for cell in cells(unit):
        for row in re.findall(r"^\|([^|]*)\|", cell.source, re.MULTILINE) if cell.cell_type == "markdown" else ():
            for code in re.findall(r"`([a-z]+(?:-[a-z0-9]+)+)`", row):
                assert code in KINDS and code in reported, row


@pytest.mark.parametrize("unit", UNITS)
def test_no_text_above_a_quiz_prints_its_answers(unit):
    """Nor does the quiz's own cell. A number counts as printed if its unit follows."""
    above = []
    for cell in cells(unit):
        above.append(cell.source)
        if f'lab.claims("{unit}")' in cell.source:
            break
    for card in claims.quiz(unit).cards if unit in claims.stored() else ():
        if card.unit.split() and (printed := _printed(card.measure(), card.unit.split()[0], "\n".join(above))):
            pytest.fail(f"{card.claim} {printed}")


def _printed(number: float, unit: str, text: str) -> str:
    """The place where a text has a number with its unit, "" if there is none."""
    forms = {f"{number:.4g}", f"{number:.3g}", f"{number:,.4g}"}
    forms |= {f"{number:.0f}", f"{number:,.0f}"} if number > 10 else set()
    forms |= {WORDS[round(number)]} if number in range(len(WORDS)) else set()
    numbers = "|".join(map(re.escape, forms))
    found = re.search(rf"(?<![\w.,])({numbers})\s+(\w+ )?{re.escape(unit.rstrip('s'))}", text, re.IGNORECASE)
    return found[0] if found else ""


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("folder", FOLDERS)
def test_no_formula_is_broken_so_that_its_end_looks_like_a_list(folder, unit):
    """A line that begins with "- 1" or "2. " is a list item, also where the line before it ends with a minus or in
    code."""
    for cell in cells(unit, folder):
        if cell.cell_type == "markdown":
            lines = re.sub(r"(?ms)^ *```.*?^ *```", "", cell.source).split("\n")
            broken = [
                line
                for before, line in pairwise(lines)
                if ITEM.match(line)
                and (re.search(r"[-−+%=/·×(,]$", before) or before.count("`") % 2)
                and not ITEM.match(before)
            ]
            assert broken == []
