"""CUDA C++ from a notebook cell to a launch: every mistake in one clear sentence, and the notebook lives."""

import pytest
import torch

from labutils import cuda, support
from labutils.backends import emulator, recording, simt
from labutils.cuda import nvrtc

pytestmark = pytest.mark.skipif(simt.available() is not None, reason=f"needs a C++ compiler: {simt.available()}")

SCALE = """
template <int PER> __global__ void scale_many(float* y, const float* x, float factor, int n) {
    for (int k = 0; k < PER; ++k) {
        int i = (blockIdx.x * blockDim.x + threadIdx.x) * PER + k;
        if (i < n) y[i] = factor * x[i];
    }
}
__global__ void scale(float* y, const float* x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = factor * x[i];
}
"""


def test_a_kernel_runs_and_writes_its_output():
    x, y = torch.arange(1000.0), torch.zeros(1000)
    cuda.compile(SCALE, "scale")[4, 256](y, x, 2, 1000)
    assert torch.equal(y, 2 * x)


def test_templates_and_several_kernels():
    module = cuda.compile(SCALE)
    x, y = torch.arange(1000.0), torch.zeros(1000)
    module["scale_many<4>"][(1, 1), (256, 1, 1)](y, x, 3.0, 1000)
    assert torch.equal(y, 3 * x)
    assert module.scale.name == "scale"
    with pytest.raises(cuda.CompileError, match=r"scale_many is a template: name its arguments, scale_many<PER>"):
        module["scale_many"]


def test_device_helpers_constant_memory_dynamic_shared_memory_and_printf(capsys):
    source = """
    __constant__ float weights[2] = {1.0f, 10.0f};
    __device__ float mix(float a, float b) { return weights[0] * a + weights[1] * b; }
    extern "C" __global__ void neighbours(float* y, const float* x) {
        extern __shared__ float tile[];
        tile[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        y[threadIdx.x] = mix(tile[threadIdx.x], tile[(threadIdx.x + 1) % blockDim.x]);
        if (threadIdx.x == 7) printf("seven holds %g\\n", tile[7]);
    }"""
    x, y = torch.arange(64.0), torch.zeros(64)
    cuda.compile(source, "neighbours")[1, 64, 64 * 4](y, x)
    assert torch.equal(y, x + 10 * x.roll(-1))
    assert capsys.readouterr().out == "seven holds 7\n"


RETURNS = """
__global__ void rest(const float* x, float* y, int n) {
  __shared__ float s[64];
  if (threadIdx.x >= n) return;
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = s[n - 1 - threadIdx.x];
}
"""


@pytest.mark.parametrize("n, notes", [(64, 0), (40, 1)])
def test_a_return_before_a_barrier_is_a_note_and_no_finding(n, notes, capsys):
    """CUDA C++ Programming Guide, compute capability 7.x: a barrier waits for "all non-exited threads"."""
    kernel, x, y = cuda.compile(RETURNS, "rest"), torch.rand(64), torch.zeros(64)
    kernel[1, 64](x, y, n)
    said = capsys.readouterr().out
    assert said.count("rest, a note: block 0: some threads had returned before this barrier (line 6)") == notes
    assert torch.equal(y[:n], x[:n].flip(0)) and len(said.splitlines()) == notes
    with recording.record() as r:
        kernel[1, 64](x, y, n)
    assert r.findings == []


def test_what_a_launch_did_wrong_is_printed_and_the_notebook_lives(capsys):
    bad = SCALE.replace("if (i < n) y[i] = factor * x[i];\n}\n", "y[i] = factor * x[i];\n}\n")
    x, y = torch.arange(1000.0), torch.zeros(1000)
    cuda.compile(bad, "scale")[4, 256](y, x, 2, 1000)
    said = capsys.readouterr().out
    assert "x[1000]" in said and "line 10" in said and "Guard" in said


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("__global__ void k(float* x) {\n    x[0] = y;\n}", r"line 2: identifier .y. is undefined"),
        ("void k(float* x) {}", r"no __global__ function in this text"),
        ("__device__ float f(float x) { return x; }", r"only __device__ ones: nothing to launch"),
        ("__global__ void k(float* x) { x[0] = 1; }\nint main() { return 0; }", r"line 2: there is no main\(\) here"),
        ('#include "/etc/passwd"\n__global__ void k(float* x) {}', r"line 1: .*only CUDA's own headers"),
        ("#include <cstdlib>\n__global__ void k(float* x) { x[0] = rand(); }", r"cstdlib"),
        ('__global__ void k(float* x) { static_assert(false, "k is not written yet"); }', r"^k is not written yet$"),
    ],
)
def test_a_source_that_does_not_compile(source, message):
    with pytest.raises(cuda.CompileError, match=message):
        cuda.compile(source, "k")


def test_a_kernel_name_that_is_not_there():
    with pytest.raises(cuda.CompileError, match=r"no __global__ function is called scal; did you mean scale\?"):
        cuda.compile(SCALE, "scal")


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ((1, 2048), r"a block of 2048 threads; a block has at most 1024"),
        ((0, 256), r"every side must be at least 1"),
        ((1, (8, 1, 128)), r"at most 1024|64 threads deep"),
        (((1, 70000), 32), r"65535 in y and z"),
        ((1, 32, 1 << 20), r"1048576 bytes of shared memory; a block has at most"),
        ((1.5, 32), r"the grid must be one to three whole numbers"),
        ((1,), r"scale\[grid, block\]"),
    ],
)
def test_launches_that_no_gpu_accepts(configuration, message):
    kernel = cuda.compile(SCALE, "scale")
    with pytest.raises(cuda.LaunchError, match=message):
        kernel[configuration]


def test_a_launch_without_brackets_and_a_wrong_argument():
    kernel = cuda.compile(SCALE, "scale")
    with pytest.raises(cuda.LaunchError, match=r"scale\[grid, block\]\(…\)"):
        kernel(1, 2)
    with pytest.raises(cuda.ArgumentError, match=r"float\* y has dtype float64"):
        kernel[1, 32](torch.zeros(4).double(), torch.zeros(4), 1.0, 4)


def test_an_endless_kernel_and_a_crash_do_not_kill_the_notebook(monkeypatch, capsys):
    from labutils.backends import emulator

    monkeypatch.setattr(emulator, "TIME_LIMIT", 2.0)
    endless = cuda.compile("__global__ void k(volatile int* x) { while (x[0] == 0) {} }", "k")
    endless[1, 1](torch.zeros(1, dtype=torch.int32))
    assert "thread 0 had not come to an end when the time limit was reached (line 1)" in capsys.readouterr().out
    crash = cuda.compile("__global__ void k(int* x) { x[0] = 1 / x[0]; }", "k")
    crash[1, 1](torch.zeros(1, dtype=torch.int32))


class Shell:
    """As much of a notebook as the magic needs."""

    def __init__(self):
        self.user_ns = {}


@pytest.fixture
def cell(monkeypatch):
    """A function that runs a `%%cuda` cell and gives the notebook's variables."""
    import IPython
    from IPython.core import magic

    shell, magics = Shell(), {}
    monkeypatch.setattr(IPython, "get_ipython", lambda: shell)
    monkeypatch.setattr(magic, "register_cell_magic", lambda f: magics.setdefault(f.__name__, f))
    cuda.register_magic()

    def run(line: str, text: str) -> dict:
        magics["cuda"](line, text)
        return shell.user_ns

    run.variables = shell.user_ns
    return run


def test_the_magic_binds_kernels_by_name(cell):
    variables = cell("", SCALE)
    assert set(variables) == {"scale"}
    assert cell("scale_many<2>", SCALE)["scale_many"].name == "scale_many<2>"


def test_the_magics_line_numbers_are_the_cells(cell):
    with pytest.raises(nvrtc.CompileError, match="line 3:"):
        cell("", "__global__ void k(float* x) {\n    x[0] = y;\n}")


def test_a_broken_cell_leaves_no_old_kernel_behind(cell):
    cell("", "__global__ void k(float* x) { x[0] = 1; }")
    with pytest.raises(nvrtc.CompileError):
        cell("", "__global__ void k(float* x) { x[0] = y; }")
    assert "k" not in cell.variables


def test_a_kernel_that_this_machine_cannot_build_is_said_and_bound(cell, capsys, monkeypatch):
    def missing(module, names):
        raise support.Missing("Install g++.")

    monkeypatch.setattr(emulator, "prepare", missing)
    monkeypatch.setattr(emulator, "first_build", lambda: "Building.")
    variables = cell("", "__global__ void k(float* x) { x[0] = 1; }")
    assert capsys.readouterr().out == "Building.\nInstall g++.\n"
    with pytest.raises(support.Missing, match="Install g"):
        variables["k"][1, 32](torch.zeros(1))
    with pytest.raises(support.Missing, match="Install g"):
        variables["k"].module["k<1>"]
    with pytest.raises(support.Missing, match="Install g"):
        cuda.compile("__global__ void k(float* x) { x[0] = 1; }", "k")
    assert capsys.readouterr().out == "Building.\n"


def test_the_first_build_is_announced_and_later_ones_are_not(monkeypatch):
    for before, said in ((False, "Building the CUDA C++ emulator"), (True, "")):
        monkeypatch.setattr(emulator.simt, "built_before", lambda before=before: before)
        assert emulator.first_build().startswith(said) and bool(said) == bool(emulator.first_build())
    monkeypatch.setattr(emulator.simt, "built_before", lambda: False)
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert emulator.first_build() == ""


def test_an_unfilled_cell_waits_for_its_check(cell, capsys):
    variables = cell("", '__global__ void k(float* x) {\n    static_assert(false, "k is not written yet");\n}')
    assert "k is not written yet" in capsys.readouterr().out
    for use in (lambda k: k[1, 32], lambda k: k.module["k<2>"], lambda k: k.clustered(2)):
        with pytest.raises(NotImplementedError, match="k is not written yet"):
            use(variables["k"])
