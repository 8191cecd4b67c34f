"""What a saved notebook shows where nothing is live: a page of nbconvert, GitHub, nbviewer, an e-mail attachment."""

import nbformat
import pytest

from labutils.lessons import widgets
from labutils.plots import accesses
from labutils.plots.explorer import VIEW

pytest.importorskip("ipywidgets")
exporters = pytest.importorskip("nbconvert")


def page(data: dict, template: str = "lab") -> str:
    """The HTML page of a notebook whose one cell has this output."""
    output = nbformat.v4.new_output("execute_result", data, execution_count=1)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x", execution_count=1, outputs=[output])])
    return exporters.HTMLExporter(template_name=template).from_notebook_node(notebook)[0]


@pytest.mark.parametrize("template", ["lab", "classic", "basic"])
@pytest.mark.parametrize("name", ["occupancy", "waves", "latency", "divergence", "coalescing", "banks", "formats"])
def test_a_widget_leaves_its_picture_and_its_words(name, template):
    widget = getattr(widgets, name)()
    data = widget._repr_mimebundle_() | {VIEW: {"model_id": "0", "version_major": 2, "version_minor": 0}}
    html = page(data, template)
    assert 'src="data:image/png;base64,' in html and 'role="status"' in html
    assert len(data["text/plain"]) > 20 and data["text/plain"].split(".")[0].split("&")[0][:20] in html


def test_a_picture_of_its_own_is_saved_with_its_words():
    figure = accesses.coalescing(lambda k: 4 * k, 4, "")
    html = page(figure._repr_mimebundle_())
    assert f'alt="{figure.alt.split("%")[0]}' in html and "max-width:100%" in html


def test_a_picture_on_a_dark_page_has_a_background_of_its_own():
    """Black lines on a transparent picture would vanish there."""
    figure = accesses.coalescing(lambda k: 4 * k, 4, "")
    assert figure.get_facecolor() == (1.0, 1.0, 1.0, 1.0)
