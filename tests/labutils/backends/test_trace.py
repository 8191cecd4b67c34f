"""What an access map is drawn from: where a call's launches load and store, in the memory that its arrays have."""

import pytest
import torch
import triton
import triton.language as tl

import labutils as lab
from labutils import plots
from labutils.backends import trace
from labutils.backends.film.accesses import accesses


@triton.jit
def rows_kernel(x_ptr, out_ptr, N, stride_xm, stride_om, BLOCK: tl.constexpr):
    row, offs = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_xm + offs, mask=offs < N)
    tl.store(out_ptr + row * stride_om + offs, x, mask=offs < N)


def rows(x, out):
    rows_kernel[(x.shape[0],)](x, out, x.shape[1], x.stride(0), out.stride(0), BLOCK=4096)


def as_if_contiguous(x, out):
    rows_kernel[(x.shape[0],)](x, out, x.shape[1], x.shape[1], out.stride(0), BLOCK=16)


@pytest.mark.parametrize("fn, starts", [(rows, [0, 20, 40]), (as_if_contiguous, [0, 12, 24])])
def test_a_slice_is_recorded_where_it_is_in_memory(fn, starts):
    x = torch.arange(60.0).reshape(3, 20)[:, :12]
    seen = trace.trace(fn, x, torch.empty(3, 12))
    assert [e.elements for e in seen.events if (e.access, e.array) == ("load", "x")] == [
        tuple(range(first, first + 12)) for first in starts
    ]
    assert len(seen.inside["x"]) == 52 and sum(seen.inside["x"]) == 36 and not any(seen.inside["x"][12:20])
    assert "x (load): 36 elements of a slice, in 52 elements of memory" in [
        axis.get_title("left") for axis in plots.access_map(seen).axes
    ]


def test_an_expanded_array_is_recorded_once_in_memory():
    seen = trace.trace(rows, torch.ones(12).expand(3, 12), torch.empty(3, 12))
    assert {e.elements for e in seen.events if (e.access, e.array) == ("load", "x")} == {tuple(range(12))}
    assert seen.inside["x"] == (True,) * 12


def test_lanes_that_are_masked_off_point_into_no_other_array():
    seen = trace.trace(rows, torch.ones(2, 12), torch.empty(2, 12))
    for access, array in (("masked load", "x"), ("masked store", "out")):
        pointed = [e for e in seen.events if e.access == access]
        assert [e.array for e in pointed] == [array, array]
        assert [len(e.elements) for e in pointed] == [4084, 4084]


def test_a_map_of_cuda_shows_the_blocks_of_the_first_launch():
    kernel = lab.cuda.compile(
        "__global__ void evens(const float2* x, float* out, int n) {"
        " int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = x[i].x; }",
        "evens",
    )
    x, out = torch.ones(80), torch.zeros(40)
    seen = accesses(lambda x, out: kernel[2, 32](x, out, 40), x, out)
    of = {
        (a, b): [e.elements for e in seen.events if (e.array, e.program) == (a, b)] for a in seen.inside for b in (0, 1)
    }
    assert of["out", 0] == [tuple(range(32))] and of["out", 1] == [tuple(range(32, 40))]
    assert seen.unit == "block" and out.count_nonzero() == 0
    picture = lab.access_map(lambda x, out: kernel[2, 32](x, out, 40), x, out)
    assert picture.alt.startswith("Access map: 2 blocks;") and picture.alt.endswith("160 bytes stored.")


def test_a_call_without_accesses_has_no_picture(capsys):
    assert lab.access_map(lambda x: None, torch.ones(4)) is None
    assert "No picture: the call accesses none of its arrays" in capsys.readouterr().out
