"""What sets refused cases apart: said only if it is no coincidence."""

import pytest

from labutils.check import patterns
from labutils.spec.exercise import Case


def cases(*sizes):
    return [Case(str(size), dict(zip("MN", size, strict=True))) for size in sizes]


MANY = cases((9, 65), (1, 70), (5, 100), (17, 66)), cases((9, 64), (1, 3), (5, 7), (17, 60))


def test_a_size_above_which_all_cases_fail_is_named():
    assert "only cases with N of 65 or more fail, those up to N = 64 pass" in patterns.apart(*MANY)
    assert "Up to N = 64" in patterns.advice(*MANY)


@pytest.mark.parametrize(
    "refused, passed",
    [
        (cases((9, 65), (5, 70)), cases((9, 3))),  # one case that passed
        (cases((9, 65), (5, 70)), cases((9, 3), (5, 4))),  # few of both kinds
        (cases((9, 65), (8, 70), (10, 66)), cases((1, 3), (2, 5), (3, 4))),  # both dimensions do so
        (cases((9, 65), (5, 71)), cases((9, 64), (5, 66))),  # odd and even
        (cases((1, 65), (2, 30)), cases((1, 64), (2, 128))),  # no multiple of 64, but only two cases of each kind
    ],
)
def test_a_coincidence_is_not(refused, passed):
    assert patterns.apart(refused, passed) == ""
    assert patterns.advice(refused, passed) == ""


def test_a_block_that_leaves_a_tail_is_named():
    assert "N is not a multiple of 64" in patterns.apart(
        cases((1, 65), (2, 30), (3, 100), (5, 1)), cases((1, 64), (2, 128), (3, 192), (5, 64))
    )


def test_the_layout_of_one_case_is_not_its_cause():
    passed = cases((9, 65), (1, 70), (5, 100))
    offset = [Case(str(n), {"M": n, "N": 66}, layout="offset") for n in (7, 8)]
    assert "16-byte boundary" in patterns.apart(offset, passed)
    assert patterns.apart(offset[:1], passed) == ""


def test_what_is_no_number_is_no_size():
    refused = [Case(name, {"terms": 4096, "stored": name}) for name in ("fp16", "bf16")]
    passed = [Case("fp32", {"terms": 64, "stored": "fp32"}), Case("none", {"terms": 65, "stored": None})]
    assert patterns.apart(refused, passed) == patterns.advice(refused, passed) == ""
