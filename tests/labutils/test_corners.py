"""Machines on which something is missing: each part of a notebook works or says what helps, without a traceback.

The oldest, newest and other versions of packages need environments of their own: tools/corners.py makes those.
"""

import functools
import shutil
import sys

import pytest

from labutils import environment
from tools import corners
from tools.corners import CUDA, LAUNCHER, PICTURE, PLAIN, TRITON, WIDGET

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="environments of links, and bubblewrap")
compiler = pytest.mark.compiler


@pytest.fixture
def notebook(tmp_path):
    """`corners.notebook` with a new home folder and this session's cache, in which the emulator is built."""
    home = tmp_path / "home"
    home.mkdir()
    return functools.partial(corners.notebook, home=home, GPULAB_CACHE=environment.cache_folder())


@pytest.fixture
def small_world():
    if not corners.namespaces():
        pytest.skip("needs bubblewrap, and the leave to make namespaces")


def test_without_matplotlib_pip_is_named(notebook, tmp_path):
    said = notebook([PICTURE, WIDGET], python=corners.environment_without(tmp_path / "venv", "matplotlib", "mpl_"))
    command = 'matplotlib is not installed, so pictures cannot be used: pip install "matplotlib>=3.8"'
    assert said.count(command) == 3 and "restart" not in said.lower() and corners.errors(said) == []


def test_without_ipywidgets_the_picture_stands_there_all_the_same(notebook, tmp_path):
    python = corners.environment_without(tmp_path / "venv", "ipywidgets", "jupyterlab_widgets", "widgetsnbextension")
    said = notebook([WIDGET], python=python)
    assert 'ipywidgets is not installed, so widgets cannot be used: pip install "ipywidgets>=8"' in said
    assert "Waves: 160 blocks on 148 SMs" in said and corners.errors(said) == []


@compiler
def test_without_triton_plain_python_and_cuda_work(notebook, tmp_path):
    said = notebook([PLAIN, CUDA, LAUNCHER], python=corners.environment_without(tmp_path / "venv", "triton"))
    assert "triton is not installed, so Triton kernels cannot be used: pip install" in said
    assert said.count("1 of 1 points") == 2 and corners.errors(said) == []


def test_a_triton_that_is_too_old_is_named_with_the_command(notebook, tmp_path):
    python = corners.environment_without(tmp_path / "venv", "triton-")
    about = next((tmp_path / "venv").glob("lib/*/site-packages")) / "triton-3.5.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: triton\nVersion: 3.5.1\n")
    said = notebook([TRITON, PLAIN], python=python)
    assert "triton 3.5.1 is too old, so Triton kernels cannot be used: pip install" in said
    assert "0 of 2 points" in said and "1 of 1 points" in said and corners.errors(said) == []


@compiler
def test_without_nvrtc_the_emulator_runs_cuda(notebook, tmp_path):
    said = notebook([CUDA, LAUNCHER], python=corners.environment_without(tmp_path / "venv", "nvidia", "cuda"))
    assert "cuda-bindings is not installed, so CUDA C++ for a GPU cannot be used: pip install" in said
    assert "(CUDA C++ emulator on the CPU)" in said and "1 of 1 points" in said and corners.errors(said) == []


def test_without_a_compiler_the_cell_says_so_and_the_notebook_goes_on(notebook, tmp_path):
    path = corners.path_without(tmp_path / "path", "g++", "c++", "clang", "gcc", "x86_64-linux-gnu-")
    python = corners.environment_without(tmp_path / "venv", "ziglang")  # which holds a compiler, too
    said = notebook([CUDA, LAUNCHER, PLAIN], python=python, PATH=path, CXX=None)
    assert said.count("Install g++ 11 or newer (Debian, Ubuntu: apt install g++)") == 3  # cell, lab.tiny, lab.check
    assert "0 of 1 points" in said and said.rstrip().endswith("Out[0]: 1.0")
    assert "NameError" not in said and corners.errors(said) == []


def test_a_full_disk_is_called_full_and_plain_python_works(small_world, notebook, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    home = notebook.keywords["home"]
    said = notebook(
        [PLAIN, TRITON, CUDA, LAUNCHER],
        inside=corners.room(0.01, home, temporary),
        TMPDIR=temporary,
        GPULAB_CACHE=None,
    )
    assert "Compiled kernels cannot be stored anywhere (No space left on device). Free 100 MB" in said
    assert "1 of 1 points" in said and "2 of 2 points" in said  # interpreting writes nothing
    if shutil.which("g++"):
        assert "CUDA C++ kernels cannot be built here (No space left on device). Free 100 MB in " in said
    assert "NameError" not in said and corners.errors(said) == []


@compiler
@pytest.mark.timeout(600)
def test_a_home_that_is_read_only_and_a_temporary_folder_of_many_alphabets(small_world, notebook, tmp_path):
    """The emulator is built there anew; a line says so before it is."""
    temporary = tmp_path / "größe 数 é"
    temporary.mkdir()
    said = notebook(
        [TRITON, CUDA, LAUNCHER, PICTURE],
        inside=corners.read_only(notebook.keywords["home"]),
        TMPDIR=temporary,
        LC_ALL="C",
        GPULAB_CACHE=None,
    )
    assert "Compiled kernels are kept for this session only: the cache folder cannot be used (Read-only" in said
    assert said.index("Building the CUDA C++ emulator.") < said.index("out (yours)")
    assert "compiled for sm_80, sm_90" in said and "not compiled" not in said
    assert "2 of 2 points" in said and "1 of 1 points" in said and "Coalescing: 32 lanes" in said
    assert corners.errors(said) == [] and list(temporary.iterdir()) == []  # nothing stays when the session ends


def test_without_a_home_folder(small_world, notebook):
    """As in a container that runs as a user whom /etc/passwd does not have."""
    stranger = ["bwrap", "--unshare-user", "--uid", "54321", "--dev-bind", "/", "/"]
    said = notebook([PLAIN, TRITON, PICTURE, "lab.progress()"], inside=stranger, HOME=None, GPULAB_CACHE=None)
    assert "Compiled kernels are kept for this session only" in said
    assert "1 of 1 points" in said and "2 of 2 points" in said and "Coalescing: 32 lanes" in said
    assert "2 of " in said.rpartition("Coalescing")[2] and corners.errors(said) == []
