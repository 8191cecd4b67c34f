"""The glossary, docs/glossary.md, and its copy beside the notebooks, which JupyterLab can open.

A term is a heading, `### term`, and below it one line: a definition, the unit that teaches it, and its names in CUDA
and Triton. Notebooks link to `../glossary.md#anchor`. GitHub makes the anchor from the heading: lower case, hyphens for
blanks, no other signs. JupyterLab keeps case and signs, so the copy holds GitHub's anchors as elements of their own.
"""

import re
from dataclasses import dataclass

from grader.course.locales.markdown import anchor

_TERM = re.compile(r"^### (.+)$", re.MULTILINE)
_UNIT = re.compile(r"\.\./notebooks/((\w+)/\w+\.ipynb)")


@dataclass(frozen=True)
class Term:
    """A term, the line below it, and the unit that the line links to (None if it links to none)."""

    name: str
    line: str
    unit: str | None

    @property
    def anchor(self) -> str:
        return anchor(self.name)


def terms(glossary: str) -> list[Term]:
    """The terms of a glossary's text, in its order."""
    _, *parts = _TERM.split(glossary)
    found = []
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        unit = _UNIT.search(body)
        found.append(Term(name, body.strip(), unit and unit[2]))
    return found


def released(glossary: str) -> str:
    """The copy for the folder notebooks/: links lead from there, and each term has GitHub's anchor."""
    text = _UNIT.sub(r"\1", glossary)
    return _TERM.sub(lambda heading: f'### <a id="{anchor(heading[1])}"></a>{heading[1]}', text)
