"""nbgrader's feedback pages as this grader makes them, beside stock nbconvert's."""

import pytest
from bs4 import BeautifulSoup
from nbconvert.exporters import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from traitlets.config import Config

from grader.gradebook.nbgrader_pages import NO_DESCRIPTION, SECONDS, PageExporter
from tests.clock import cpu_seconds

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


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("markdown", "[" * 8000),
        ("markdown", "[" * 62_000),
        ("markdown", "*_[`" * 2000),
        ("output", "\x1b[m" * 1_300_000),
    ],
)
def test_no_text_takes_a_page_more_than_its_time(kind, text):
    if kind == "markdown":
        cells = [new_markdown_cell(text, id=f"cell{k}") for k in range(72)]
    else:
        cells = [new_code_cell("1", outputs=[new_output("stream", text=text)], id="one")]
    notebook = new_notebook(cells=cells, metadata={"language_info": {"name": "python"}})
    exporter = PageExporter(config=CONFIG)
    assert cpu_seconds(lambda: exporter.from_notebook_node(notebook)) < 3 * SECONDS


def test_a_long_output_is_there_without_its_colors():
    output = new_output("stream", text="\x1b[31mred\x1b[0m < " + "x" * 9000)
    _, ours = _pages(output)
    assert "red &lt; xxx" in ours and "\x1b" not in ours
