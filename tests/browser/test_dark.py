"""Solved notebooks in JupyterLab's dark theme, then in a window at a zoom of 200 %: legible, and nothing is cut off."""

import time
from pathlib import Path

import nbformat
import pytest

from tests.browser import axe
from tests.browser.conftest import setting
from tests.browser.test_units import NAMELESS, QUICK

ROOT = Path(__file__).resolve().parents[2]

CORNERS = """
return [...document.querySelectorAll('.jp-OutputArea-output img')].map(image => {
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = 1;
    const context = canvas.getContext('2d');
    context.drawImage(image, 0, 0, 1, 1, 0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
});
"""
"""The color of each picture's first pixel: red, green, blue, opacity."""

WIDE = """
return [...document.querySelectorAll('.jp-OutputArea-output img, .jp-OutputArea-output .widget-box')].filter(e =>
    e.getBoundingClientRect().right > e.closest('.jp-OutputArea-output').getBoundingClientRect().right + 1
).map(e => e.outerHTML.slice(0, 80));
"""
"""Pictures and widgets that are wider than the place they have."""


@pytest.fixture
def dark(lab):
    """JupyterLab with its dark theme."""
    path = setting(lab[0].parent, "apputils-extension/themes")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"theme": "JupyterLab Dark"}')
    yield
    path.unlink()


@pytest.mark.parametrize("unit", QUICK)
def test_a_notebook_is_legible_in_the_dark_and_at_200_percent(open_notebook, dark, unit, tmp_path):
    from grader.course.sources import source_notebook

    path = tmp_path / f"{unit}_dark.ipynb"
    nbformat.write(source_notebook(ROOT / "solutions" / unit), path)
    page = open_notebook(path)
    page._until(lambda: page.script("return document.body.dataset.jpThemeLight") == "false", 30)
    page.run_all(limit=300)
    pictures = page.script(CORNERS)
    assert all(color == [255, 255, 255, 255] for color in pictures), pictures  # a background of their own
    page.show("✓")
    page.screenshot(f"{unit}_dark")
    if axe.installed():
        assert axe.serious(page.driver, ".jp-RenderedMarkdown", ".jp-OutputArea-output", but=(NAMELESS,)) == []

    size = {"width": 640, "height": 500, "deviceScaleFactor": 2, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    time.sleep(1.5)
    assert page.script(WIDE) == []
    page.show("✓")
    page.screenshot(f"{unit}_dark_200")
