"""What is said of inputs on which an output depends wrongly, and what is not."""

import pytest
import torch

from labutils.check import influence
from labutils.check.influence import Group, Moves
from labutils.spec.exercise import Case, Contract, array, out
from labutils.spec.inputs import make_run
from tests.labutils.check.small_exercises import small

SIZE = 4
EVERYWHERE = torch.ones(SIZE, dtype=torch.bool)


def moves(name, moved, must):
    """Element 0 of the output: for each element of an input, did it move it, and must it? Element 1 is right."""
    found = []
    for k, (did, should) in enumerate(zip(moved, must, strict=True)):
        wrong, right = torch.arange(SIZE) == 0, torch.arange(SIZE) == 1
        wanted = wrong & bool(should) | right
        found.append(Moves(Group(name, (len(must),), None, k, k + 1), wrong & bool(did) | right, wanted, wanted))
    return found


@pytest.mark.parametrize(
    "a, b, cause",
    [
        # what is read of b is 0 there, so a does not count either
        ([0, 0, 0], [0, 0, 0], "out[0] depends neither on a[:2] nor on b[:2]"),
        # b is read at another place, and a is hidden by it
        ([0, 0, 0], [0, 0, 1], "out[0] depends on b[2]; it should depend on b[:2]"),
        # both are read at other places
        ([1, 0, 1], [0, 1, 1], "out[0] is put together from the wrong elements (lacks a[1]; takes in a[2]; lacks b[0]"),
        # all that belongs there is in it, and more
        ([1, 1, 1], [1, 1, 1], "out[0] takes in what belongs to other results (takes in a[2]; takes in b[2])"),
        # only one is wrong
        ([1, 1, 0], [1, 0, 0], "out[0] does not depend on b[1], only on b[0], although it should"),
    ],
)
def test_of_several_inputs_the_innocent_one_is_not_named(a, b, cause):
    found = influence.story("out", [*moves("a", a, [1, 1, 0]), *moves("b", b, [1, 1, 0])], EVERYWHERE)
    assert found.cause.startswith(cause)


def test_what_few_wrong_elements_show_explains_nothing():
    found = [*moves("a", [1, 0, 0], [1, 1, 0]), *moves("b", [1, 1, 0], [1, 1, 0])]
    assert influence.story("out", found, EVERYWHERE) is not None and not influence.is_right(found, EVERYWHERE)
    many = torch.ones(40, dtype=torch.bool)
    for m in found:
        m.moved, m.must, m.may = (torch.cat([x, torch.ones(36, dtype=torch.bool)]) for x in (m.moved, m.must, m.may))
    assert influence.story("out", found, many) is None
    assert not influence.is_right(found, many) and influence.is_right(found, ~many)


@pytest.mark.parametrize("names, cause", [("a", "out does not depend on a:"), ("ab", "out depends on none of a, b:")])
def test_inputs_that_move_nothing_are_named_together(names, cause):
    found = []
    for name in "ab":
        for m in moves(name, [1, 1], [1, 1]):
            if name in names:
                m.moved = torch.zeros_like(m.moved)
            found.append(m)
    assert influence.story("out", found, EVERYWHERE).cause.startswith(cause)


GATED = small(
    "gated",
    "gated",
    arguments={"gate": array("n", fill="below"), "up": array("n"), "out": out("n")},
    reference=lambda gate, up: torch.sigmoid(1000 * gate) * up,
    magnitude=lambda gate, up: up.abs(),
    contract=Contract(terms=lambda s: 1),
    cases=(Case("4", {"n": SIZE}),),
)


def test_what_the_formula_names_belongs_there_also_where_it_vanishes():
    run = make_run(GATED, GATED.cases[0], 5)
    inputs = {"gate": torch.full((SIZE,), -1.0).double(), "up": torch.ones(SIZE).double()}
    group = Group("up", (SIZE,), None, 0, 1)
    plain = influence._plain(inputs)
    assert all(float(v.min()) >= 0.25 and float(v.max()) <= 1.25 for v in plain.values())
    before = GATED.expected(plain)["out"]
    structural = [GATED.expected(x)["out"] for x in influence._otherwise(plain, group)]
    comparison = influence.Comparison(run)
    output = comparison.output("out")
    output.expected = GATED.expected(inputs)["out"]
    found = influence._compared(output, run, group, [output.expected], before, structural)
    assert found.may.tolist() == [True, False, False, False]
