"""nbgrader's feedback pages as this grader makes them, beside stock nbconvert's."""

from bs4 import BeautifulSoup
from nbconvert.exporters import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from traitlets.config import Config

from grader.gradebook.nbgrader_pages import NO_DESCRIPTION, PageExporter

PIXEL = "iVBORw0KGgo="
SHOWN = [
    {"image/png": PIXEL},
    {"image/jpeg": PIXEL},
    {"image/svg+xml": "<svg/>"},
    {"text/html": "<p title='a > b'>1 &lt; 2 <b>bold</b></p>"},
    {"text/plain": '<img src="data:image/png;base64,no">'},
]
CONFIG = Config({"HTMLExporter": {"template_name": "classic"}})


def _pages(*outputs):
    cell = new_code_cell("kernel[grid](x)  # a < b\n", outputs=list(outputs), id="one")
    text = new_markdown_cell("# Title\n\n![what it shows](figure.png) $a < b$", id="two")
    notebook = new_notebook(cells=[text, cell], metadata={"language_info": {"name": "python"}})
    return [exporter(config=CONFIG).from_notebook_node(notebook)[0] for exporter in (HTMLExporter, PageExporter)]


def _seen(html):
    """What a browser makes of a page."""
    return [
        (tag.name, tag.attrs, tag.find(string=True, recursive=False)) for tag in BeautifulSoup(html, "html.parser")()
    ]


def test_a_page_is_the_one_that_nbconvert_makes():
    stock, ours = _pages(*(new_output("display_data", data=data) for data in SHOWN))
    assert _seen(ours) == _seen(stock)
    assert stock.count(NO_DESCRIPTION) == ours.count(NO_DESCRIPTION) == 3


def test_a_described_image_keeps_its_description():
    described = new_output("display_data", data={"image/png": PIXEL}, metadata={"image/png": {"alt": "a roofline"}})
    stock, ours = _pages(described)
    assert _seen(ours) == _seen(stock) and NO_DESCRIPTION not in ours and 'alt="a roofline"' in ours
