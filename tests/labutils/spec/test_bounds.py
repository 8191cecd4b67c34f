"""Bounds: what counts as traffic, and what a kernel that avoids being counted gets for it."""

from types import SimpleNamespace

import pytest

from labutils.spec.exercise import Bound, Points, counted_whole, with_atomics

NEED = {"compulsory_read": 4096, "compulsory_written": 4096, "compulsory_bytes": 8192}
HONEST = NEED | {
    "load_bytes": 4096, "store_bytes": 4096, "global_load_requests": 32, "global_load_sectors": 128,
    "global_load_bytes": 4096, "global_store_requests": 32, "global_store_sectors": 128, "global_store_bytes": 4096,
}  # fmt: skip
PER_LOAD = Bound("sectors per load", "global_load_sectors", "global_load_requests", at_most=4)


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
