"""“Run All” in JupyterLab ends where the learner must look: at the first cell that failed, in each windowing mode."""

import json
import time
from pathlib import Path

import nbformat
import pytest

from tests.browser.conftest import setting

ROOT = Path(__file__).resolve().parents[2]
UNFILLED = "is not written yet"
ACTIVE = "const e = document.querySelector('.jp-Notebook .jp-Cell.jp-mod-active');"
MODES = ("contentVisibility", "defer", "full", "none")
"""JupyterLab's ways to keep cells outside of the window; contentVisibility is its default."""


@pytest.fixture
def windowing(lab):
    """A function that sets how JupyterLab keeps cells outside of the window."""
    path = setting(lab[0].parent, "notebook-extension/tracker")
    before = path.read_text()
    yield lambda mode: path.write_text(json.dumps({"windowingMode": mode}))
    path.write_text(before)


def on_screen(page, text: str) -> bool:
    """Is an error with this text in the notebook's window?"""
    return page.script(
        "const room = document.querySelector('.jp-Notebook').getBoundingClientRect();"
        'return [...document.querySelectorAll(\'[data-mime-type="application/vnd.jupyter.error"], '
        '[data-mime-type="application/vnd.jupyter.stderr"]\')].some(e => {const r = e.getBoundingClientRect();'
        "return e.textContent.includes(arguments[0]) && r.top < room.bottom && r.bottom > room.top})",
        text,
    )


def active(page) -> str:
    """The text of the selected cell."""
    return page.script(ACTIVE + "return e ? e.textContent : ''")


@pytest.mark.parametrize("mode", MODES)
def test_run_all_ends_at_the_exercise_that_is_not_written(open_notebook, windowing, mode):
    windowing(mode)
    page = open_notebook(ROOT / "notebooks/06_elementwise_triton/06_elementwise_triton.ipynb", cells=2)
    page.run_all()
    page._until(lambda: on_screen(page, UNFILLED), 15)
    assert 'lab.check("06_elementwise_triton/add_bytes")' in active(page)
    page.screenshot(f"run_all_{mode}")


def test_a_kernel_without_the_course_fails_in_the_first_cell_and_is_shown_there(open_notebook, tmp_path):
    """It fails at once, maybe before JupyterLab has scrolled to the last cell."""
    notebook = nbformat.v4.new_notebook()
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    text = "\n\n".join(f"Line {k}." for k in range(30))
    notebook.cells = [nbformat.v4.new_code_cell("import course_that_is_not_here")]
    for _ in range(3):
        notebook.cells += [nbformat.v4.new_markdown_cell(text), nbformat.v4.new_code_cell("1 + 1")]
    path = tmp_path / "wrong_kernel.ipynb"
    nbformat.write(notebook, path)
    page = open_notebook(path)
    page.run_all()
    page._until(lambda: on_screen(page, "ModuleNotFoundError"), 15)
    assert "course_that_is_not_here" in active(page)


def test_a_run_without_errors_ends_at_the_last_cell_and_a_visible_error_moves_nothing(open_notebook, tmp_path):
    notebook = nbformat.v4.new_notebook()
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    sources = ["1 + 1", "import sys; print('a warning', file=sys.stderr)", "2 + 2", "3 + 3"]
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in sources]
    path = tmp_path / "fine.ipynb"
    nbformat.write(notebook, path)
    page = open_notebook(path)
    page.run_all()
    time.sleep(1)
    assert "3 + 3" in active(page)  # what is printed to stderr is no failure
    notebook.cells[0].source = "1 / 0"
    path = tmp_path / "visible.ipynb"
    nbformat.write(notebook, path)
    page = open_notebook(path)
    page.run_all()
    time.sleep(1)
    assert on_screen(page, "ZeroDivisionError") and "3 + 3" in active(page)
