"""Cells of a real notebook: stubs end with a sentence, an earlier version is not graded, stray stores harm nothing."""

import nbclient
import nbformat
import pytest

pytest.importorskip("triton")

KERNEL = """\
@triton.jit
def vector_add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    {}

def vector_add(x, y, out):
    vector_add_kernel[(1,)](x, y, out, x.numel(), BLOCK=16)
"""
CALL = "x = torch.ones(10); vector_add(x, x, x.clone())"


def test_cells():
    cells = [
        "import labutils as lab, torch\nlab.setup()\nimport triton, triton.language as tl",
        KERNEL.format('raise NotImplementedError("vector_add_kernel is not written yet")'),
        CALL,
        KERNEL.format("tl.store(out_ptr + 10**9 + tl.arange(0, BLOCK), 1.0)"),
        CALL,
        KERNEL.format("tl.store(out_ptr, (1.0)"),
        'lab.check("06_elementwise_triton/vector_add")',
        "def above(): ...\nint('x')\ndef below(): ...",
        "from labutils.check import names\nprint([n for n in names.cells.failed if n in ('above', 'below')])",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    nbclient.NotebookClient(notebook, timeout=60, allow_errors=True, kernel_name="python3").execute()
    outputs = [cell.outputs for cell in notebook.cells]
    (stub,) = outputs[2]
    assert stub.traceback == ["vector_add_kernel is not written yet: fill its cell, run it, then run this cell again."]
    assert "Careful: program 0 writes" in outputs[4][0].text and "were skipped" in outputs[4][0].text
    said = outputs[6][0].text
    assert "the latest version of vector_add did not run: SyntaxError" in said and "0 of 2 points" in said
    assert "cases failed" not in said
    assert outputs[8][0].text == "['below']\n"
