"""Unit 10's reference kernels on GPUs that are not here, and the known mistakes that follow its launches."""

import pytest
import torch

from grader.course.solutions import load, solution_text
from labutils.cuda import cubin as inspect
from labutils.cuda import nvrtc
from labutils.exercises._reduction_mistakes import tree_part


@pytest.fixture(scope="module")
def solution(tmp_path_factory):
    path = tmp_path_factory.mktemp("unit") / "solution.py"
    path.write_text(solution_text("10_warp_reduction"), encoding="utf-8")
    return load(str(path))


@pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC")
@pytest.mark.parametrize("capability", [80, 90, 100])
def test_the_last_version_keeps_four_vector_loads_on_their_way_and_every_warp_resident(solution, capability):
    cubin = solution.reduce_v6.compiled(capability).cubin
    (used,), (code,) = inspect.resources(cubin).values(), inspect.sass(cubin).values()
    assert used.registers <= 32, "2048 threads must fit into 65536 registers"
    texts = [i.text for i in code]
    loads = [k for k, t in enumerate(texts) if "LDG.E.128" in t]
    runs = [sum(not any("FADD" in t for t in texts[a:k]) for k in loads if k >= a) for a in loads]
    assert max(runs) >= 4


def test_known_mistakes_see_what_each_launch_leaves():
    x = torch.arange(1.0, 257.0 + 256.0, dtype=torch.float64)  # two blocks: a second launch adds two numbers
    even = tree_part(256, lambda k: k % 2 == 0)
    assert even(x).item() == x[:256:2].sum().item()  # which in turn loses the odd one of the two partial sums
    nothing = tree_part(256, lambda k: k == 255)
    assert nothing(x[:3]).item() == x[:3].sum().item()
