"""The film of a launch: every request of every warp, with its line, in order; and the page made of it."""

import json
import re

import pytest
import torch

import labutils as lab
from labutils.backends import film
from labutils.backends.film import Film, Frame
from labutils.plots.theater import Theater

SOURCE = """
__global__ void turn(const float* x, float* out) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    tile[t] = x[blockIdx.x * 64 + t];
    __syncthreads();
    if (t < 40)
        out[blockIdx.x * 64 + t] = tile[63 - t];
}
"""


@pytest.fixture(scope="module")
def filmed():
    kernel = lab.cuda.compile(SOURCE, "turn")
    x, out = torch.arange(128.0), torch.zeros(128)
    made = film.film(lambda x, out: kernel[2, 64](x, out), x, out)
    assert out.count_nonzero() == 0  # it ran on copies
    return made


def of(made: Film, block: int, warp: int) -> list[Frame]:
    return [f for f in made.frames if (f.block, f.warp) == (block, warp) and f.operation in ("load", "store")]


@pytest.mark.compiler
def test_a_film_holds_each_request_with_its_line(filmed):
    assert filmed.threads == 64 and filmed.grid == (2, 1, 1) and not filmed.messages and not filmed.cut
    x, tile, back, out = of(filmed, 1, 1)
    assert [(f.operation, f.array, f.line) for f in (x, tile, back, out)] == [
        ("load", "x", 5), ("store", "shared", 5), ("load", "shared", 8), ("store", "out", 8)
    ]  # fmt: skip
    assert x.offsets == tuple(4 * (64 + 32 + lane) for lane in range(32)) and x.size == 4
    assert out.lanes == 0xFF and out.offsets == tuple(4 * (64 + 32 + lane) for lane in range(8))
    assert back.offsets == tuple(4 * (63 - 32 - lane) for lane in range(8))


@pytest.mark.compiler
def test_warps_meet_at_the_barrier(filmed):
    first = [f for f in filmed.frames if f.block == 0]
    at = [f.operation for f in first].index("barrier")
    assert {f.warp for f in first[:at] if f.array == "x"} == {0, 1}
    assert not [f for f in first[:at] if f.array == "out"]
    assert {f.warp for f in first[at:] if f.array == "out"} == {0, 1}


@pytest.mark.compiler
def test_lanes_that_do_not_enter_a_branch_are_off(filmed):
    inside = [f for f in filmed.frames if f.warp == 1 and f.line == 8 and f.operation == "step"]
    assert inside and all(f.lanes == 0xFF for f in inside)


@pytest.mark.compiler
def test_a_page_is_whole_and_small(filmed, tmp_path):
    shown = Theater(filmed)
    page = shown.save(tmp_path / "film.html").read_text(encoding="utf-8")
    assert page == shown.page and len(page) < 1_500_000
    assert not re.search(r"""(src|href)\s*=\s*["']?https?:|@import|url\(""", page)
    data = json.loads(re.search(r'id="film">(.*?)</script>', page, re.DOTALL)[1])
    assert len(data["frames"]) == len(filmed.frames) and data["source"] == SOURCE.splitlines()
    assert "<iframe" in shown._repr_html_() and "steps" in repr(shown)


def test_a_call_without_a_launch_says_so(capsys):
    assert lab.play(lambda x: x + 1, torch.ones(3)) is None
    assert "launches no CUDA C++ kernel" in capsys.readouterr().out


def test_source_cannot_end_the_pages_data():
    made = Film("k", "// </script><b>", (1, 1, 1), 32, {}, (Frame(0, 0, 1, "step", 1),))
    data = re.search(r'id="film">(.*?)</script>', Theater(made).page, re.DOTALL)[1]
    assert json.loads(data)["source"] == ["// </script><b>"]
