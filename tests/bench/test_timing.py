"""What the timing benchmark reads from Nsight Compute, and that its list of kernels exists."""

from bench.timing import COURSE, nanoseconds
from labutils import exercises

CSV = """==PROF== Connected to process 1
==PROF== Disconnected
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
"0","1","python","127.0.0.1","add","1","7","(128, 1, 1)","(9, 1, 1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","ns","251,360"
"1","1","python","127.0.0.1","add","1","7","(128, 1, 1)","(9, 1, 1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","usecond","251.5"
"""  # noqa: E501


def test_ncus_table_is_read():
    assert nanoseconds(CSV) == [251360.0, 251500.0]
    assert nanoseconds("==ERROR== ERR_NVGPUCTRPERM") == []


def test_the_courses_kernels_exist():
    assert all(exercises.get(name).bench for name in COURSE)
