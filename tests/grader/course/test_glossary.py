"""The glossary's form, its copy beside the notebooks, and every link to it."""

import re

import nbformat
import pytest

from grader.course.glossary import anchor, released, terms
from grader.course.sources import ROOT, unit_names
from tests.grader.sample import run, write_unit

TEXT = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
TERMS = terms(TEXT)
ANCHORS = {term.anchor for term in TERMS}
NOTEBOOKS = [ROOT / "notebooks" / unit / f"{unit}.ipynb" for unit in unit_names(ROOT)]
SMALL = "# Glossary\n\n### Little's law\n\nItems. Unit [01_a](../notebooks/01_a/01_a.ipynb). CUDA: `x`.\n"


def test_a_term_has_one_line_and_a_unit_that_exists():
    assert [term.name for term in TERMS if "\n" in term.line or not term.line.endswith(".")] == []
    assert [(term.name, term.unit) for term in TERMS if term.unit not in unit_names(ROOT)] == []


def test_terms_are_in_order_and_anchors_differ():
    names = [term.name.lower() for term in TERMS]
    assert names == sorted(names)
    assert len(ANCHORS) == len(TERMS)


def test_a_line_calls_the_unit_by_its_name():
    assert all(f"Unit [{term.unit}](../notebooks/{term.unit}/{term.unit}.ipynb)." in term.line for term in TERMS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_of_a_notebook_lead_to_a_term(path):
    cells = nbformat.read(path, as_version=nbformat.NO_CONVERT).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    links = re.findall(r"\]\(([^)\s]*glossary\.md[^)\s]*)\)", text)
    wanted = {f"../glossary.md#{a}" for a in ANCHORS}
    assert [link for link in links if not link.startswith("https://") and link not in wanted] == []


def test_the_copy_has_githubs_anchors_and_its_own_links():
    assert released(SMALL) == (
        '# Glossary\n\n### <a id="littles-law"></a>Little\'s law\n\nItems. Unit [01_a](01_a/01_a.ipynb). CUDA: `x`.\n'
    )
    assert [(t.name, t.anchor, t.unit) for t in terms(SMALL)] == [("Little's law", "littles-law", "01_a")]
    assert anchor("split-K") == "split-k"


def test_the_build_keeps_the_copy(tmp_path):
    root = write_unit(tmp_path)
    (root / "docs").mkdir()
    (root / "docs" / "glossary.md").write_text(SMALL)
    copy = root / "notebooks" / "glossary.md"
    (_, problem) = run(root, check=True)
    assert problem == "glossary.md: it is missing; run `python -m grader build`"
    assert run(root) == [] and copy.read_text() == released(SMALL)
    assert run(root, check=True) == []
    copy.write_text("old")
    assert len(run(root, check=True)) == 1
