"""Sets of elements in words."""

import pytest
import torch

from labutils.check.regions import describe, of_flat, slices


def marked(shape, *index):
    m = torch.zeros(shape, dtype=torch.bool)
    m[index] = True
    return m


@pytest.mark.parametrize(
    "shape, index, text",
    [
        ((8,), (slice(3, None),), "x[3:]"),
        ((8,), (slice(None, None, 2),), "x[::2]"),
        ((8,), (5,), "x[5]"),
        ((8,), (slice(None),), "all of x"),
        ((4, 6), (slice(None), 2), "x[:, 2]"),
        ((4, 6), (1, slice(0, 3)), "x[1, :3]"),
        ((4, 6), ([0, 2], [1, 3]), "x[0, 1] and 1 more"),
    ],
)
def test_sets_are_slices_where_they_can_be(shape, index, text):
    assert describe("x", marked(shape, *index)) == text


def test_nothing_is_no_slice():
    assert slices(torch.zeros(3, dtype=torch.bool)) is None


def test_row_major_numbers():
    assert of_flat("x", (2, 3), [3, 4, 5]) == "x[1, :]"
