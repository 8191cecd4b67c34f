"""axe-core finds nothing serious, in light and dark colors: report, feedback, leaderboard, site, and a saved notebook.

tests/browser/test_units.py looks at notebooks in JupyterLab.
"""

from pathlib import Path

import pytest

from grader.reports import report
from tests.browser import axe
from tests.browser.conftest import start_chromium
from tests.grader.simulated import simulated

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "out" / "site" / "html"
SITE_PAGES = ("index", "start", "learners", "instructors", "glossary", "measured", "contributing", "api/notebooks")


@pytest.fixture(scope="module")
def driver(chromium):
    if not axe.installed():
        pytest.skip("needs axe-core: npm install --prefix tools/axe")
    driver = start_chromium(chromium, "1280,1000")
    yield driver
    driver.quit()


@pytest.fixture(params=["light", "dark"])
def look(driver, request):
    """A function that opens a file in a color scheme and gives what axe finds."""

    def opened(path: Path, *only: str) -> list[str]:
        scheme = {"name": "prefers-color-scheme", "value": request.param}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        driver.get(path.as_uri())
        driver.execute_script("localStorage.clear()")  # the site remembers the colors of the page before
        driver.refresh()
        return axe.serious(driver, *only)

    return opened


@pytest.fixture(scope="module")
def class_pages(tmp_path_factory):
    """The pages of a class: the report, what belongs to it, and two students' feedback."""
    folder = tmp_path_factory.mktemp("class")
    report.write(simulated(12), folder)
    pages = sorted(folder.rglob("*.html"))
    feedback = [path for path in pages if path.parent != folder]
    return [path for path in pages if path.parent == folder] + feedback[:2]


def test_pages_of_a_class(look, class_pages):
    assert {"report.html", "repairs.html"} <= {path.name for path in class_pages} and len(class_pages) >= 4
    assert [f"{path.name}: {line}" for path in class_pages for line in look(path)] == []


@pytest.mark.parametrize("page", SITE_PAGES)
def test_documentation_site(look, page):
    path = SITE / ("index.html" if page == "index" else f"{page}/index.html")
    if not path.exists():
        pytest.skip("needs the site: make site")
    assert look(path) == []


def test_solutions_with_their_outputs(look):
    pages = sorted((SITE / "book").glob("*.html"))
    if not pages:
        pytest.skip('needs pages: make book UNITS="00_start"')
    assert [f"{path.name}: {line}" for path in pages for line in look(path)] == []


def test_nothing_is_cut_off_at_200_percent(driver, class_pages):
    """A window of 1280 pixels at a zoom of 200 % has room for 640: a page scrolls down and not sideways."""
    pages = [*class_pages, *(SITE / f"{name}/index.html" for name in SITE_PAGES[1:]), SITE / "book" / "00_start.html"]
    size = {"width": 640, "height": 500, "deviceScaleFactor": 2, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wide = {}
    for path in (path for path in pages if path.exists()):
        driver.get(path.as_uri())
        room, needed = driver.execute_script("return [innerWidth, document.documentElement.scrollWidth]")
        if needed > room:
            wide[str(path)] = needed
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert wide == {}


def test_axe_finds_what_is_wrong(look, tmp_path):
    """A picture without words and grey on grey: a test that sees nothing would pass everywhere."""
    page = tmp_path / "bad.html"
    page.write_text(
        '<!doctype html><html lang="en"><title>x</title><body style="background:#fff"><img src="data:,">'
        '<p style="color:#bbb">pale</p>'
    )
    assert {line.split(":")[0] for line in look(page)} >= {"image-alt", "color-contrast"}
