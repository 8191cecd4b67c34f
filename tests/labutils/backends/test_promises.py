"""Hints to the compiler are held against the values."""

import numpy as np
import pytest

import labutils  # noqa: F401  (before triton: its interpreter)
from labutils.backends.promises import FalsePromise, check

LANES = np.arange(64)

TRUE = [
    ("multiple_of", LANES, [64]),
    ("multiple_of", LANES + 128, [128]),
    ("multiple_of", np.array(96), [32]),
    ("multiple_of", 8 * LANES[:, None] + LANES[:8], [8, 8]),
    ("multiple_of", (LANES + 64) % 100, [32]),
    ("max_contiguous", LANES + 5, [64]),
    ("max_contiguous", (LANES + 64) % 100, [64]),
    ("max_contiguous", np.where(LANES < 37, LANES, 0), [64]),
    ("max_contiguous", np.minimum(LANES, 37), [64]),
    ("max_contiguous", 100 * LANES[:, None] + LANES[:8], [1, 8]),
    ("max_contiguous", LANES // 4 * 10 + LANES % 4, [4]),
    ("max_constancy", LANES < 32, [16]),
    ("max_constancy", LANES < 37, [1]),
]

FALSE = [
    ("multiple_of", LANES + 1, [4]),
    ("multiple_of", np.array(97), [32]),
    ("multiple_of", 9 * LANES[:, None] + LANES[:8], [1, 8]),
    ("max_contiguous", 2 * LANES, [4]),
    ("max_contiguous", LANES // 2, [4]),
    ("max_contiguous", LANES % 3, [16]),
    ("max_contiguous", LANES // 4 * 10 + LANES % 4, [8]),
    ("max_contiguous", LANES[::-1], [4]),
    ("max_constancy", LANES < 37, [16]),
]


@pytest.mark.parametrize(("name", "values", "promised"), TRUE)
def test_a_true_promise_is_no_mistake(name, values, promised):
    check(name, values, promised)


@pytest.mark.parametrize(("name", "values", "promised"), FALSE)
def test_a_false_promise_is_refused(name, values, promised):
    with pytest.raises(FalsePromise, match=f"tl.{name} promises {promised[-1]}"):
        check(name, values, promised)


@pytest.mark.parametrize(("begin", "fine"), [(4096, True), (4100, False)])
def test_pointers_are_multiples_of_bytes(begin, fine):
    pointers = (begin + 4 * LANES).astype(np.uint64)
    check("max_contiguous", pointers, [64], itemsize=4)
    if fine:
        check("multiple_of", pointers, [64], itemsize=4)
    else:
        with pytest.raises(FalsePromise):
            check("multiple_of", pointers, [64], itemsize=4)
