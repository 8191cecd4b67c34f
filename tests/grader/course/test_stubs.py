"""Each stub fits where it stands and says what is to be written."""

import ast
import os
import shutil
import subprocess
import sys

import pytest

from grader.course.regions import BuildError
from grader.course.stubs import stub_source
from labutils.spec.exercise import NOT_WRITTEN

KERNEL = """\
{decorators}
def add_kernel(x_ptr, n, BLOCK_N: tl.constexpr):
    \"\"\"Doubles x.\"\"\"
    pid = tl.program_id(0)
    ### BEGIN SOLUTION
    offs_n = pid * BLOCK_N + tl.arange(0, BLOCK_N)

    # padded lanes must not be stored
    tl.store(x_ptr + offs_n, 2.0, mask=offs_n < n)
    ### END SOLUTION"""

STUBBED_KERNEL = """\
    pid = tl.program_id(0)
    # YOUR CODE HERE (about 2 lines)
    tl.static_assert(False, "add_kernel is not written yet")"""

CUDA = """\
%%cuda
__device__ float twice(float x) { return 2 * x; /* a } in a comment */ }

template <int N>
extern "C" __global__ void __launch_bounds__(256)
scale(float* x, int n) {
    int i = threadIdx.x;
    if (i < n) {
        // ### BEGIN SOLUTION
        // why
        x[i] = twice(x[i]);
        // ### END SOLUTION
    }
}"""


@pytest.mark.parametrize(
    "decorators",
    ["@triton.jit", "@triton.jit(debug=True)", "@triton.autotune(configs=[], key=[])\n@triton.jit", "@jit"],
)
def test_in_a_triton_kernel(decorators):
    stubbed = stub_source(KERNEL.format(decorators=decorators), "kernel")
    assert stubbed.endswith(STUBBED_KERNEL)
    assert '"""Doubles x."""' in stubbed


def test_in_a_python_function():
    region = "        ### BEGIN SOLUTION\n        return n\n        ### END SOLUTION"
    source = f"@functools.cache\ndef grid(n):\n    if n:\n{region}"
    assert stub_source(source, "id") == (
        "@functools.cache\ndef grid(n):\n    if n:\n        # YOUR CODE HERE (about 1 line)\n"
        '        raise NotImplementedError("grid is not written yet")'
    )


def test_the_stub_stands_where_the_answer_stands():
    source = "@triton.jit\ndef k(x):\n### BEGIN SOLUTION\n    y = x\n### END SOLUTION"
    assert "\n    tl.static_assert(" in stub_source(source, "id")


def test_at_module_level_each_name_becomes_none():
    answer = (
        "import math as m\na, (b, *c) = f()\na = 2\nd: int = 3\nx[0] = [k for k in a]\n"
        "for i in a:\n    e = i\n\ndef g(y):\n    z = y\n\nclass H:\n    q = 1"
    )
    stubbed = stub_source(f"start = 1\n### BEGIN SOLUTION\n{answer}\n### END SOLUTION\nend = 2", "cell")
    names = ["m", "a", "b", "c", "d", "i", "e", "g", "H"]
    assert stubbed.split("\n") == [
        "start = 1",
        "# YOUR CODE HERE (about 11 lines)",
        *(f"{name} = None" for name in names),
        "end = 2",
    ]


def test_where_nothing_is_named_the_cell_gives_the_name():
    assert 'NotImplementedError("plot_it is not written yet")' in stub_source(
        "### BEGIN SOLUTION\nplot(1)\n### END SOLUTION", "plot_it"
    )


def test_a_whole_kernel_is_stubbed_at_module_level():
    source = "### BEGIN SOLUTION\n@triton.jit\ndef k(x):\n    pass\n### END SOLUTION"
    assert stub_source(source, "id") == "# YOUR CODE HERE (about 3 lines)\nk = None"


def test_several_regions_and_magics_in_one_cell():
    part = "    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION"
    stubbed = stub_source(f"%matplotlib inline\n\ndef f():\n{part}\n\ndef g():\n{part}", "id")
    assert stubbed.startswith("%matplotlib inline\n\ndef f():")
    assert stubbed.index("f is not written yet") < stubbed.index("def g") < stubbed.index("g is not written yet")
    assert "f is not written yet" in stub_source(f"%%time\ndef f():\n{part}", "id")


def test_in_a_cuda_kernel():
    assert stub_source(CUDA, "id").endswith(
        "    if (i < n) {\n"
        "        // YOUR CODE HERE (about 1 line)\n"
        '        static_assert(false, "scale is not written yet");\n'
        "    }\n}"
    )


def test_outside_a_cuda_function():
    whole = "%%cuda\n// ### BEGIN SOLUTION\n__global__ void scale(float* x) {\n}\n// ### END SOLUTION"
    assert 'static_assert(false, "scale is not written yet");' in stub_source(whole, "id")
    constant = "%%cuda\n// ### BEGIN SOLUTION\nconstexpr int tile = 16;\n// ### END SOLUTION"
    assert 'static_assert(false, "tile_size is not written yet");' in stub_source(constant, "tile_size")


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("f(\n### BEGIN SOLUTION\n1,\n### END SOLUTION\n)", "must hold whole statements"),
        (
            "def f():\n    ### BEGIN SOLUTION\n    # only words\n    ### END SOLUTION\n    return 1",
            "whole statements",
        ),
        ("def f(:\n### BEGIN SOLUTION\n1\n### END SOLUTION", "does not compile"),
        ("%%bash\n### BEGIN SOLUTION\nls\n### END SOLUTION", "holds Python or"),
    ],
)
def test_a_region_that_no_stub_fits_is_refused(source, sentence):
    with pytest.raises(BuildError, match=sentence):
        stub_source(source, "id")


def test_stubs_end_in_the_phrase_that_the_check_recognises():
    tree = ast.parse(stub_source(KERNEL.format(decorators="@triton.jit"), "id"))
    message = tree.body[0].body[-1].value.args[1].value
    assert message.endswith(NOT_WRITTEN)


COMPILE = """
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
signature = {"x_ptr": "*fp32", "n": "i32", "BLOCK_N": "constexpr"}
triton.compile(ASTSource(add_kernel, signature, {"BLOCK_N": 16}), target=GPUTarget("cuda", 80, 32))
"""
INTERPRET = "import torch\nadd_kernel[(1,)](torch.zeros(4), 4, BLOCK_N=16)\n"


@pytest.mark.parametrize(("use", "interpret"), [(COMPILE, "0"), (INTERPRET, "1")], ids=["compiler", "interpreter"])
def test_triton_reports_the_stub(tmp_path, use, interpret):
    script = tmp_path / "kernel.py"
    kernel = stub_source(KERNEL.format(decorators="@triton.jit"), "id")
    script.write_text(f"import triton\nimport triton.language as tl\n\n{kernel}\n\n{use}")
    environment = {**os.environ, "TRITON_INTERPRET": interpret, "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "add_kernel is not written yet" in done.stderr


def test_a_cpp_compiler_reports_the_stub(tmp_path):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ on this machine")
    source = CUDA.replace("template <int N>\n", "").replace("__launch_bounds__(256)", "")
    text = "#define __global__\n#define __device__\nstruct { int x; } threadIdx;\n"
    file = tmp_path / "scale.cpp"
    file.write_text(text + stub_source(source, "id").partition("\n")[2])
    done = subprocess.run([compiler, "-fsyntax-only", file], capture_output=True, text=True)
    assert done.returncode == 1
    assert "scale is not written yet" in done.stderr
