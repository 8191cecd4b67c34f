"""The Gluon kernel of unit 17 compiles for Hopper with the solution's iteration; no GPU is needed for that."""

import os
import subprocess
import sys

import pytest

from grader.course.solutions import solution_text

COMPILE = """
import sys
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

sys.path.insert(0, sys.argv[1])
from unit import overlap
from labutils.lessons.flash_gluon import flash_kernel

def tiles(rows):
    layout = gl.NVMMASharedLayout.get_default_for([rows, 64], gl.bfloat16)
    return f"tensordesc<bf16[{rows}, 64],{layout!r}>"

constants = {"D": 64, "BLOCK_N": 128, "CAUSAL": True, "STAGES": 2, "GROUPS": 3, "ITERATION": overlap}
types = [tiles(64), tiles(128), tiles(128), tiles(64), "*fp32", "i32", "fp32", "i32", *["constexpr"] * len(constants)]
signature = dict(zip(flash_kernel.arg_names, types, strict=True))
places = {(flash_kernel.arg_names.index(name),): value for name, value in constants.items()}
source = GluonASTSource(flash_kernel, signature, places, {})
compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
print(compiled.asm["ptx"].count("wgmma.mma_async"))
"""


@pytest.mark.slow
def test_the_gluon_kernel_compiles_for_hopper(tmp_path):
    pytest.importorskip("triton.experimental.gluon.language.nvidia.hopper")
    (tmp_path / "unit.py").write_text(solution_text("17_flash_attention"), encoding="utf-8")
    environment = os.environ | {"TRITON_INTERPRET": "0"}
    found = subprocess.run(
        [sys.executable, "-c", COMPILE, str(tmp_path)], capture_output=True, text=True, env=environment
    )
    assert found.returncode == 0, found.stderr[-2000:]
    assert int(found.stdout.split()[-1]) > 0
