"""`lab.aligned` and `lab.padded`: what fits is handed back as it is, and the rest is copied once, to where it fits."""

import pytest
import torch

import labutils as lab

TYPES = (torch.float16, torch.float32, torch.float64)


def numbers(*shape, dtype=torch.float16):
    return torch.arange(1, 1 + torch.Size(shape).numel(), dtype=dtype).reshape(shape)


def fits(x):
    """Do x and each of its rows begin at multiples of 16 bytes, with elements side by side?"""
    steps = [step * x.element_size() for step in x.stride()[:-1]]
    return x.stride(-1) == 1 and not any(at % 16 for at in (x.data_ptr(), *steps))


AS_THEY_ARE = {
    "a vector": numbers(5),
    "whole rows": numbers(3, 16),
    "some columns of whole rows": numbers(3, 16)[:, 8:13],
    "some heads": numbers(4, 3, 8)[1::2],
    "a head for all": numbers(1, 3, 8).expand(4, 3, 8),
    "turned twice": numbers(3, 16).T.T,
}

TO_BE_COPIED = {
    "a vector's rest": numbers(5)[1:],
    "rows of 13": numbers(3, 13),
    "rows of 14, copied in pieces of 4 bytes": numbers(3, 14),
    "rows of 12, copied in pieces of 8": numbers(3, 12),
    "four elements on": numbers(52)[4:].view(3, 16),
    "rows of 12 with two more between them": numbers(3, 14)[:, :12],
    "an odd beginning": numbers(49)[1:].view(3, 16),
    "columns": numbers(16, 3).T,
    "each other element": numbers(3, 16)[:, ::2],
    "heads of odd length": numbers(2 * 25)[:48].as_strided((2, 3, 8), (25, 8, 1)),
    "rows of three axes": numbers(2, 3, 5),
}


@pytest.mark.parametrize("x", AS_THEY_ARE.values(), ids=AS_THEY_ARE)
def test_what_is_aligned_stays(x):
    assert lab.aligned(x) is x and lab.aligned(x, keep=False) is x


@pytest.mark.parametrize("x", TO_BE_COPIED.values(), ids=TO_BE_COPIED)
def test_what_is_not_is_copied(x):
    copy, room = lab.aligned(x), lab.aligned(x, keep=False)
    assert fits(copy) and torch.equal(copy, x) and copy.dtype == x.dtype
    assert fits(room) and room.shape == x.shape and room.dtype == x.dtype
    assert lab.aligned(copy) is copy


@pytest.mark.parametrize("dtype", TYPES)
def test_a_unit_is_16_bytes_of_any_type(dtype):
    unit = 16 // dtype.itemsize
    x = numbers(3, 2 * unit, dtype=dtype)
    assert lab.aligned(x) is x and lab.padded(x, rows=False) is x
    assert lab.aligned(numbers(3, unit + 1, dtype=dtype)).stride() == (2 * unit, 1)
    assert lab.padded(numbers(3, unit + 1, dtype=dtype), rows=True).shape == (-(-3 // unit) * unit, 2 * unit)


def test_a_tensor_map_takes_what_is_aligned():
    for x in TO_BE_COPIED.values():
        if x.ndim == 2:
            lab.tensor_map(lab.aligned(x), (8, 8))


@pytest.mark.parametrize("shape", [(3, 16), (8, 8), (1, 8)])
def test_whole_vectors_stay(shape):
    x = numbers(*shape)
    assert lab.padded(x) is x and lab.padded(x, keep=False) is x
    assert (lab.padded(x, rows=True) is x) == (shape[0] % 8 == 0)


@pytest.mark.parametrize(
    "x", [numbers(3, 13), numbers(49)[1:].view(3, 16), numbers(16, 3).T, numbers(3, 32)[:, :16], numbers(1, 1)]
)
@pytest.mark.parametrize("rows", [False, True])
def test_zeros_make_vectors_whole(x, rows):
    copy, room = lab.padded(x, rows=rows), lab.padded(x, keep=False, rows=rows)
    (M, N), high, wide = x.shape, -(-x.shape[0] // 8) * 8, -(-x.shape[1] // 8) * 8
    assert copy.shape == room.shape == (high if rows else M, wide)
    assert copy.is_contiguous() and fits(copy) and fits(room)
    assert torch.equal(copy[:M, :N], x) and not copy[M:].any() and not copy[:, N:].any()
    assert copy.dtype == room.dtype == x.dtype and not room.any()
    assert lab.padded(copy, rows=rows) is copy
