"""The solution edition: a unit is run and becomes a page with its outputs; what was run elsewhere is shown as it is."""

import re

import nbformat
import pytest
from nbformat import v4

from tests.grader.small import UNIT, write_unit
from tools.site import book


@pytest.fixture
def course(tmp_path, monkeypatch):
    write_unit(tmp_path / "solutions")
    monkeypatch.setattr(book, "ROOT", tmp_path)
    monkeypatch.setattr(book, "RUNS", tmp_path / "out" / "book")
    monkeypatch.setattr(book, "SITE", tmp_path / "out" / "site")
    return tmp_path


def test_headings_have_no_links_of_their_own():
    notebook = ran()
    notebook.cells[0].source = "# Title\n\n## 4 Rows: (x + bias) · scale"
    page = book.page(notebook, "00_start", ["00_start"])
    assert "anchor-link" not in page and "(x + bias) · scale</h2>" in page


def ran(*outputs) -> nbformat.NotebookNode:
    """A notebook that was run: a title, and a cell with these outputs."""
    cells = [v4.new_markdown_cell("# Title\n\n[a](../glossary.md#warp) [b](../00_start/00_start.ipynb#x)")]
    cells.append(v4.new_code_cell("x", id="cell", execution_count=1, outputs=list(outputs)))
    where = {"machine": "H200 <x>", "date": "2026-11-20", "seconds": 7}
    return v4.new_notebook(cells=cells, metadata={"gpu_kernel_lab": where})


def test_a_unit_is_run_and_shown_with_its_answer_and_its_points(course):
    notebook = book.run(book.solved(UNIT), UNIT)
    page = book.page(notebook, UNIT, [UNIT])
    words = re.sub(r"<[^>]+>", "", page)
    assert "1 of 1 points" in words and "return 3 * n * itemsize" in words and "Two reads, one write." in words
    assert "SOLUTION" not in page and 'lang="en"' in page and "<title>Count bytes</title>" in page
    assert f"Run on {notebook.metadata['gpu_kernel_lab']['date']}" in page
    assert "http://" not in page and "<script" not in page  # nothing is loaded from elsewhere


def test_a_unit_that_fails_is_named_with_its_error():
    notebook = v4.new_notebook(cells=[v4.new_markdown_cell("# T"), v4.new_code_cell("1 / 0")])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    with pytest.raises(book.NotRun, match="some_unit: ZeroDivisionError: division by zero"):
        book.run(notebook, "some_unit")


def test_links_lead_to_the_glossary_and_to_other_units_that_are_there():
    page = book.page(ran(), "01_hardware", ["00_start", "01_hardware"])
    assert 'href="../glossary/#warp"' in page and 'href="00_start.html#x"' in page
    assert 'href="index.html"' in book.page(ran(), "01_hardware", ["01_hardware"])
    assert "Run on 2026-11-20 in 7 s. H200 &lt;x&gt;." in page


def test_a_widget_is_shown_as_its_picture():
    data = {
        "application/vnd.jupyter.widget-view+json": {"model_id": "0", "version_major": 2, "version_minor": 0},
        "text/html": '<img alt="Waves: 160 blocks" src="data:,">',
        "text/plain": "Waves",
    }
    page = book.page(ran(v4.new_output("execute_result", data, execution_count=1)), "00_start", ["00_start"])
    assert 'alt="Waves: 160 blocks"' in page and "widget-view" not in page


def test_outputs_of_another_machine_become_pages_without_running(course, monkeypatch, capsys):
    folder = course / "elsewhere"
    folder.mkdir()
    text = v4.new_output("stream", name="stdout", text="4.1 TB/s")
    notebook = ran(text)
    notebook.cells[0].source = "# Title"
    nbformat.write(notebook, folder / f"{UNIT}.ipynb")
    (course / "out" / "site").mkdir(parents=True)
    (course / "out" / "site" / "index.html").write_text("<p>")
    monkeypatch.setattr(book, "run", None)
    monkeypatch.setattr(book.sys, "argv", ["book", UNIT, "--outputs", str(folder)])
    assert book.main() == 0
    assert "4.1 TB/s" in (course / "out/site/book" / f"{UNIT}.html").read_text()
    assert f'href="{UNIT}.html"' in (course / "out/site/book/index.html").read_text()


def test_an_unknown_unit_is_refused(course, monkeypatch, capsys):
    monkeypatch.setattr(book.sys, "argv", ["book", "99_nothing"])
    assert book.main() == 2 and "There is no unit 99_nothing." in capsys.readouterr().out


def test_units_are_stored_once_and_shown_from_data(course, monkeypatch, capsys):
    (course / "out" / "site").mkdir(parents=True)
    (course / "out" / "site" / "index.html").write_text("<p>")
    monkeypatch.setattr(book.sys, "argv", ["book", "--store", str(course / "kept")])
    assert book.main() == 0 and f"{UNIT}: " in capsys.readouterr().out
    monkeypatch.setattr(book, "run", None)  # what is current is not run again
    assert book.main() == 0
    monkeypatch.setattr(book.sys, "argv", ["book", "--outputs", str(course / "kept")])
    assert book.main() == 0
    assert "1 of 1 points" in re.sub(r"<[^>]+>", "", (course / f"out/site/book/{UNIT}.html").read_text())


def test_units_without_outputs_are_named_and_fail_only_where_they_were_asked_for(course, monkeypatch, capsys):
    (course / "out" / "site").mkdir(parents=True)
    monkeypatch.setattr(book.sys, "argv", ["book", "--outputs", str(course)])
    (course / "out" / "site" / "index.html").write_text("<p>")
    assert book.main() == 0 and f"Without outputs: {UNIT}\nBuilt 0 units" in capsys.readouterr().out
    monkeypatch.setattr(book.sys, "argv", ["book", UNIT, "--outputs", str(course)])
    assert book.main() == 1


def test_a_unit_that_needs_too_long_comes_last_in_the_next_call(monkeypatch, tmp_path):
    monkeypatch.setattr(book, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(book, "solved", lambda unit: ran())
    called = []

    def run(notebook, unit, end):
        called.append(unit)
        if unit == "a":
            raise book.NoTime("a: not finished after 9 s")
        return ran(v4.new_output("stream", name="stdout", text=unit))

    monkeypatch.setattr(book, "run", run)
    assert book.store(["a", "b"], tmp_path, 1) == ["a: not finished after 9 s"]
    assert book.store(["a", "b"], tmp_path, 1) == ["a: not finished after 9 s"] and called == ["a", "b", "a"]
    (tmp_path / "b.json").unlink()
    monkeypatch.setattr(book, "run", lambda notebook, unit, end: called.append(unit) or ran())
    assert book.store(["a", "b"], tmp_path, 1) == [] and called[3:] == ["b", "a"]
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_unit_that_began_late_is_the_first_of_the_next_call(monkeypatch, tmp_path):
    monkeypatch.setattr(book, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(book, "solved", lambda unit: ran())

    def run(notebook, unit, end):
        if unit == "b":
            raise book.NoTime("b: not finished after 1 s")
        return ran()

    monkeypatch.setattr(book, "run", run)
    assert book.store(["a", "b", "c"], tmp_path, 1) == ["Left for the next call: b, c"]
    assert not (tmp_path / "runs").exists()


def test_a_notebook_is_stopped_when_the_time_is_used_up():
    notebook = v4.new_notebook(cells=[v4.new_markdown_cell("# T"), v4.new_code_cell("import time; time.sleep(60)")])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    with pytest.raises(book.NoTime, match="some_unit: not finished after"):
        book.run(notebook, "some_unit", book.time.monotonic() + 2)


def test_matplotlib_is_loaded_before_triton():
    cells = [v4.new_markdown_cell("# T"), v4.new_code_cell("import sys; print('matplotlib.figure' in sys.modules)")]
    notebook = v4.new_notebook(cells=cells)
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    assert book.run(notebook, "some_unit").cells[1].outputs[0].text == "True\n"
