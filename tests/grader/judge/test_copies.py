"""Copies may align and pad, and nothing else; what they move needlessly is counted."""

import itertools
import random

import pytest
import torch

from grader.judge import copies, plan

START = 8192
X, OUT, COLUMNS, PITCHED, CUBE = range(5)
ARGUMENTS = [
    {"name": "x", "dtype": "float32", "length": 20_000, "shape": [30, 40], "strides": [40, 1], "start": START},
    {"name": "out", "dtype": "float32", "length": 20_000, "shape": [40, 30], "strides": [30, 1], "start": START},
    {"name": "c", "dtype": "float32", "length": 20_000, "shape": [30, 40], "strides": [1, 30], "start": START},
    {"name": "p", "dtype": "float32", "length": 20_000, "shape": [30, 40], "strides": [47, 1], "start": START},
    {"name": "h", "dtype": "float32", "length": 20_000, "shape": [2, 3, 4], "strides": [12, 4, 1], "start": START},
]
SCRATCH = [1 << 16, 1 << 16]


def view(home, number, shape, strides, offset=None, dtype="float32"):
    at = START if home == "argument" else 0
    return {
        home: number,
        "offset": at if offset is None else offset,
        "dtype": dtype,
        "shape": shape,
        "strides": strides,
    }


def argument(number, shape=None, strides=None, **more):
    home = ARGUMENTS[number]
    return view("argument", number, shape or home["shape"], strides or home["strides"], **more)


def scratch(number, shape, strides, **more):
    return view("scratch", number, shape, strides, **more)


FINE = {
    "as it is": [(argument(X), scratch(0, [30, 40], [40, 1]))],
    "flat": [(argument(X, [1200], [1]), scratch(0, [1200], [1]))],
    "rows with a pitch": [(argument(X), scratch(0, [30, 40], [44, 1]))],
    "rows that grow to the next power of two": [(argument(X), scratch(0, [30, 40], [64, 1]))],
    "without its pitch": [(argument(PITCHED), scratch(0, [30, 40], [40, 1]))],
    "somewhere in the scratch": [(argument(X), scratch(0, [30, 40], [40, 1], offset=320))],
    "back": [(scratch(0, [40, 30], [32, 1]), argument(OUT))],
    "one in, one out": [(argument(X), scratch(0, [30, 40], [40, 1])), (scratch(1, [40, 30], [30, 1]), argument(OUT))],
    "columns as rows": [(argument(COLUMNS), scratch(0, [30, 40], [40, 1]))],
    "columns as they lie": [(argument(COLUMNS, [40, 30], [30, 1]), scratch(0, [40, 30], [32, 1]))],
    "axes of one": [(argument(X, [1, 30, 1, 40], [7, 40, 9, 1]), scratch(0, [1, 30, 1, 40], [0, 40, 0, 1]))],
    "blocks with a pitch": [(argument(CUBE), scratch(0, [2, 3, 4], [32, 8, 1]))],
    "two axes as one": [(argument(CUBE, [6, 4], [4, 1]), scratch(0, [6, 4], [8, 1]))],
    "an axis in two": [(argument(X, [30, 5, 8], [40, 8, 1]), scratch(0, [30, 5, 8], [44, 8, 1]))],
}

WRONG = {
    "straight": [(argument(X, [40, 30], [1, 40]), argument(OUT))],
    "between layouts": [(argument(X), argument(COLUMNS))],
    "turned": [(argument(X, [40, 30], [1, 40]), scratch(0, [40, 30], [30, 1]))],
    "turned at home": [(argument(X), scratch(0, [30, 40], [1, 30]))],
    "hidden axes": [(argument(X, [1, 40, 30, 1], [1200, 1, 40, 1]), scratch(0, [1, 40, 30, 1], [1200, 30, 1, 1]))],
    "on the way back": [(scratch(0, [40, 30], [1, 40]), argument(OUT))],
    "in two steps": [
        (argument(X), scratch(0, [30, 40], [40, 1])), (scratch(0, [1200], [1]), argument(OUT, [1200], [1])),
    ],
    "through two scratch arrays": [
        (argument(X), scratch(0, [30, 40], [40, 1])), (scratch(0, [1200], [1]), scratch(1, [1200], [1])),
        (scratch(1, [40, 30], [30, 1]), argument(OUT)),
    ],
    "a row at a time": [
        (argument(X, [40], [1], offset=START + 40 * r), scratch(0, [40], [30], offset=r)) for r in range(30)
    ],
    "a row, in its place": [(argument(X, [40], [1]), scratch(0, [40], [1]))],
    "a column": [(argument(X, [30], [40]), scratch(0, [30], [1]))],
    "every other element": [(argument(X, [600], [2]), scratch(0, [600], [1]))],
    "a part of each row": [(argument(X, [30, 20], [40, 1]), scratch(0, [30, 20], [20, 1]))],
    "its rows backwards in halves": [
        (argument(X, [15, 40], [40, 1]), scratch(0, [15, 40], [40, 1], offset=600)),
        (argument(X, [15, 40], [40, 1], offset=START + 600), scratch(0, [15, 40], [40, 1])),
    ],
    "one row for all": [(argument(X, [30, 40], [0, 1]), scratch(0, [30, 40], [40, 1]))],
    "all rows into one": [(argument(X), scratch(0, [30, 40], [0, 1]))],
    "rows that overlap": [(argument(X), scratch(0, [30, 40], [39, 1]))],
    "a source that overlaps": [(argument(X, [30, 40], [39, 1]), scratch(0, [30, 40], [40, 1]))],
    "overlapping diagonals": [(argument(X, [30, 40], [1, 1]), scratch(0, [30, 40], [40, 1]))],
    "two arrays in one": [
        (argument(X), scratch(0, [30, 40], [80, 1])), (argument(PITCHED), scratch(0, [30, 40], [80, 1], offset=40)),
    ],
    "one array twice": [
        (argument(X), scratch(0, [30, 40], [80, 1])), (argument(X), scratch(0, [30, 40], [80, 1], offset=40)),
    ],
    "elements apart": [(argument(X), scratch(0, [30, 40], [80, 2]))],
    "a pitch inside the rows": [(argument(X, [30, 5, 8], [40, 8, 1]), scratch(0, [30, 5, 8], [80, 16, 1]))],
    "a pitch that is no padding": [(argument(X), scratch(0, [30, 40], [400, 1]))],
    "blocks turned": [(argument(CUBE), scratch(0, [2, 3, 4], [4, 8, 1]))],
    "as bytes": [(argument(X, [1200, 4], [4, 1], dtype="uint8"), scratch(0, [1200, 4], [4, 1], dtype="uint8"))],
    "as longer elements": [(argument(X, [600], [1], dtype="float64"), scratch(0, [600], [1], dtype="float64"))],
    "beside the argument": [(argument(X, offset=START - 40), scratch(0, [30, 40], [40, 1]))],
    "from one scratch array to another": [(scratch(0, [30, 40], [40, 1]), scratch(1, [40, 30], [30, 1]))],
}  # fmt: skip


@pytest.mark.parametrize("name", FINE)
def test_copies_that_line_data_up_are_fine(name):
    copies.check(FINE[name], ARGUMENTS, SCRATCH)


@pytest.mark.parametrize("name", WRONG)
def test_copies_do_no_work(name):
    with pytest.raises(copies.NotAlignment, match="with PyTorch, which is the kernel's work"):
        copies.check(WRONG[name], ARGUMENTS, SCRATCH)


def test_a_copy_stays_in_its_scratch_memory():
    copies.check([(argument(X), scratch(0, [30, 40], [40, 1]))], ARGUMENTS, [4800])
    with pytest.raises(copies.NotAlignment, match="beyond the end of its scratch memory"):
        copies.check([(argument(X), scratch(0, [30, 40], [40, 1]))], ARGUMENTS, [4799])


SMALL = [{"name": "x", "dtype": "int32", "length": 64, "shape": [3, 4], "strides": [4, 1], "start": 16}]


def _addresses(v: dict) -> list[int]:
    """Where each element of a view lies, element by element."""
    return [
        v["offset"] + sum(i * s for i, s in zip(index, v["strides"], strict=True))
        for index in itertools.product(*(range(n) for n in v["shape"]))
    ]


@pytest.mark.parametrize("seed", range(4))
def test_every_copy_that_passes_keeps_the_order_of_a_whole_argument(seed):
    """Every small view at random, looked at element by element: what passes is increasing, whole, and one to one."""
    draw, passed = random.Random(seed), 0
    for _ in range(20_000):
        shape = draw.choice([[12], [3, 4], [4, 3], [6, 2], [2, 6], [3, 2, 2], [2, 2], [4]])
        source, target = ([draw.choice((0, 1, 2, 3, 4, 6, 8)) for _ in shape] for _ in range(2))
        pair = (
            {"argument": 0, "offset": draw.choice((16, 16, 17)), "dtype": "int32", "shape": shape, "strides": source},
            {"scratch": 0, "offset": draw.choice((0, 5)), "dtype": "int32", "shape": shape, "strides": target},
        )
        try:
            copies.check([pair], SMALL, [4096])
        except copies.NotAlignment:
            continue
        passed += 1
        moved = sorted(zip(*map(_addresses, pair), strict=True))
        assert [a for a, _ in moved] == list(range(16, 28))
        assert all(one < other for (_, one), (_, other) in itertools.pairwise(moved))
    assert passed > 20


def test_views_of_pytorch_that_line_data_up_pass():
    """`aligned`, `padded`, `.contiguous()` and `.clone()`, of arrays as the cases lay them out."""
    for shape, strides in (([5, 7], [7, 1]), ([5, 7], [11, 1]), ([2, 5, 7], [35, 7, 1]), ([9], [1]), ([1, 7], [7, 1])):
        home = {"name": "x", "dtype": "float16", "length": 4096, "shape": shape, "strides": strides, "start": 129}
        x = torch.empty(4096, dtype=torch.float16).as_strided(shape, strides, 129)
        room = x.new_zeros(*(n + -n % 8 for n in shape))
        for target in (x.clone(), x.contiguous(), room[tuple(slice(n) for n in shape)]):
            if target is x:
                continue
            ours = view("argument", 0, list(x.shape), list(x.stride()), offset=129, dtype="float16")
            theirs = scratch(0, list(target.shape), list(target.stride()), dtype="float16")
            copies.check([(ours, theirs)], [home], [1 << 16])
            copies.check([(theirs, ours)], [home], [1 << 16])


def test_every_element_type_has_a_size():
    assert set(copies.BYTES) == plan.DTYPES
    assert all(getattr(torch, name).itemsize == size for name, size in copies.BYTES.items())


def test_only_copies_of_what_is_aligned_already_are_needless():
    pair = (argument(X), scratch(0, [30, 40], [40, 1]))
    assert copies.needless_sectors([pair], ARGUMENTS) == 2 * 150
    assert (
        copies.needless_sectors([(scratch(1, [40, 30], [32, 1]), argument(OUT))], ARGUMENTS) == 0
    )  # rows of 120 bytes
    moved = [ARGUMENTS[X] | {"start": START + 1}]
    assert copies.needless_sectors([pair], moved) == 0
    assert copies.needless_sectors([(argument(PITCHED), scratch(0, [30, 40], [40, 1]))], ARGUMENTS) == 0


def test_only_matrix_products_have_arguments_in_another_order_than_their_indices():
    """Such an argument may be copied in either order, which must not be what an exercise asks for."""
    from labutils import exercises

    with_columns = {
        i for i, e in exercises.all_exercises().items() if any("columns" in getattr(c, "layout", "") for c in e.cases)
    }
    tiles, persistent = "14_matmul_triton", "14_matmul_triton_persistent"
    assert with_columns == {
        f"{tiles}/matmul_relu",
        f"{tiles}/linear",
        f"{persistent}/persistent",
        f"{persistent}/split_k",
        *(f"15_hunt/{name}" for name in ("matmul_relu", "linear", "split_k")),
        "22_low_precision/fp8_matmul",
        "23_hunt/fp8_matmul",
    }
