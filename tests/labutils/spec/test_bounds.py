"""Bounds: what counts as traffic, and what a kernel that avoids being counted gets for it."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from labutils import exercises
from labutils.spec.bounds import Bound, counted_whole, with_atomics
from labutils.spec.exercise import Points

NEED = {"compulsory_read": 4096, "compulsory_written": 4096, "compulsory_bytes": 8192}
HONEST = NEED | {
    "load_bytes": 4096, "store_bytes": 4096, "global_load_requests": 32, "global_load_sectors": 128,
    "global_load_bytes": 4096, "global_store_requests": 32, "global_store_sectors": 128, "global_store_bytes": 4096,
}  # fmt: skip
PER_LOAD = Bound("sectors per load", "global_load_sectors", "global_load_requests", at_most=4, reference=32)
WIDE = Bound("bytes per load", "global_load_bytes", "global_load_requests", at_least=500, reference=4096, margin=3)


def test_an_honest_kernel_meets_its_bounds():
    assert counted_whole(HONEST) and PER_LOAD.met(HONEST)
    assert Bound("sectors", "global_load_sectors", at_most=128).met(HONEST)


def test_a_ratio_to_nothing_is_not_met():
    for bound in (PER_LOAD, Bound("bytes", "shared_load_bytes", "shared_load_requests", at_least=0)):
        assert not bound.met({"load_bytes": 0})
    assert not Bound("conflicts", "shared_load_wavefronts", "ideal_shared_load_wavefronts", at_most=1).met(HONEST)
    assert "no shared_load_requests were counted" in Bound(
        "b", "shared_load_bytes", "shared_load_requests", at_least=0
    ).line(HONEST)


def test_atomics_are_loads_and_stores():
    counts = HONEST | {"global_atomic_requests": 32, "global_atomic_sectors": 1024, "global_atomic_bytes": 4096}
    assert with_atomics(counts, "global_load_sectors") == with_atomics(counts, "global_store_sectors") == 1152
    assert not PER_LOAD.met(counts)
    unused = counts | {
        "global_reduction_requests": 32,
        "global_reduction_sectors": 1024,
        "global_reduction_bytes": 4096,
    }
    assert with_atomics(unused, "global_load_sectors") == 128 and PER_LOAD.met(unused)
    assert with_atomics(unused, "global_store_sectors") == 1152


@pytest.mark.parametrize("missing", ["load_bytes", "store_bytes"])
def test_less_than_must_move_meets_no_bound_on_traffic(missing):
    counts = HONEST | {missing: 4000}
    assert not PER_LOAD.met(counts)
    assert not Bound("loads by threads", "global_load_requests", at_most=0).met(counts | {"global_load_requests": 0})
    assert "less was counted" in PER_LOAD.line(counts)
    assert Bound("barriers", "barriers", at_most=3).met(counts)  # says nothing of traffic


def test_speed_without_a_gpu_needs_traffic():
    points = Points(correct=2, speed=1)
    assert points.slower(SimpleNamespace(timing=None, counts=HONEST)) == 1.0
    assert points.slower(SimpleNamespace(timing=None, counts=NEED)) is None
    by_tma = NEED | {"load_bytes": 4096, "store_bytes": 4096, "tma_load_bytes": 8192, "tma_store_bytes": 8192}
    assert points.slower(SimpleNamespace(timing=None, counts=by_tma)) == 2.0


def test_cheap_requests_beyond_the_total_do_not_lower_an_average():
    uncoalesced = HONEST | {"global_load_sectors": 32 * 32}
    cheap = uncoalesced | {"global_load_requests": 32 + 400, "global_load_sectors": 32 * 32 + 400}
    assert not PER_LOAD.met(uncoalesced) and cheap["global_load_sectors"] / cheap["global_load_requests"] < 4
    assert not PER_LOAD.met(cheap)
    assert "432 global_load_requests, and at most 40 count, 1.25 × the reference" in PER_LOAD.line(cheap)
    assert "at most 40" not in PER_LOAD.line(uncoalesced), "its average says enough"


def test_useless_wide_loads_beyond_the_total_do_not_raise_an_average():
    wide = HONEST | {"global_load_requests": 32 + 1920, "global_load_bytes": 4096 + 1920 * 512}
    assert wide["global_load_bytes"] / wide["global_load_requests"] > 500
    assert not WIDE.met(wide) and "at most 12,288 count, 3 ×" in WIDE.line(wide)
    assert WIDE.met(HONEST | {"global_load_requests": 8})


def test_more_requests_for_as_many_sectors_are_no_worse():
    halves = HONEST | {"global_load_requests": 64}  # by warps half of whose lanes are active
    assert PER_LOAD.met(halves)


@pytest.mark.parametrize(
    ("bound", "count"),
    [
        (Bound("x", "global_load_sectors", "global_store_sectors", at_most=1), "global_store_sectors"),
        (Bound("x", "lanes", "lane_slots", at_least=0.9), "lanes"),
        (Bound("x", "shared_load_wavefronts", "ideal_shared_load_wavefronts", 1.01), "ideal_shared_load_wavefronts"),
        (Bound("x", "shared_load_wavefronts", "ideal_shared_load_wavefronts", at_most=1), ""),
        (Bound("x", "moved_bytes", "compulsory_bytes", at_most=1.05), ""),
        (Bound("x", "launches", at_most=1), ""),
    ],
)
def test_what_dilutes_a_ratio_needs_a_reference(bound, count):
    assert bound.diluted_by == count
    exercise = exercises.get("07_elementwise_cuda/gelu")
    points = Points(correct=1, bounds=(bound,))
    assert bool(bound.problem) == bool(count)
    if count:
        with pytest.raises(ValueError, match=f"more {count} would dilute it"):
            replace(exercise, points=points)
        points = Points(correct=1, bounds=(replace(bound, reference=1),))
    assert replace(exercise, points=points).points is points


def test_useless_instructions_meet_no_floor():
    floor = Bound("wgmmas", "wgmmas", at_least=24)
    with pytest.raises(ValueError, match="useless wgmmas would meet it"):
        replace(exercises.get("07_elementwise_cuda/gelu"), points=Points(correct=1, bounds=(floor,)))
    floor = replace(floor, also=Bound("bytes that threads read", "shared_load_bytes", at_most=4096))
    assert not floor.problem and floor.met({"wgmmas": 24, "shared_load_bytes": 4096})
    assert not floor.met({"wgmmas": 23, "shared_load_bytes": 0})
    useless = {"wgmmas": 24, "shared_load_bytes": 8192}
    assert not floor.met(useless) and "since bytes that threads read: 8,192 (at most 4,096)" in floor.line(useless)


LOADS = Bound(
    "conflicts of loads",
    "shared_load_wavefronts",
    "ideal_shared_load_wavefronts",
    at_most=1,
    also=Bound("conflicts of stores", "shared_store_wavefronts", "ideal_shared_store_wavefronts", at_most=1),
)


@pytest.mark.parametrize("stores, ideal, met", [(64, 64, True), (65, 64, False), (0, 0, True)])
def test_a_bound_on_loads_may_bound_the_stores_too(stores, ideal, met):
    counts = HONEST | {"shared_load_wavefronts": 32, "ideal_shared_load_wavefronts": 32}
    counts |= {"shared_store_wavefronts": stores, "ideal_shared_store_wavefronts": ideal}
    assert LOADS.met(counts) == met
    assert ("conflicts of stores: 1.016 (at most 1)" in LOADS.line(counts)) != met
    assert LOADS.missed(counts) is (LOADS if met else LOADS.also)
