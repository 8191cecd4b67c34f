"""`import labutils` in a fresh process: quick, and kind where Triton is missing, imported too early or switched off."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HAS_TRITON = pytest.mark.skipif(sys.platform != "linux", reason="Triton is for Linux only")

PLAIN = """
def number_of_programs(n, block):
    return -(-n // block)
assert lab.check("00_start/number_of_programs", number_of_programs) == 1.0
"""

KERNEL = """
import triton, triton.language as tl
@triton.jit
def scale_kernel(x_ptr, factor, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * factor, mask=offs < n)
def scale(x, factor, out):
    scale_kernel[(triton.cdiv(x.numel(), 1024),)](x, factor, out, x.numel(), BLOCK=1024)
"""

CHECK = """
print(lab.check("00_start/scale", scale))
lab.tiny("00_start/scale", scale)
lab.setup()
"""

# Nothing finds Triton, and nothing else is different: torch looks for it too, and must be told None.
WITHOUT_TRITON = """
import sys
class Without:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, *rest):
        return None if name.split(".")[0] == "triton" else self.finder.find_spec(name, *rest)
    def __getattr__(self, name):
        return getattr(self.finder, name)
sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""


def run(tmp_path, code, **environment):
    """What a script prints; it must say nothing on stderr."""
    script = tmp_path / "learner.py"
    script.write_text(code)
    clean = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    clean |= {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join([str(ROOT), clean.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, script], env=clean | environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_import_is_quick_and_leaves_pytorch_to_the_first_kernel(tmp_path):
    said = run(
        tmp_path,
        "import time, sys\nt = time.process_time()\nimport labutils as lab\nprint(time.process_time() - t)\n"
        "lab.cuda.compile, lab.check, lab.tiny, lab.aligned, lab.device.has_gpu()\n"
        "print([m for m in ('torch', 'numpy', 'triton', 'matplotlib', 'ipywidgets', 'IPython') if m in sys.modules])",
    )
    seconds, heavy = said.splitlines()
    assert float(seconds) < 0.3 and heavy == "[]"


def test_without_triton(tmp_path):
    launcher = "def scale(x, factor, out): pass\n"
    code = f"{WITHOUT_TRITON}\nimport labutils as lab\n{PLAIN}\n{launcher}{CHECK}"
    said = run(tmp_path, code)
    assert said.count("Triton is not installed here. On Linux: pip install triton") == 3
    assert "0 of 2 points\n0.0\n" in said


@HAS_TRITON
def test_triton_imported_first(tmp_path):
    said = run(tmp_path, f"{KERNEL}\nimport labutils as lab\n{PLAIN}\n{CHECK}")
    assert said.count("triton was imported before labutils") == 3
    assert "run `import labutils as lab` before `import triton`" in said
    assert "0 of 2 points\n0.0\n" in said


@HAS_TRITON
def test_interpreter_switched_off_by_the_user(tmp_path):
    said = run(tmp_path, f"import labutils as lab\n{KERNEL}\n{CHECK}", TRITON_INTERPRET="0")
    assert "2 of 2 points\n" in said and "\n2.0\n" in said and "out (yours)" in said


@HAS_TRITON
def test_interpreter_switched_on_by_the_user_and_triton_imported_first(tmp_path):
    said = run(tmp_path, f"{KERNEL}\nimport labutils as lab\n{CHECK}", TRITON_INTERPRET="1")
    assert "2 of 2 points\n" in said and "\n2.0\n" in said
