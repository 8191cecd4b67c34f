"""Every unit in JupyterLab: unfilled it stops at its first check with our message, solved it runs to the end."""

from pathlib import Path

import pytest

from labutils.exercises import hunts
from tests.browser import axe
from tests.browser.test_run_all import on_screen

ROOT = Path(__file__).resolve().parents[2]
QUICK = ("00_start", "03_occupancy", "06_elementwise_triton")
"""Opened in every run of the suite: CUDA C++, widgets, Triton. A unit takes half a minute; others are slow tests."""

UNITS = [
    pytest.param(p.stem, marks=[] if p.stem in QUICK else pytest.mark.slow)
    for p in sorted((ROOT / "notebooks").glob("*/*.ipynb"))
]


WITHOUT_PICTURES = {
    "04_tolerances", "09_debugging", "10_scan", "10_warp_reduction", "13_fusion_dropout", "14_matmul_triton_persistent",
    "16_matmul_ring", "24_block", "24_block_kernels", "24_capstone", "24_loss", "24_training", "25_profile",
    *hunts.UNITS,
} - {"08_hunt"}  # fmt: skip
"""Units that draw nothing on a machine without a GPU."""

NAMELESS = ("aria-input-field-name", "noUi-handle")
"""ipywidgets 8 draws a slider with noUiSlider and passes no attributes for its handle, so that Python cannot name it:
github.com/jupyter-widgets/ipywidgets/issues/2650. The slider's label stands beside it as text."""


@pytest.mark.parametrize("unit", UNITS)
def test_unfilled_stops_at_the_first_check(open_notebook, unit):
    page = open_notebook(ROOT / "notebooks" / unit / f"{unit}.ipynb")
    page.run_all()
    errors = page.errors()
    assert len(errors) == 1, errors
    assert "is not written yet" in errors[0] and "Traceback" not in errors[0]
    page._until(lambda: on_screen(page, "is not written yet"), 15)
    page.screenshot(f"{unit}_unfilled")


@pytest.mark.parametrize("unit", UNITS)
def test_solved_runs_to_the_end(open_notebook, unit, tmp_path):
    nbformat = pytest.importorskip("nbformat")
    from grader.course.sources import source_notebook

    path = tmp_path / f"{unit}_solved.ipynb"
    nbformat.write(source_notebook(ROOT / "solutions" / unit), path)
    page = open_notebook(path)
    page.run_all(limit=300)
    assert page.errors() == []
    text = "\n".join(page.outputs())
    assert "✗" not in text and "✓" in text
    assert (page.images() >= 1) == (unit not in WITHOUT_PICTURES)
    page.screenshot(f"{unit}_solved_top")
    page.show("✓")
    page.screenshot(f"{unit}_solved_check")
    if axe.installed():  # the texts and outputs; the frame around them is JupyterLab's
        assert axe.serious(page.driver, ".jp-RenderedMarkdown", ".jp-OutputArea-output", but=(NAMELESS,)) == []


def test_a_mistake_is_named_beside_its_picture(open_notebook, tmp_path):
    """A kernel without masks: the access map shows the lanes, the check names the line. (The README's picture.)"""
    nbformat = pytest.importorskip("nbformat")
    from grader.course.sources import source_notebook

    notebook = source_notebook(ROOT / "solutions" / "06_elementwise_triton")
    kernel = next(c for c in notebook.cells if c.id == "vector_add_kernel")
    kernel.source = kernel.source.replace(", mask=mask", "")
    path = tmp_path / "unit.ipynb"
    nbformat.write(notebook, path)
    page = open_notebook(path)
    page.run_all(limit=300)
    assert any("tail-unmasked" in text and "What to try" in text for text in page.outputs())
    assert page.errors() == []
    page.show("tail-unmasked")
    page.screenshot("unit")
