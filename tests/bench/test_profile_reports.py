"""The parts of the profiling scripts that need no GPU: kernels' texts, the profiler's table, events of a trace."""

import re

import pytest

from bench import profile_kernels
from bench.profile_reports import METRICS, reports_of, table
from bench.timelines import events

CSV = """==PROF== Connected
"ID","Process ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"
"0","7","fade_kernel(const float *, float *, int)","","gpu__time_duration.sum","us","1,250.50"
"0","7","fade_kernel(const float *, float *, int)","","launch__grid_size","","262,144"
"1","7","other_kernel","","launch__grid_size","","n/a"
"1","7","other_kernel","","launch__grid_size","","4"
==PROF== Disconnected
"""


def test_plans_have_names_and_several_sizes():
    plans = profile_kernels.plans()
    assert len({plan.name for plan in plans}) == len(plans)
    kinds = [plan.bottleneck for plan in plans]
    assert len(set(kinds)) == 9 and all(kinds.count(kind) >= 6 for kind in kinds)
    assert all(re.compile(plan.kernel) for plan in plans)


def test_a_cell_is_read_without_markers():
    text = profile_kernels.cell("02_execution_model", "fade_kernel")
    assert text.count("__global__") == 1 and "SOLUTION" not in text and "# " not in text


def test_a_change_must_fit():
    with pytest.raises(ValueError, match="not once"):
        profile_kernels.cell("02_execution_model", "fade_kernel", ("absent", ""))


def test_table():
    assert table(CSV) == [
        (
            "fade_kernel(const float *, float *, int)",
            {"gpu__time_duration.sum": 1250500.0, "launch__grid_size": 262144},
        ),
        ("other_kernel", {"launch__grid_size": 4}),
    ]
    assert table("no table") == []


def test_reports_follow_the_order_of_launches():
    first, second, third, *_ = profile_kernels.plans()
    seen = [("noise", {}), (first.kernel + "(int)", {"a": 1.0}), (third.kernel, {"a": 2.0})]
    lines = [
        {"name": first.name, "kernel": first.kernel},
        {"name": second.name, "error": "RuntimeError"},
        {"name": third.name, "kernel": third.kernel},
    ]
    good, bad = reports_of([first, second, third], seen, lines)
    assert [r["name"] for r in good] == [first.name, third.name] and bad == [lines[1]]


def test_metrics_are_not_repeated():
    assert len(set(METRICS)) == len(METRICS)


def test_events():
    trace = {"traceEvents": [
        {"ph": "X", "cat": "kernel", "name": "k", "ts": 12.0, "dur": 3.0, "args": {"correlation": 5}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 10.0, "dur": 1.5,
         "args": {"correlation": 5}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaGetDevice", "ts": 9.0, "dur": 1.5, "args": {}},
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 9.0, "dur": 9.0},
    ]}  # fmt: skip
    assert events(trace) == [[0.0, 1.5, "host", "cudaLaunchKernel", 5], [2.0, 5.0, "kernel", "k", 5]]
