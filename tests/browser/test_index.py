"""The map of the course as `make lab` opens it: for a learner, who sees no popup and no instructor's tools."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_map_opens_without_popups_and_instructors_tools(open_notebook):
    page = open_notebook(ROOT / "notebooks/index.ipynb", cells=2)
    links = "return [...document.querySelectorAll('.jp-Notebook a')].map(e => e.textContent)"
    page._until(lambda: {"00_start", "25_profile"} <= set(page.script(links)), 30)
    assert page.script("return document.querySelectorAll('.Toastify__toast').length") == 0
    menus = page.script("return [...document.querySelectorAll('.lm-MenuBar-itemLabel')].map(e => e.textContent)")
    assert "Run" in menus and "Nbgrader" not in menus
    page.screenshot("index")
