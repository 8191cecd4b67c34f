"""The same seed gives the same bits, cases do not depend on each other, and guards and poison tell on a kernel."""

from dataclasses import replace

import pytest
import torch

from labutils.spec.exercise import Case, Contract, Cost, KernelExercise, Number, Points, array, out
from labutils.spec.inputs import FILLS, LAYOUTS, generator, hidden_cases, make_run

CASES = (
    Case("small", {"M": 3, "N": 5}),
    Case("padded", {"M": 4, "N": 33}, "position", layout="padded"),
    Case("offset fp16", {"M": 2, "N": 70}, "wide", layout="offset", dtype="float16"),
)


def exercise(cases=CASES):
    return KernelExercise(
        id="99_test/scale",
        title="Scale",
        entry="scale",
        points=Points(correct=1),
        arguments={"x": array("M", "N"), "factor": Number(), "n": Number("N"), "out": out("M", "N")},
        reference=lambda x, factor, n: x * factor,
        contract=Contract(terms=1),
        cost=lambda sizes, item: Cost(item, item, 1),
        cases=tuple(cases),
        draw=lambda rng: {"M": rng.randrange(1, 9), "N": rng.randrange(1, 99)},
        tiny=cases[0],
    )


def bits(run):
    return [b.bits().clone() for b in run.buffers.values()], run.numbers


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a[0], b[0], strict=True)) and a[1] == b[1]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_seed_decides_every_bit(case):
    once, again, other = (bits(make_run(exercise(), case, seed)) for seed in (7, 7, 8))
    assert same(once, again)
    assert not any(torch.equal(x, y) for x, y in zip(once[0], other[0], strict=True))


def test_a_further_case_leaves_the_others_unchanged():
    longer = exercise((Case("first", {"M": 1, "N": 1}), *CASES))
    for case in CASES:
        assert same(bits(make_run(exercise(), case, 7)), bits(make_run(longer, case, 7)))


def test_hidden_cases_come_from_the_seed():
    once, again, other = (hidden_cases(exercise(), seed, 4) for seed in (7, 7, 8))
    assert once == again and len({c.name for c in once}) == 4
    assert [c.sizes for c in once] != [c.sizes for c in other]
    assert hidden_cases(exercise(), 7, 6)[:4] == once


STREAM = [0.6178545355796814, 0.6448817849159241]


def test_streams_are_those_of_the_first_release():
    """A change here changes every learner's data and every recorded verdict."""
    assert torch.rand(2, generator=generator(2024, "stream")).tolist() == pytest.approx(STREAM)


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_fills_survive_their_type(fill, dtype):
    values = FILLS[fill]((6, 50), generator(1), dtype)
    assert values.dtype == torch.float64 and values.shape == (6, 50)
    stored = values.to(getattr(torch, dtype)).double()
    assert not torch.isnan(stored).any()
    assert torch.equal(torch.isinf(stored), torch.isinf(values))
    if fill == "position" and dtype != "bfloat16":
        assert torch.equal(stored, values) and len(values.unique()) == values.numel()
    if fill == "integers":
        assert torch.equal(stored, values)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    run = make_run(exercise(), Case("layout", {"M": 4, "N": 33}, layout=layout), 7)
    x = run.buffers["x"].view
    assert x.shape == (4, 33) and x.stride(1) == (4 if layout in ("columns", "input columns") else 1)
    assert run.buffers["out"].view.stride(1) == (4 if layout == "columns" else 1)
    assert (x.stride(0) > 33) == (layout in ("padded", "far"))
    assert (x.data_ptr() % 16 == 0) == (layout != "offset")
    assert run.arguments[2] == 33 and run.arguments[1] == run.inputs()["factor"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_guards_notice_any_write_and_nothing_else(layout):
    run = make_run(exercise(), Case("guards", {"M": 4, "N": 33}, layout=layout), 7)
    b = run.buffers["out"]
    assert not b.changed().any()
    b.view.fill_(1)
    assert torch.equal(b.changed(), b.inside()) and int(b.inside().sum()) == 4 * 33
    for outside in (~b.inside()).nonzero().flatten()[::997]:
        b.reset()
        b.bits()[outside] ^= 1
        assert b.changed().nonzero().flatten().tolist() == [outside]


def test_an_array_may_have_another_strategy_for_what_a_case_names():
    task, wide = exercise(), replace(CASES[0], fill="wide")
    plain = make_run(task, wide, 1).buffers["x"].view
    task.arguments["x"] = array("M", "N", fill={"wide": "normal"})
    assert torch.equal(make_run(task, wide, 1).buffers["x"].view, make_run(exercise(), CASES[0], 1).buffers["x"].view)
    assert not torch.equal(make_run(task, wide, 1).buffers["x"].view, plain)
    assert torch.equal(*(make_run(t, CASES[1], 1).buffers["x"].view for t in (task, exercise())))


def test_inputs_are_those_from_before_the_run():
    run = make_run(exercise(), CASES[0], 7)
    before = run.inputs()["x"]
    run.buffers["x"].view.zero_()
    assert torch.equal(run.inputs()["x"], before)
    assert set(run.inputs()) == {"x", "factor", "n"}


def test_rows_of_no_two_arrays_lie_equally_far_apart():
    run = make_run(exercise(), CASES[1], 7)
    strides = [buffer.view.stride(0) for buffer in run.buffers.values()]
    assert len(set(strides)) == len(strides) and min(strides) > 33


def test_offsets_of_an_array_laid_out_far_overflow_32_bits_and_no_more():
    for rows in (3, 4, 100):
        run = make_run(exercise(), Case("far", {"M": rows, "N": 33}, layout="far"), 7)
        x, out = run.buffers["x"], run.buffers["out"]
        stride = x.view.stride(0) * x.apart
        assert stride < 2**31 <= (rows - 1) * stride < 2**32
        assert x.view.stride(0) != out.view.stride(0)
    assert make_run(exercise(), Case("two", {"M": 2, "N": 33}, layout="far"), 7).buffers["x"].apart == 1


def test_hidden_cases_have_padded_rows_where_the_launcher_takes_strides():
    assert "padded" in {case.layout for case in hidden_cases(exercise(), 1)}
    assert "padded" not in {case.layout for case in hidden_cases(exercise(CASES[:1]), 1)}


def test_values_far_below_zero_and_of_opposed_signs():
    below = Case("below", {"M": 3, "N": 50}, "below")
    assert make_run(exercise([below]), below, 7).inputs()["x"].max() < -900
    opposed = Case("opposed", {"M": 3, "N": 50}, "opposed")
    arguments = {"q": array("M", "N"), "k": array("M", "N"), "out": out("M", "N")}
    two = replace(exercise([opposed]), arguments=arguments)
    inputs = make_run(two, opposed, 7).inputs()
    assert inputs["q"].min() >= 5 and inputs["k"].max() <= -5
    inputs = make_run(two, replace(opposed, fill="level"), 7).inputs()
    assert inputs["q"].abs().max() < 0.5 and inputs["k"].abs().max() > 3
