"""How messages are scored by what they name, and the other way to write a solution."""

import pytest

from bench.messages import restructured, score
from grader.course.mutations import Mutation

TEXT = """\
def kernel(x_ptr, out_ptr, N, stride_xm):
    row = tl.program_id(0)
    offs = tl.arange(0, 16)
    first = row * stride_om
    x = tl.load(x_ptr + first + offs)
    y = 2
    tl.store(out_ptr + offs, x)
"""
SLIP = Mutation("unit/kernel", "stride for stride", "first = row * stride_xm", "first = row * stride_om", TEXT, "", 4)


@pytest.mark.parametrize(
    "message, wanted",
    [
        ("program 3 reads x[7] (line 4: `first = row * stride_om`)", "hit"),
        ("Look at `row * stride_om`.", "hit"),
        ("`stride_xm` is used nowhere", "hit"),
        ("x is read outside (line 5)", "near"),
        ("Check line 6: `y = 2`.", "wrong"),
        ("2 of 3 elements of out are wrong", "silent"),
    ],
)
def test_scores(message, wanted):
    assert score(SLIP, message) == wanted


def test_a_restructured_solution_has_other_names_and_loops():
    text = (
        "def kernel(K, BLOCK):\n    total = 0\n    for k in range(0, K, BLOCK):\n        total += k\n    return total\n"
    )
    text = restructured(text)
    assert "total" not in text and "range(tl.cdiv(K - (0), BLOCK))" in text

    class Language:
        cdiv = staticmethod(lambda a, b: -(-a // b))

    names = {"tl": Language}
    exec(text, names)
    assert names["kernel"](10, 4) == 0 + 4 + 8
