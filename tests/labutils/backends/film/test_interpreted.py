"""The film of a Triton launch: one program after another, tile by tile."""

import pytest
import torch

import labutils  # noqa: F401  (before Triton)
from labutils.backends import film
from labutils.backends.film import frames

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402


@triton.jit
def softmax_kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + columns, mask=columns < N, other=float("-inf"))
    e = tl.exp(x - tl.max(x))
    tl.store(out_ptr + row * N + columns, e / tl.sum(e), mask=columns < N)


def softmax(x, out):
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=8)


@triton.jit
def copy_tile(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out_ptr + at, tl.load(x_ptr + at))


def of(made: film.Film, program: int) -> list[film.Frame]:
    return [f for f in made.frames if f.block == program]


def test_each_program_loads_combines_and_stores_a_tile():
    x, out = torch.rand(3, 5), torch.zeros(3, 5)
    made = film.film(softmax, x, out)
    assert out.count_nonzero() == 0  # it ran on copies
    assert made.kernel == "softmax_kernel" and made.threads == 0 and made.grid == (3, 1, 1) and not made.cut
    assert [f.operation for f in of(made, 1)] == ["load", "meet", "meet", "store"]
    load, store = of(made, 1)[0], of(made, 1)[-1]
    assert load.array == "x_ptr" and load.offsets == tuple(4 * (5 + k) for k in range(5)) and load.size == 4
    assert load.shape == (8,) and load.mask == (5, 3) and store.array == "out_ptr"
    assert made.arrays["x_ptr"].shape == (3, 5)


def test_lines_are_those_of_the_source():
    made = film.film(softmax, torch.rand(1, 5), torch.zeros(1, 5))
    text = made.source.splitlines()
    for f, expected in zip(made.frames, ("tl.load", "tl.max", "tl.store", "tl.store"), strict=True):
        assert expected in text[f.line - made.first_line]


def test_a_tile_of_two_dimensions_keeps_its_shape():
    made = film.film(lambda x, y: copy_tile[(1,)](x, y, 4, 8), torch.rand(4, 8), torch.zeros(4, 8))
    assert [(f.operation, f.shape, f.mask, len(f.offsets)) for f in made.frames] == [
        ("load", (4, 8), (), 32), ("store", (4, 8), (), 32)
    ]  # fmt: skip


def test_what_is_outside_of_an_array_is_masked_and_told():
    made = film.film(lambda x, y: copy_tile[(1,)](x, y, 4, 8), torch.rand(31), torch.zeros(4, 8))
    assert made.frames[0].mask == (31, 1) and "outside the array" in made.messages[0]


def test_many_programs_are_cut():
    made = film.film(softmax, torch.rand(40, 5), torch.zeros(40, 5))
    assert made.cut and {f.block for f in made.frames} == set(range(frames.MAX_BLOCKS))


def test_the_first_launch_is_filmed():
    def twice(x, y):
        softmax(x, y)
        copy_tile[(1,)](x, y, 1, 4)

    assert film.film(twice, torch.rand(2, 5), torch.zeros(2, 5)).kernel == "softmax_kernel"
