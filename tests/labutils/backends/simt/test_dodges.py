"""What must not escape: uncounted accesses, orders that nobody established, wide accesses that are partly outside."""

import pytest
import torch

from labutils.backends import simt
from labutils.spec.exercise import Bound
from tests.labutils.backends.simt import dodge_cases as cases
from tests.labutils.backends.simt.conftest import aligned

RACES = {"race", "missing-syncthreads", "missing-syncwarp"}
COMPULSORY = 4 * cases.N // 32
"""Sectors of one array."""


def counts_of(build, source) -> dict:
    kernel, x, y = build(source, "k"), aligned(torch.randn(cases.N)), aligned(torch.zeros(cases.N))
    try:
        result = kernel[32, 128](x, y, cases.N)
    except simt.LaunchError as e:
        return {"refused": str(e)}
    if any(f.fatal for f in result.findings):
        return {"refused": result.findings[0].kind}
    return result.counters.to_json()


@pytest.mark.parametrize("name", cases.COUNTED)
def test_every_access_is_counted(build, name):
    source, sides = cases.COUNTED[name]
    try:
        counts = counts_of(build, source)
    except simt.CompileError:
        return  # refused before it runs
    if "refused" in counts:
        return
    for side in sides.split():
        if side == "all":  # coalesced: exactly what must move is allowed, less is not
            low, high = COMPULSORY, 8 * COMPULSORY
        else:
            low, high = 2 * COMPULSORY, 1 << 20
            if "all" in sides:
                continue
        for direction in ("load", "store") if side == "all" else (side,):
            sectors = Bound("sectors", f"global_{direction}_sectors", at_least=low)
            assert sectors.met(counts), f"{direction}: {sectors.value(counts)} sectors, at least {low} were touched"
            assert sectors.value(counts) <= high
            assert not Bound("b", f"global_{direction}_sectors", at_most=0.9 * COMPULSORY).met(counts)


def run(build, source, grid, block):
    kernel = build(source, "k")
    memory = [torch.zeros(1024, dtype=torch.int32) for _ in range(3)]
    return kernel[grid, block](*(aligned(m) for m in memory))


@pytest.mark.parametrize("name", cases.RACES)
def test_an_order_that_nobody_established_is_a_race(build, name):
    result = run(build, *cases.RACES[name])
    assert any(f.kind in RACES for f in result.findings), f"{[str(f) for f in result.findings]}"


@pytest.mark.parametrize("name", cases.CLEAN)
def test_an_order_that_was_waited_for_is_none(build, name):
    result = run(build, *cases.CLEAN[name])
    assert not result.findings, str(result.findings[0])


def run_wide(build, source, block, elements):
    x, y = aligned(torch.randn(elements)), aligned(torch.zeros(64))
    return build(source, "k")[1, block, 120](x, y)


@pytest.mark.parametrize("name", cases.WIDE)
def test_an_access_is_checked_as_a_whole(build, name):
    *launch, kind = cases.WIDE[name]
    shared = 128 if name.startswith("uninitialized") else 120
    x, y = aligned(torch.randn(launch[2])), aligned(torch.zeros(64))
    try:
        kernel = build(launch[0], "k")
    except simt.CompileError:
        return  # refused before it runs
    result = kernel[1, launch[1], shared](x, y)
    assert [f.kind for f in result.findings][:1] == [kind], f"{[str(f) for f in result.findings]}"


@pytest.mark.parametrize("name", cases.WIDE_CLEAN)
def test_an_access_that_is_inside_is_fine(build, name):
    result = run_wide(build, *cases.WIDE_CLEAN[name])
    assert not result.findings, str(result.findings[0])
