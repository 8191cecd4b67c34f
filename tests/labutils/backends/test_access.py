"""The recorder on its own: what counts as outside, as a race, as ordered; and exact counts."""

import numpy as np
import pytest

from labutils.backends.access import WAVE, Recorder, distinct

BASE, ITEM = 4096, 4


@pytest.fixture
def recorder():
    """An array x of 100 elements with 10 elements of guard on each side."""
    r = Recorder(keep_events=True)
    inside = np.zeros(120, bool)
    inside[10:110] = True
    r.track("x", BASE, ITEM, inside, start=10)
    r.launch()
    return r


def at(*elements):
    return np.array([BASE + (10 + e) * ITEM for e in elements], np.uint64)


def everything(addresses):
    return np.ones(addresses.shape, bool)


def access(recorder, kind, program, *elements, mask=None, **more):
    recorder.program((program, 0, 0), program)
    addresses = at(*elements)
    where = lambda: (7, "tl.store(...)")  # noqa: E731
    return getattr(recorder, kind)(addresses, everything(addresses) if mask is None else mask, ITEM, where, **more)


def kinds(recorder):
    return [f.kind for f in recorder.findings]


def test_lanes_inside_go_ahead_and_lanes_outside_do_not(recorder):
    assert access(recorder, "load", 0, 0, 99, 100, -1).tolist() == [True, True, False, False]
    (finding,) = recorder.findings
    assert (finding.kind, finding.array, finding.index, finding.count) == ("out-of-bounds", "x", 100, 2)
    assert finding.past_end
    assert finding.sentence() == (
        "program 0 reads x[100] and 1 more elements, outside the array (line 7: `tl.store(...)`)"
    )


def test_an_address_in_no_array_is_named_by_the_nearest(recorder):
    assert not access(recorder, "store", 3, 10**9).any()
    (finding,) = recorder.findings
    assert (finding.array, finding.index, finding.past_end) == ("x", 10**9, False)


def test_an_offset_that_overflows_32_bits_is_named():
    far, stride, apart = Recorder(), 4096, 2**31 // 4096 - 1
    far.track("k", 1 << 30, 2, np.ones(3 * stride, bool))
    far.spread("k", 1 << 30, 2 * stride, apart)
    base, wide = far.seen(1 << 30), far.stretched(stride)
    assert wide == stride * apart and far.stretched(stride + 1) == stride + 1
    right = np.array([base, base + 2 * (2 * wide + 5)], np.uint64)
    assert far.in_memory(right).tolist() == [1 << 30, (1 << 30) + 2 * (2 * stride + 5)]
    wrapped = np.array([base + 2 * (2 * wide - 2**32)], np.uint64)
    assert not far.load(far.in_memory(wrapped), np.ones(1, bool), 2, lambda: (None, "")).any()
    assert far.findings[0].overflowed and far.findings[0].array == "k"
    assert f"{2 * wide}, becomes {2 * wide - 2**32} in 32 bits" in far.findings[0].sentence()


@pytest.mark.parametrize("values", [[], [7], [1, 1, 2, 2, 5], [5, 1, 5, 0], [[0, 1], [1, 2]], [[2, 3], [0, 1]]])
def test_distinct_values_are_in_order(values):
    values = np.array(values, np.uint64)
    assert distinct(values).tolist() == np.unique(values).tolist()


def test_only_arrays_that_an_access_may_touch_are_looked_at(recorder):
    recorder.track("y", BASE + 200 * ITEM, ITEM, np.ones(40, bool))
    x, y = recorder.arrays
    assert recorder.between(at(0, 5)) == [x] and recorder.between(at(195)) == [y]
    assert recorder.between(at(0, 195)) == [x, y] == recorder.between(at(5, 500)) and recorder.between(at()) == []
    assert access(recorder, "load", 0, 99, 195, 150).tolist() == [True, True, False]
    assert kinds(recorder) == ["out-of-bounds"]


def test_masked_lanes_touch_nothing(recorder):
    ok = access(recorder, "load", 0, 5, 200, mask=np.array([True, False]))
    assert ok.tolist() == [True, False]
    assert recorder.findings == [] and recorder.counts.masked_lanes == 1


def test_counts_are_exact(recorder):
    access(recorder, "load", 0, 0, 1, 2)
    access(recorder, "store", 1, 3, 4)
    access(recorder, "atomic", 1, 5)
    counts = recorder.counts
    assert (counts.loads, counts.stores, counts.atomics, counts.programs, counts.launches) == (1, 1, 1, 3, 1)
    assert (counts.load_bytes, counts.store_bytes, counts.bytes) == (16, 12, 28)
    assert [(a, n, p, e.tolist(), i) for a, n, p, e, i in recorder.events] == [
        ("load", "x", 0, [0, 1, 2], 4),
        ("store", "x", 1, [3, 4], 4),
        ("atomic", "x", 1, [5], 4),
    ]


@pytest.mark.parametrize(
    "accesses, races",
    [
        ([("load", 0), ("load", 1)], 0),
        ([("store", 0), ("load", 0), ("store", 0)], 0),
        ([("store", 0), ("load", 1)], 1),
        ([("load", 0), ("store", 1)], 1),
        ([("store", 0), ("store", 1)], 1),
        ([("atomic", 0), ("atomic", 1)], 0),
        ([("store", 0), ("atomic", 1)], 1),
        ([("atomic", 0), ("store", 1)], 1),
        ([("load", 0), ("load", 1), ("load", 0), ("store", 0)], 1),
    ],
)
def test_races_between_programs(recorder, accesses, races):
    for kind, program in accesses:
        access(recorder, kind, program, 50)
    assert kinds(recorder) == ["race"] * races


def test_the_next_launch_comes_after_the_last(recorder):
    access(recorder, "store", 0, 50)
    recorder.launch()
    access(recorder, "load", 1, 50)
    assert recorder.findings == []


def test_storing_what_is_there_already_is_harmless(recorder):
    access(recorder, "store", 0, 50)
    access(recorder, "store", 1, 50, changes=np.array([False]))
    assert recorder.findings == []


def test_an_atomic_orders_what_came_before_it(recorder):
    """The last of several programs reads what the others wrote before they counted themselves, and resets the count."""
    for program in range(3):
        access(recorder, "store", program, program)
        access(recorder, "atomic", program, 99)
    access(recorder, "load", 2, 0, 1, 2)
    access(recorder, "store", 2, 99)
    assert recorder.findings == []
    access(recorder, "load", 5, 0)
    assert kinds(recorder) == ["race"]


def test_an_atomic_does_not_order_what_came_after_it(recorder):
    """Tickets: who takes a later one knows that the earlier ones were taken, not what was done with them."""
    access(recorder, "atomic", 0, 99)
    access(recorder, "store", 0, 50)
    access(recorder, "atomic", 1, 99)
    access(recorder, "load", 1, 50)
    assert kinds(recorder) == ["race"]


def test_a_lock_orders_read_and_write(recorder):
    for program in range(4):
        access(recorder, "atomic", program, 99)
        access(recorder, "load", program, 50)
        access(recorder, "store", program, 50)
        access(recorder, "atomic", program, 99)
    assert recorder.findings == []


def test_scratch_is_forgotten_after_its_launch(recorder):
    recorder.track("scratch", 10**6, 4, np.ones(10, bool), scratch=True)
    assert recorder.knows(10**6 + 36) and not recorder.knows(10**6 + 40)
    recorder.launch()
    assert not recorder.knows(10**6) and recorder.knows(BASE)


def test_a_wave_reads_a_sector_once():
    recorder, x = Recorder(), np.zeros(64, np.float32)
    recorder.track("x", x.ctypes.data, 4, np.ones(64, bool))
    at = np.uint64(x.ctypes.data) + 4 * np.arange(64, dtype=np.uint64)
    recorder.launch()
    for number in (0, 1, WAVE - 1, WAVE, 2 * WAVE):
        recorder.program((number, 0, 0), number)
        recorder.load(at[:32], np.ones(32, bool), 4, lambda: (1, ""))
    touched = np.unique(at[:32] // np.uint64(32)).size
    assert recorder.counts.global_load_sectors == 5 * touched
    assert recorder.counts.wave_load_sectors == 3 * touched


@pytest.mark.parametrize(
    ("elements", "values", "mask", "found"),
    [
        ((3, 5, 3), (1.0, 2.0, 9.0), (True, True, True), ["race"]),
        ((3, 5, 3), (1.0, 2.0, 1.0), (True, True, True), []),
        ((3, 5, 3), (1.0, 2.0, 9.0), (True, True, False), []),
        ((7, 5, 3), (1.0, 2.0, 9.0), (True, True, True), []),
        ((3, 3), (0.0, -0.0), (True, True), ["race"]),
    ],
)
def test_lanes_of_one_store_must_agree(recorder, elements, values, mask, found):
    ok = access(recorder, "store", 2, *elements, mask=np.array(mask))
    recorder.disagree(at(*elements), ok, np.array(values, np.float32), lambda: (7, "tl.store(...)"))
    assert kinds(recorder) == found
    for finding in recorder.findings:
        said = "lanes of program 2 write different values to x[3] in one store (line 7: `tl.store(...)`)"
        assert finding.sentence() == said


@pytest.mark.parametrize(
    "written, met, found",
    [((5, 6), False, ["race"]), ((5, 6), True, []), ((5,), False, [])],
    ids=["before the threads met", "the threads met", "one element, by one thread"],
)
@pytest.mark.parametrize("kind", ["store", "atomic"])
def test_one_thread_releases_what_all_threads_wrote_only_after_they_met(recorder, kind, written, met, found):
    relaxed = {"semantics": "relaxed"} if kind == "atomic" else {}
    access(recorder, kind, 0, *written, **relaxed)
    if kind == "atomic":
        recorder.updated(at(*written), recorder.now)
    if met:
        recorder.meet()
    access(recorder, "atomic", 0, 99)
    access(recorder, "atomic", 1, 99)
    access(recorder, "load", 1, *written)
    assert kinds(recorder) == found


def test_what_a_program_wrote_itself_it_reads_without_a_race(recorder):
    access(recorder, "store", 0, 5, 6)
    access(recorder, "atomic", 0, 99)
    access(recorder, "load", 0, 5, 6)
    recorder.meet()
    access(recorder, "store", 0, 5, 6)
    assert kinds(recorder) == []


def test_what_was_written_since_the_threads_met_is_not_released(recorder):
    access(recorder, "store", 0, 5, 6)
    recorder.meet()
    access(recorder, "store", 0, 7, 8)
    access(recorder, "atomic", 0, 99)
    access(recorder, "atomic", 1, 99)
    access(recorder, "load", 1, 5, 6)
    assert kinds(recorder) == []
    access(recorder, "load", 1, 6, 7)
    assert kinds(recorder) == ["race"]
