"""The operation that makes the first NaN or inf."""

import inspect
import linecache

import pytest

from labutils.check import not_finite
from labutils.check.not_finite import Event
from labutils.spec.exercise import Case, Contract, array, out
from labutils.spec.inputs import make_run, shared_bytes
from tests.labutils.check.small_exercises import small

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

ZERO = small(
    "zero",
    "zero",
    arguments={"x": array("n"), "out": out("n")},
    reference=lambda x: 0 * x,
    contract=Contract(terms=1),
    cases=(Case("n = 20", {"n": 20}),),
)


@triton.jit
def zero_kernel(x_ptr, out_ptr, n, what: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    if what == "nan":
        x = (x - x) / (x - x)
    elif what == "inf":
        x = tl.exp(x * 0 + 200)
    tl.store(out_ptr + offs, x, mask=offs < n)


def traced(what):
    def zero(x, out):
        zero_kernel[(1,)](x, out, x.numel(), what, 32)

    return not_finite.trace(zero, make_run(ZERO, ZERO.cases[0], 5, "cpu", shared_bytes), 60.0)


@pytest.mark.parametrize(
    "what, cause, line",
    [("nan", "the first NaN is 0 / 0", "(x - x) / (x - x)"), ("inf", "the first inf is exp(200)", "tl.exp")],
)
def test_the_first_operation_is_named_with_its_operands_and_line(what, cause, line):
    found = not_finite.evidence(traced(what), what == "nan", linecache.getlines)
    lines, first = inspect.getsourcelines(zero_kernel.fn)
    number = first + next(k for k, text in enumerate(lines) if line in text)
    assert found.cause.startswith(f"{cause} on line {number}, `") and line in found.cause


def test_a_kernel_that_stays_finite_has_no_such_operation():
    assert traced("copy") == []


@pytest.mark.parametrize(
    "text, said",
    [
        ("x = tl.load(p)\ny = tl.load(q, mask=m, other=0.0)", "Loads without mask: line 3: `x = tl.load(p)`."),
        ("y = tl.load(q, mask=m)", "Loads without `other`, so masked lanes hold anything: line 3"),
        ("y = tl.load(q, mask=m, other=0.0)", "Follow what is stored back to the loads"),
    ],
)
def test_of_nan_that_no_operation_makes_the_loads_are_named(text, said):
    assert not_finite.loaded([(3, text)]).advice.startswith(said)


@pytest.mark.parametrize(
    "other, product, said",
    [
        ('-float("inf")', "tl.dot(q, k.T)", True),
        ("0.0", "tl.dot(q, k.T)", False),
        ('-float("inf")', "tl.max(k)", False),
        ('-float("inf")', "tl.dot(q, (p[:, None])) - k[:, None]", False),
    ],
)
def test_an_infinite_operand_of_a_product_is_named(other, product, said):
    found = not_finite.infinite_operand([(3, f"k = tl.load(p, mask=m, other={other})\ns = {product}\n")])
    assert (found is not None) == said
    if said:
        assert "line 3" in found.cause and "line 4" in found.cause and "other=0.0" in found.advice


def test_an_inf_does_not_explain_a_nan():
    events = [
        Event("overflow", "exp of 99", "f.py", 1),
        Event("invalid", "", "f.py", 2),
        Event("invalid", "0 / 0", "f.py", 3),
    ]
    lines = lambda _: ["a\n", "b\n", "c = a / b\n"]  # noqa: E731
    assert not_finite.evidence(events, True, lines).cause == "the first NaN is 0 / 0 on line 3, `c = a / b`"
    assert not_finite.evidence(events, False, lines).cause.startswith("the first inf is exp of 99 on line 1")
    assert not_finite.evidence(events[1:2], True, lines) is None


def test_an_infinity_that_no_input_holds_is_to_be_followed_back():
    events = [Event("invalid", "0 · inf", "k.py", 1)]
    computed = not_finite.evidence(events, True, lambda _: ["y = a * b\n"], finite=True)
    given = not_finite.evidence(events, True, lambda _: ["y = a * b\n"])
    assert "No input of this case is infinite" in computed.advice and "tl.where" not in computed.advice
    assert "No input" not in given.advice
