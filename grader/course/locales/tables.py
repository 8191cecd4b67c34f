"""What is shown at run time in an edition's language: translations by English message, in a file for labutils and one
for the grader's pages.

Hints, claim cards and model answers are texts of notebooks. The English notebook and the edition's have the same cells,
so a hint's translation stands in the same place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from grader.course import cards, walkthroughs
from grader.course.claims import filled, read_claims
from grader.course.hints import hints_of
from grader.course.locales import markdown
from grader.course.locales.edition import Translated
from grader.course.sources import unit_names, written_notebook
from labutils.language.choice import FOLDER

GRADER = Path("grader") / "reports" / "language"
"""The folder of the grader's files."""

_SUMMARY = re.compile(r"<summary>.*?</summary>")


def tables(translated: Translated, notebooks: Path) -> dict[str, bytes]:
    """The files by their place in the repository. `notebooks` holds the released ones of both languages."""
    name = f"{translated.edition.name}.json"
    shown = translated.edition.translations("lab") | dict(_of_units(translated, notebooks))
    pages = translated.edition.translations("grader") | dict(_titles(translated)) | dict(_questions(translated))
    ours = Path("labutils") / FOLDER.name / name
    return {
        ours.as_posix(): _written(shown),
        (GRADER / name).as_posix(): _written(pages),
    }


def _titles(translated: Translated) -> Iterator[tuple[str, str]]:
    """The titles of the units, which a report has at its top."""
    for unit in unit_names(translated.root):
        for text, other in translated.edition.translations(unit).items():
            if text.startswith("# ") and other.startswith("# "):
                yield text.partition("\n")[0].removeprefix("# "), other.partition("\n")[0].removeprefix("# ")


def _questions(translated: Translated) -> Iterator[tuple[str, str]]:
    """The first lines of the questions for written answers, by which a feedback page calls them."""
    claims = read_claims(translated.root / "solutions")
    for unit in unit_names(translated.root):
        texts = translated.edition.translations(unit)
        for cell in written_notebook(translated.root / "solutions" / unit).cells:
            if cell.metadata.get("cell") == "manual" and cell.source in texts:
                english = filled(cell.source, claims, unit)
                yield markdown.first_line(english), markdown.first_line(translated.filled(texts[cell.source], unit))


def _written(table: Mapping[str, str]) -> bytes:
    """A message a line, in the order of the English texts."""
    rows = [
        f"{json.dumps(en, ensure_ascii=False)}: {json.dumps(table[en], ensure_ascii=False)}" for en in sorted(table)
    ]
    return ("{\n" + ",\n".join(rows) + "\n}\n").encode()


def _of_units(translated: Translated, notebooks: Path) -> Iterator[tuple[str, str]]:
    """English and translation of what `lab.hint`, `lab.claims` and `lab.walkthrough` show; nothing untranslated."""
    for path in sorted(notebooks.glob("*/*.ipynb")):
        other = notebooks / translated.edition.name / path.parent.name / path.name
        if path.stem == path.parent.name and other.exists():
            pair = (nbformat.read(p, as_version=nbformat.NO_CONVERT) for p in (path, other))
            yield from ((english, new) for english, new in _hints(*pair) if english != new)
    claims = read_claims(translated.root / "solutions")
    for unit in sorted(p.parent for p in (translated.root / "solutions").glob("*/*.py") if p.stem == p.parent.name):
        texts = translated.edition.translations(unit.name)
        pairs = [(text, texts[text]) for text in cards.texts(unit) if text in texts]
        for table in walkthroughs.tables(unit).values():
            words = (" ".join(text.split()) for text in table.values())
            pairs += [(text, texts[text]) for text in words if text in texts]
        for english, other in [*pairs, *_answers(texts, unit)]:
            yield filled(english, claims, unit.name), translated.filled(other, unit.name)


def _hints(english: NotebookNode, other: NotebookNode) -> Iterator[tuple[str, str]]:
    """The hints of both notebooks, found by the English words of the first."""
    cells = [
        {**theirs, "source": _with_summaries(ours.source, theirs.source)}
        for ours, theirs in zip(english.cells, other.cells, strict=True)
    ]
    found = hints_of(cells)
    for exercise, texts in hints_of(english.cells).items():
        yield from zip(texts, found[exercise], strict=True)


def _with_summaries(english: str, other: str) -> str:
    names = iter(_SUMMARY.findall(english))
    return _SUMMARY.sub(lambda summary: next(names, summary[0]), other)


def _answers(texts: Mapping[str, str], unit: Path) -> Iterator[tuple[str, str]]:
    """Cells for a written answer and their translations, each in parts: question, model answer."""
    for cell in written_notebook(unit).cells:
        if cell.metadata.get("cell") == "manual" and cell.source in texts:
            yield from zip(walkthroughs.question(cell.source), walkthroughs.question(texts[cell.source]), strict=True)
