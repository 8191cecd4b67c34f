"""Outputs as data: what a page shows is kept, small and without paths of a machine; changed code shows none of it."""

import base64
import io
from pathlib import Path

import nbformat
from nbformat import v4

from tools.site import outputs

KEPT = sorted((Path(__file__).parents[2] / "tools/site/outputs").glob("*.json"))
WHERE = {"machine": "H200", "date": "2026-11-26", "seconds": 7}


def notebook(source: str, *shown) -> nbformat.NotebookNode:
    cells = [v4.new_markdown_cell("# Title", id="title"), v4.new_code_cell(source, id="cell", outputs=list(shown))]
    return v4.new_notebook(cells=cells, metadata={"gpu_kernel_lab": dict(WHERE)})


def packed(*shown) -> list[dict]:
    return outputs.pack(notebook("x", *shown), "/home/someone")["cells"]["cell"]["outputs"]


def picture() -> str:
    """A chart as matplotlib draws it, in base64."""
    from matplotlib.figure import Figure

    figure, out = Figure(), io.BytesIO()
    figure.subplots().plot([1, 3, 2])
    figure.savefig(out, format="png")
    return base64.b64encode(out.getvalue()).decode()


def test_a_round_trip_through_a_file(tmp_path):
    ran = notebook("print(1)", v4.new_output("stream", name="stdout", text="/home/someone/x: 4.1 TB/s\n"))
    outputs.write(tmp_path / "unit.json", outputs.pack(ran, "/home/someone"))
    data = outputs.read(tmp_path / "unit.json")
    shown = outputs.unpack(notebook("print(1)"), data)
    nbformat.validate(shown)
    assert shown.cells[1].outputs[0].text == "…/x: 4.1 TB/s\n"
    assert shown.metadata["gpu_kernel_lab"] == WHERE and outputs.is_current(shown, data)


def test_changed_code_shows_a_sentence_and_not_the_outputs():
    data = outputs.pack(notebook("print(1)", v4.new_output("stream", name="stdout", text="1\n")))
    changed = notebook("print(2)")
    assert not outputs.is_current(changed, data)
    (output,) = outputs.unpack(changed, data).cells[1].outputs
    assert outputs.CHANGED in output.data["text/html"]


def test_of_a_widget_its_picture_is_kept():
    data = {"application/vnd.jupyter.widget-view+json": {"model_id": "0"}, "text/html": "<p>a", "text/plain": "b"}
    (output,) = packed(v4.new_output("execute_result", data, execution_count=1))
    assert output["data"] == {"text/html": "<p>a"}
    assert packed(v4.new_output("display_data", {"application/x": "1"})) == []


def test_a_chart_becomes_small_and_stays_a_chart():
    from PIL import Image

    png = picture()
    small = outputs.smaller(png)
    assert len(small) < 0.6 * len(png)
    sizes = [Image.open(io.BytesIO(base64.b64decode(text))).size for text in (png, small)]
    assert sizes[0] == sizes[1]
    (output,) = packed(v4.new_output("display_data", {"text/html": f'<img alt="a" src="data:image/png;base64,{png}">'}))
    assert small in output["data"]["text/html"]


def test_what_cannot_be_made_smaller_stays_as_it_is():
    png = picture()
    assert outputs.smaller(png, lambda before: before + b"more") == png


def test_a_large_output_is_left_out_by_name():
    page = f'<iframe title="k, step by step" srcdoc="{"x" * outputs.MOST_BYTES}"></iframe>'
    (output,) = packed(v4.new_output("display_data", {"text/html": page}))
    assert output["data"] == {
        "text/plain": "[k, step by step: an output of 195 KB is not kept. Run the unit to see it.]"
    }
    (output,) = packed(v4.new_output("stream", name="stdout", text="x" * (outputs.MOST_BYTES + 5)))
    assert output["text"].endswith("[5 more characters are not kept.]\n")


def test_what_is_kept_fits_into_a_repository():
    assert sum(path.stat().st_size for path in KEPT) <= 10e6
    for path in KEPT:
        assert "/root/" not in path.read_text(encoding="utf-8"), path.name
