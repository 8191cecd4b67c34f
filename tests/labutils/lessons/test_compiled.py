"""The stages of compilation: a load of four adjacent elements can be followed to the machine code."""

import pytest
import torch

from grader.course.solutions import load, solution_text
from labutils.cuda import cubin
from labutils.lessons import compiled


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    path = tmp_path_factory.mktemp("unit") / "solution.py"
    path.write_text(solution_text("06_elementwise_triton"), encoding="utf-8")
    return load(str(path)).vector_add_kernel


def printed(capsys, kernel, x):
    compiled.stages(kernel, x, x, x, 4096, BLOCK=1024)
    text = capsys.readouterr().out
    if "Not compiled" in text:
        pytest.skip(text)
    return text


def test_aligned_loads_take_sixteen_bytes_in_every_stage(capsys, kernel):
    text = printed(capsys, kernel, torch.ones(4096))
    for part in ("tt.load", "sizePerThread = [4]", "ld.global.v4", "LDG.E.128"):
        assert part in text


def test_loads_at_an_odd_address_take_one_element_each(capsys, kernel):
    text = printed(capsys, kernel, torch.ones(4097)[1:])
    assert "ld.global.b32" in text and "v4" not in text and "LDG.E.128" not in text


def test_a_missing_tool_is_named(capsys, kernel, monkeypatch):
    def missing(*arguments):
        raise cubin.ToolMissing("nvdisasm is missing")

    monkeypatch.setattr(cubin, "sass", missing)
    compiled.stages(kernel, *[torch.ones(4096)] * 3, 4096, BLOCK=1024)
    assert "Not compiled: nvdisasm is missing" in capsys.readouterr().out
