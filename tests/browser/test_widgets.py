"""Widgets in JupyterLab: every picture stands there with its words, the keyboard moves sliders, pictures follow."""

import time

import nbformat
import pytest

pytest.importorskip("ipywidgets")

CALLS = (
    'lab.widgets.occupancy(threads=128, registers=160, gpu="H100 SXM")',
    "lab.widgets.waves()",
    "lab.widgets.latency()",
    "lab.widgets.divergence()",
    "lab.widgets.coalescing(stride=2)",
    "lab.widgets.banks(stride=32)",
    'lab.widgets.roofline({"vector add": lab.roofline.Ledger({"x": 8e6}, {"y": 4e6}, 1e6)}, gpu="H200")',
    "lab.widgets.ladder()",
    "lab.widgets.formats()",
)


@pytest.fixture
def page(open_notebook, tmp_path):
    notebook = nbformat.v4.new_notebook()
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.cells = [nbformat.v4.new_code_cell(text) for text in ("import labutils as lab", *CALLS)]
    path = tmp_path / "widgets.ipynb"
    nbformat.write(notebook, path)
    page = open_notebook(path)
    page.run_all()
    page._until(lambda: len(alts(page)) == len(CALLS), 60)
    return page


def alts(page) -> list[str]:
    return page.script("return [...document.querySelectorAll('.jp-OutputArea .widget-html img')].map(e => e.alt)")


def wait_for(page, index: int, text: str) -> None:
    try:
        page._until(lambda: text in alts(page)[index], 15)
    except TimeoutError:
        pytest.fail(f"expected {text!r} in {alts(page)[index]!r}")


def press(page, label: str, *keys) -> None:
    """Focus the slider of this label as Tab would, and press keys."""
    from selenium.webdriver.common.by import By

    row = next(
        e
        for e in page.driver.find_elements(By.CSS_SELECTOR, ".widget-slider")
        if e.find_element(By.CSS_SELECTOR, ".widget-label").text == label
    )
    handle = row.find_element(By.CSS_SELECTOR, ".noUi-handle")
    assert handle.get_attribute("tabindex") == "0"
    page.script("arguments[0].scrollIntoView({block: 'center'}); arguments[0].focus()", handle)
    for key in keys:
        page.driver.switch_to.active_element.send_keys(key)


def test_widgets_follow_the_keyboard_and_fit_a_phone(page):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select

    assert page.errors() == []
    assert "12 of 64 warps, 18.75 %. The limit is registers" in alts(page)[0]
    press(page, "registers per thread", *[Keys.ARROW_LEFT] * 32)
    wait_for(page, 0, "16 of 64 warps, 25 %")
    press(page, "threads per block", Keys.ARROW_RIGHT)
    wait_for(page, 0, "blocks of 5 warps")
    chooser = page.driver.find_elements(By.CSS_SELECTOR, ".widget-dropdown select")[0]
    Select(chooser).select_by_visible_text("T4")
    wait_for(page, 0, "of 32 warps")
    press(page, "blocks in the grid", *[Keys.ARROW_LEFT] * 12)
    wait_for(page, 1, "148 blocks on 148 SMs, 1 on each at a time: 1 wave,")
    press(page, "padding of a row", Keys.ARROW_RIGHT)
    wait_for(page, 5, "need 1 wavefronts where 1 would do")
    said = page.script("return [...document.querySelectorAll('.widget-html [role=status]')].map(e => e.textContent)")
    assert said == alts(page)  # what a screen reader reads stands below the picture too
    page.script("document.querySelector('.widget-html img').scrollIntoView({block: 'center'})")
    time.sleep(0.5)
    page.screenshot("widgets")

    page.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    )
    time.sleep(1.5)
    room = page.script(
        "return [...document.querySelectorAll('.widget-html img')].map(e => "
        "[e.getBoundingClientRect().width, e.closest('.jp-OutputArea-output').getBoundingClientRect().width])"
    )
    assert all(0 < picture <= output + 1 for picture, output in room), room
    page.screenshot("widgets_phone")
    assert page.console_errors() == []
