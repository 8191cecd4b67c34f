"""Unit 13: what the compiler makes of the solution's kernels."""

import re

import pytest
import torch

from grader.course.solutions import load_text, solution_text
from labutils.backends.offline import Compiler, launch_spec
from labutils.check.evaluate import evaluate
from labutils.exercises import fusion_norms, get
from labutils.lessons.compiled import resources

MATRICES_AND_VECTORS = {
    "rms_norm": (2, 1), "rms_residual_silu": (3, 1), "layer_norm": (2, 2), "long_rms_norm": (2, 1),
    "long_layer_norm": (2, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", MATRICES_AND_VECTORS)
@pytest.mark.parametrize(("N", "pitch", "bits"), [(5000, 5000, 128), (5000, 5004, 64), (777, 784, 16)])
def test_rows_are_moved_in_the_widest_pieces_that_are_aligned(name, N, pitch, bits, tmp_path):
    """Rows of fp16. No width is divisible by 16: Triton finds the alignment because N and the strides are constants."""
    unit, (matrices, vectors) = load_text(solution_text("13_fusion"), tmp_path), MATRICES_AND_VECTORS[name]
    x, w = torch.empty(2, pitch, dtype=torch.float16)[:, :N], torch.empty(N, dtype=torch.float16)
    arrays = [x] * (matrices - 1) + [w] * vectors + [x]
    arguments = (*arrays, N, *[pitch] * matrices)
    kernel = getattr(unit, f"{name}_kernel")
    options = unit.long_options_for if name.startswith("long_") else unit.options_for
    texts, _ = Compiler((90,)).listings(launch_spec(kernel, arguments, options(N)))
    found = re.findall(r"(ld|st)\.global[\w.:]*?(?:\.v(\d))?\.b(\d+)", texts["ptx"])
    moved = {kind: min(int(count or 1) * int(each) for k, count, each in found if k == kind) for kind, _, _ in found}
    assert moved == {"ld": bits, "st": bits}


@pytest.mark.parametrize("name", ["long_rms_norm", "long_layer_norm"])
@pytest.mark.parametrize("N", [4096, 12_000, 24_576, 30_000, 32_768])
def test_a_row_in_blocks_needs_few_registers(name, N, tmp_path):
    """So few that an SM runs at least three quarters of the threads that it can run at most."""
    unit, (_, vectors) = load_text(solution_text("13_fusion"), tmp_path), MATRICES_AND_VECTORS[name]
    x, w = torch.empty(2, N, dtype=torch.float16), torch.empty(N, dtype=torch.float16)
    options = unit.long_options_for(N)
    arguments = (x, *[w] * vectors, x, N, N, N)
    (needs,) = resources([(getattr(unit, f"{name}_kernel"), arguments, options)], (9, 0))
    threads = 32 * options["num_warps"]
    assert needs.stack == 0
    assert threads * needs.occupancy((9, 0), threads).blocks >= 1536


LEAVES_OUT = "out leaves out eps under the root"
OF_RMS_NORM = "out uses the eps of RMSNorm, 1e-6; LAYER_EPS is 1e-5"
OF_LAYER_NORM = "out uses the eps of LayerNorm, 1e-5; that of RMSNorm is 1e-6"


@pytest.mark.parametrize(
    ("name", "old", "new", "symptom"),
    [
        ("rms_norm", " / N + EPS)", " / N)", LEAVES_OUT),
        ("rms_norm", " / N + EPS)", " / N + LAYER_EPS)", OF_LAYER_NORM),
        ("layer_norm", " / N + LAYER_EPS)", " / N)", LEAVES_OUT),
        ("layer_norm", " / N + LAYER_EPS)", " / N + EPS)", OF_RMS_NORM),
        ("long_layer_norm", " / N + LAYER_EPS)", " / N)", LEAVES_OUT),  # in one column, so does a variance over N - 1
        ("long_layer_norm", " / N + LAYER_EPS)", " / N + EPS)", OF_RMS_NORM),
    ],
)
def test_no_eps_and_another_eps_are_told_apart(name, old, new, symptom, tmp_path):
    text = solution_text("13_fusion")
    begin = text.index("BEGIN SOLUTION", text.index(f"def {name}_kernel"))
    assert old in text[begin:]
    unit = load_text(text[:begin] + text[begin:].replace(old, new, 1), tmp_path)
    headline = evaluate(get(f"13_fusion/{name}"), getattr(unit, name), explain=True).headline
    assert headline.symptom == symptom
    assert headline.kind == "wrong-formula"


@pytest.mark.parametrize("N", [1, 7168, 7169, 20_480, 20_481, 32_768])
def test_the_known_mistakes_have_the_launchers_block(N, tmp_path):
    unit = load_text(solution_text("13_fusion"), tmp_path)
    assert unit.long_options_for(N)["BLOCK_N"] == fusion_norms._long_block(torch.empty(1, N))
