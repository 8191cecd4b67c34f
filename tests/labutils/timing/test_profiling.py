"""Profiles from what profilers hand over, without a GPU."""

from types import SimpleNamespace

from labutils.timing.profiling import Launch, Profile, from_events, from_tree


def event(name, start, end, kind="DeviceType.CUDA", mark=False):
    return SimpleNamespace(
        name=name, device_type=kind, is_user_annotation=mark, time_range=SimpleNamespace(start=start, end=end)
    )


def test_launches_are_the_gpus_events_in_order():
    events = [
        event("second", 130.0, 140.0),
        event("aten::add", 90.0, 200.0, "DeviceType.CPU"),
        event("first", 100.0, 120.0),
        event("mark", 100.0, 140.0, mark=True),
    ]
    assert from_events(events) == [Launch("first", 0.0, 20.0), Launch("second", 30.0, 10.0)]


def test_rows_add_launches_of_one_kernel():
    seen = Profile("f", "toy", (Launch("a", 0, 10), Launch("b", 20, 50), Launch("a", 80, 10)))
    assert [(r.kernel.name, r.launches, r.us) for r in seen.rows] == [("b", 1, 50), ("a", 2, 20)]
    assert (seen.busy_us, seen.span_us) == (70, 90)
    assert "3 launches" in repr(seen) and "70.0 µs of kernels in 90.0 µs" in repr(seen)
    assert "3 launches" in seen.timeline().alt


def test_an_empty_profile_says_so():
    assert repr(Profile("f", "toy", ())) == "f ran nothing on the GPU."


def test_protons_tree():
    tree = [
        {
            "frame": {"name": "ROOT"},
            "metrics": {"count": 0, "time (ns)": 0},
            "children": [
                {"frame": {"name": "add_kernel"}, "metrics": {"count": 2, "time (ns)": 4000}, "children": []},
                {"frame": {"name": "mul_kernel"}, "metrics": {"count": 1, "time (ns)": 500}, "children": []},
            ],
        },
        {"CUDA": {"0": {}}},
    ]
    assert from_tree(tree) == [
        Launch("add_kernel", 0.0, 2.0),
        Launch("add_kernel", 2.0, 2.0),
        Launch("mul_kernel", 4.0, 0.5),
    ]
