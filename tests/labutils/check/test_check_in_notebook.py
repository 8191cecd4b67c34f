"""The check inside a real IPython kernel, where functions live in cells."""

import textwrap

import nbclient
import nbformat
import pytest

pytest.importorskip("triton")


def test_lines_of_a_notebook_cell_are_named():
    cells = [
        "import labutils as lab\nimport triton, triton.language as tl",
        textwrap.dedent("""\
            @triton.jit
            def vector_add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
                offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + offs)
                y = tl.load(y_ptr + offs, mask=offs < n)
                tl.store(out_ptr + offs, x + y, mask=offs < n)


            def vector_add(x, y, out):
                vector_add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)"""),
        'lab.check("06_elementwise_triton/vector_add")',
        "def vector_add(x, y, out):\n    import os\n    os.write(2, b'noise')\n    1 / 0",
        'lab.check("06_elementwise_triton/vector_add")',
        "def number_of_programs(n, block):\n    raise NotImplementedError('number_of_programs is not written yet')",
        'lab.check("00_start/number_of_programs")',
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    nbclient.NotebookClient(notebook, timeout=60, allow_errors=True, kernel_name="python3").execute()
    outputs = [cell.outputs for cell in notebook.cells]
    assert all(o.get("name") != "stderr" for outs in outputs for o in outs)
    said = ["".join(o.get("text", "") for o in outs) for outs in outputs]
    assert "(line 4: `x = tl.load(x_ptr + offs)`)" in said[2]
    assert outputs[2][-1].data["text/plain"] == "0.0"
    assert "ZeroDivisionError: division by zero (line 4: `1 / 0`)" in said[4]
    (stopped,) = outputs[6]
    assert stopped.ename == "NotWrittenYet" and len(stopped.traceback) == 1
    assert "number_of_programs is not written yet" in stopped.traceback[0]
