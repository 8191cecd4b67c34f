"""The notebooks and documents of an edition. What has no translation is English; code, ids and points are the same."""

from __future__ import annotations

import copy
import functools
import posixpath
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from nbformat import NotebookNode

from grader.course import index
from grader.course.cells import below_title, links, setup_code
from grader.course.claims import Claim, filled, read_claims
from grader.course.locales import markdown
from grader.course.locales.catalogs import Edition
from grader.course.locales.messages import DOCS
from grader.course.nbgrader_config import compute_checksum
from grader.course.regions import SOLUTION, find_regions, located
from grader.course.settings import read_settings
from grader.course.sources import notebook_bytes, written_notebook

GLOSSARY, README = "docs/glossary.md", "README.md"


@dataclass(frozen=True)
class Translated:
    """An edition of the course in `root`."""

    root: Path
    edition: Edition

    def page(self, document: str) -> str:
        """Where a document of this edition is, in the repository."""
        return f"docs/{self.edition.name}/{posixpath.basename(document)}"

    def source(self, english: NotebookNode, unit: str) -> NotebookNode:
        """The source notebook of a unit, with its answers; `english` is the English one."""
        texts, settings = self._texts(unit), read_settings(self.root)
        notebook = copy.deepcopy(english)
        here, there = f"notebooks/{unit}/{unit}.ipynb", f"notebooks/{self.edition.name}/{unit}/{unit}.ipynb"
        written = written_notebook(self.root / "solutions" / unit).cells
        for cell, original in zip(notebook.cells, written, strict=True):
            if cell.id == "setup" and cell.cell_type == "code":
                cell.source = setup_code(settings, self.edition.name)
            elif cell.cell_type == "markdown":
                text = texts.get(original.source, original.source)
                text = self.filled(text, f"{unit}, cell {cell.id}")
                cell.source = markdown.moved(text, here, there, self._places)
        first = notebook.cells[0]
        first.source = below_title(first.source, links(settings, there, self.page(GLOSSARY), self.word))
        return notebook

    def release(self, english: NotebookNode, source: NotebookNode) -> NotebookNode:
        """The release of a source notebook of this edition: the English release with other texts."""
        notebook = copy.deepcopy(english)
        for cell, original in zip(notebook.cells, source.cells, strict=True):
            if cell.cell_type == "markdown":
                with located(f"cell {cell.id}"):
                    cell.source = self._without_answers(original.source)
            elif cell.id == "setup":
                cell.source = original.source
            if "checksum" in cell.metadata.get("nbgrader", {}):
                cell.metadata.nbgrader.checksum = compute_checksum(cell)
        return notebook

    def document(self, name: str, target: str) -> str:
        """A document of this edition, for the place `target` in the repository.

        Its headings have the English anchors, so that links lead to them in every language.
        """
        texts = self._texts("docs")

        def translate(message: str) -> str:
            text = texts.get(message, message)
            if not message.startswith("##"):
                return text
            level, _, heading = text.partition(" ")
            anchor = markdown.anchor(message.lstrip("#").strip())
            return f'{level} <a id="{anchor}"></a>{heading}'

        english = (self.root / name).read_text(encoding="utf-8")
        text = markdown.moved(markdown.translated(english, translate), name, target, self._places)
        if not target.startswith("docs/"):
            return text
        title, _, rest = text.partition("\n")
        return f"{title}\n\n[English]({posixpath.relpath(name, posixpath.dirname(target))})\n{rest}"

    def documents(self) -> dict[str, bytes]:
        """The documents by their place in the repository."""
        pages = {self.page(name): name for name in DOCS if (self.root / name).exists()}
        return {target: self.document(name, target).encode() for target, name in pages.items()}

    def beside_notebooks(self) -> dict[str, bytes]:
        """The glossary and the map of the course, by name, for the folder of the edition's notebooks."""
        found = {}
        if (self.root / GLOSSARY).exists():
            target = f"notebooks/{self.edition.name}/glossary.md"
            found["glossary.md"] = self.document(GLOSSARY, target).encode()
        if (self.root / README).exists():
            texts = self._texts("docs")
            readme = (self.root / README).read_text(encoding="utf-8")
            notebook = index.index_notebook(readme, lambda t: markdown.translated(t, lambda m: texts.get(m, m)))
            found["index.ipynb"] = notebook_bytes(notebook)
        return found

    def filled(self, text: str, place: str) -> str:
        """A text with the values of its claims, as this edition writes them."""
        return filled(text, self._claims, f"{place} ({self.edition.language})")

    def word(self, word: str) -> str:
        """What the build writes into notebooks."""
        return self._texts("grader").get(word, word)

    def _without_answers(self, text: str) -> str:
        lines = text.split("\n")
        for region in reversed(find_regions(text, code=False)):
            lines[region.begin : region.end + 1] = [self.word("YOUR ANSWER HERE")] * (region.kind == SOLUTION)
        return "\n".join(lines)

    @functools.cached_property
    def _texts(self) -> Callable[[str], dict[str, str]]:
        return functools.cache(self.edition.translations)

    @functools.cached_property
    def _claims(self) -> dict[str, Claim]:
        claims = read_claims(self.root / "solutions")
        return {k: replace(c, value=self._texts(c.unit).get(c.value, c.value)) for k, c in claims.items()}

    @functools.cached_property
    def _places(self) -> dict[str, str]:
        return {name: self.page(name) for name in DOCS} | {"notebooks": f"notebooks/{self.edition.name}"}
